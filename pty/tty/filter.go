package tty

import (
	"bytes"
	"unicode/utf8"
)

const (
	// maxHold bounds what is held back of an unfinished sequence, in bytes.
	maxHold = 4096
	// fastCSI is how far the fast path looks for the end of a sequence.
	fastCSI = 64
	// maxCutOff bounds what is kept of sequences that were cut off, in bytes.
	maxCutOff = 64
	// Removed questions are kept for Questions, but not many and not long.
	maxQuestions     = 16
	maxQuestionBytes = 256
)

// filterState is where the parser stands, after the state machine of
// vt100.net/emu/dec_ansi_parser, with strings of all kinds as one.
type filterState uint8

const (
	inGround  filterState = iota
	inEscape              // ESC, perhaps intermediates
	inControl             // CSI
	inEndless             // CSI that is too long: swallowed
	inString
	inStringEnd // ESC or the first byte of a C1 control, in a string
)

// fate of a string that is longer than maxHold.
type fate uint8

const (
	undecided fate = iota
	passing
	dropping
)

// Filter is what stands between a program and the user's terminal.
//
// Removed: questions, since the server is the only responder (list in
// asksCSI, asksString and the methods around them), ENQ, agent state (OSC
// 7501), requests that change the window's size, place or keyboard lock, modes
// in which keys no longer mean what we decode (VT52, KAM, win32 input), reports
// of the size in band (2048, which the server gives), and CSI 3 J: agents erase
// the scrollback with it at a resize, and there it is not theirs but the
// user's. RIS (ESC c) erases it in many terminals too, and the user's keyboard
// levels; it is replaced by what it means to the program.
//
// Kept back: pops of keyboard levels and titles that the program did not push.
//
// All else passes byte for byte, with three exceptions where terminals disagree:
// controls and characters in the middle of a sequence are put before it or
// dropped, malformed control sequences are dropped, and the C1 forms of CSI, OSC
// and the like become those with ESC. An unfinished sequence, or character, is
// held back until its end, at most 4 KiB of it; strings that are longer, such as
// images, pass through from there. Output does not depend on how the input was
// cut.
//
// A Filter is for one goroutine.
type Filter struct {
	state filterState
	hold  []byte // unfinished: junk[:at], introducer, body[body:]
	at    int    // where the sequence begins; before it are ones cut off by it
	body  int    // where its body begins
	odd   bool   // hold has bytes that terminals ignore in a sequence
	mixed bool   // it has them in the sequence itself, not in what was cut off
	inter byte   // first intermediate after ESC

	kind byte // of a string: the final of its 7-bit introducer
	fate fate
	lead byte // in inStringEnd: ESC or utf8C1

	// open: the terminal has the start of a string, and its end is not there.
	open bool

	stripped  []byte // scratch
	led       ledger
	questions [][]byte
}

// NewFilter returns a Filter for a terminal in which nothing is switched on.
func NewFilter() *Filter { return &Filter{hold: make([]byte, 0, 256)} }

// Questions returns the questions removed since the last call that the server
// cannot answer. A client that types may put them to its terminal itself. The
// clipboard is never among them: it is the user's to paste.
func (f *Filter) Questions() [][]byte {
	q := f.questions
	f.questions = nil
	return q
}

// Enter is what goes to the terminal before the first snapshot: the title is
// pushed, so that Leave can bring it back (ctlseqs, XTWINOPS 22).
func (f *Filter) Enter() []byte {
	if f.led.pushedTitle {
		return nil
	}
	f.led.pushedTitle = true
	return []byte("\x1b[22;0t")
}

// Neutral switches off what was switched on, but keeps the pushed title. It
// goes before a fresh snapshot in a terminal that has shown an older one, and
// it does what Reset does.
func (f *Filter) Neutral() []byte {
	var b []byte
	if f.broken() {
		b = append(b, st...)
	}
	f.forget()
	f.open = false
	return f.led.neutral(b)
}

// Leave switches off exactly what was switched on and puts the cursor below
// the content, at the start of a line. A second Leave is empty.
func (f *Filter) Leave() []byte {
	touched := f.led.touched
	b := f.Neutral()
	b = f.led.popTitles(b)
	f.led.touched = false
	if touched {
		b = append(b, "\x1b[9999;1H\r\n"...)
	}
	return b
}

// Reset forgets unfinished input; it goes before a fresh snapshot. What is
// switched on stays in the books. A string of which the terminal has the start
// is ended by the next output.
func (f *Filter) Reset() {
	f.open = f.broken()
	f.forget()
}

func (f *Filter) broken() bool {
	return f.open || (f.state == inString || f.state == inStringEnd) && f.fate == passing
}

func (f *Filter) forget() {
	f.state = inGround
	f.begin()
}

// begin empties the hold.
func (f *Filter) begin() {
	f.hold = f.hold[:0]
	f.at, f.body, f.inter = 0, 0, 0
	f.odd, f.mixed = false, false
	f.fate = undecided
}

// Filter appends to dst what may reach the terminal of p, and returns dst. It
// keeps no reference to either.
func (f *Filter) Filter(dst, p []byte) []byte {
	if f.open && f.state == inGround && len(p) > 0 { // after Reset
		dst = append(dst, st...)
		f.open = false
	}
	for len(p) > 0 {
		switch f.state {
		case inGround:
			dst, p = f.ground(dst, p)
		case inEscape:
			dst, p = f.escape(dst, p)
		case inControl:
			dst, p = f.control(dst, p)
		case inEndless:
			dst, p = f.endless(dst, p)
		case inString:
			dst, p = f.string(dst, p)
		case inStringEnd:
			dst, p = f.stringEnd(dst, p)
		}
	}
	return dst
}

// special are the bytes at which plain text ends.
var special = [256]bool{enq: true, so: true, si: true, esc: true, utf8C1: true}

// plain returns the length of the plain text at the start of p.
func plain(p []byte) int {
	i := 0
	for ; i+8 <= len(p); i += 8 {
		q := p[i : i+8 : i+8]
		if special[q[0]] || special[q[1]] || special[q[2]] || special[q[3]] ||
			special[q[4]] || special[q[5]] || special[q[6]] || special[q[7]] {
			break
		}
	}
	for i < len(p) && !special[p[i]] {
		i++
	}
	return i
}

func (f *Filter) ground(dst, p []byte) ([]byte, []byte) {
	if len(f.hold) > 0 {
		return f.groundRune(dst, p)
	}
	n := plain(p)
	if n == len(p) {
		n -= unfinishedRune(p)
		f.hold = append(f.hold, p[n:]...)
		p = p[:n]
	}
	if n > 0 {
		f.led.move()
		dst = append(dst, p[:n]...)
	}
	if n == len(p) {
		return dst, nil
	}
	p = p[n:]
	switch p[0] {
	case enq:
		return dst, p[1:]
	case so:
		f.led.setShift()
		return append(dst, so), p[1:]
	case si:
		f.led.look.shift = false
		return append(dst, si), p[1:]
	case utf8C1:
		f.hold = append(f.hold, utf8C1)
		return dst, p[1:]
	}
	if n := shortCSI(p); n > 0 {
		return f.csi(dst, p[:n], p[2:n]), p[n:]
	}
	f.hold = append(f.hold, esc)
	f.state = inEscape
	return dst, p[1:]
}

// groundRune goes on with a character whose first bytes are held.
func (f *Filter) groundRune(dst, p []byte) ([]byte, []byte) {
	if f.hold[0] == utf8C1 && p[0] >= 0x80 && p[0] <= 0x9f {
		f.hold = f.hold[:0]
		return f.c1(dst, p[0]), p[1:]
	}
	if p[0] >= 0x80 && p[0] <= 0xbf {
		f.hold = append(f.hold, p[0])
		p = p[1:]
		if len(f.hold) < utf8.UTFMax && unfinishedRune(f.hold) > 0 {
			return dst, p
		}
	}
	f.led.move()
	f.closeLead(p)
	dst = append(dst, f.hold...)
	f.hold = f.hold[:0]
	return dst, p
}

// closeLead replaces a first byte of a C1 control that stands alone by what
// terminals show for it, when what follows may be removed: what comes after
// that must not complete the control.
func (f *Filter) closeLead(p []byte) {
	last := len(f.hold) - 1
	if f.hold[last] != utf8C1 || len(p) == 0 {
		return
	}
	if c := p[0]; c == esc || c == enq || c == utf8C1 {
		f.hold = append(f.hold[:last], "\ufffd"...)
	}
}

// unfinishedRune returns how many bytes at the end of p begin a character that
// is not complete.
func unfinishedRune(p []byte) int {
	for n := 1; n <= min(len(p), utf8.UTFMax-1); n++ {
		c := p[len(p)-n]
		if utf8.RuneStart(c) {
			if c >= 0xc2 && !utf8.FullRune(p[len(p)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// shortCSI returns the length of the control sequence at the start of p when
// it is whole, short and has nothing odd in it; 0 leaves it to the states.
func shortCSI(p []byte) int {
	if len(p) < 3 || p[1] != '[' {
		return 0
	}
	p = p[:min(len(p), fastCSI)]
	for i := 2; i < len(p); i++ {
		c := p[i]
		if c >= 0x40 && c <= 0x7e {
			return i + 1
		}
		if c < 0x20 || c > 0x7e {
			return 0
		}
	}
	return 0
}

// escape goes on after ESC. hold[at:] is ESC, and intermediates.
func (f *Filter) escape(dst, p []byte) ([]byte, []byte) {
	c := p[0]
	switch {
	case f.afterLead() && c >= 0x80 && c <= 0x9f:
		return f.cutOffByC1(dst, c), p[1:]
	case f.afterLead(), c >= 0x80 && c != utf8C1:
		// No terminal takes a character as part of the sequence.
		f.closeLead(p)
		dst = f.emit(dst, f.hold)
		f.led.move()
		f.ground0()
		return dst, p
	}
	p = p[1:]
	if c == enq {
		return dst, p
	}
	if len(f.hold) == maxHold { // thousands of controls in a row
		dst = f.restart(dst)
		f.hold = append(f.hold, esc)
	}
	f.hold = append(f.hold, c)
	switch {
	case c == esc:
		dst = f.cutOff(dst)
	case c == can || c == sub:
		dst = f.emit(dst, f.hold)
		f.ground0()
	case c < 0x20 || c >= del:
		f.oddByte(c)
	case c < 0x30:
		if f.inter == 0 {
			f.inter = c
		}
	case f.inter == 0 && c == '[':
		f.state, f.body = inControl, len(f.hold)
	case f.inter == 0 && (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X'):
		dst = f.beginString(dst, c)
	default:
		inter := f.inter
		dst = f.escapeEnd(f.canonical(dst), inter, c)
		f.ground0()
	}
	return dst, p
}

// oddByte notes a byte that is no part of the sequence it is in. Terminals
// execute controls there, and ignore the rest.
func (f *Filter) oddByte(c byte) {
	f.odd, f.mixed = true, true
	if c == so {
		f.led.setShift()
	}
	if c < 0x20 {
		f.led.move()
	}
}

// cutOff: the ESC at the end of hold cut off a sequence, which is kept, as it
// must reach the terminal only if the next one does: alone it would swallow
// the text that comes instead.
func (f *Filter) cutOff(dst []byte) []byte {
	f.state, f.inter, f.mixed = inEscape, 0, false
	if len(f.hold) > maxCutOff {
		dst = f.restart(dst)
		f.hold = append(f.hold, esc)
		return dst
	}
	f.at = len(f.hold) - 1
	f.odd = true
	return dst
}

// afterLead: the last byte held may be the first of a C1 control.
func (f *Filter) afterLead() bool {
	return f.hold[len(f.hold)-1] == utf8C1
}

// cutOffByC1 is cutOff for a C1 control of which the first byte is held.
func (f *Filter) cutOffByC1(dst []byte, c byte) []byte {
	f.hold = f.hold[:len(f.hold)-1]
	if len(f.hold) > maxCutOff {
		dst = f.restart(dst)
	}
	f.at, f.inter = len(f.hold), 0
	f.odd, f.mixed = true, false
	return f.c1(dst, c)
}

// restart forgets what was cut off, which did nothing anyway.
func (f *Filter) restart(dst []byte) []byte {
	dst = f.remove(dst, f.hold)
	f.begin()
	return dst
}

func (f *Filter) ground0() {
	f.state = inGround
	f.begin()
}

// c1 takes a C1 control in UTF-8, which is the same as ESC and a character.
// Introducers are written in that form, which all terminals know.
func (f *Filter) c1(dst []byte, c byte) []byte {
	switch final := c - 0x40; final {
	case '[':
		f.hold = append(f.hold, esc, final)
		f.state, f.body = inControl, len(f.hold)
	case ']', 'P', '_', '^', 'X':
		f.hold = append(f.hold, esc, final)
		dst = f.beginString(dst, final)
	default:
		f.hold = append(f.hold, utf8C1, c)
		dst = f.escapeEnd(dst, 0, final)
		f.ground0()
	}
	return dst
}

// control goes on in a control sequence.
func (f *Filter) control(dst, p []byte) ([]byte, []byte) {
	for i, c := range p {
		if c >= 0x20 && c <= 0x3f && len(f.hold) < maxHold {
			f.hold = append(f.hold, c)
			continue
		}
		return f.controlByte(dst, c), p[i+1:]
	}
	return dst, nil
}

func (f *Filter) controlByte(dst []byte, c byte) []byte {
	if c == enq {
		return dst
	}
	if len(f.hold) == maxHold && (c < 0x40 || c > 0x7e) && c != esc {
		f.state = inEndless
		return f.remove(dst, f.hold)
	}
	if f.afterLead() && c >= 0x80 && c <= 0x9f {
		return f.cutOffByC1(dst, c)
	}
	f.hold = append(f.hold, c)
	switch {
	case c == esc:
		dst = f.cutOff(dst)
	case c == can || c == sub:
		dst = f.emit(dst, f.hold)
		f.ground0()
	case c < 0x20 || c >= del:
		f.oddByte(c)
	default:
		dst = f.canonical(dst)
		dst = f.csi(dst, f.hold, f.hold[f.body:])
		f.ground0()
	}
	return dst
}

// canonical puts the controls that are mixed into the held sequence before it,
// where ECMA-48 terminals execute them anyway, and drops what they ignore.
// Others give the sequence up there, and the books would be wrong for them.
func (f *Filter) canonical(dst []byte) []byte {
	if !f.mixed {
		return dst
	}
	rest := f.strip(f.hold[f.at+1:], del)
	dst = f.restart(dst)
	f.hold = append(append(f.hold, esc), rest...)
	f.body = 2
	return dst
}

// strip copies b without controls, and without what is not below limit.
func (f *Filter) strip(b []byte, limit int) []byte {
	f.stripped = f.stripped[:0]
	for _, c := range b {
		if c >= 0x20 && c != del && int(c) < limit {
			f.stripped = append(f.stripped, c)
		}
	}
	return f.stripped
}

// endless swallows the rest of a control sequence longer than maxHold.
func (f *Filter) endless(dst, p []byte) ([]byte, []byte) {
	for i, c := range p {
		switch {
		case c == esc:
			f.ground0()
			return dst, p[i:]
		case c == can || c == sub || c >= 0x40 && c <= 0x7e:
			f.ground0()
			return dst, p[i+1:]
		case c == utf8C1:
			f.ground0()
			return dst, p[i:]
		}
	}
	return dst, nil
}

// emit appends a sequence, which ends any string it cuts off.
func (f *Filter) emit(dst, raw []byte) []byte {
	f.open = false
	return append(dst, raw...)
}

// remove drops a sequence. The controls within it would have been executed.
// A string that the sequence cut off must be ended in its stead.
func (f *Filter) remove(dst, raw []byte) []byte {
	if f.open {
		dst = append(dst, st...)
		f.open = false
	}
	if !f.odd {
		return dst
	}
	for _, c := range raw {
		if c < 0x20 && c != esc {
			dst = append(dst, c)
		}
	}
	return dst
}

// unanswered notes a question for Questions.
func (f *Filter) unanswered(raw []byte) {
	if len(f.questions) < maxQuestions && len(raw) <= maxQuestionBytes {
		f.questions = append(f.questions, bytes.Clone(raw))
	}
}

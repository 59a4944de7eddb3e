package tty

import (
	"bytes"
	"time"
)

// Kind says what an [Input] is.
type Kind uint8

const (
	Key    Kind = iota + 1 // typed by the user
	Mouse                  // a mouse report
	Focus                  // CSI I, CSI O
	Reply                  // an answer or report of the terminal itself
	Paste                  // a piece of a bracketed paste, markers included
	Detach                 // the detach key; no bytes
)

func (k Kind) String() string {
	switch k {
	case Key:
		return "key"
	case Mouse:
		return "mouse"
	case Focus:
		return "focus"
	case Reply:
		return "reply"
	case Paste:
		return "paste"
	case Detach:
		return "detach"
	}
	return "unknown"
}

// Input is a piece of what the terminal sent. Bytes belong to the receiver.
type Input struct {
	Kind  Kind
	Bytes []byte
	// First and Last mark the ends of a paste; both are false elsewhere.
	First, Last bool
}

const (
	// EscapeTimeout is how long an ESC may be the beginning of a key. Terminals
	// send a key in one write; this is for what networks do to it.
	EscapeTimeout = 50 * time.Millisecond
	// SequenceTimeout is the same for a sequence that is clearly one: nobody
	// types that fast by hand, so waiting longer costs nothing.
	SequenceTimeout = 500 * time.Millisecond
	// PasteTimeout is the silence after which a paste that was never closed
	// should be given up with [Keys.AbortPaste].
	PasteTimeout = 2 * time.Second
)

// textStep bounds how far text is searched at a time, in bytes, so that input
// full of detach keys that come to nothing stays linear.
const textStep = 512

var (
	pasteStart = []byte("\x1b[200~")
	pasteEnd   = []byte("\x1b[201~")
)

// Keys cuts what a terminal sends into Inputs and finds the detach key, as a
// raw byte, in kitty's CSI u form and in xterm's modifyOtherKeys form.
//
// Everything else passes byte for byte and in order, with two exceptions. The
// release event of a one-stroke detach key is dropped: its press was ours. And
// with a sequence, the keys that might become it are held back (without a time
// limit, as in tmux), while reports of mouse, focus and terminal overtake them.
//
// The first key of a sequence, typed twice, is sent once. A one-stroke detach
// key cannot be typed to the program; "agentmux send --key" can send it, or
// another detach key can be set. ESC directly before a raw detach key counts as
// Escape and then the detach key: a way out that fails is worse than an
// Alt-Ctrl key that cannot be typed.
//
// A Keys is for one goroutine. After Detach everything is dropped.
type Keys struct {
	detach   []detachKey
	matched  int    // keys of the sequence seen
	prefix   []byte // their bytes
	detached bool

	hold     []byte // an unfinished sequence
	paste    bool
	endMatch int // bytes of pasteEnd seen

	buf    []byte // of the Inputs being made
	pieces []piece
}

// piece is an Input whose bytes are buf[from:to].
type piece struct {
	kind        Kind
	from, to    int
	first, last bool
}

// NewKeys returns a decoder for the given detach keys.
func NewKeys(d DetachKeys) *Keys { return &Keys{detach: d.keys} }

// Feed decodes what was read.
func (k *Keys) Feed(p []byte) []Input {
	if k.detached || len(p) == 0 {
		return nil
	}
	data := append(k.hold, p...)
	k.hold = nil
	for len(data) > 0 && !k.detached {
		n := k.step(data)
		if n == 0 {
			k.hold = bytes.Clone(data)
			break
		}
		data = data[n:]
	}
	return k.take()
}

// Flush gives out what is held back because more might have come: an ESC typed
// as the Escape key, or a broken sequence. A held detach prefix stays.
func (k *Keys) Flush() []Input {
	if len(k.hold) == 0 || k.detached {
		return nil
	}
	held := k.hold
	k.hold = nil
	k.typed(held, otherPress())
	return k.take()
}

// Pending reports that something is held back and a timer for Flush is needed.
func (k *Keys) Pending() bool { return len(k.hold) > 0 && !k.detached }

// Wait is how long that timer should run, counted from the last Feed; 0 when
// nothing is held back.
func (k *Keys) Wait() time.Duration {
	switch {
	case !k.Pending():
		return 0
	case len(k.hold) <= 2: // ESC, Alt-[, Alt-O, Alt-]
		return EscapeTimeout
	}
	return SequenceTimeout
}

// InPaste reports that a bracketed paste has begun and not ended. Its end mark
// may be lost: after [PasteTimeout] of silence call AbortPaste.
func (k *Keys) InPaste() bool { return k.paste }

// AbortPaste ends a paste that was never closed; the detach key works again.
func (k *Keys) AbortPaste() []Input {
	if !k.paste {
		return nil
	}
	k.paste, k.endMatch = false, 0
	return []Input{{Kind: Paste, Last: true}}
}

// step takes the first thing from data and returns its length, or 0 when its
// end is missing.
func (k *Keys) step(data []byte) int {
	switch {
	case k.paste:
		return k.stepPaste(data)
	case data[0] == esc:
		return k.stepEscape(data)
	}
	return k.stepText(data)
}

// stepText takes text up to the next byte that matters.
func (k *Keys) stepText(data []byte) int {
	if k.matched > 0 || len(k.detach) > 0 && data[0] == k.detach[0].raw {
		k.typed(data[:1], rawPress(data[0]))
		return 1
	}
	n := min(len(data), textStep)
	if i := bytes.IndexByte(data[:n], esc); i >= 0 {
		n = i
	}
	if len(k.detach) > 0 {
		if i := bytes.IndexByte(data[:n], k.detach[0].raw); i >= 0 {
			n = i
		}
	}
	k.emit(Key, data[:n])
	return n
}

func (k *Keys) stepEscape(data []byte) int {
	f, n := lexEscape(data)
	if f == formLone && n == 1 {
		return k.stepDoubleEscape(data)
	}
	if n == 0 {
		return 0
	}
	seq := data[:n]
	switch f {
	case formMouse:
		k.emit(Mouse, seq)
	case formString:
		k.emit(Reply, seq)
	case formCSI:
		k.control(seq)
	case formMeta:
		return k.meta(seq)
	default:
		k.typed(seq, otherPress())
	}
	return n
}

// stepDoubleEscape: ESC ESC [ A is Alt-Up of some terminals, but ESC before a
// mouse report, an answer or the detach key is the Escape key.
func (k *Keys) stepDoubleEscape(data []byte) int {
	f, n := lexEscape(data[1:])
	switch {
	case n == 0:
		return 0
	case f == formSS3, f == formCSI && k.ordinaryKey(data[1:1+n]):
		k.typed(data[:1+n], otherPress())
		return 1 + n
	}
	k.typed(data[:1], otherPress())
	return 1
}

func (k *Keys) ordinaryKey(seq []byte) bool {
	c := splitCSI(seq[2:])
	if classify(c) != Key || bytes.Equal(seq, pasteStart) {
		return false
	}
	e := csiPress(c)
	return len(k.detach) == 0 || !e.is(k.detach[k.matched])
}

// meta takes ESC and a character, unless that is a control key we wait for.
func (k *Keys) meta(seq []byte) int {
	if len(k.detach) > 0 && len(seq) == 2 {
		if want := k.detach[k.matched]; want.ctrl && seq[1] == want.raw {
			seq = seq[:1]
		}
	}
	k.typed(seq, otherPress())
	return len(seq)
}

func (k *Keys) control(seq []byte) {
	if bytes.Equal(seq, pasteStart) {
		k.releasePrefix()
		k.paste = true
		k.emit(Paste, seq)
		k.pieces[len(k.pieces)-1].first = true
		return
	}
	c := splitCSI(seq[2:])
	if kind := classify(c); kind != Key {
		k.emit(kind, seq)
		return
	}
	k.typed(seq, csiPress(c))
}

func (k *Keys) stepPaste(data []byte) int {
	if k.endMatch > 0 {
		n := min(len(data), len(pasteEnd)-k.endMatch)
		if bytes.Equal(data[:n], pasteEnd[k.endMatch:k.endMatch+n]) {
			k.endMatch += n
			k.pasted(data[:n])
			return n
		}
		k.endMatch = 0 // only its first byte is ESC: no overlap possible
	}
	n := len(data)
	if i := bytes.Index(data, pasteEnd); i >= 0 {
		n = i + len(pasteEnd)
		k.endMatch = len(pasteEnd)
	} else if i := bytes.LastIndexByte(data, esc); i >= 0 && bytes.HasPrefix(pasteEnd, data[i:]) {
		k.endMatch = len(data) - i
	}
	k.pasted(data[:n])
	return n
}

// pasted gives out a piece of a paste, which ended when its mark is complete.
func (k *Keys) pasted(b []byte) {
	k.emit(Paste, b)
	if k.endMatch < len(pasteEnd) {
		return
	}
	k.paste, k.endMatch = false, 0
	k.pieces[len(k.pieces)-1].last = true
}

// typed takes one key event and compares it with the detach keys.
func (k *Keys) typed(b []byte, e press) {
	switch {
	case len(k.detach) == 0:
		k.emit(Key, b)
	case e.passive():
		k.typedPassive(b, e)
	case e.is(k.detach[k.matched]):
		k.advance(b)
	case k.matched == 0:
		k.emit(Key, b)
	case e.event == eventRepeat && e.is(k.detach[k.matched-1]):
		// The prefix is being held down.
	case k.matched == 1 && e.is(k.detach[0]):
		k.releasePrefix() // typed twice: sent once
	default:
		k.releasePrefix()
		k.typed(b, e)
	}
}

func (k *Keys) typedPassive(b []byte, e press) {
	switch {
	case k.matched > 0: // shares the fate of the prefix
		k.prefix = append(k.prefix, b...)
	case len(k.detach) == 1 && e.event == eventRelease && e.is(k.detach[0]):
		// Its press was typed elsewhere: to start us, or in another client.
	default:
		k.emit(Key, b)
	}
}

func (k *Keys) advance(b []byte) {
	k.matched++
	if k.matched < len(k.detach) {
		k.prefix = append(k.prefix, b...)
		return
	}
	k.detached = true
	k.prefix, k.matched = nil, 0
	k.emit(Detach, nil)
}

func (k *Keys) releasePrefix() {
	if k.matched == 0 {
		return
	}
	k.emit(Key, k.prefix)
	k.prefix, k.matched = nil, 0
}

// emit appends a piece. Typed text and a paste grow; reports stay apart.
func (k *Keys) emit(kind Kind, b []byte) {
	from := len(k.buf)
	k.buf = append(k.buf, b...)
	if last := len(k.pieces) - 1; last >= 0 && k.pieces[last].kind == kind &&
		(kind == Key || kind == Paste && !k.pieces[last].last) {
		k.pieces[last].to = len(k.buf)
		return
	}
	k.pieces = append(k.pieces, piece{kind: kind, from: from, to: len(k.buf)})
}

func (k *Keys) take() []Input {
	if len(k.pieces) == 0 {
		return nil
	}
	inputs := make([]Input, len(k.pieces))
	for i, p := range k.pieces {
		inputs[i] = Input{Kind: p.kind, First: p.first, Last: p.last}
		if p.to > p.from {
			inputs[i].Bytes = k.buf[p.from:p.to:p.to]
		}
	}
	k.buf = nil // the receiver's now
	k.pieces = k.pieces[:0]
	return inputs
}

// classify tells reports of the terminal from keys. It is strict: what is not
// exactly a report is a key.
func classify(c csi) Kind {
	switch {
	case isMouse(c):
		return Mouse
	case isFocus(c):
		return Focus
	case isReply(c):
		return Reply
	}
	return Key
}

// isMouse: SGR (1006, 1016) and urxvt (1015) reports.
func isMouse(c csi) bool {
	if len(c.inter) > 0 || c.final != 'M' && c.final != 'm' {
		return false
	}
	if c.private != '<' && (c.private != 0 || c.final == 'm') {
		return false
	}
	return countNumbers(c.params) == 3
}

func isFocus(c csi) bool {
	return c.private == 0 && len(c.params)+len(c.inter) == 0 && (c.final == 'I' || c.final == 'O')
}

func isReply(c csi) bool {
	n := countNumbers(c.params)
	if n == 0 {
		return false
	}
	if len(c.inter) > 0 { // DECRPM
		return string(c.inter) == "$" && c.final == 'y' && n == 2 && (c.private == 0 || c.private == '?')
	}
	switch c.private {
	case '?':
		return isPrivateReply(c.final, n)
	case '>': // DA2, XTQMODKEYS
		return c.final == 'c' || c.final == 'm' && n == 2
	case 0:
		return isPlainReply(c, n)
	}
	return false
}

func isPrivateReply(final byte, n int) bool {
	switch final {
	case 'c', 'n', 'S': // DA1, DSR (also 997: colour scheme), XTSMGRAPHICS
		return true
	case 'u': // kitty keyboard flags
		return n == 1
	case 'R': // DECXCPR
		return n == 2 || n == 3
	}
	return false
}

func isPlainReply(c csi, n int) bool {
	p, ok := parseParams(c.params)
	if !ok {
		return false
	}
	first := p.at(0, 0)
	switch c.final {
	case 'n': // DSR: ready, malfunction
		return n == 1 && (first == 0 || first == 3)
	case 'R': // CPR; but CSI 1 ; 2..16 R is F3 with modifiers (ctlseqs)
		return n == 2 && (first != 1 || p.at(1, 0) < 2 || p.at(1, 0) > 16)
	case 't': // window reports, and 48: size in band (mode 2048)
		return first >= 1 && first <= 9 && first != 7 || first == 48 && n >= 3
	case 'x': // DECREPTPARM
		return n == 7 && (first == 2 || first == 3)
	}
	return false
}

// countNumbers returns how many decimal numbers b is, separated by ';', or 0
// when it is anything else.
func countNumbers(b []byte) int {
	n, digits := 1, 0
	for _, c := range b {
		switch {
		case isDigit(c):
			digits++
		case c == ';' && digits > 0:
			n++
			digits = 0
		default:
			return 0
		}
	}
	if digits == 0 {
		return 0
	}
	return n
}

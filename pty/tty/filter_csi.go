package tty

import (
	"bytes"
	"strconv"
)

// escapeEnd decides on ESC, an intermediate (or 0) and a final.
func (f *Filter) escapeEnd(dst []byte, inter, final byte) []byte {
	switch {
	case inter == 0:
		return f.plainEscape(dst, final)
	case inter >= '(' && inter <= '/': // SCS: G0..G3
		if final == 'B' {
			// Only G0 is worth being exact about: it is what programs switch.
			f.led.look.charset = f.led.look.charset && inter != '('
		} else {
			f.led.setCharset()
		}
	case inter == '%':
		f.led.latin = final == '@'
	case inter == ' ' && final == 'G': // S8C1T: answers in a form we do not read
		return f.remove(dst, f.hold)
	}
	return f.emit(dst, f.hold)
}

func (f *Filter) plainEscape(dst []byte, final byte) []byte {
	switch final {
	case 'Z': // DECID: an old DA1
		return f.remove(dst, f.hold)
	case 'c':
		return f.softRIS(dst)
	case '=':
		f.led.keypad = true
	case '>':
		f.led.keypad = false
	case 'n', 'o': // LS2, LS3
		f.led.setShift()
	case '8': // DECRC
		f.led.restoredCursor()
	case 'D', 'E', 'M', '6', '9': // IND, NEL, RI, DECBI, DECFI
		f.led.move()
	}
	return f.emit(dst, f.hold)
}

// softRIS replaces RIS: books closed, soft reset, tab stops, screen cleared.
func (f *Filter) softRIS(dst []byte) []byte {
	dst = f.remove(dst, f.hold)
	dst = f.led.neutral(dst)
	f.led.touched = true
	return append(dst, "\x1b[!p\x1b[?5W\x1b[H\x1b[2J"...)
}

// csi decides on a control sequence. raw is all of it, body what follows the
// introducer, final included.
func (f *Filter) csi(dst, raw, body []byte) []byte {
	final := body[len(body)-1]
	if final == 'm' && (body[0] <= ';' || len(body) == 1) { // SGR, by far the most frequent
		return f.sgr(dst, raw, body)
	}
	c := splitCSI(body)
	switch asksCSI(c) {
	case answered:
		return f.remove(dst, raw)
	case notAnswered:
		f.unanswered(raw)
		return f.remove(dst, raw)
	}
	if malformed(c.params) {
		return f.remove(dst, raw)
	}
	if len(c.inter) > 0 {
		return f.interCSI(dst, raw, c)
	}
	switch c.private {
	case 0:
		return f.plainCSI(dst, raw, c)
	case '?':
		return f.privateCSI(dst, raw, c)
	case '>':
		return f.greaterCSI(dst, raw, c)
	}
	if final == 'u' {
		return f.kittyKeys(dst, raw, c)
	}
	return f.emit(dst, raw)
}

// malformed: a private marker or an intermediate among the parameters. Terminals
// ignore such a sequence (vt100.net's "CSI ignore"), or each reads another one in
// it, so that no book about it would be right.
func malformed(params []byte) bool {
	for _, c := range params {
		if c < '0' || c > ';' {
			return true
		}
	}
	return false
}

func (f *Filter) sgr(dst, raw, body []byte) []byte {
	switch {
	case len(body) == 1, len(body) == 2 && body[0] == '0':
		f.led.look.sgr = false
	case body[len(body)-2] >= '0': // no intermediates
		f.led.setSGR()
	}
	return f.emit(dst, raw)
}

// question is what the filter makes of one.
type question uint8

const (
	noQuestion  question = iota
	answered             // by the server
	notAnswered          // by nobody but a terminal
)

// asksCSI knows the control sequences that make a terminal answer, or that
// only the terminal sends (ctlseqs; kitty keyboard and multiple cursors).
func asksCSI(c csi) question {
	if len(c.inter) > 0 {
		return asksInter(c)
	}
	switch c.final {
	case 'c': // DA1, DA2, DA3; with "?" it is the cursor shape of the Linux console
		return when(c.private != '?', answered)
	case 'n': // DSR, CPR, DECXCPR; with ">" it is XTMODKEYS
		return when(c.private == 0 || c.private == '?', answered)
	case 'x': // DECREQTPARM
		return when(c.private == 0, answered)
	case 'q': // XTVERSION
		return when(c.private == '>', answered)
	case 'u': // kitty keyboard flags
		return when(c.private == '?', answered)
	case 'm': // XTQMODKEYS, also in the spelling of Gemini CLI
		return when(c.private == '?' || bytes.IndexByte(c.params, '?') >= 0, answered)
	case 'g': // XTQFMTKEYS
		return when(c.private == '?', notAnswered)
	case 'S': // XTSMGRAPHICS
		return when(c.private == '?', notAnswered)
	case 't':
		return asksWindow(c)
	}
	return noQuestion
}

func when(is bool, q question) question {
	if is {
		return q
	}
	return noQuestion
}

// asksWindow: XTWINOPS 11..21 are reports.
func asksWindow(c csi) question {
	if c.private != 0 {
		return noQuestion
	}
	op := firstParam(c.params)
	return when(op >= 11 && op <= 21, answered)
}

func asksInter(c csi) question {
	switch string(c.inter) + string(rune(c.final)) {
	case "$p": // DECRQM
		return answered
	case "*y": // DECRQCRA
		return answered
	case "$w", "$u", "&u", "\"v", "'|", "#|", "#R", "#S":
		// DECRQPSR, DECRQTSR, DECRQUPSS, DECRQDE, DECRQLP, XTREPORTSGR,
		// XTREPORTCOLORS, XTTITLEPOS
		return notAnswered
	case " q": // kitty multiple cursors: support, cursors, colours
		p := firstParam(c.params)
		return when(c.private == '>' && (p <= 0 || p == 100 || p == 101), notAnswered)
	}
	return noQuestion
}

// firstParam returns the first number, or -1.
func firstParam(b []byte) int {
	n := -1
	for _, c := range b {
		if !isDigit(c) {
			break
		}
		n = min(max(n, 0)*10+int(c-'0'), maxParam)
	}
	return n
}

func (f *Filter) interCSI(dst, raw []byte, c csi) []byte {
	switch string(c.inter) + string(rune(c.final)) {
	case " q": // DECSCUSR
		if c.private == 0 {
			f.led.cursorStyle = firstParam(c.params) > 0
		}
	case "$|", "*|", "*}", "$~": // DECSCPP, DECSNLS, and others that resize
		return f.remove(dst, raw)
	case "!p": // DECSTR resets less than the books hold; they stay as they are
		f.led.move()
	}
	return f.emit(dst, raw)
}

func (f *Filter) plainCSI(dst, raw []byte, c csi) []byte {
	switch c.final {
	case 'h', 'l':
		return f.ansiModes(dst, raw, c)
	case 'J':
		if firstParam(c.params) == 3 {
			return f.remove(dst, raw)
		}
	case 't':
		return f.window(dst, raw, c)
	case 'r':
		f.led.region = len(c.params) > 0
		f.led.move()
	case 'u': // SCORC
		f.led.restoredCursor()
	case 'i': // MC: 5 sends what follows to a printer
		f.led.printer = f.led.printer || firstParam(c.params) == 5
	case 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'L', 'M', 'P', 'S', 'T',
		'X', 'Z', '@', '`', 'a', 'b', 'd', 'e', 'f', 'j', 'k':
		f.led.move()
	}
	return f.emit(dst, raw)
}

// window: resizing, moving, iconifying and DECSLPP are the user's; the title
// stack is shared with Enter.
func (f *Filter) window(dst, raw []byte, c csi) []byte {
	switch op := firstParam(c.params); {
	case op == 22:
		f.led.titles++
	case op == 23 && f.led.titles == 0:
		return f.remove(dst, raw)
	case op == 23:
		f.led.titles--
	case op >= 0:
		return f.remove(dst, raw)
	}
	return f.emit(dst, raw)
}

// ansiModes drops KAM, which locks the keyboard and with it every way out.
func (f *Filter) ansiModes(dst, raw []byte, c csi) []byte {
	return f.modes(dst, raw, c, func(number int, on bool) bool {
		if number == 2 {
			return false
		}
		f.led.setANSI(number, on)
		return true
	})
}

func (f *Filter) privateCSI(dst, raw []byte, c csi) []byte {
	switch c.final {
	case 'h', 'l':
		return f.decModes(dst, raw, c)
	case 'r': // XTRESTORE
		eachParam(c.params, func(n int) { f.led.mayRestore(n) })
	case 'J':
		if firstParam(c.params) == 3 { // DECSED, saved lines (xterm)
			return f.remove(dst, raw)
		}
	case 'i':
		f.led.printer = f.led.printer || firstParam(c.params) == 5
	}
	return f.emit(dst, raw)
}

func (f *Filter) decModes(dst, raw []byte, c csi) []byte {
	dst = f.saveWheel(dst, c)
	return f.modes(dst, raw, c, func(number int, on bool) bool {
		if refusedMode(number) {
			return false
		}
		f.led.setMode(number, on)
		return true
	})
}

// refusedMode: see the comment of Filter.
func refusedMode(number int) bool {
	switch number {
	case 2, // VT52: our own sequences would not work any more
		3, 40, // 132 columns
		38,   // Tektronix window
		2048, // size reports in band
		9001: // win32 input: other keys than we decode
		return true
	}
	return false
}

// saveWheel: alternate scroll is a matter of configuration, on here and off
// there, so the user's value is saved and brought back (XTSAVE, XTRESTORE).
func (f *Filter) saveWheel(dst []byte, c csi) []byte {
	if f.led.wheel {
		return dst
	}
	eachParam(c.params, func(n int) { f.led.wheel = f.led.wheel || n == 1007 })
	if f.led.wheel {
		dst = append(dst, "\x1b[?1007s"...)
	}
	return dst
}

// modes passes a list of modes without those that keep refuses.
func (f *Filter) modes(dst, raw []byte, c csi, keep func(number int, on bool) bool) []byte {
	on := c.final == 'h'
	refused, kept := 0, 0
	eachParam(c.params, func(n int) {
		if keep(n, on) {
			kept++
		} else {
			refused++
		}
	})
	switch {
	case refused == 0:
		return f.emit(dst, raw)
	case kept == 0:
		return f.remove(dst, raw)
	}
	dst = f.remove(dst, raw)
	dst = append(dst, esc, '[')
	if c.private != 0 {
		dst = append(dst, c.private)
	}
	sep := false
	eachParam(c.params, func(n int) {
		if c.private == '?' && refusedMode(n) || c.private == 0 && n == 2 {
			return
		}
		if sep {
			dst = append(dst, ';')
		}
		sep = true
		dst = strconv.AppendInt(dst, int64(n), 10)
	})
	return append(dst, c.final)
}

// eachParam calls do for each number of a list; what is missing is 0.
func eachParam(b []byte, do func(n int)) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, ';')
		if i < 0 {
			i = len(b)
		}
		do(max(firstParam(b[:i]), 0))
		b = b[min(i+1, len(b)):]
	}
}

// greaterCSI: XTMODKEYS, XTFMTKEYS, and the kitty push.
func (f *Filter) greaterCSI(dst, raw []byte, c csi) []byte {
	switch c.final {
	case 'u':
		return f.kittyKeys(dst, raw, c)
	case 'm':
		f.led.modKeys = changeResource(f.led.modKeys, c.params)
	case 'n': // disables, which is not the initial value either
		if p := max(firstParam(c.params), 0); p < 8 {
			f.led.modKeys |= 1 << p
		}
	case 'f':
		f.led.fmtKeys = changeResource(f.led.fmtKeys, c.params)
	}
	return f.emit(dst, raw)
}

// changeResource: Pp ; Pv sets a resource, Pp alone resets it, and nothing at
// all resets every one.
func changeResource(set uint8, b []byte) uint8 {
	p := firstParam(b)
	switch i := bytes.IndexByte(b, ';'); {
	case p < 0:
		return 0
	case p > 7:
		return set
	case i < 0 || i == len(b)-1:
		return set &^ (1 << p)
	}
	return set | 1<<p
}

// kittyKeys keeps the levels of the user's own out of reach (kitty keyboard,
// "progressive enhancement"): the program pops what it pushed, and a set
// without a push gets one.
func (f *Filter) kittyKeys(dst, raw []byte, c csi) []byte {
	depth := &f.led.kitty[f.led.screen()]
	switch c.private {
	case '>':
		*depth++
	case '=':
		if *depth == 0 {
			*depth = 1
			dst = append(dst, "\x1b[>0u"...)
			f.open = false
		}
	case '<':
		want := max(firstParam(c.params), 1)
		have := min(want, *depth)
		*depth -= have
		if have == want {
			break
		}
		return popKitty(f.remove(dst, raw), have)
	}
	return f.emit(dst, raw)
}

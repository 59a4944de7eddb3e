package tty

import "strconv"

// trackedMode is a DECSET mode with the value a terminal has at a shell.
type trackedMode struct {
	number int
	normal bool
}

// trackedModes, in the order in which they are put back. Whether a program may
// change 1007 back is special: see ledger.wheel. The alternate screens come
// apart from the rest, in altModes.
var trackedModes = [...]trackedMode{
	{2026, false},                                                          // synchronized update: first, or nothing else is shown
	{25, true},                                                             // cursor shown
	{9, false}, {1000, false}, {1001, false}, {1002, false}, {1003, false}, // mouse
	{1005, false}, {1006, false}, {1015, false}, {1016, false}, // mouse encodings
	{1004, false}, // focus reports
	{1007, false}, // wheel as arrow keys
	{2004, false}, // bracketed paste
	{2031, false}, // colour scheme reports
	{5522, false}, // paste events (kitty clipboard)
	{1, false},    // application cursor keys
	{66, false},   // application keypad
	{67, false},   // backarrow sends BS
	{7727, false}, // application escape key (mintty)
	{5, false},    // reverse video
	{6, false},    // origin
	{69, false},   // left and right margins
	{45, false},   // reverse wraparound
	{1045, false}, // the same, extended
	{7, true},     // wraparound
	{8, true},     // autorepeat
	{12, false},   // blinking cursor
	{80, false},   // sixel display mode
}

// altModes switch to the alternate screen.
var altModes = [...]int{47, 1047, 1049}

// trackedANSI are the modes of CSI Ps h without "?".
var trackedANSI = [...]trackedMode{
	{4, false},  // IRM, insert
	{20, false}, // LNM, LF does CR too
	{12, true},  // SRM; reset means local echo
}

const (
	mainScreen = 0
	altScreen  = 1
)

// ledger is what differs in the terminal from what it was before attach,
// because of bytes that passed the filter. The zero value is "nothing".
type ledger struct {
	modes [len(trackedModes)]bool
	ansi  [len(trackedANSI)]bool
	alt   [len(altModes)]bool
	onAlt bool
	wheel bool // 1007 was saved with XTSAVE

	kitty            [2]int // pushes of ours, per screen (kitty keyboard)
	modKeys, fmtKeys uint8  // XTMODKEYS and XTFMTKEYS resources changed, by number
	keypad           bool

	look, lookEver look // drawing attributes, which DECRC may bring back
	region         bool
	cursorStyle    bool
	printer        bool
	latin          bool // ESC % @: UTF-8 off

	link, progress, pointer        bool
	palette, special, kittyColours bool
	dynamic                        uint16 // OSC 10+bit

	pushedTitle bool // by Enter
	titles      int  // by the program
	title       bool

	// touched: the program drew or moved on the main screen, so that the
	// cursor there is not below the content.
	touched bool
}

// look is what DECSC saves besides the position.
type look struct {
	sgr, charset, shift, origin bool
}

func (l *look) add(o look) {
	l.sgr = l.sgr || o.sgr
	l.charset = l.charset || o.charset
	l.shift = l.shift || o.shift
}

// keepStrings adds what strings had switched on before.
func (l *ledger) keepStrings(o *ledger) {
	l.link = l.link || o.link
	l.progress = l.progress || o.progress
	l.pointer = l.pointer || o.pointer
	l.palette = l.palette || o.palette
	l.special = l.special || o.special
	l.dynamic |= o.dynamic
}

func (l *ledger) screen() int {
	if l.onAlt {
		return altScreen
	}
	return mainScreen
}

// setMode notes DECSET (on) or DECRST.
func (l *ledger) setMode(number int, on bool) {
	for i := range trackedModes {
		if trackedModes[i].number == number {
			l.modes[i] = on != trackedModes[i].normal
			break
		}
	}
	switch number {
	case 6:
		l.lookEver.origin = true
		l.move()
	case 69:
		l.move()
	case 1048:
		if !on {
			l.restoredCursor()
		}
	}
	for i, n := range altModes {
		if n != number {
			continue
		}
		l.alt[i] = on
		l.onAlt = on
		if number == 1049 && !on {
			l.restoredCursor()
		}
	}
}

// mayRestore notes XTRESTORE, after which a mode may be anything.
func (l *ledger) mayRestore(number int) {
	for i := range trackedModes {
		if trackedModes[i].number == number {
			l.modes[i] = true
		}
	}
	for i, n := range altModes {
		l.alt[i] = l.alt[i] || n == number
	}
}

// isChanged reports whether a tracked mode is not as it was.
func (l *ledger) isChanged(number int) bool {
	for i := range trackedModes {
		if trackedModes[i].number == number {
			return l.modes[i]
		}
	}
	return false
}

func (l *ledger) setANSI(number int, on bool) {
	for i := range trackedANSI {
		if trackedANSI[i].number == number {
			l.ansi[i] = on != trackedANSI[i].normal
		}
	}
}

// restoredCursor: DECRC brings back attributes of an unknown moment.
func (l *ledger) restoredCursor() {
	l.look.add(l.lookEver)
	if l.lookEver.origin {
		l.mayRestore(6)
	}
	l.move()
}

func (l *ledger) move() {
	if !l.onAlt {
		l.touched = true
	}
}

func (l *ledger) setSGR()     { l.look.sgr, l.lookEver.sgr = true, true }
func (l *ledger) setCharset() { l.look.charset, l.lookEver.charset = true, true }
func (l *ledger) setShift()   { l.look.shift, l.lookEver.shift = true, true }

// neutral appends what puts everything back but the titles, and forgets it.
func (l *ledger) neutral(b []byte) []byte {
	if l.modes[0] {
		b = append(b, "\x1b[?2026l"...)
		l.modes[0] = false
	}
	if l.link {
		b = append(b, "\x1b]8;;"+st...)
	}
	b = l.leaveAlt(b)
	b = popKitty(b, l.kitty[mainScreen])
	b = l.neutralModes(b)
	b = l.neutralKeys(b)
	b = l.neutralLook(b)
	b = l.neutralColours(b)
	*l = ledger{
		pushedTitle: l.pushedTitle, titles: l.titles,
		title: l.title, touched: l.touched,
	}
	return b
}

// leaveAlt takes back what each screen has of its own: kitty's keyboard stack
// and, in some terminals, the scroll region.
func (l *ledger) leaveAlt(b []byte) []byte {
	switch {
	case l.onAlt:
		b = popKitty(b, l.kitty[altScreen])
		b = l.neutralOrigin(b)
	case l.kitty[altScreen] > 0:
		b = append(b, "\x1b[?1049h"...)
		b = popKitty(b, l.kitty[altScreen])
		b = append(b, "\x1b[?1049l"...)
		l.look.add(l.lookEver)
	}
	for i, n := range altModes {
		if l.alt[i] {
			b = appendMode(b, n, false)
			l.look.add(l.lookEver)
		}
	}
	return b
}

// neutralOrigin puts back origin mode and scroll region while still on the
// alternate screen: both move the cursor home, and on the main screen it would
// then stand above what the shell has written. Where that screen was touched
// they are put back there too, since some terminals keep them apart.
func (l *ledger) neutralOrigin(b []byte) []byte {
	if l.isChanged(6) {
		b = appendMode(b, 6, false)
	}
	if l.region {
		b = append(b, "\x1b[r"...)
	}
	if !l.touched {
		l.setMode(6, false)
		l.region = false
	}
	return b
}

func popKitty(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	b = append(b, "\x1b[<"...)
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, 'u')
}

func (l *ledger) neutralModes(b []byte) []byte {
	for i, m := range trackedModes {
		if l.modes[i] {
			b = appendMode(b, m.number, m.normal)
		}
	}
	if l.wheel {
		b = append(b, "\x1b[?1007r"...)
	}
	for i, m := range trackedANSI {
		if !l.ansi[i] {
			continue
		}
		b = append(b, "\x1b["...)
		b = strconv.AppendInt(b, int64(m.number), 10)
		b = append(b, letter(m.normal))
	}
	return b
}

func (l *ledger) neutralKeys(b []byte) []byte {
	if l.keypad {
		b = append(b, "\x1b>"...)
	}
	b = appendResources(b, l.modKeys, 'm')
	return appendResources(b, l.fmtKeys, 'f')
}

// appendResources gives XTMODKEYS or XTFMTKEYS resources their initial value,
// which is the user's configuration (ctlseqs, CSI > Pp m).
func appendResources(b []byte, set uint8, final byte) []byte {
	for i := range 8 {
		if set&(1<<i) != 0 {
			b = append(b, "\x1b[>"...)
			b = append(b, byte('0'+i), final)
		}
	}
	return b
}

func (l *ledger) neutralLook(b []byte) []byte {
	if l.region {
		b = append(b, "\x1b[r"...)
	}
	if l.cursorStyle {
		b = append(b, "\x1b[0 q"...)
	}
	if l.printer {
		b = append(b, "\x1b[4i\x1b[?4i"...)
	}
	if l.latin {
		b = append(b, "\x1b%G"...)
	}
	if l.look.charset {
		b = append(b, "\x1b(B\x1b)B\x1b*B\x1b+B"...)
	}
	if l.look.shift {
		b = append(b, si)
	}
	if l.look.sgr {
		b = append(b, "\x1b[m"...)
	}
	return b
}

func (l *ledger) neutralColours(b []byte) []byte {
	if l.progress {
		b = append(b, "\x1b]9;4;0;0"+st...)
	}
	if l.pointer {
		b = append(b, "\x1b]22;"+st...)
	}
	dynamic := l.dynamic
	palette := l.palette
	if l.kittyColours { // OSC 21 sets any of them by name
		palette = true
		dynamic |= 1<<0 | 1<<1 | 1<<2 | 1<<7 | 1<<9
	}
	if palette {
		b = append(b, "\x1b]104"+st...)
	}
	if l.special {
		b = append(b, "\x1b]105"+st...)
	}
	for i := range 10 {
		if dynamic&(1<<i) != 0 {
			b = append(b, "\x1b]11"...)
			b = append(b, byte('0'+i))
			b = append(b, st...)
		}
	}
	return b
}

// popTitles takes back the titles, ours and those the program left pushed.
func (l *ledger) popTitles(b []byte) []byte {
	n := l.titles
	if l.pushedTitle {
		n++
	} else if l.title {
		b = append(b, "\x1b]0;"+st...) // nothing to go back to: empty it
	}
	for range n {
		b = append(b, "\x1b[23;0t"...)
	}
	l.titles, l.pushedTitle, l.title = 0, false, false
	return b
}

func appendMode(b []byte, number int, on bool) []byte {
	b = append(b, "\x1b[?"...)
	b = strconv.AppendInt(b, int64(number), 10)
	return append(b, letter(on))
}

func letter(on bool) byte {
	if on {
		return 'h'
	}
	return 'l'
}

// ResetSequence repairs a terminal that a killed client left behind: all that
// [Filter.Leave] could have to switch off is switched off. It neither clears
// the screen nor the scrollback, but takes back every level of the keyboard
// stack and every colour, also those that were not ours. It is one batch, to
// be written to a terminal at a shell prompt.
func ResetSequence() []byte {
	l := ledger{
		modKeys: 0xff, fmtKeys: 0xff, keypad: true,
		look:   look{sgr: true, charset: true, shift: true},
		region: true, cursorStyle: true, printer: true, latin: true,
		link: true, progress: true, pointer: true,
		palette: true, special: true, dynamic: 1<<10 - 1,
	}
	for i := range l.modes {
		l.modes[i] = trackedModes[i].number != 1007 // on in many configurations
	}
	for i := range l.ansi {
		l.ansi[i] = true
	}
	for i := range l.alt {
		l.alt[i] = true
	}
	l.onAlt = true
	l.kitty = [2]int{99, 99}
	b := []byte(st + "\x1b<") // end a string, leave VT52 mode
	b = l.neutral(b)
	b = append(b, "\x1b[=0;1u"...)                    // kitty: the base level, too
	b = append(b, "\x1b[2l\x1b[?2048l\x1b[?9001l"...) // modes the filter never lets through
	b = append(b, "\x1b[!p"...)                       // DECSTR: what nobody tracks
	return append(b, "\x1b[9999;1H\r\n"...)
}

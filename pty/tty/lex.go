package tty

import "unicode/utf8"

// form is the outer shape of something that starts with ESC in what a terminal
// sends.
type form uint8

const (
	formLone   form = iota // ESC, and what follows begins anew
	formBroken             // a sequence that was cut off by a foreign byte
	formMeta               // ESC and a character: Alt
	formCSI                // ECMA-48 control sequence
	formSS3                // ESC O and a final: keypad and function keys
	formMouse              // CSI M and three values (ctlseqs, X10 and 1005)
	formString             // OSC, DCS or APC with its terminator
)

const (
	// maxInputCSI and maxInputString bound what is held back, in bytes. The
	// longest answers known are DECRQSS and kitty clipboard chunks (4 KiB).
	maxInputCSI    = 256
	maxInputString = 8192
)

// lexEscape measures the sequence at the start of p; p[0] is ESC. n is 0 while
// its end is not there yet.
func lexEscape(p []byte) (f form, n int) {
	if len(p) < 2 {
		return formLone, 0
	}
	switch c := p[1]; {
	case c == esc:
		return formLone, 1
	case c == '[':
		return lexCSI(p)
	case c == 'O':
		return lexSS3(p)
	case c == ']' || c == 'P' || c == '_':
		return lexString(p)
	case c >= utf8.RuneSelf:
		return lexMetaRune(p)
	}
	return formMeta, 2
}

func lexMetaRune(p []byte) (form, int) {
	if !utf8.FullRune(p[1:]) {
		return formMeta, 0
	}
	_, n := utf8.DecodeRune(p[1:])
	return formMeta, 1 + n
}

func lexCSI(p []byte) (form, int) {
	i := 2
	for i < len(p) && p[i] >= 0x20 && p[i] <= 0x3f {
		if i++; i > maxInputCSI {
			return formBroken, i
		}
	}
	if i == len(p) {
		return formCSI, 0
	}
	switch c := p[i]; {
	case c < 0x40 || c > 0x7e:
		return formBroken, i
	case i == 2 && c == '[': // Linux console: F1 is CSI [ A
		return lexConsoleKey(p)
	case i == 2 && c == 'M':
		return lexMouse(p)
	}
	return formCSI, i + 1
}

func lexConsoleKey(p []byte) (form, int) {
	switch {
	case len(p) == 3:
		return formCSI, 0
	case p[3] >= 0x40 && p[3] <= 0x7e:
		return formCSI, 4
	}
	return formBroken, 3
}

// lexMouse takes button, column and row. In mode 1005 each may be a character
// of two bytes; the other reading, two large legacy values, needs a window of
// 163 by 96 cells and a terminal without SGR reports.
func lexMouse(p []byte) (form, int) {
	i := 3
	for range 3 {
		switch {
		case i == len(p):
			return formMouse, 0
		case p[i] != nul && p[i] < 0x20:
			return formBroken, i
		case p[i] < 0xc2 || p[i] > 0xdf:
			i++
		case i+1 == len(p):
			return formMouse, 0
		case p[i+1] >= 0x80 && p[i+1] <= 0xbf:
			i += 2
		default:
			i++
		}
	}
	return formMouse, i
}

func lexSS3(p []byte) (form, int) {
	i := 2
	for i < len(p) && i < 6 && isDigit(p[i]) { // old xterm: ESC O 5 P
		i++
	}
	switch {
	case i == len(p):
		return formSS3, 0
	case p[i] == ' ' || p[i] >= 0x40 && p[i] <= 0x7e:
		return formSS3, i + 1
	}
	return formMeta, 2
}

// lexString takes an answer. Alt-] and Alt-P are typed by people, so it must
// look like an answer from its first character on and hold no control.
func lexString(p []byte) (form, int) {
	if len(p) == 2 {
		return formString, 0
	}
	if !beginsAnswer(p[1], p[2]) {
		return formMeta, 2
	}
	for i := 3; i < len(p); i++ {
		switch c := p[i]; {
		case i > maxInputString:
			return formBroken, i
		case c == bel && p[1] == ']':
			return formString, i + 1
		case c == esc && i+1 == len(p):
			return formString, 0
		case c == esc && p[i+1] == '\\':
			return formString, i + 2
		case c < 0x20 || c == del:
			return formBroken, i
		}
	}
	return formString, 0
}

func beginsAnswer(intro, c byte) bool {
	switch intro {
	case ']': // OSC Ps, or the title reports OSC l and OSC L
		return isDigit(c) || c == 'l' || c == 'L'
	case 'P': // DECRQSS, XTGETTCAP, XTVERSION, DA3, DECCKSR
		return isDigit(c) || c == '$' || c == '+' || c == '>' || c == '!'
	}
	return c == 'G' // APC: kitty graphics
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// params is a parsed parameter string: up to 8 fields of up to 3 subfields.
// An absent value is -1.
type params struct {
	field [8][3]int
	n     int
}

// at returns the first subfield of field i, or def when it is not there.
func (p *params) at(i, def int) int { return p.sub(i, 0, def) }

func (p *params) sub(i, j, def int) int {
	if i >= p.n || p.field[i][j] < 0 {
		return def
	}
	return p.field[i][j]
}

// maxParam is where numbers stop growing.
const maxParam = 1 << 24

// parseParams is strict: digits, ';' and ':' only, nothing beyond the bounds
// (a fourth subfield, the further code points of a text, is skipped).
func parseParams(b []byte) (p params, ok bool) {
	if len(b) == 0 {
		return p, true
	}
	p.n = 1
	p.field[0] = [3]int{-1, -1, -1}
	j := 0
	for _, c := range b {
		switch {
		case c == ';':
			if p.n == len(p.field) {
				return p, false
			}
			p.field[p.n] = [3]int{-1, -1, -1}
			p.n++
			j = 0
		case c == ':':
			j++
		case !isDigit(c):
			return p, false
		case j < 3:
			v := &p.field[p.n-1][j]
			*v = min(max(*v, 0)*10+int(c-'0'), maxParam)
		}
	}
	return p, true
}

// csi is a control sequence taken apart. The slices point into it.
type csi struct {
	private byte // one of "<=>?", or 0
	params  []byte
	inter   []byte
	final   byte
}

// splitCSI takes apart the part after the introducer, final included.
func splitCSI(body []byte) csi {
	var c csi
	last := len(body) - 1
	c.final = body[last]
	body = body[:last]
	if len(body) > 0 && body[0] >= '<' && body[0] <= '?' {
		c.private = body[0]
		body = body[1:]
	}
	i := len(body)
	for i > 0 && body[i-1] >= 0x20 && body[i-1] <= 0x2f {
		i--
	}
	c.params, c.inter = body[:i], body[i:]
	return c
}

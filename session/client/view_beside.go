package client

import "bytes"

// Bounds of what is told beside the screen.
const (
	// maxBeside is from how many bytes on it is told at once.
	maxBeside = 64 << 10
	// maxAside is the longest string that is passed on: a clipboard.
	maxAside = 1 << 20
)

type besideState uint8

const (
	besideGround    besideState = iota
	besideEscape                // after ESC
	besideOSC                   // in an OSC
	besideOSCEscape             // after ESC in an OSC
	besideString                // in another string
	besideStringEscape
)

// beside picks out of a program's output what concerns the terminal beside its
// screen and is not in an emulator's state: bells, notifications, progress and
// clipboard, which happen once, and colours. Which of it may reach the terminal
// is for the tty.Filter to say.
type beside struct {
	state besideState
	body  []byte // of the OSC so far
	long  bool   // it is longer than maxAside
	rung  bool   // a bell since the last take
	out   []byte
}

// take appends what is to be told and forgets it.
func (b *beside) take(dst []byte) []byte {
	dst = append(dst, b.out...)
	b.out = b.out[:0]
	if cap(b.out) > maxBeside {
		b.out = nil
	}
	if b.rung {
		dst = append(dst, '\a')
	}
	b.rung = false
	return dst
}

// write takes output. live: what happens in it has not happened before.
func (b *beside) write(p []byte, live bool) {
	for len(p) > 0 {
		switch b.state {
		case besideGround:
			p = b.ground(p, live)
		case besideOSC:
			p = b.content(p, live)
		default:
			b.step(p[0], live)
			p = p[1:]
		}
	}
}

// ground looks for the next ESC.
func (b *beside) ground(p []byte, live bool) []byte {
	n := bytes.IndexByte(p, '\x1b')
	text := p
	if n >= 0 {
		text = p[:n]
	}
	b.ring(bytes.IndexByte(text, '\a') >= 0 && live)
	if n < 0 {
		return nil
	}
	b.state = besideEscape
	return p[n+1:]
}

func (b *beside) ring(on bool) { b.rung = b.rung || on }

// content takes the text of an OSC up to what may end it.
func (b *beside) content(p []byte, live bool) []byte {
	n := bytes.IndexAny(p, "\a\x18\x1a\x1b")
	text := p
	if n >= 0 {
		text = p[:n]
	}
	if len(b.body)+len(text) > maxAside {
		b.long = true
	}
	if !b.long {
		b.body = append(b.body, text...)
	}
	if n < 0 {
		return nil
	}
	switch p[n] {
	case '\x1b':
		b.state = besideOSCEscape
	case '\a':
		b.end(live)
	default: // CAN, SUB
		b.state = besideGround
	}
	return p[n+1:]
}

// step takes a byte in the states in which each one counts.
func (b *beside) step(c byte, live bool) {
	switch b.state {
	case besideEscape:
		b.escape(c, live)
	case besideOSCEscape, besideStringEscape:
		if c != '\\' {
			b.escape(c, live) // cut off by another sequence
			return
		}
		if b.state == besideOSCEscape {
			b.end(live)
		}
		b.state = besideGround
	case besideString:
		switch c {
		case '\x1b':
			b.state = besideStringEscape
		case '\x18', '\x1a':
			b.state = besideGround
		}
	}
}

// escape takes the byte after ESC.
func (b *beside) escape(c byte, live bool) {
	switch c {
	case ']':
		b.state, b.body, b.long = besideOSC, b.body[:0], false
	case 'P', 'X', '^', '_':
		b.state = besideString
	case '\x1b':
		b.state = besideEscape
	case 'c': // RIS: the colours are the terminal's own again
		b.state = besideGround
		b.out = append(b.out, "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\"...)
	default:
		b.state = besideGround
		b.ring(c == '\a' && live)
	}
}

// end passes an OSC on that is complete.
func (b *beside) end(live bool) {
	b.state = besideGround
	if !b.long && passesBeside(b.body, live) {
		b.out = append(b.out, "\x1b]"...)
		b.out = append(b.out, b.body...)
		b.out = append(b.out, "\x1b\\"...)
	}
	if cap(b.body) > maxBeside {
		b.body = nil
	}
}

// passesBeside knows the strings that are told on: colours always, events when
// they are live. Titles and links are drawn from the emulator's state, prompt
// marks and working directories are not of the user's terminal, and others
// may draw.
func passesBeside(body []byte, live bool) bool {
	for _, c := range body {
		if c < ' ' || c == 0x7f {
			return false // terminals disagree on what it says
		}
	}
	number, _, _ := bytes.Cut(body, []byte{';'})
	switch string(number) {
	case "4", "5", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "21", "22",
		"104", "105", "110", "111", "112", "113", "114", "115", "116", "117", "118", "119":
		return true
	case "9", "52", "99", "777":
		return live
	}
	return false
}

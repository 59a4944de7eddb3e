package tty

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const (
	// ProbeTimeout is how long attach waits for the answers. A terminal that
	// has not answered DA1 by then is taken as one that says nothing.
	ProbeTimeout = 200 * time.Millisecond
	// maxName bounds the terminal's name, in characters.
	maxName = 64
	// maxCell bounds a cell's size, in pixels.
	maxCell = 1000
)

// ProbeSequence asks for the default colours, the size of a cell, the keyboard
// protocol and the terminal's name, and then for DA1, which every terminal
// answers and, as answers come in order, last.
func ProbeSequence() []byte {
	return []byte("\x1b]10;?" + st + "\x1b]11;?" + st + "\x1b[16t\x1b[?u\x1b[>0q\x1b[c")
}

// Profile is what the terminal said of itself.
type Profile struct {
	// Foreground and Background are "rgb:rrrr/gggg/bbbb", or "" if not told.
	Foreground, Background string
	// CellWidth and CellHeight are pixels, or 0.
	CellWidth, CellHeight int
	// KittyKeyboard: it knows the kitty keyboard protocol.
	KittyKeyboard bool
	// Name is the answer to XTVERSION: printable, at most 64 characters.
	Name string
	// Answered: DA1 was answered, so what is missing is not known to it.
	Answered bool
}

// Prober takes the answers to [ProbeSequence] out of what the terminal sends.
// Each is taken once; all else is typed input.
//
// A Prober is for one goroutine. It has no clock: the caller bounds the wait,
// and goes on feeding while Outstanding, so that no late answer is typed into
// the agent.
type Prober struct {
	profile Profile
	missing [probes]bool
	hold    []byte
}

// The questions of ProbeSequence.
const (
	probeForeground = iota
	probeBackground
	probeCell
	probeKeyboard
	probeName
	probeDA1
	probes
)

// NewProber returns a Prober that waits for every answer.
func NewProber() *Prober {
	p := &Prober{}
	for i := range p.missing {
		p.missing[i] = true
	}
	return p
}

// Profile is what is known so far.
func (p *Prober) Profile() Profile { return p.profile }

// Outstanding reports that DA1 is still missing, so that answers may come.
func (p *Prober) Outstanding() bool { return p.missing[probeDA1] }

// Pending reports that the start of what may be an answer is held back; use
// the times of [Keys.Wait] to bound that, and Flush.
func (p *Prober) Pending() bool { return len(p.hold) > 0 }

// Flush gives back what is held back.
func (p *Prober) Flush() []byte {
	rest := p.hold
	p.hold = nil
	return rest
}

// Feed takes what was read and returns what is no answer, in order, as the
// caller's own. done means that the last answer is there.
func (p *Prober) Feed(b []byte) (rest []byte, done bool) {
	data := append(p.hold, b...)
	p.hold = nil
	for len(data) > 0 && p.Outstanding() {
		n, answer := p.next(data)
		if n == 0 {
			p.hold = append([]byte(nil), data...)
			return rest, false
		}
		if !answer {
			rest = append(rest, data[:n]...)
		}
		data = data[n:]
	}
	return append(rest, data...), !p.Outstanding()
}

// next returns the length of the first thing in data, and whether it was an
// answer; 0 when its end is missing.
func (p *Prober) next(data []byte) (n int, answer bool) {
	if data[0] != esc {
		for n < len(data) && data[n] != esc {
			n++
		}
		return n, false
	}
	f, n := lexEscape(data)
	switch {
	case n == 0:
		return 0, false
	case f == formCSI:
		return n, p.control(splitCSI(data[2:n]))
	case f == formString:
		return n, p.string(data[1], trimString(data[:n]))
	}
	return n, false
}

// trimString returns the body of a string without introducer and terminator.
func trimString(seq []byte) string {
	s := string(seq[2:])
	return strings.TrimSuffix(strings.TrimSuffix(s, "\a"), st)
}

// expect ticks off an answer, once.
func (p *Prober) expect(i int) bool {
	was := p.missing[i]
	p.missing[i] = false
	return was
}

func (p *Prober) control(c csi) bool {
	if len(c.inter) > 0 || !isReply(c) {
		return false
	}
	q, ok := parseParams(c.params)
	switch {
	case c.final == 'c' && c.private == '?': // more fields than we look at
		p.profile.Answered = true
		return p.expect(probeDA1)
	case !ok:
		return false
	case c.final == 'u' && c.private == '?':
		p.profile.KittyKeyboard = true
		return p.expect(probeKeyboard)
	case c.final == 't' && c.private == 0 && q.n == 3 && q.at(0, 0) == 6:
		if !p.expect(probeCell) {
			return false
		}
		p.cell(q.at(1, 0), q.at(2, 0))
		return true
	}
	return false
}

func (p *Prober) cell(height, width int) {
	if height > 0 && width > 0 && height <= maxCell && width <= maxCell {
		p.profile.CellHeight, p.profile.CellWidth = height, width
	}
}

func (p *Prober) string(kind byte, body string) bool {
	if name, ok := strings.CutPrefix(body, ">|"); kind == 'P' && ok {
		if !p.expect(probeName) {
			return false
		}
		p.profile.Name = printable(name)
		return true
	}
	if kind != ']' {
		return false
	}
	if value, ok := strings.CutPrefix(body, "10;"); ok && p.expect(probeForeground) {
		p.profile.Foreground = colour(value)
		return true
	}
	if value, ok := strings.CutPrefix(body, "11;"); ok && p.expect(probeBackground) {
		p.profile.Background = colour(value)
		return true
	}
	return false
}

// colour reads XParseColor's rgb:r/g/b, with 1 to 4 digits each, and the
// rgba: form of transparent terminals; "" when it is neither.
func colour(s string) string {
	spec, alpha := strings.CutPrefix(s, "rgba:")
	spec, plain := strings.CutPrefix(spec, "rgb:")
	parts := strings.Split(spec, "/")
	if !(alpha && len(parts) == 4 || plain && len(parts) == 3) {
		return ""
	}
	var v [3]uint64
	for i := range v {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil || len(parts[i]) > 4 {
			return ""
		}
		full := uint64(1)<<(4*len(parts[i])) - 1
		v[i] = (n*0xffff + full/2) / full
	}
	return fmt.Sprintf("rgb:%04x/%04x/%04x", v[0], v[1], v[2])
}

func printable(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			continue
		}
		if n++; n > maxName {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

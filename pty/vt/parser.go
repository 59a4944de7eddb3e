package vt

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// pstate is the state of the parser. It follows the DEC parser that Paul
// Williams drew (vt100.net/emu/dec_ansi_parser), with UTF-8 in the ground state,
// sub-parameters, and without 8-bit C1 controls: bytes above 0x7F belong to
// UTF-8, so 0x9C never ends a string.
type pstate uint8

const (
	ground pstate = iota
	inUTF8
	inEscape
	inEscapeInter
	inCSI
	inCSIIgnore
	inOSC
	inDCSHeader
	inDCS     // content kept (DECRQSS, XTGETTCAP)
	inString  // content swallowed: APC, PM, SOS, other DCS
	inStrEsc  // ESC in one of the four above
	maxParams = 32
	maxParam  = 65535
	maxString = 64 << 10
	maxHeader = 32
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// params are the parameters of a control sequence; an absent one is 0.
type params struct {
	v     [maxParams]int32
	colon uint32 // bit i: v[i] is a sub-parameter of v[i-1]
	n     int
}

// get returns parameter i, def when it is absent or 0.
func (p *params) get(i, def int) int {
	if i >= p.n || p.v[i] == 0 {
		return def
	}
	return int(p.v[i])
}

// group returns the index after parameter i and its sub-parameters.
func (p *params) group(i int) int {
	for i++; i < p.n && p.colon&(1<<i) != 0; i++ {
	}
	return i
}

// parser holds the unfinished part of the input.
type parser struct {
	state pstate
	back  pstate // the string state that inStrEsc returns from

	u8  [utf8.UTFMax]byte
	nu8 int

	p      params
	digits bool // the last parameter has a digit
	full   bool // more than maxParams parameters; the rest is dropped
	prefix byte // one of < = > ?, or 0
	inter  [2]byte
	ninter int
	many   bool // more than two intermediates: nothing we know

	intro    byte   // what opened the string: ] P _ ^ X
	header   []byte // of a DCS, final byte included
	str      []byte
	overflow bool
}

// Write feeds the terminal what the program wrote. It takes any bytes, split
// anywhere, and never fails: n is len(p), the error nil.
func (t *Terminal) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		p = t.step(p)
	}
	return n, nil
}

// Restore is Write without a word to anybody: neither Reply, Event nor ScrollOff
// is called. It is for playing a keyframe and its pending bytes into a fresh
// terminal.
func (t *Terminal) Restore(p []byte) {
	opt := t.opt
	t.opt = Options{}
	t.Write(p)
	t.opt = opt
}

// step consumes at least one byte of p, or changes to a state that will.
func (t *Terminal) step(p []byte) []byte {
	switch t.ps.state {
	case ground:
		return t.stepGround(p)
	case inUTF8:
		return t.stepUTF8(p)
	case inEscape, inEscapeInter:
		return t.stepEscape(p)
	case inCSI:
		return t.stepCSI(p)
	case inCSIIgnore:
		return t.stepCSIIgnore(p)
	case inDCSHeader:
		return t.stepDCSHeader(p)
	case inStrEsc:
		return t.stepStrEsc(p)
	}
	return t.stepString(p)
}

func (t *Terminal) stepGround(p []byte) []byte {
	i := 0
	for i < len(p) && p[i]-0x20 < 0x5f {
		i++
	}
	if i > 0 {
		t.printASCII(p[:i])
		return p[i:]
	}
	b := p[0]
	switch {
	case b == esc:
		t.enterEscape()
		if len(p) > 1 && p[1] == '[' { // what nearly all are
			t.openString('[')
			return t.stepCSI(p[2:])
		}
		return p[1:]
	case b < 0x20:
		t.execute(b)
		return p[1:]
	case b == del:
		return p[1:]
	}
	return t.printUTF8(p)
}

// printUTF8 prints the character at the start of p, or keeps its beginning when
// the rest is still to come.
func (t *Terminal) printUTF8(p []byte) []byte {
	r, n := utf8.DecodeRune(p)
	if r != utf8.RuneError || n > 1 {
		t.print(r)
		return p[n:]
	}
	if !utf8.FullRune(p) {
		t.ps.nu8 = copy(t.ps.u8[:], p)
		t.ps.state = inUTF8
		return nil
	}
	t.print(utf8.RuneError)
	return p[maximalSubpart(p):]
}

// maximalSubpart is the number of bytes of the ill-formed sequence at the start
// of p that one U+FFFD stands for (Unicode 3.9, "substitution of maximal subparts").
func maximalSubpart(p []byte) int {
	n := 1
	for n < len(p) && n < utf8.UTFMax && !utf8.FullRune(p[:n]) {
		if utf8.FullRune(p[:n+1]) {
			return n
		}
		n++
	}
	return n
}

func (t *Terminal) stepUTF8(p []byte) []byte {
	s := &t.ps
	s.u8[s.nu8] = p[0]
	buf := s.u8[:s.nu8+1]
	if !utf8.FullRune(buf) {
		s.nu8++
		return p[1:]
	}
	s.state = ground
	s.nu8 = 0
	r, n := utf8.DecodeRune(buf)
	if r == utf8.RuneError && n == 1 {
		t.print(utf8.RuneError)
		return p // the byte that did not fit starts afresh
	}
	t.print(r)
	return p[1:]
}

func (t *Terminal) enterEscape() {
	t.ps.state = inEscape
	t.ps.ninter = 0
	t.ps.many = false
}

func (s *parser) addInter(b byte) {
	if s.ninter == len(s.inter) {
		s.many = true
		return
	}
	s.inter[s.ninter] = b
	s.ninter++
}

// abort handles the bytes that act the same inside any sequence: CAN and SUB
// end it, ESC starts another. It reports whether b was one of them.
func (t *Terminal) abort(b byte) bool {
	switch b {
	case can, sub:
		t.ps.state = ground
		t.joinable = false
		return true
	case esc:
		t.enterEscape()
		return true
	}
	return false
}

func (t *Terminal) stepEscape(p []byte) []byte {
	b := p[0]
	s := &t.ps
	switch {
	case t.abort(b):
	case b < 0x20:
		t.execute(b)
	case b < 0x30:
		s.addInter(b)
		s.state = inEscapeInter
	case b == del:
	case b > del:
		s.state = ground
		return p
	case s.state == inEscape && t.openString(b):
	default:
		s.state = ground
		t.escDispatch(b)
	}
	return p[1:]
}

// openString enters the state for a sequence that ESC b opens.
func (t *Terminal) openString(b byte) bool {
	s := &t.ps
	switch b {
	case '[':
		s.state = inCSI
		s.p.n, s.p.colon = 0, 0
		s.digits, s.full, s.many = false, false, false
		s.prefix, s.ninter = 0, 0
		return true
	case ']':
		s.state = inOSC
	case 'P':
		s.state = inDCSHeader
		s.header = s.header[:0]
	case '_', '^', 'X':
		s.state = inString
	default:
		return false
	}
	s.intro = b
	s.str = s.str[:0]
	s.overflow = false
	return true
}

func (t *Terminal) stepCSI(p []byte) []byte {
	s := &t.ps
	for i := 0; i < len(p); i++ {
		b := p[i]
		switch {
		case b-'0' < 10:
			if s.ninter > 0 {
				s.state = inCSIIgnore
				return p[i+1:]
			}
			i += s.number(p[i:]) - 1
		case b == ';' || b == ':':
			if s.ninter > 0 {
				s.state = inCSIIgnore
				return p[i+1:]
			}
			s.separator(b == ':')
		case b >= 0x40 && b < del:
			s.state = ground
			t.csiDispatch(b)
			return p[i+1:]
		case b >= '<' && b <= '?':
			if s.p.n > 0 || s.prefix != 0 || s.ninter > 0 {
				s.state = inCSIIgnore
				return p[i+1:]
			}
			s.prefix = b
		case t.abort(b):
			return p[i+1:]
		case b < 0x20:
			t.execute(b)
		case b < 0x30:
			s.addInter(b)
		case b > del:
			s.state = ground
			return p[i:]
		}
	}
	return nil
}

// number adds the digits at the start of p to the last parameter and returns
// how many there are.
func (s *parser) number(p []byte) int {
	if s.p.n == 0 {
		s.p.n = 1
		s.p.v[0] = 0
	}
	s.digits = true
	v := s.p.v[s.p.n-1]
	i := 0
	for i < len(p) && p[i]-'0' < 10 {
		v = min(v*10+int32(p[i]-'0'), maxParam)
		i++
	}
	if !s.full {
		s.p.v[s.p.n-1] = v
	}
	return i
}

func (s *parser) separator(colon bool) {
	if s.p.n == 0 {
		s.p.n = 1
		s.p.v[0] = 0
	}
	s.digits = false
	if s.p.n == maxParams {
		s.full = true
		return
	}
	s.p.v[s.p.n] = 0
	if colon {
		s.p.colon |= 1 << s.p.n
	}
	s.p.n++
}

func (t *Terminal) stepCSIIgnore(p []byte) []byte {
	b := p[0]
	switch {
	case t.abort(b):
	case b < 0x20:
		t.execute(b)
	case b >= 0x40 && b < del:
		t.ps.state = ground
		t.joinable = false
	case b > del:
		t.ps.state = ground
		return p
	}
	return p[1:]
}

func (t *Terminal) stepDCSHeader(p []byte) []byte {
	b := p[0]
	s := &t.ps
	switch {
	case b == esc:
		s.state, s.back = inStrEsc, inString
	case t.abort(b):
	case b < 0x20 || b == del:
	case b > del:
		s.state = inString
	default:
		if len(s.header) < maxHeader {
			s.header = append(s.header, b)
		}
		if b >= 0x40 {
			s.state = s.dcsContent()
		}
	}
	return p[1:]
}

// dcsContent says what to do with the content of the DCS whose header is read.
func (s *parser) dcsContent() pstate {
	switch string(s.header) {
	case "$q", "+q":
		return inDCS
	}
	return inString
}

// stepString reads the content of a string up to its end.
func (t *Terminal) stepString(p []byte) []byte {
	s := &t.ps
	i := s.scan(p)
	if s.state != inString {
		s.keep(p[:i])
	}
	if i == len(p) {
		return nil
	}
	switch b := p[i]; {
	case b == esc:
		s.state, s.back = inStrEsc, s.state
	case b == bel && s.state == inOSC:
		s.state = ground
		t.oscDispatch(true)
	case b == can || b == sub:
		t.abort(b)
	}
	return p[i+1:]
}

// scan returns the length of the plain content at the start of p.
func (s *parser) scan(p []byte) int {
	if s.state == inString {
		return scanString(p)
	}
	for i, b := range p {
		if b < 0x20 {
			return i
		}
	}
	return len(p)
}

func scanString(p []byte) int {
	n := len(p)
	if i := bytes.IndexByte(p[:n], esc); i >= 0 {
		n = i
	}
	if i := bytes.IndexByte(p[:n], can); i >= 0 {
		n = i
	}
	if i := bytes.IndexByte(p[:n], sub); i >= 0 {
		n = i
	}
	return n
}

// keep stores content up to maxString; a longer string is counted as overflown
// and will be ignored whole, for half a value is worse than none.
func (s *parser) keep(p []byte) {
	room := maxString - len(s.str)
	if len(p) > room {
		s.overflow = true
		p = p[:room]
	}
	s.str = append(s.str, p...)
}

// stepStrEsc decides what an ESC in a string meant: ESC \ is ST; anything else
// ends the string too and is a sequence of its own, as in the DEC parser, so
// that a string without end can not swallow what follows for ever.
func (t *Terminal) stepStrEsc(p []byte) []byte {
	s := &t.ps
	back := s.back
	t.enterEscape()
	switch back {
	case inOSC:
		t.oscDispatch(false)
	case inDCS:
		t.dcsDispatch()
	}
	t.joinable = false
	if p[0] != '\\' {
		return p
	}
	s.state = ground
	return p[1:]
}

// Pending returns a copy of the bytes of the unfinished sequence or character
// that the parser holds, in a canonical form of bounded length (at most 64 KiB
// and a few bytes): a terminal that gets Snapshot, Pending and the rest of the
// stream ends in the same state as this one with the rest. Content that is
// swallowed anyway (images, say) is left out. It is nil between sequences.
func (t *Terminal) Pending() []byte {
	s := &t.ps
	switch s.state {
	case ground:
		return nil
	case inUTF8:
		return bytes.Clone(s.u8[:s.nu8])
	case inEscape, inEscapeInter:
		return s.appendInter([]byte{esc})
	case inCSI, inCSIIgnore:
		return s.pendingCSI()
	case inStrEsc:
		return append(s.pendingString(s.back), esc)
	}
	return s.pendingString(s.state)
}

func (s *parser) appendInter(b []byte) []byte {
	b = append(b, s.inter[:s.ninter]...)
	if s.many {
		b = append(b, ' ')
	}
	return b
}

func (s *parser) pendingCSI() []byte {
	b := []byte{esc, '['}
	if s.state == inCSIIgnore {
		return append(b, "0?"...)
	}
	if s.prefix != 0 {
		b = append(b, s.prefix)
	}
	for i := range s.p.n {
		if i > 0 {
			b = append(b, s.separatorAt(i))
		}
		if i < s.p.n-1 || s.digits || s.full {
			b = strconv.AppendInt(b, int64(s.p.v[i]), 10)
		}
	}
	if s.full {
		b = append(b, ';')
		if s.digits {
			b = append(b, '0')
		}
	}
	return s.appendInter(b)
}

func (s *parser) separatorAt(i int) byte {
	if s.p.colon&(1<<i) != 0 {
		return ':'
	}
	return ';'
}

func (s *parser) pendingString(state pstate) []byte {
	b := []byte{esc, s.intro}
	switch {
	case s.intro == 'P' && state == inString:
		// What it was does not matter: nobody looks at it. "q" opens sixel.
		return append(b, 'q')
	case s.intro == 'P':
		b = append(b, s.header...)
	}
	b = append(b, s.str...)
	if s.overflow {
		b = append(b, ' ')
	}
	return b
}

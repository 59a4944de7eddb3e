package tty

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// screen is a ledger of what is switched on in a terminal, written after the
// one of the project's test terminal and apart from the filter's own. Like
// kitty it has a keyboard stack for each screen; with global it has one.
type screen struct {
	buf     []byte
	modes   map[string]bool
	alt     bool
	global  bool
	stack   [2][]int
	flags   [2]int
	mod     map[string]bool
	keypad  bool
	style   int
	sgr     bool
	charset [4]byte
	shift   bool
	saved   struct {
		sgr, shift bool
		charset    [4]byte
	}
	region, link, progress, pointer bool
	colours                         map[string]bool
	titles                          []string
	title                           string
	forbidden                       []string // RIS and the like
	lastCSI                         string
}

func newScreen() *screen {
	return &screen{modes: map[string]bool{}, mod: map[string]bool{}, colours: map[string]bool{}, charset: [4]byte{'B', 'B', 'B', 'B'}, title: "shell"}
}

var (
	csiRE = regexp.MustCompile(`^\x1b\[([0-?]*)([ -/]*)([@-~])`)
	escRE = regexp.MustCompile(`^\x1b([ -/]*)([0-~])`)
)

func (s *screen) feed(b []byte) {
	s.buf = append(s.buf, b...)
	for len(s.buf) > 0 {
		n := s.one(s.buf)
		if n == 0 {
			return
		}
		s.buf = s.buf[n:]
	}
}

func (s *screen) one(b []byte) int {
	if b[0] != esc {
		switch b[0] {
		case so:
			s.shift = true
		case si:
			s.shift = false
		}
		return 1
	}
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '[':
		if m := csiRE.FindSubmatch(b); m != nil {
			s.csi(string(m[1]), string(m[2]), m[3][0])
			return len(m[0])
		}
		if regexp.MustCompile(`^\x1b\[[0-?]*[ -/]*$`).Match(b) {
			return 0
		}
		return 2
	case ']', 'P', '_', '^', 'X':
		for i := 2; i < len(b); i++ {
			switch {
			case b[i] == bel && b[1] == ']', b[i] == can, b[i] == sub:
				s.osc(b[1], string(b[2:i]))
				return i + 1
			case b[i] == esc && i+1 < len(b):
				s.osc(b[1], string(b[2:i]))
				return i
			}
		}
		return 0
	}
	if m := escRE.FindSubmatch(b); m != nil {
		s.esc(string(m[1]), m[2][0])
		return len(m[0])
	}
	if regexp.MustCompile(`^\x1b[ -/]*$`).Match(b) {
		return 0
	}
	return 1
}

func (s *screen) esc(inter string, final byte) {
	switch inter + string(final) {
	case "c":
		s.forbidden = append(s.forbidden, "RIS")
	case "=":
		s.keypad = true
	case ">":
		s.keypad = false
	case "7":
		s.save()
	case "8":
		s.restore()
	case "n", "o":
		s.shift = true
	}
	if inter != "" {
		if i := strings.IndexByte("()*+", inter[0]); i >= 0 {
			s.charset[i] = final
		}
	}
}

func (s *screen) save() {
	s.saved.sgr, s.saved.shift, s.saved.charset = s.sgr, s.shift, s.charset
}

func (s *screen) restore() {
	s.sgr, s.shift = s.saved.sgr, s.saved.shift
	s.charset = s.saved.charset
	if s.charset[0] == 0 {
		s.charset = [4]byte{'B', 'B', 'B', 'B'}
	}
}

func number(p string, i, def int) int {
	f := strings.Split(p, ";")
	if i >= len(f) || f[i] == "" {
		return def
	}
	n, err := strconv.Atoi(strings.Split(f[i], ":")[0])
	if err != nil {
		return def
	}
	return n
}

func (s *screen) csi(params, inter string, final byte) {
	s.lastCSI = params + inter + string(final)
	private := ""
	if params != "" && strings.Contains("<=>?", params[:1]) {
		private, params = params[:1], params[1:]
	}
	switch private + inter + string(final) {
	case "h", "l", "?h", "?l":
		for _, p := range strings.Split(params, ";") {
			s.mode(private+strings.TrimLeft(p, "0"), final == 'h')
		}
	case ">u":
		k := s.level()
		s.stack[k] = append(s.stack[k], s.flags[k])
		s.flags[k] = number(params, 0, 0)
	case "<u":
		k := s.level()
		for range min(max(number(params, 0, 1), 1), 1000) {
			n := len(s.stack[k])
			if n == 0 {
				s.flags[k] = 0
				break
			}
			s.flags[k], s.stack[k] = s.stack[k][n-1], s.stack[k][:n-1]
		}
	case "=u":
		k := s.level()
		switch number(params, 1, 1) {
		case 1:
			s.flags[k] = number(params, 0, 0)
		case 2:
			s.flags[k] |= number(params, 0, 0)
		case 3:
			s.flags[k] &^= number(params, 0, 0)
		}
	case ">m":
		s.resource("m", params)
	case ">n":
		if p := number(params, 0, 0); p < 8 {
			s.mod[fmt.Sprint("m", p)] = true
		}
	case ">f":
		s.resource("f", params)
	case " q":
		s.style = number(params, 0, 0)
	case "m":
		if params == "" || strings.Trim(params, "0;") == "" {
			s.sgr = false
		} else {
			s.sgr = true
		}
	case "r":
		s.region = params != ""
	case "u":
		s.restore()
	case "s":
		s.save()
	case "J", "?J":
		if number(params, 0, 0) == 3 {
			s.forbidden = append(s.forbidden, "CSI 3 J")
		}
	case "t":
		switch number(params, 0, 0) {
		case 22:
			s.titles = append(s.titles, s.title)
		case 23:
			if n := len(s.titles); n > 0 {
				s.title, s.titles = s.titles[n-1], s.titles[:n-1]
			}
		}
	}
}

func (s *screen) resource(kind, params string) {
	p := number(params, 0, -1)
	switch {
	case p < 0:
		for k := range s.mod {
			if strings.HasPrefix(k, kind) {
				delete(s.mod, k)
			}
		}
	case p < 8:
		f := strings.Split(params, ";")
		s.mod[fmt.Sprint(kind, p)] = len(f) > 1 && f[1] != ""
	}
}

func (s *screen) level() int {
	if s.alt && !s.global {
		return 1
	}
	return 0
}

func (s *screen) mode(m string, on bool) {
	s.modes[m] = on
	switch m {
	case "?47", "?1047", "?1049":
		if m == "?1049" && on && !s.alt {
			s.save()
		}
		s.alt = on
		if m == "?1049" && !on {
			s.restore()
		}
	case "?1048":
		if on {
			s.save()
		} else {
			s.restore()
		}
	}
}

func (s *screen) osc(kind byte, t string) {
	if kind != ']' {
		return
	}
	code, rest, _ := strings.Cut(t, ";")
	n, err := strconv.Atoi(code)
	if err != nil {
		return
	}
	switch {
	case n == 0, n == 2:
		s.title = rest
	case n == 8:
		_, uri, _ := strings.Cut(rest, ";")
		s.link = uri != ""
	case n == 9 && strings.HasPrefix(rest, "4;"):
		s.progress = !strings.HasPrefix(rest, "4;0")
	case n == 22:
		s.pointer = rest != "" && rest != "default"
	case n == 4, n == 5:
		s.colours[fmt.Sprint(n)] = true
	case n >= 10 && n <= 19:
		for i := range strings.Split(rest, ";") {
			if n+i <= 19 {
				s.colours[fmt.Sprint(n+i)] = true
			}
		}
	case n == 104, n == 105, n >= 110 && n <= 119:
		if rest == "" || n >= 110 {
			delete(s.colours, fmt.Sprint(n-100))
		}
	}
}

// leftOn lists what is not as at a shell.
func (s *screen) leftOn() string {
	bad := slices.Clone(s.forbidden)
	known := map[string]bool{}
	for _, m := range trackedModes {
		known["?"+strconv.Itoa(m.number)] = m.normal
	}
	for _, m := range trackedANSI {
		known[strconv.Itoa(m.number)] = m.normal
	}
	for _, m := range altModes {
		known["?"+strconv.Itoa(m)] = false
	}
	for _, m := range []string{"?2048", "?9001", "?38", "?40", "?3", "2"} {
		known[m] = false
	}
	for m, on := range s.modes {
		if normal, ok := known[m]; ok && on != normal && m != "?1007" {
			bad = append(bad, "mode "+m)
		}
	}
	if s.modes["?1007"] {
		bad = append(bad, "mode ?1007")
	}
	note := func(is bool, what string) {
		if is {
			bad = append(bad, what)
		}
	}
	for i := range 2 {
		note(len(s.stack[i]) > 0 || s.flags[i] != 0, fmt.Sprintf("kitty keys %v %d", s.stack, s.flags))
	}
	for k, on := range s.mod {
		note(on, "resource "+k)
	}
	note(s.alt, "alternate screen")
	note(s.keypad, "keypad")
	note(s.style != 0, "cursor style")
	note(s.sgr, "sgr")
	note(s.shift || s.charset != [4]byte{'B', 'B', 'B', 'B'}, fmt.Sprintf("charset %q %v", s.charset, s.shift))
	note(s.region, "region")
	note(s.link, "link")
	note(s.progress, "progress")
	note(s.pointer, "pointer")
	for c := range s.colours {
		bad = append(bad, "colour "+c)
	}
	note(len(s.titles) > 0, "pushed title")
	note(len(s.buf) > 0 && bytes.IndexByte(s.buf, esc) == 0, "unfinished sequence")
	slices.Sort(bad)
	return strings.Join(bad, ", ")
}

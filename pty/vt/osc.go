package vt

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on what operating system commands leave behind.
const (
	maxTitle   = 4 << 10
	maxURI     = 4 << 10
	titleDepth = 10
	// keepString is the capacity that the string buffer may keep between strings.
	keepString = 4 << 10
)

// Dynamic colours, by OSC number minus 10.
const (
	dynForeground = iota
	dynBackground
	dynCursor
	numDynamic
)

// oscState is what operating system commands set.
type oscState struct {
	title, icon           string
	titleStack, iconStack []string
	cwd                   string
	agent                 AgentState
	progState, progValue  uint8
	palette               map[uint8]Color
	dynamic               [numDynamic]Color
}

// oscDispatch does the OSC string that is complete. ended by BEL tells how to
// end an answer.
func (t *Terminal) oscDispatch(byBEL bool) {
	s := &t.ps
	t.joinable = false
	if !s.overflow {
		t.oscCommand(string(s.str), byBEL)
	}
	if cap(s.str) > keepString {
		s.str = nil
	}
}

func (t *Terminal) oscCommand(body string, byBEL bool) {
	num, arg, _ := strings.Cut(body, ";")
	n, err := strconv.ParseUint(num, 10, 16)
	if err != nil {
		return
	}
	switch n {
	case 0:
		t.setIcon(cleanText(arg, maxTitle))
		t.setTitle(cleanText(arg, maxTitle))
	case 1:
		t.setIcon(cleanText(arg, maxTitle))
	case 2:
		t.setTitle(cleanText(arg, maxTitle))
	case 4:
		t.oscPalette(arg, byBEL)
	case 7:
		t.osc.cwd = cleanText(arg, maxTitle)
		t.emit(Event{Kind: EventCwd, Text: t.osc.cwd})
	case 8:
		t.oscLink(arg)
	case 9:
		t.osc9(arg)
	case 10, 11, 12:
		t.oscDynamic(int(n)-10, arg, byBEL)
	case 52:
		t.oscClipboard(arg)
	case 99:
		t.osc99(arg)
	case 104:
		t.oscResetPalette(arg)
	case 110, 111, 112:
		t.osc.dynamic[n-110] = 0
	case 133:
		t.oscPrompt(arg)
	case 777:
		t.osc777(arg)
	case 7501:
		t.oscAgent(arg)
	}
}

// cleanText makes s valid UTF-8 without control and direction characters (a
// title is shown by others), at most limit bytes.
func cleanText(s string, limit int) string {
	if isClean(s) && len(s) <= limit {
		return s
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	s = strings.Map(func(r rune) rune {
		if badRune(r) {
			return -1
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

func isClean(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= del {
			return false
		}
	}
	return true
}

func badRune(r rune) bool {
	return unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func (t *Terminal) setTitle(s string) {
	t.osc.title = s
	t.emit(Event{Kind: EventTitle, Text: s})
}

func (t *Terminal) setIcon(s string) {
	t.osc.icon = s
	t.emit(Event{Kind: EventIcon, Text: s})
}

// pushTitle is XTWINOPS 22; which is 0 both, 1 icon, 2 title.
func (o *oscState) pushTitle(which int) {
	if which != 2 {
		o.iconStack = pushBounded(o.iconStack, o.icon)
	}
	if which != 1 {
		o.titleStack = pushBounded(o.titleStack, o.title)
	}
}

func pushBounded(s []string, v string) []string {
	if len(s) == titleDepth {
		s = s[:copy(s, s[1:])]
	}
	return append(s, v)
}

func (t *Terminal) popTitle(which int) {
	o := &t.osc
	if n := len(o.iconStack); which != 2 && n > 0 {
		v := o.iconStack[n-1]
		o.iconStack = o.iconStack[:n-1]
		t.setIcon(v)
	}
	if n := len(o.titleStack); which != 1 && n > 0 {
		v := o.titleStack[n-1]
		o.titleStack = o.titleStack[:n-1]
		t.setTitle(v)
	}
}

// oscLink is OSC 8 ; params ; URI (the hyperlink note by Egmont Koblinger). The
// URI may hold semicolons.
func (t *Terminal) oscLink(arg string) {
	par, uri, ok := strings.Cut(arg, ";")
	if !ok {
		return
	}
	t.penDirty = true
	t.pen.link = 0
	if uri == "" || len(uri) > maxURI || len(par) > maxURI || !utf8.ValidString(uri) {
		return
	}
	var l link
	l.uri = cleanText(uri, maxURI)
	for _, kv := range strings.Split(par, ":") {
		if id, ok := strings.CutPrefix(kv, "id="); ok {
			l.id = cleanText(id, maxURI)
		}
	}
	t.pen.link = t.tab.linkID(l)
	if t.tab.full() {
		t.syncPen()
		t.collect()
	}
}

// oscPalette is OSC 4 ; index ; colour|? ...
func (t *Terminal) oscPalette(arg string, byBEL bool) {
	f := strings.Split(arg, ";")
	for ; len(f) >= 2; f = f[2:] {
		i, err := strconv.ParseUint(f[0], 10, 8)
		if err != nil {
			continue
		}
		if f[1] == "?" {
			t.replyColor("4;"+f[0], t.paletteColor(uint8(i)), byBEL)
			continue
		}
		c, ok := parseColor(f[1])
		if !ok {
			continue
		}
		if t.osc.palette == nil {
			t.osc.palette = make(map[uint8]Color)
		}
		t.osc.palette[uint8(i)] = c
	}
}

func (t *Terminal) oscResetPalette(arg string) {
	if arg == "" {
		t.osc.palette = nil
		return
	}
	for _, f := range strings.Split(arg, ";") {
		if i, err := strconv.ParseUint(f, 10, 8); err == nil {
			delete(t.osc.palette, uint8(i))
		}
	}
}

// oscDynamic is OSC 10, 11, 12; further fields are for the next numbers (xterm).
func (t *Terminal) oscDynamic(i int, arg string, byBEL bool) {
	for _, f := range strings.Split(arg, ";") {
		if i >= numDynamic {
			return
		}
		if f == "?" {
			t.replyColor(strconv.Itoa(10+i), t.dynamicColor(i), byBEL)
		} else if c, ok := parseColor(f); ok {
			t.osc.dynamic[i] = c
		}
		i++
	}
}

// parseColor reads the forms of XParseColor that programs use: rgb:r/g/b with 1
// to 4 digits each, #rgb, #rrggbb, #rrrgggbbb, #rrrrggggbbbb.
func parseColor(s string) (Color, bool) {
	if rest, ok := strings.CutPrefix(s, "rgb:"); ok {
		f := strings.Split(rest, "/")
		if len(f) != 3 {
			return 0, false
		}
		return hexColor(f[0], f[1], f[2], false)
	}
	rest, ok := strings.CutPrefix(s, "#")
	if n := len(rest) / 3; ok && n >= 1 && n <= 4 && len(rest) == 3*n {
		return hexColor(rest[:n], rest[n:2*n], rest[2*n:], true)
	}
	return 0, false
}

func hexColor(r, g, b string, shift bool) (Color, bool) {
	var v [3]uint8
	for i, s := range [3]string{r, g, b} {
		n, err := strconv.ParseUint(s, 16, 16)
		if err != nil || len(s) == 0 || len(s) > 4 {
			return 0, false
		}
		if shift { // the # forms give the most significant bits
			v[i] = uint8(n << (16 - 4*len(s)) >> 8)
			continue
		}
		v[i] = uint8(n * 255 / (1<<(4*len(s)) - 1))
	}
	return RGB(v[0], v[1], v[2]), true
}

// osc9 is iTerm2's notification, or ConEmu's progress (9;4;state;percent).
func (t *Terminal) osc9(arg string) {
	rest, ok := strings.CutPrefix(arg, "4;")
	if !ok && arg != "4" {
		t.emit(Event{Kind: EventNotification, Code: 9, Text: cleanText(arg, maxString)})
		return
	}
	f := strings.Split(rest, ";")
	state, err := strconv.ParseUint(f[0], 10, 8)
	if err != nil || state > 4 {
		return
	}
	value := uint64(0)
	if len(f) > 1 {
		value, _ = strconv.ParseUint(f[1], 10, 8)
	}
	t.osc.progState, t.osc.progValue = uint8(state), uint8(min(value, 100))
	t.emit(Event{Kind: EventProgress, Code: int(state), Value: int(t.osc.progValue)})
}

// osc777 is rxvt's OSC 777 ; notify ; title ; body.
func (t *Terminal) osc777(arg string) {
	f := strings.SplitN(arg, ";", 3)
	if f[0] != "notify" || len(f) < 2 {
		return
	}
	e := Event{Kind: EventNotification, Code: 777, Name: cleanText(f[1], maxTitle)}
	if len(f) == 3 {
		e.Text = cleanText(f[2], maxString)
	}
	t.emit(e)
}

// osc99 is kitty's desktop notification; parts are told one by one.
func (t *Terminal) osc99(arg string) {
	meta, payload, ok := strings.Cut(arg, ";")
	if !ok {
		return
	}
	body, encoded := false, false
	for _, kv := range strings.Split(meta, ":") {
		switch kv {
		case "p=body":
			body = true
		case "p=?", "p=close", "p=alive", "p=icon", "p=buttons":
			return
		case "e=1":
			encoded = true
		}
	}
	if encoded {
		payload = decodeBase64(payload)
	}
	e := Event{Kind: EventNotification, Code: 99}
	if body {
		e.Text = cleanText(payload, maxString)
	} else {
		e.Name = cleanText(payload, maxTitle)
	}
	t.emit(e)
}

func decodeBase64(s string) string {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		b, err = base64.RawStdEncoding.DecodeString(s)
	}
	if err != nil {
		return ""
	}
	return string(b)
}

// oscClipboard is OSC 52. A question is not ours to answer: the clipboard is
// the user's.
func (t *Terminal) oscClipboard(arg string) {
	sel, data, ok := strings.Cut(arg, ";")
	if !ok || data == "?" {
		return
	}
	t.emit(Event{Kind: EventClipboard, Name: cleanText(sel, 16), Text: cleanText(data, maxString)})
}

// oscPrompt is FinalTerm's OSC 133 ; mark [; ...].
func (t *Terminal) oscPrompt(arg string) {
	mark, rest, _ := strings.Cut(arg, ";")
	e := Event{Kind: EventPrompt, Name: cleanText(mark, 16), Text: cleanText(rest, maxTitle), Value: -1}
	if mark == "D" {
		code, _, _ := strings.Cut(rest, ";")
		if n, err := strconv.ParseInt(code, 10, 32); err == nil {
			e.Value = int(n)
		}
	}
	t.emit(e)
}

// oscAgent is OSC 7501 ; key=value : ... ; msg is base64. The question ? is
// answered by itself and means: tell me your state.
func (t *Terminal) oscAgent(arg string) {
	if arg == "?" {
		t.reply("\x1b]7501;?\a")
		return
	}
	var a AgentState
	for _, kv := range strings.Split(arg, ":") {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "state":
			a.State = cleanText(v, 64)
		case "app":
			a.App = cleanText(v, 64)
		case "kind":
			a.Kind = cleanText(v, 64)
		case "msg":
			a.Msg = cleanText(decodeBase64(v), maxTitle)
		}
	}
	switch a.State {
	case "":
		return
	case "clear":
		a = AgentState{}
	}
	t.osc.agent = a
	t.emit(Event{Kind: EventAgent, Agent: a})
}

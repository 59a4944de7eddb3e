package main

import (
	"fmt"
	"strconv"
	"strings"

	"agentmux/pty/vt"
)

// The normalised state of the harness (vtdiff/goadapter/state.go); its member
// names and the words of a style are that format's.

type row struct {
	Text    string     `json:"text"`
	Wide    []int      `json:"wide,omitempty"`
	Runs    []styleRun `json:"runs,omitempty"`
	Wrapped bool       `json:"wrapped"`
}

// styleRun is the columns x0 to x1, exclusive, in one style.
type styleRun struct {
	X0 int    `json:"x0"`
	X1 int    `json:"x1"`
	S  string `json:"s"`
}

type cursor struct {
	X           int    `json:"x"`
	Y           int    `json:"y"`
	PendingWrap bool   `json:"pendingWrap"`
	Visible     bool   `json:"visible"`
	Shape       string `json:"shape"`
	Blink       bool   `json:"blink"`
}

type state struct {
	Impl       string         `json:"impl"`
	Cols       int            `json:"cols"`
	Rows       int            `json:"rows"`
	Cursor     cursor         `json:"cursor"`
	Alt        bool           `json:"alt"`
	Title      string         `json:"title"`
	Modes      map[string]any `json:"modes"`
	Region     [2]int         `json:"region"`
	Tabs       []int          `json:"tabs"`
	Screen     []row          `json:"screen"`
	History    []row          `json:"history,omitempty"`
	HistoryLen int            `json:"historyLen"`
	Replies    string         `json:"replies"`
}

// subject is the terminal under test with what it has answered.
type subject struct {
	t       *vt.Terminal
	replies []byte
}

// scrollback is that of the oracles, in lines.
const scrollback = 1000

func newSubject(cols, rows int) *subject {
	s := &subject{}
	s.t = vt.New(cols, rows, vt.Options{
		HistoryLines: scrollback, HistoryBytes: 16 << 20,
		Reply: func(p []byte) { s.replies = append(s.replies, p...) },
	})
	return s
}

// again is a second terminal that was given this one's keyframe.
func (s *subject) again() *subject {
	u := newSubject(s.t.Size())
	u.t.Restore(s.t.Snapshot(vt.SnapshotOptions{History: scrollback, Keyframe: true}))
	u.replies = s.replies
	return u
}

func (s *subject) state() state {
	t := s.t
	c, m := t.Cursor(), t.Modes()
	out := state{
		Impl:  "agentmux",
		Alt:   t.AltScreen(),
		Title: t.Title(),
		Cursor: cursor{
			X: c.X, Y: c.Y, PendingWrap: c.PendingWrap, Visible: c.Visible, Blink: c.Blink,
			Shape: [...]string{vt.CursorBlock: "block", vt.CursorUnderline: "underline", vt.CursorBar: "bar"}[c.Shape],
		},
		Modes: map[string]any{
			"bracketedPaste": m.BracketedPaste, "appCursor": m.AppCursor, "appKeypad": m.AppKeypad, "origin": m.Origin, "wrap": m.Autowrap,
			"insert": m.Insert, "focus": m.Focus, "sync": m.Sync, "reverseWrap": m.ReverseWrap,
			"mouse":         map[int]string{0: "none", 9: "x10", 1000: "vt200", 1002: "drag", 1003: "any"}[m.Mouse],
			"mouseEncoding": map[int]string{0: "default", 1005: "utf8", 1006: "sgr", 1015: "urxvt", 1016: "sgr-pixels"}[m.MouseEncoding],
		},
		Tabs:    t.TabStops(),
		Replies: latin1(s.replies),
	}
	out.Cols, out.Rows = t.Size()
	out.Region[0], out.Region[1] = t.Region()
	out.Screen = rows(t.Lines())
	out.History = rows(t.History(scrollback))
	out.HistoryLen = len(out.History)
	return out
}

func rows(lines []vt.Line) []row {
	out := make([]row, 0, len(lines))
	for _, l := range lines {
		out = append(out, makeRow(l))
	}
	return out
}

// makeRow writes a line down without the blanks of the default style at its
// end.
func makeRow(l vt.Line) row {
	r := row{Wrapped: l.Wrapped}
	var text strings.Builder
	x, kept := 0, 0 // kept: the length of text up to the last cell that is not blank
	for c := range l.Cells() {
		text.WriteString(strings.Repeat(" ", c.X-x))
		x = c.X + c.Width
		text.WriteString(max(c.Text, " "))
		s := style(c)
		if s != "" || strings.Trim(c.Text, " ") != "" {
			kept = text.Len()
		}
		if c.Width == 2 {
			r.Wide = append(r.Wide, c.X)
		}
		if s == "" {
			continue
		}
		if n := len(r.Runs); n > 0 && r.Runs[n-1].X1 == c.X && r.Runs[n-1].S == s {
			r.Runs[n-1].X1 = x
		} else {
			r.Runs = append(r.Runs, styleRun{c.X, x, s})
		}
	}
	r.Text = text.String()[:kept]
	return r
}

// style is a cell's style in the harness's words and order.
func style(c vt.Cell) string {
	var words []string
	add := func(is bool, word string) {
		if is {
			words = append(words, word)
		}
	}
	z := c.Style
	has := func(a vt.Attr) bool { return z.Attrs&a != 0 }
	add(!z.FG.IsDefault(), "fg="+color(z.FG))
	add(!z.BG.IsDefault(), "bg="+color(z.BG))
	add(has(vt.Bold), "bold")
	add(has(vt.Dim), "dim")
	add(has(vt.Italic), "italic")
	if z.Underline != vt.UnderlineNone {
		words = append(words, "ul="+[...]string{"", "single", "double", "curly", "dotted", "dashed"}[z.Underline])
		add(!z.UnderlineColor.IsDefault(), "uc="+color(z.UnderlineColor))
	}
	add(has(vt.Blink), "blink")
	add(has(vt.Inverse), "inverse")
	add(has(vt.Hidden), "hidden")
	add(has(vt.Strike), "strike")
	add(has(vt.Overline), "overline")
	add(c.Link != "", "link="+c.Link)
	return strings.Join(words, " ")
}

func color(c vt.Color) string {
	if i, ok := c.Palette(); ok {
		return strconv.Itoa(int(i))
	}
	r, g, b, _ := c.RGB()
	return fmt.Sprintf("#%02x%02x%02x", r, g, b)
}

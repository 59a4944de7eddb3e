package client

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"agentmux/logstore"
	"agentmux/pty/tty"
	"agentmux/pty/vt"
	"agentmux/session"
	"agentmux/session/wire"
)

// viewer is a view with the terminal that it is drawn into.
type viewer struct {
	*view
	filter *tty.Filter
	user   *vt.Terminal
	events []vt.Event
	log    logstore.Position
}

// newViewer shows a session that has printed a text in a terminal.
func newViewer(cols, rows, userCols, userRows int, passive bool, printed string) *viewer {
	s := vt.New(cols, rows, vt.Options{})
	s.Write([]byte(printed))
	at := wire.Sync{
		Snapshot: s.Snapshot(vt.SnapshotOptions{}), Pending: s.Pending(), Position: 1000,
		Size: session.Size{Cols: cols, Rows: rows},
	}
	v := &viewer{view: newView(at, userCols, userRows, passive), filter: tty.NewFilter(), log: 1000}
	v.user = vt.New(userCols, userRows, vt.Options{
		HistoryLines: 100, HistoryBytes: 1 << 20,
		Event: func(e vt.Event) { v.events = append(v.events, e) },
	})
	return v
}

// print lets the program print a text that was not printed before.
func (v *viewer) print(text string) {
	v.output(logstore.Frame{Pos: v.log, Payload: []byte(text)})
	v.log += logstore.Position(len(text))
}

// draw draws until nothing is left to do and returns how many bytes it took.
func (v *viewer) draw() int {
	n := v.drawFrame()
	if v.drifting() {
		n += v.drawFrame()
	}
	return n
}

func (v *viewer) drawFrame() int {
	out := v.filter.Filter(nil, v.frame(nil))
	v.user.Write(out)
	return len(out)
}

// resizeBoth is what happens when the user's window changes.
func (v *viewer) resizeBoth(cols, rows int) {
	v.user.Resize(cols, rows)
	v.resize(cols, rows)
}

// grid is what cells show: one for each column, "" for the second half of a
// wide one.
func grid(line vt.Line, cols int) []vt.Cell {
	out := make([]vt.Cell, cols)
	for i := range out {
		out[i] = vt.Cell{X: i, Width: 1, Text: " "}
	}
	for c := range line.Cells() {
		c.Style.Attrs &^= vt.Protected
		if c.Text == "" {
			c.Text = " "
		}
		out[c.X] = c
		if c.Width == 2 && c.X+1 < cols {
			out[c.X+1] = vt.Cell{X: c.X + 1}
		}
	}
	return out
}

// want is what a row of the terminal has to be, from the session's row.
func (v *viewer) want(y int) []vt.Cell {
	cols, rows := v.screen.Size()
	out := grid(vt.Line{}, v.cols)
	put := func(x int, text string) { out[x] = vt.Cell{X: x, Width: 1, Text: text, Style: vt.Style{Attrs: vt.Dim}} }
	switch at := v.y + y; {
	case at < rows:
		source := grid(v.screen.Lines()[at], cols)
		for x := 0; x < min(v.cols, cols-v.x); x++ {
			c := source[v.x+x]
			half := c.Width == 0 && x == 0 || c.Width == 2 && x+1 == min(v.cols, cols-v.x)
			if half && c.Width == 0 {
				c = source[v.x-1]
			}
			if half {
				c.Text, c.Width = " ", 1
			}
			c.X = x
			out[x] = c
		}
		if v.cols > cols {
			put(cols, "│")
		}
	case at == rows:
		for x := range min(cols, v.cols) {
			put(x, "─")
		}
		if v.cols > cols {
			put(cols, "┘")
		}
	}
	return out
}

// check compares the terminal with the session.
func (v *viewer) check() error {
	if !v.user.AltScreen() || v.user.Modes().Sync || v.user.HistoryLines() != 0 {
		return fmt.Errorf("alternate screen %v, update open %v, history %d", v.user.AltScreen(), v.user.Modes().Sync, v.user.HistoryLines())
	}
	lines := v.user.Lines()
	for y := range v.rows {
		got, want := grid(lines[y], v.cols), v.want(y)
		for x := range got {
			if got[x] != want[x] {
				return fmt.Errorf("row %d column %d is %+v, want %+v (view from %d,%d)", y, x, got[x], want[x], v.x, v.y)
			}
		}
	}
	return v.checkCursor()
}

func (v *viewer) checkCursor() error {
	got, want := v.user.Cursor(), v.screen.Cursor()
	if got.Visible != want.Visible { // a visible cursor is always in sight
		return fmt.Errorf("cursor visible %v, want %v", got.Visible, want.Visible)
	}
	want.X, want.Y, want.PendingWrap = want.X-v.x, want.Y-v.y, false
	if want.Visible && got != want {
		return fmt.Errorf("cursor %+v, want %+v", got, want)
	}
	return nil
}

func (v *viewer) must(t *testing.T) {
	t.Helper()
	if err := v.check(); err != nil {
		t.Fatal(err)
	}
}

func (v *viewer) rowText(y int) string { return strings.TrimRight(v.user.Lines()[y].Text(), " ") }

func TestViewLetterboxed(t *testing.T) {
	v := newViewer(20, 5, 30, 10, false, "\x1b[1;31mred\x1b[m plain\r\n中文\x1b[4:3;58:2:1:2:3mcurly\x1b[m")
	v.draw()
	v.must(t)
	for y, want := range []string{"red plain           │", "中文curly           │", 5: "────────────────────┘", 6: ""} {
		if got := v.rowText(y); want != "" && got != want || y == 6 && got != "" {
			t.Errorf("row %d is %q, want %q", y, got, want)
		}
	}
}

func TestViewWithoutRoomForAnEdge(t *testing.T) {
	v := newViewer(20, 8, 20, 9, false, "text")
	v.draw()
	v.must(t)
	if got := v.rowText(8); got != strings.Repeat("─", 20) {
		t.Errorf("row below is %q", got)
	}
}

func TestViewFollowsTheCursor(t *testing.T) {
	v := newViewer(80, 24, 20, 5, false, "")
	for _, c := range []struct {
		print      string
		x, y       int // of the corner
		cursX, cuY int
	}{
		{"\x1b[1;1H", 0, 0, 0, 0},
		{"\x1b[5;20H", 0, 0, 19, 4},
		{"\x1b[6;21H", 1, 1, 19, 4},
		{"\x1b[3;10H", 1, 1, 8, 1},
		{"\x1b[24;80H", 60, 19, 19, 4},
		{"\x1b[21;1H", 0, 19, 0, 1},
	} {
		v.print(c.print)
		v.draw()
		v.must(t)
		if got := v.user.Cursor(); v.x != c.x || v.y != c.y || got.X != c.cursX || got.Y != c.cuY {
			t.Errorf("%q: corner %d,%d cursor %d,%d, want %+v", c.print, v.x, v.y, got.X, got.Y, c)
		}
	}
}

// A cursor that is on its way is not followed, unless that takes long.
func TestViewMovesWhenTheCursorRests(t *testing.T) {
	v := newViewer(80, 24, 20, 5, false, "")
	v.draw()
	for i := range driftFrames {
		v.print("\x1b[24;80Hx")
		v.drawFrame()
		if moved := v.y > 0; moved != (i == driftFrames-1) || v.drifting() == moved {
			t.Fatalf("frame %d: corner %d,%d drifting %v", i, v.x, v.y, v.drifting())
		}
	}
	v.must(t)
	v.print("\x1b[H")
	v.drawFrame()
	v.print("\x1b[24;80H")
	v.drawFrame()
	if v.y != 19 || v.drifting() {
		t.Errorf("corner %d,%d drifting %v", v.x, v.y, v.drifting())
	}
	v.must(t)
}

// A hidden cursor is followed down the main screen, where output ends, and
// nowhere on the alternate one.
func TestViewHiddenCursor(t *testing.T) {
	v := newViewer(80, 24, 20, 5, false, "\x1b[?25l\x1b[24;80H")
	v.draw()
	v.must(t)
	if v.x != 0 || v.y != 19 {
		t.Errorf("corner %d,%d on the main screen", v.x, v.y)
	}
	v = newViewer(80, 24, 20, 5, false, "\x1b[?1049h\x1b[?25l\x1b[24;80H")
	v.draw()
	v.must(t)
	if v.x != 0 || v.y != 0 {
		t.Errorf("corner %d,%d on the alternate screen", v.x, v.y)
	}
}

func TestViewCutsWideCharacters(t *testing.T) {
	v := newViewer(40, 5, 20, 5, false, "\x1b[44m"+strings.Repeat("中", 20)+"\x1b[1;22H")
	v.draw()
	v.must(t)
	if v.x != 2 {
		t.Fatalf("corner %d", v.x)
	}
	v.print("\x1b[1;23H")
	v.draw()
	v.must(t)
	if got := v.user.Lines()[0].Text(); v.x != 3 || got != " "+strings.Repeat("中", 9)+" " {
		t.Errorf("from %d: %q", v.x, got)
	}
}

func TestViewLinks(t *testing.T) {
	v := newViewer(40, 5, 12, 5, false, "a \x1b]8;id=1;https://example.org/a;b\x1b\\link text that is cut\x1b]8;;\x1b\\ z\r\nno link")
	v.draw()
	v.must(t)
	found := false
	for c := range v.user.Lines()[0].Cells() {
		found = found || c.Link == "https://example.org/a;b"
	}
	if !found {
		t.Error("no link")
	}
}

func TestViewUnchangedCostsNothing(t *testing.T) {
	v := newViewer(80, 24, 60, 30, false, "\x1b[?2004h\x1b]2;title\a\x1b[31msome text")
	v.draw()
	for _, same := range []string{"", "\x1b7\x1b[H\x1b8", "\x1b[m", "\x1b[?2004h", "\x1b]2;title\a", "\x1b]133;A\a", "\x1b[H\x1b[31msome text"} {
		v.print(same)
		if n := v.draw(); n != 0 {
			t.Errorf("%q costs %d bytes", same, n)
		}
	}
	v.print("!")
	if n := v.draw(); n == 0 || n > 120 {
		t.Errorf("a character costs %d bytes", n)
	}
	v.must(t)
}

func TestViewDrawsOnlyRowsThatChanged(t *testing.T) {
	v := newViewer(80, 24, 60, 30, false, strings.Repeat("text\r\n", 20))
	v.draw()
	v.print("\x1b[3;1Hother\x1b[5;1H")
	out := string(v.frame(nil))
	if !strings.Contains(out, "other") || strings.Contains(out, "text") {
		t.Errorf("drawn: %q", out)
	}
	if !strings.HasPrefix(out, "\x1b[?2026h") || !strings.HasSuffix(out, "\x1b[?2026l") || strings.Count(out, "\x1b[?2026") != 2 {
		t.Errorf("not one update: %q", out)
	}
}

const inputModes = "\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h\x1b[?1004h\x1b[?2004h\x1b[>5u\x1b[>4;2m"

func TestViewModes(t *testing.T) {
	v := newViewer(80, 24, 100, 30, false, inputModes)
	v.draw()
	if got, want := v.user.Modes(), v.screen.Modes(); func() bool { got.Autowrap = want.Autowrap; return got != want }() {
		t.Errorf("modes %+v, want %+v", got, want)
	}
	v.print("\x1b[?1003h\x1b[?1;1004;2004l\x1b>\x1b[<u\x1b[>4m")
	v.draw()
	got := v.user.Modes()
	if got.Mouse != 1003 || got.AppCursor || got.AppKeypad || got.Focus || got.BracketedPaste || got.KeyboardFlags != 0 || got.ModifyOtherKeys != 0 {
		t.Errorf("modes %+v", got)
	}
	v.user.Write(v.filter.Leave())
	fresh := vt.New(100, 30, vt.Options{})
	if got, want := v.user.Modes(), fresh.Modes(); got != want {
		t.Errorf("left with %+v", got)
	}
	if v.user.AltScreen() {
		t.Error("left on the alternate screen")
	}
}

func TestViewReadOnlyHasNoInputModes(t *testing.T) {
	v := newViewer(80, 24, 100, 30, true, inputModes+"\x1b[?5h")
	v.draw()
	got := v.user.Modes()
	want := vt.New(1, 1, vt.Options{}).Modes()
	want.ReverseVideo, want.Autowrap = true, false
	if got != want {
		t.Errorf("modes %+v", got)
	}
}

// The reports of an old encoding look like keys.
func TestViewOldMouseIsLeftOff(t *testing.T) {
	v := newViewer(80, 24, 100, 30, false, "\x1b[?1000h")
	v.draw()
	if got := v.user.Modes().Mouse; got != 0 {
		t.Errorf("mouse %d", got)
	}
}

func TestViewLeavesTheUsersScreenAlone(t *testing.T) {
	v := newViewer(80, 24, 40, 10, false, "session")
	v.user.Write([]byte("$ make\r\nall good\r\n$ "))
	before := v.user.Snapshot(vt.SnapshotOptions{})
	v.user.Write(v.filter.Filter(nil, nil))
	v.draw()
	for i := range 100 {
		v.print(fmt.Sprintf("line %d\r\n", i))
		v.draw()
	}
	v.must(t)
	v.user.Write(v.filter.Leave())
	after := v.user.Snapshot(vt.SnapshotOptions{})
	if v.user.HistoryLines() != 0 || v.user.Lines()[1].Text() != "all good" || v.user.Cursor().Y != 2 {
		t.Errorf("left behind %q, was %q", after, before)
	}
}

func TestViewTitle(t *testing.T) {
	v := newViewer(80, 24, 100, 30, true, "\x1b]0;first\a")
	v.draw()
	if got := v.user.Title(); got != "first" {
		t.Errorf("title %q", got)
	}
	v.print("\x1b]2;second\a")
	v.draw()
	if v.user.Title() != "second" || v.user.IconTitle() != "first" {
		t.Errorf("titles %q %q", v.user.Title(), v.user.IconTitle())
	}
}

// What happens beside the screen happens once, live, and in order; what was
// before is only colours.
func TestViewBeside(t *testing.T) {
	const events = "\a\x1b]9;note\a\x1b]52;c;aGk=\x1b\\\x1b]777;notify;a;b\a\x1b]9;4;1;50\a"
	v := newViewer(80, 24, 100, 30, false, events+"\x1b]4;3;rgb:12/34/56\a")
	if v.draw(); len(v.events) > 0 {
		for _, e := range v.events {
			if e.Kind != vt.EventMode && e.Kind != vt.EventTitle && e.Kind != vt.EventIcon {
				t.Errorf("told again: %+v", e)
			}
		}
	}
	v.events = nil
	v.live = v.log + logstore.Position(len(events))
	v.print(events) // before it was live
	v.draw()
	if len(v.events) > 0 {
		t.Errorf("told again: %+v", v.events)
	}
	for i := range len(events) { // cut anywhere
		v.events = nil
		v.print(events[:i])
		v.print(events[i:])
		v.draw()
		var kinds []string
		for _, e := range v.events {
			kinds = append(kinds, fmt.Sprint(e.Kind))
		}
		want := fmt.Sprint([]vt.EventKind{vt.EventNotification, vt.EventClipboard, vt.EventNotification, vt.EventProgress, vt.EventBell})
		if got := "[" + strings.Join(kinds, " ") + "]"; got != want {
			t.Fatalf("cut at %d: events %v, want %v", i, got, want)
		}
	}
}

func TestBesidePassesNothingElse(t *testing.T) {
	for _, s := range []string{
		"\x1b]0;title\a", "\x1b]8;;http://a\a", "\x1b]7;file://h/\a", "\x1b]133;A\a", "\x1b]1337;File=:aGk=\a", "\x1b]7501;state=idle\a",
		"\x1bP$qm\x1b\\", "\x1b_Ga=q\x1b\\", "\x1b]4;1;red\x18", "\x1b]52;c;a\nb\a", "\x1b]52;c;aGk=", "\x1bPa\a\x1b\\",
		"\x1b]52;c;" + strings.Repeat("a", maxAside+1) + "\a",
	} {
		var b beside
		b.write([]byte(s), true)
		if got := b.take(nil); len(got) > 0 {
			t.Errorf("%.40q passes %.40q", s, got)
		}
	}
}

func TestPaneMouse(t *testing.T) {
	p := &pane{cols: 80, rows: 24}
	for _, c := range []struct {
		p        *pane
		in, want string
	}{
		{nil, "\x1b[<0;200;200M", "\x1b[<0;200;200M"},
		{p, "\x1b[<0;80;24M", "\x1b[<0;80;24M"},
		{p, "\x1b[<0;81;24M", ""},
		{p, "\x1b[<0;80;25M", ""},
		{p, "\x1b[<0;90;30m", "\x1b[<0;80;24m"},
		{&pane{cols: 80, rows: 24, shifted: true}, "\x1b[<0;1;1M", ""},
		{&pane{cols: 80, rows: 24, pixels: true}, "\x1b[<0;700;400M", "\x1b[<0;700;400M"},
	} {
		if got := string(c.p.mouse([]byte(c.in))); got != c.want {
			t.Errorf("%+v: %q becomes %q, want %q", c.p, c.in, got, c.want)
		}
	}
}

// pieces are what random programs print.
var pieces = []string{
	"a", "hello ", "\r", "\n", "\r\n", "\b", "\t", "中", "文字", "e\u0301", "\u0301", "👩\u200d👧", "👧", "🇩🇪", "🇩", "👍🏽", "❤\ufe0f", "\u1112\u1161\u11ab", "─│", "\u200b",
	"\x1b7", "\x1b8", "\x1bD", "\x1bM", "\x1b#8", "\x1b(0", "\x1b(B", "\x1bc", "\x1b[!p", "\x1b]2;ti;tle\a", "\x1b]0;both\x1b\\", "\x1b]8;;http://a/;b\x1b\\", "\x1b]8;;\x1b\\",
	"\x1b]4;3;rgb:12/34/56\a", "\x1b]9;hi\a", "\a", "\x1bPq~~~\x1b\\", "\x1b[22;0t", "\x1b[23;0t", "\x1b[1\"q", "\x1b[3 q", "\x1b[6 q", "\x1b[0 q", "\x1b[>5u", "\x1b[<u", "\x1b[>4;2m",
	"\x1b[?25l", "\x1b[?25h", "\x1b[?1049h", "\x1b[?1049l", "\x1b[?2004h", "\x1b[?7l", "\x1b[?7h", "\x1b[?6h", "\x1b[?6l", "\x1b[?5h", "\x1b[?5l", "\x1b[?1000h", "\x1b[?1003l", "\x1b[?1006h", "\x1b[4h", "\x1b[4l", "\x1b[?2026h", "\x1b[?2026l", "\x1b[?1007h",
	"\x1b[m", "\x1b[1;31m", "\x1b[2;4:3;58:5:9m", "\x1b[7;9;53m", "\x1b[48;2;1;2;3m", "\x1b[38;5;200m", "\x1b[104m", "\x1b[3m", "\x1b[5;8m", "\x1b[21m", "\x1b[2J", "\x1b[K", "\x1b[1K", "\xff", "\xe4\xb8", "\x18", "\x1b[3\x1a",
}

func randomOutput(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		switch r.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "\x1b[%d;%d%c", 1+r.IntN(14), 1+r.IntN(40), "Hfr"[r.IntN(3)])
		case 1:
			fmt.Fprintf(&b, "\x1b[%d%c", r.IntN(9), "@ABCDGLMPSTXd"[r.IntN(13)])
		case 2:
			b.WriteString(strings.Repeat("w", r.IntN(50)))
		default:
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
	}
	return b.String()
}

// Whatever a program prints, and however the sizes change: the terminal shows
// exactly the part of the session, and a second frame is empty.
func TestViewRandom(t *testing.T) {
	n := 1500
	if testing.Short() {
		n = 150
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		size := func() (int, int) { return 1 + r.IntN(45), 1 + r.IntN(14) }
		cols, rows := size()
		userCols, userRows := size()
		v := newViewer(cols, rows, userCols, userRows, r.IntN(4) == 0, randomOutput(r, 20))
		for step := range 12 {
			switch r.IntN(8) {
			case 0:
				v.resizeBoth(size())
			case 1:
				v.screen.Resize(size())
			default:
				v.print(randomOutput(r, 1+r.IntN(8)))
			}
			v.draw()
			if err := v.check(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			if left := v.draw(); left != 0 {
				t.Fatalf("seed %d step %d: the second frame has %d bytes", seed, step, left)
			}
		}
		v.user.Write(v.filter.Leave())
		if got, want := v.user.Modes(), vt.New(1, 1, vt.Options{}).Modes(); got != want || v.user.AltScreen() {
			t.Fatalf("seed %d: left with %+v", seed, got)
		}
	}
}

// Going back, a terminal of the session's size is brought to the session's
// state.
func TestViewSync(t *testing.T) {
	for seed := range 200 {
		r := rand.New(rand.NewPCG(uint64(seed), 8))
		v := newViewer(40, 10, 30, 20, false, randomOutput(r, 30))
		v.print(randomOutput(r, 30) + "\x1b[3")
		at := v.sync(77)
		back := vt.New(at.Size.Cols, at.Size.Rows, vt.Options{})
		back.Restore(at.Snapshot)
		back.Restore(at.Pending)
		for _, s := range []*vt.Terminal{back, v.screen} {
			s.Write([]byte("1mand on\r\n"))
		}
		for y, line := range v.screen.Lines() {
			if got := back.Lines()[y].ANSI(); got != line.ANSI() {
				t.Fatalf("seed %d row %d: %q, want %q", seed, y, got, line.ANSI())
			}
		}
		modes := v.screen.Modes()
		modes.Sync = back.Modes().Sync // a snapshot leaves no update open
		if at.Position != 77 || back.Cursor() != v.screen.Cursor() || back.Modes() != modes {
			t.Fatalf("seed %d: position %d, cursor %+v, modes %+v, want %+v", seed, at.Position, back.Cursor(), back.Modes(), modes)
		}
	}
}

func BenchmarkViewFrame(b *testing.B) {
	v := newViewer(200, 50, 120, 40, false, "")
	for i := 0; b.Loop(); i++ {
		v.print(fmt.Sprintf("\x1b[%d;%dH\x1b[3%dmsome text at work\x1b[m", i%50+1, i%180+1, i%8))
		v.frame(nil)
	}
}

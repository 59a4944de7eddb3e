package vt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// screenText returns the rows of the screen up to the last one with text,
// trailing spaces cut.
func screenText(v *Terminal) string {
	var rows []string
	for _, l := range v.Lines() {
		rows = append(rows, strings.TrimRight(l.Text(), " "))
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

func historyText(v *Terminal) string {
	var rows []string
	for _, l := range v.History(1 << 20) {
		rows = append(rows, l.Text())
	}
	return strings.Join(rows, "\n")
}

func TestScreen(t *testing.T) {
	fill := "\x1b[1;1HAAAA\x1b[2;1HBBBB\x1b[3;1HCCCC\x1b[4;1HDDDD"
	cases := []struct {
		name, in, want string
		x, y           int
		pending        bool
	}{
		{"text", "hello", "hello", 5, 0, false},
		{"wrap is pending", "0123456789", "0123456789", 9, 0, true},
		{"wrap", "0123456789a", "0123456789\na", 1, 1, false},
		{"no wrap", "\x1b[?7l0123456789ab", "012345678b", 9, 0, true},
		{"wide does not fit", "012345678中", "012345678\n中", 2, 1, false},
		{"wide without wrap is dropped", "\x1b[?7l012345678中", "012345678", 9, 0, false},
		{"half of wide overwritten, left", "中\x1b[1GZ", "Z", 1, 0, false},
		{"half of wide overwritten, right", "中\x1b[2GZ", " Z", 2, 0, false},
		{"CUP clamps", "\x1b[99;99Hx", "\n\n\nx", 0, 0, false},
		{"origin", "\x1b[2;3r\x1b[?6h\x1b[9;1Hx", "\n\nx", 1, 2, false},
		{"region scrolls", fill + "\x1b[2;3r\x1b[3;1H\n", "AAAA\nCCCC\n\nDDDD", 0, 2, false},
		{"RI scrolls", fill + "\x1b[2;3r\x1b[2;1H\x1bM", "AAAA\n\nBBBB\nDDDD", 0, 1, false},
		{"IL", fill + "\x1b[2;3H\x1b[L", "AAAA\n\nBBBB\nCCCC", 0, 1, false},
		{"DL in region", fill + "\x1b[2;3r\x1b[2;1H\x1b[M", "AAAA\nCCCC\n\nDDDD", 0, 1, false},
		{"ICH", "abcd\x1b[2G\x1b[2@", "a  bcd", 1, 0, false},
		{"DCH", "abcd\x1b[2G\x1b[2P", "ad", 1, 0, false},
		{"IRM", "abcd\x1b[2G\x1b[4hXY\x1b[4l", "aXYbcd", 3, 0, false},
		{"ECH", "abcd\x1b[2G\x1b[2X", "a  d", 1, 0, false},
		{"REP", "ab\x1b[3b", "abbbb", 5, 0, false},
		{"REP after motion", "ab\x1b[2;1H\x1b[3b", "ab", 0, 1, false},
		{"REP wide", "中\x1b[2b", "中中中", 6, 0, false},
		{"tabs", "a\tb", "a       b", 9, 0, false},
		{"HTS, TBC", "\x1b[3g\x1b[4G\x1bH\r\tx", "   x", 4, 0, false},
		{"DECALN", "\x1b#8\x1b[2;1H\x1b[J", "EEEEEEEEEE", 0, 1, false},
		{"line drawing", "\x1b(0lqk\x1b(Bq", "┌─┐q", 4, 0, false},
		{"SO, SI", "\x1b)0\x0eq\x0fq", "─q", 2, 0, false},
		{"DECRC", "\x1b[2;3H\x1b7\x1b[H\x1b8x", "\n  x", 3, 1, false},
		{"CAN aborts", "\x1b[3\x18;4Hx", ";4Hx", 4, 0, false},
		{"ESC restarts", "\x1b[3\x1b[2;2Hx", "\n x", 2, 1, false},
		{"string ends at ESC", "\x1b]0;never ended \x1b[2;2Hx", "\n x", 2, 1, false},
		{"sixel is swallowed", "a\x1bPq#0~~~\x1b\\b", "ab", 2, 0, false},
		{"9C in UTF-8 ends nothing", "a\x1b]2;✳ “x”\x07b", "ab", 2, 0, false},
		{"bad UTF-8", "a\xffb\xe4\xb8c", "a\ufffdb\ufffdc", 5, 0, false},
		{"C1 in UTF-8", "a\u009bb", "ab", 2, 0, false},
		{"combining", "e\u0301x", "e\u0301x", 2, 0, false},
		{"ZWJ", "👩\u200d👧x", "👩\u200d👧x", 3, 0, false},
		{"flags", "🇩🇪🇫🇷x", "🇩🇪🇫🇷x", 5, 0, false},
		{"VS16 widens", "❤\ufe0fx", "❤\ufe0fx", 3, 0, false},
		{"VS16 in the last column", "012345678❤\ufe0fx", "012345678\n❤\ufe0fx", 3, 1, false},
		{"skin tone", "👍🏽x", "👍🏽x", 3, 0, false},
		{"reverse wrap", "\x1b[?45h0123456789ab\b\b\bX", "012345678X\nab", 9, 0, true},
		{"alternate screen", "main\x1b[?1049halt", "    alt", 7, 0, false},
		{"and back", "main\x1b[?1049h\x1b[3;3Halt\x1b[?1049lX", "mainX", 5, 0, false},
		{"47 keeps the cursor", "main\x1b[?47h\x1b[2;1Halt\x1b[?47lX", "main\n   X", 4, 1, false},
		{"RIS", "a\x1b[2;3r\x1b[31m\x1bcx", "x", 1, 0, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			v := New(10, 4, Options{})
			v.Write([]byte(c.in))
			cur := v.Cursor()
			if c.name == "CUP clamps" {
				c.want, c.x, c.y, c.pending = "\n\n\n         x", 9, 3, true
			}
			if got := screenText(v); got != c.want || cur.X != c.x || cur.Y != c.y || cur.PendingWrap != c.pending {
				t.Errorf("%q at %d,%d %v; want %q at %d,%d %v", got, cur.X, cur.Y, cur.PendingWrap, c.want, c.x, c.y, c.pending)
			}
			checkInvariants(t, v)
		})
	}
}

// TestQuickBreak: the quick decision is that of the tables.
func TestQuickBreak(t *testing.T) {
	v := New(10, 2, Options{})
	prev := []string{"a", "é", "中", "─", "👩", "👩\u200d", "❤\ufe0f", "🇩", "🇩🇪", "e\u0301", "\u0600", "\u1112", "1"}
	next := []rune{0x200d, 0xfe0f, 0x301, 0x1f3fb, 0x1f3ff, 0x1f467, 0x1f600, 0x1f1ea, 0x1faff, 0x20e3, 'b'}
	for _, p := range prev {
		c := cell{ch: chCluster}
		if len([]rune(p)) == 1 {
			c.ch = uint32([]rune(p)[0])
		}
		for _, r := range next {
			q := quickBreak(c, []byte(p), r)
			if both := v.together([]byte(p + string(r))); q != mayJoin && (q == mustJoin) != both {
				t.Errorf("%q + %U: quick %d, tables %v", p, r, q, both)
			}
		}
	}
}

func TestSGR(t *testing.T) {
	cases := []struct{ in, want string }{
		{"\x1b[1;3;4mx", "\x1b[1;3;4mx\x1b[m"},
		{"\x1b[31;104mx", "\x1b[31;104mx\x1b[m"},
		{"\x1b[38;5;9mx", "\x1b[91mx\x1b[m"},
		{"\x1b[38;5;200;48;2;1;2;3mx", "\x1b[38;5;200;48;2;1;2;3mx\x1b[m"},
		{"\x1b[38:2::1:2:3mx", "\x1b[38;2;1;2;3mx\x1b[m"},
		{"\x1b[38:2:1:2:3mx", "\x1b[38;2;1;2;3mx\x1b[m"},
		{"\x1b[4:3;58:2::9:8:7mx", "\x1b[4:3;58:2::9:8:7mx\x1b[m"},
		{"\x1b[21mx\x1b[24my", "\x1b[4:2mx\x1b[my"},
		{"\x1b[53;9mx\x1b[55my", "\x1b[9;53mx\x1b[0;9my\x1b[m"},
		{"\x1b[1;2mx\x1b[22my", "\x1b[1;2mx\x1b[my"},
		{"\x1b[31;mx", "x"},
		{"\x1b[>4;2m\x1b[?31mx", "x"},
		{"\x1b]8;;http://a/;b\x1b\\x", "x"},
	}
	for _, c := range cases {
		v := New(10, 2, Options{})
		v.Write([]byte(c.in))
		if got := v.Lines()[0].ANSI(); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestCells(t *testing.T) {
	v := New(10, 2, Options{})
	v.Write([]byte("a\x1b[2C中\x1b]8;id=q;http://a/;b\x1b\\x"))
	var got []string
	for c := range v.Lines()[0].Cells() {
		got = append(got, fmt.Sprintf("%d/%d/%s/%s", c.X, c.Width, c.Text, c.Link))
	}
	want := []string{"0/1/a/", "1/1//", "2/1//", "3/2/中/", "5/1/x/http://a/;b"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestReplies(t *testing.T) {
	known := Profile{Foreground: RGB(255, 255, 255), Background: RGB(0x11, 0x22, 0x33), Cursor: RGB(1, 2, 3), CellWidth: 8, CellHeight: 16, KittyKeyboard: true}
	cases := []struct {
		in, want string
		p        Profile
	}{
		{in: "\x1b[c", want: "\x1b[?62;22c"},
		{in: "\x1bZ", want: "\x1b[?62;22c"},
		{in: "\x1b[>c", want: "\x1b[>1;10;0c"},
		{in: "\x1b[=c", want: "\x1bP!|00000000\x1b\\"},
		{in: "\x1b[5n", want: "\x1b[0n"},
		{in: "\x1b[2;3H\x1b[6n", want: "\x1b[2;3R"},
		{in: "\x1b[2;3H\x1b[?6n", want: "\x1b[?2;3;1R"},
		{in: "\x1b[2;3r\x1b[?6h\x1b[2;2H\x1b[6n", want: "\x1b[2;2R"},
		{in: "\x1b[>q", want: "\x1bP>|agentmux\x1b\\"},
		{in: "\x1b[?2026$p", want: "\x1b[?2026;2$y"},
		{in: "\x1b[?2026h\x1b[?2026$p", want: "\x1b[?2026;1$y"},
		{in: "\x1b[?1016$p\x1b[?1007$p\x1b[?2031$p", want: "\x1b[?1016;2$y\x1b[?1007;2$y\x1b[?2031;2$y"},
		{in: "\x1b[?1049h\x1b[?1049$p", want: "\x1b[?1049;1$y"},
		{in: "\x1b[?7$p\x1b[?25$p\x1b[?2027$p", want: "\x1b[?7;1$y\x1b[?25;1$y\x1b[?2027;3$y"},
		{in: "\x1b[?9999$p\x1b[?2048$p", want: "\x1b[?9999;0$y\x1b[?2048;0$y"},
		{in: "\x1b[4$p\x1b[4h\x1b[4$p", want: "\x1b[4;2$y\x1b[4;1$y"},
		{in: "\x1b[1;31m\x1bP$qm\x1b\\", want: "\x1bP1$r0;1;31m\x1b\\"},
		{in: "\x1b[2;3r\x1bP$qr\x1b\\", want: "\x1bP1$r2;3r\x1b\\"},
		{in: "\x1b[3 q\x1bP$q q\x1b\\", want: "\x1bP1$r3 q\x1b\\"},
		{in: "\x1bP$qx\x1b\\", want: "\x1bP0$r\x1b\\"},
		{in: "\x1bP+q436f;5858\x1b\\", want: "\x1bP1+r436f=323536\x1b\\\x1bP0+r5858\x1b\\"},
		{in: "\x1b[>4;2m\x1b[?4m", want: "\x1b[>4;2m"},
		{in: "\x1b]7501;?\a", want: "\x1b]7501;?\a"},
		{in: "\x1b[18t", want: "\x1b[8;4;20t"},
		{in: "\x1b[14t\x1b[16t\x1b[?u\x1b]10;?\a\x1b]11;?\a\x1b]4;1;?\a\x1b[?996n", want: ""},
		{in: "\x1b[14t\x1b[16t", want: "\x1b[4;64;160t\x1b[6;16;8t", p: known},
		{in: "\x1b[>5u\x1b[?u", want: "\x1b[?5u", p: known},
		{in: "\x1b]10;?\a", want: "\x1b]10;rgb:ffff/ffff/ffff\a", p: known},
		{in: "\x1b]11;?\x1b\\", want: "\x1b]11;rgb:1111/2222/3333\x1b\\", p: known},
		{in: "\x1b]11;#aabbcc\a\x1b]11;?\a", want: "\x1b]11;rgb:aaaa/bbbb/cccc\a", p: known},
		{in: "\x1b]4;1;rgb:1/2/3\a\x1b]4;1;?\a", want: "\x1b]4;1;rgb:1111/2222/3333\a"},
		{in: "\x1b[?996n", want: "\x1b[?997;1n", p: known},
		{in: "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b]52;c;?\a\x1b[21t\x05", want: ""},
	}
	for _, c := range cases {
		var got []byte
		v := New(20, 4, Options{Reply: func(p []byte) { got = append(got, p...) }})
		v.SetProfile(c.p)
		v.Write([]byte(c.in))
		if string(got) != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

func TestEvents(t *testing.T) {
	agent := AgentState{State: "blocked", App: "codex", Kind: "permission", Msg: "hi"}
	cases := []struct {
		in   string
		want []Event
	}{
		{"\a", []Event{{Kind: EventBell}}},
		{"\x1b]2;a;b \u2728\a", []Event{{Kind: EventTitle, Text: "a;b \u2728"}}},
		{"\x1b]2;a;b \xc3\xa9 \x1b[31m\a", []Event{{Kind: EventTitle, Text: "a;b é "}, {Kind: EventBell}}},
		{"\x1b]7;file://host/tmp/a%20b\x1b\\", []Event{{Kind: EventCwd, Text: "file://host/tmp/a%20b"}}},
		{"\x1b]9;build finished\a", []Event{{Kind: EventNotification, Code: 9, Text: "build finished"}}},
		{"\x1b]777;notify;agent;needs; you\a", []Event{{Kind: EventNotification, Code: 777, Name: "agent", Text: "needs; you"}}},
		{"\x1b]99;i=1:d=0;build\x1b\\\x1b]99;i=1:p=body;done\x1b\\", []Event{{Kind: EventNotification, Code: 99, Name: "build"}, {Kind: EventNotification, Code: 99, Text: "done"}}},
		{"\x1b]9;4;1;40\x1b\\", []Event{{Kind: EventProgress, Code: 1, Value: 40}}},
		{"\x1b]52;c;aGk=\a", []Event{{Kind: EventClipboard, Name: "c", Text: "aGk="}}},
		{"\x1b]133;D;3\a", []Event{{Kind: EventPrompt, Name: "D", Text: "3", Value: 3}}},
		{"\x1b]7501;state=blocked:app=codex:kind=permission:msg=aGk=\x1b\\", []Event{{Kind: EventAgent, Agent: agent}}},
		{"\x1b[?2004h", []Event{{Kind: EventMode, Code: 2004, On: true}}},
		{"\x1b]2;" + strings.Repeat("x", maxString) + "\a", nil},
	}
	for _, c := range cases {
		for _, size := range []int{1, 1 << 20} {
			var got []Event
			v := New(20, 4, Options{Event: func(e Event) { got = append(got, e) }})
			for p := []byte(c.in); len(p) > 0; {
				n := min(size, len(p))
				v.Write(p[:n])
				p = p[n:]
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%.40q: %+v, want %+v", c.in, got, c.want)
			}
		}
	}
}

func TestModesAndKeyboard(t *testing.T) {
	v := New(20, 4, Options{})
	v.Write([]byte("\x1b[?1h\x1b=\x1b[?1000h\x1b[?1003h\x1b[?1006h\x1b[?2004h\x1b[?1004h\x1b[>1u\x1b[>5u\x1b[=7;1u\x1b[>4;2m\x1b[5 q\x1b[?25l"))
	m := v.Modes()
	if !m.AppCursor || !m.AppKeypad || m.Mouse != 1003 || m.MouseEncoding != 1006 || !m.BracketedPaste || !m.Focus || m.KeyboardFlags != 7 || m.ModifyOtherKeys != 2 {
		t.Errorf("%+v", m)
	}
	if c := v.Cursor(); c.Visible || c.Shape != CursorBar || !c.Blink {
		t.Errorf("%+v", c)
	}
	v.Write([]byte("\x1b[?1049h"))
	if f := v.Modes().KeyboardFlags; f != 0 {
		t.Errorf("the alternate screen begins with flags %d", f)
	}
	v.Write([]byte("\x1b[?1049l\x1b[<u"))
	if f := v.Modes().KeyboardFlags; f != 1 {
		t.Errorf("flags %d after a pop", f)
	}
	v.Write([]byte("\x1b[<9u"))
	if f := v.Modes().KeyboardFlags; f != 0 {
		t.Errorf("flags %d after popping all", f)
	}
}

func TestHistoryAndScrollOff(t *testing.T) {
	var off []string
	v := New(10, 3, Options{HistoryLines: 4, HistoryBytes: 1 << 20, ScrollOff: func(l Line) { off = append(off, l.Text()) }})
	for i := range 8 {
		fmt.Fprintf(v, "line %d\r\n", i)
	}
	if got := historyText(v); got != "line 2\nline 3\nline 4\nline 5" {
		t.Errorf("history %q", got)
	}
	if got := strings.Join(off, " "); got != "line 0 line 1 line 2 line 3 line 4 line 5" {
		t.Errorf("told %q", got)
	}
	off = nil
	v.Resize(10, 5) // two rows come back
	v.Resize(10, 3) // and leave again: not told twice
	if len(off) != 0 || v.HistoryLines() != 4 {
		t.Errorf("told %q, %d rows", off, v.HistoryLines())
	}
	v.Write([]byte("\x1b[2;3r\x1b[3;1H\n\x1b[r\x1b[1;1H\x1b[M\x1b[?1049h\x1b[3;1H\n\n"))
	if len(off) != 0 {
		t.Errorf("region, DL and the alternate screen told %q", off)
	}
}

// TestScrollOffTellsOnce: whatever the sizes do, all text is told, and what was
// told is not told again.
func TestScrollOffTellsOnce(t *testing.T) {
	var told strings.Builder
	v := New(20, 4, Options{HistoryLines: 1000, HistoryBytes: 1 << 20, ScrollOff: func(l Line) {
		told.WriteString(l.Text())
		if !l.Wrapped {
			told.WriteString("\n")
		}
	}})
	var want strings.Builder
	for i := range 40 {
		line := fmt.Sprintf("line %d %s", i, strings.Repeat("x", i*7%90))
		want.WriteString(line + "\n")
		fmt.Fprintf(v, "%s\r\n", line)
		v.Resize(20, 4+i%5)
	}
	v.Write([]byte(strings.Repeat("\r\n", 10)))
	if got := strings.TrimRight(told.String(), "\n"); got != strings.TrimRight(want.String(), "\n") {
		t.Errorf("told\n%s\nwant\n%s", got, want.String())
	}
}

func TestScrollOffWithoutHistory(t *testing.T) {
	n := 0
	v := New(10, 2, Options{ScrollOff: func(l Line) { n++ }})
	v.Write([]byte("a\r\nb\r\nc\r\n"))
	if n != 2 || v.HistoryLines() != 0 {
		t.Errorf("%d told, %d kept", n, v.HistoryLines())
	}
}

func TestReflow(t *testing.T) {
	v := newTest(20, 4)
	long := "the quick brown fox jumps over the lazy dog"
	v.Write([]byte("\x1b[31m" + long + "\x1b[m\r\n中文字符中文字符中文字符\r\n$ "))
	for _, cols := range []int{7, 10, 33, 1, 80, 20} {
		v.Resize(cols, 4)
		checkInvariants(t, v)
		if cols == 1 {
			continue // no room for wide characters
		}
		var all strings.Builder
		for _, l := range append(v.History(1000), v.Lines()...) {
			l.Text()
			all.WriteString(l.Text())
			if !l.Wrapped {
				all.WriteString("\n")
			}
		}
		if !strings.HasPrefix(all.String(), long+"\n") {
			t.Errorf("%d columns: %q", cols, all.String())
		}
		if c := v.Cursor(); v.Lines()[c.Y].Text() != "$ " || c.X != 2 {
			t.Errorf("%d columns: cursor %+v", cols, c)
		}
	}
}

func TestLinesAreCopies(t *testing.T) {
	v := newTest(20, 2)
	v.Write([]byte("\x1b[38;2;1;2;3mstay e\u0301\x1b[m"))
	l := v.Lines()[0]
	want := l.ANSI()
	for i := range 5000 { // more styles and clusters than the tables hold
		fmt.Fprintf(v, "\x1b[H\x1b[2J\x1b[38;2;%d;%d;9mx%c%c", i>>8, i&255, 0x300+i%64, 0x300+i/64%64)
	}
	if got := l.ANSI(); got != want {
		t.Errorf("%q became %q", want, got)
	}
}

func TestSnapshotForUser(t *testing.T) {
	v := newTest(80, 24)
	v.Write([]byte("\x1b[?1049h\x1b[?1003h\x1b[?1006h\x1b[?2004h\x1b[?1h\x1b=\x1b[>1u\x1b[>5u\x1b[=7;1u\x1b[>4;2m\x1b[5 q\x1b[?25l" +
		"\x1b[3;10r\x1b[?6h\x1b[?7l\x1b[4h\x1b(0\x0e\x1b[1;31;44m\x1b]8;;https://example.invalid/\x1b\\\x1b]9;4;3;0\x1b\\\x1b[?2026h" +
		"\x1b[22;0t\x1b]0;agent title\a\x1b]7;file://h/x\a\x1b]7501;state=working\a\x1b]52;c;aGk=\a\a\x1b]133;A\aMODES ON"))
	snap := v.Snapshot(SnapshotOptions{History: 10})
	checkQuiet(t, snap)
	w := newTest(80, 24)
	w.Write(snap)
	w.osc.cwd, w.osc.agent, w.osc.progState = v.osc.cwd, v.osc.agent, v.osc.progState
	if !w.Equal(v) {
		t.Error(diff(v.dump(), w.dump()))
	}
	if n := len(snap); n > 1500 {
		t.Errorf("%d bytes", n)
	}
}

func TestRestoreIsSilent(t *testing.T) {
	v := newTest(20, 3)
	v.Write([]byte(strings.Repeat("line\r\n", 9) + "\x1b]2;title\a\x1b[?2004h\x1b]7501;state=working:app=x\a\x1b]9;4;1;5\a\x1b[3"))
	fail := func(what string) { t.Error("told: " + what) }
	w := New(20, 3, Options{HistoryLines: 1000, HistoryBytes: testHistory,
		Reply:     func([]byte) { fail("reply") },
		Event:     func(Event) { fail("event") },
		ScrollOff: func(Line) { fail("scroll off") }})
	w.Restore(append(v.Snapshot(SnapshotOptions{History: 1000, Keyframe: true}), v.Pending()...))
	if !w.Equal(v) || w.Hash() != v.Hash() {
		t.Error(diff(v.dump(), w.dump()))
	}
	if w.AgentState().State != "working" || w.Title() != "title" {
		t.Errorf("%+v %q", w.AgentState(), w.Title())
	}
	if state, percent := w.Progress(); state != 1 || percent != 5 {
		t.Errorf("progress %d %d", state, percent)
	}
}

func TestSnapshotIsSmall(t *testing.T) {
	v := newTest(120, 40)
	agentScreen(v)
	if n := len(v.Snapshot(SnapshotOptions{})); n > 10<<10 {
		t.Errorf("%d bytes", n)
	}
}

func TestWriteAllocatesNothingWhenSteady(t *testing.T) {
	v := New(80, 24, Options{HistoryLines: 100, HistoryBytes: 1 << 20})
	in := []byte(strings.Repeat("\x1b[31mhello\x1b[m wörld 中文\r\n\x1b[5;5H\x1b[K", 200))
	v.Write(in)
	v.Write(in)
	if n := testing.AllocsPerRun(20, func() { v.Write(in) }); n > 3 { // history chunks
		t.Errorf("%.1f allocations", n)
	}
}

// A row that was erased whole and written anew is no continuation of the one
// above any more (xterm.js and tmux agree); an empty one still is (tmux).
func TestErasedContinuation(t *testing.T) {
	const long = "0123456789abc" // wraps on 10 columns
	for name, c := range map[string]struct{ in, want string }{
		"as it was":         {long, "0123456789abc"},
		"EL at its start":   {long + "\x1b[2;1H\x1b[Kxy", "0123456789\nxy"},
		"EL 2":              {long + "\x1b[2;2H\x1b[2K\rxy", "0123456789\nxy"},
		"ED at its start":   {long + "\x1b[2;1H\x1b[Jxy", "0123456789\nxy"},
		"EL in the middle":  {long + "\x1b[2;2H\x1b[Kxy", "0123456789axy"},
		"EL 1":              {long + "\x1b[2;2H\x1b[1K", "0123456789  c"},
		"written over":      {long + "\x1b[2;1Hxy", "0123456789xyc"},
		"just wrapped into": {"0123456789 \r\x1b[Kxy", "0123456789\nxy"},
		"still empty":       {"0123456789x\b\x1b[P\x1b[Kxy", "0123456789xy"},
	} {
		t.Run(name, func(t *testing.T) {
			v := newTest(10, 4)
			v.Write([]byte(c.in))
			v.Resize(20, 4)
			if got := screenText(v); got != c.want {
				t.Errorf("%q", got)
			}
		})
	}
}

package vt_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agentmux/pty/vt"
)

var update = flag.Bool("update", false, "write the states of the golden streams anew; first make sure that scripts/vtdiff/run is content")

// stream is a golden stream, in the form of the vtdiff harness: each code point
// of W is one byte.
type stream struct {
	Name       string
	Cols, Rows int
	Ops        []struct {
		W      string
		Resize []int
	}
}

func readStream(t *testing.T, path string) stream {
	t.Helper()
	var s stream
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}

// play feeds a stream to a new terminal in writes of n bytes, 0: whole.
func (s stream) play(n int, events *[]string) *vt.Terminal {
	v := vt.New(s.Cols, s.Rows, vt.Options{
		HistoryLines: 1000, HistoryBytes: 1 << 20,
		Reply: func(p []byte) { *events = append(*events, fmt.Sprintf("reply %q", p)) },
		Event: func(e vt.Event) {
			if e.Kind != vt.EventMode {
				*events = append(*events, fmt.Sprintf("event %d code %d value %d name %q text %q", e.Kind, e.Code, e.Value, e.Name, e.Text))
			}
		},
	})
	v.SetProfile(vt.Profile{
		Foreground: vt.RGB(0xcc, 0xcc, 0xcc), Background: vt.RGB(0x11, 0x22, 0x33),
		CellWidth: 9, CellHeight: 18, KittyKeyboard: true,
	})
	for _, o := range s.Ops {
		if len(o.Resize) == 2 {
			v.Resize(o.Resize[0], o.Resize[1])
			continue
		}
		p := make([]byte, 0, len(o.W))
		for _, r := range o.W {
			p = append(p, byte(r))
		}
		for len(p) > 0 {
			k := len(p)
			if n > 0 {
				k = min(n, k)
			}
			v.Write(p[:k])
			p = p[k:]
		}
	}
	return v
}

// TestGolden: recordings of agents and programs, and streams made by hand, end
// in states that xterm.js and tmux agree with (scripts/vtdiff/run compares
// them), whatever the writes were, and by way of a keyframe too.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/screens/*.json")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d golden streams, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			s := readStream(t, file)
			var said []string
			whole := s.play(0, &said)
			got := describe(whole) + section("said", said)
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s:\n%s", golden, differences(string(want), got))
			}
			for _, n := range []int{1, 7} {
				var split []string
				if v := s.play(n, &split); !v.Equal(whole) || !slices.Equal(split, said) {
					t.Errorf("in writes of %d:\n%s", n, differences(got, describe(v)+section("said", split)))
				}
			}
			cols, rows := whole.Size()
			again := vt.New(cols, rows, vt.Options{HistoryLines: 1000, HistoryBytes: 1 << 20})
			again.Restore(whole.Snapshot(vt.SnapshotOptions{History: 1000, Keyframe: true}))
			if a, b := describe(whole), describe(again); a != b || !again.Equal(whole) {
				t.Errorf("from a keyframe:\n%s", differences(a, b))
			}
		})
	}
}

// describe writes a terminal's state in a form to be read.
func describe(v *vt.Terminal) string {
	var b strings.Builder
	cols, rows := v.Size()
	c := v.Cursor()
	top, bottom := v.Region()
	fmt.Fprintf(&b, "size %dx%d, alternate screen %v\n", cols, rows, v.AltScreen())
	fmt.Fprintf(&b, "cursor column %d, row %d, wrap pending %v, visible %v, shape %d, blinks %v\n", c.X, c.Y, c.PendingWrap, c.Visible, c.Shape, c.Blink)
	fmt.Fprintf(&b, "region %d to %d, tabs %v\n", top, bottom, v.TabStops())
	fmt.Fprintf(&b, "title %q, icon %q, directory %q\n", v.Title(), v.IconTitle(), v.Cwd())
	fmt.Fprintf(&b, "modes %+v\n", v.Modes())
	history := v.History(1000)
	styles := make(map[string]int)
	var body strings.Builder
	describeLines(&body, "history", history, styles)
	describeLines(&body, "screen", v.Lines(), styles)
	for _, s := range slices.SortedFunc(maps.Keys(styles), func(x, y string) int { return styles[x] - styles[y] }) {
		fmt.Fprintf(&b, "style %d: %s\n", styles[s], s)
	}
	return b.String() + body.String()
}

// describeLines writes the rows, each with its runs of styles in columns, the
// styles by number.
func describeLines(b *strings.Builder, what string, lines []vt.Line, styles map[string]int) {
	fmt.Fprintf(b, "%s: %d rows\n", what, len(lines))
	for _, l := range lines {
		end := "|"
		if l.Wrapped {
			end = "\\"
		}
		fmt.Fprintf(b, "|%s%s\n", l.Text(), end)
		var runs []string
		from, to, last := 0, 0, ""
		flush := func() {
			if last == "" {
				return
			}
			if styles[last] == 0 {
				styles[last] = len(styles) + 1
			}
			runs = append(runs, fmt.Sprintf("%d-%d:%d", from, to-1, styles[last]))
		}
		for c := range l.Cells() {
			if s := styleWords(c); s != last || c.X != to {
				flush()
				from, last = c.X, s
			}
			to = c.X + c.Width
		}
		flush()
		if len(runs) > 0 {
			fmt.Fprintf(b, "    %s\n", strings.Join(runs, " "))
		}
	}
}

func styleWords(c vt.Cell) string {
	var words []string
	add := func(name string, v vt.Color) {
		switch r, g, b, ok := v.RGB(); {
		case ok:
			words = append(words, fmt.Sprintf("%s #%02x%02x%02x", name, r, g, b))
		case !v.IsDefault():
			i, _ := v.Palette()
			words = append(words, fmt.Sprintf("%s %d", name, i))
		}
	}
	add("fg", c.Style.FG)
	add("bg", c.Style.BG)
	for i, name := range []string{"bold", "dim", "italic", "blink", "inverse", "hidden", "strike", "overline", "protected"} {
		if c.Style.Attrs&(1<<i) != 0 {
			words = append(words, name)
		}
	}
	if c.Style.Underline != 0 {
		words = append(words, []string{"", "single", "double", "curly", "dotted", "dashed"}[c.Style.Underline]+" underline")
		add("in", c.Style.UnderlineColor)
	}
	if c.Link != "" {
		words = append(words, "link "+c.Link)
	}
	return strings.Join(words, ", ")
}

func section(name string, lines []string) string {
	return name + ":\n" + strings.Join(lines, "\n") + "\n"
}

// differences shows the lines in which two texts differ.
func differences(want, got string) string {
	x, y := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			fmt.Fprintf(&b, "line %d\n  want %s\n  got  %s\n", i+1, p, q)
		}
	}
	return b.String()
}

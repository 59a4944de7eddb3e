package vt

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

const testHistory = 1 << 20

// newTest returns a terminal that keeps history.
func newTest(cols, rows int) *Terminal {
	return New(cols, rows, Options{HistoryLines: 1000, HistoryBytes: testHistory})
}

// pieces are what structured streams are made of.
func pieces() []string {
	s := []string{
		"a", "hello ", "x y", "0123456789", "\r", "\n", "\r\n", "\b", "\t", "\v", "\x0e", "\x0f", "\a",
		"中", "文字", "é", "e\u0301", "\u0301", "👩\u200d👧", "👩", "\u200d", "👧", "🇩🇪", "🇩", "👍🏽", "❤", "\ufe0f", "❤\ufe0f", "1\ufe0f\u20e3", "한", "\u1112\u1161\u11ab", "\u200b", "─│",
		"\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bM", "\x1bH", "\x1b=", "\x1b>", "\x1b#8", "\x1bN", "\x1bO", "\x1bn", "\x1bo",
		"\x1b(0", "\x1b(B", "\x1b)0", "\x1b*A", "\x1b+0", "\x1b[s", "\x1b[u", "\x1b[!p",
		"\x1b]2;ti;tle\a", "\x1b]0;both\x1b\\", "\x1b]1;icon\a", "\x1b]7;file://h/p\a", "\x1b]8;;http://a/;b\x1b\\", "\x1b]8;id=q;http://c\x1b\\", "\x1b]8;;\x1b\\",
		"\x1b]4;3;rgb:12/34/56\a", "\x1b]104;3\a", "\x1b]11;#123456\a", "\x1b]111\a", "\x1b]9;4;1;40\a", "\x1b]7501;state=blocked:kind=permission:app=x:msg=aGk=\a", "\x1b]7501;state=clear\a",
		"\x1bPq~~~\x1b\\", "\x1b_Gabc\x1b\\", "\x1b^pm\x1b\\", "\x1b[22;0t", "\x1b[23;0t", "\x1b[22;2t",
		"\x1b[1\"q", "\x1b[0\"q", "\x1b[3 q", "\x1b[0 q", "\x1b[>4;2m", "\x1b[>4m", "\x1b[>5u", "\x1b[<u", "\x1b[=3;1u", "\x1b[?5W", "\x1b[3g", "\x1b[g",
		"\xff", "\xe4\xb8", "\x18", "\x1b[3\x1a",
	}
	for _, m := range []string{"1", "5", "6", "7", "9", "12", "25", "45", "47", "66", "1000", "1002", "1003", "1004", "1005", "1006", "1007", "1015", "1016", "1047", "1048", "1049", "2004", "2026", "2031", "2048"} {
		s = append(s, "\x1b[?"+m+"h", "\x1b[?"+m+"l")
	}
	for _, m := range []string{"4", "20"} {
		s = append(s, "\x1b["+m+"h", "\x1b["+m+"l")
	}
	for _, a := range []string{"0", "1", "3", "4", "4:3", "7", "9", "21", "22", "31", "42", "95", "104", "38;5;200", "48;2;1;2;3", "58:2::9:8:7", "53", "39", "49"} {
		s = append(s, "\x1b["+a+"m")
	}
	return s
}

// stream returns a random structured stream of n pieces.
func stream(r *rand.Rand, n int) string {
	var b strings.Builder
	ps := pieces()
	for range n {
		switch r.IntN(8) {
		case 0:
			finals := "@ABCDEFGHIJKLMPSTXZ`abdefr"
			fmt.Fprintf(&b, "\x1b[%d;%d%c", r.IntN(12), r.IntN(12), finals[r.IntN(len(finals))])
		case 1:
			fmt.Fprintf(&b, "\x1b[%d%c", r.IntN(9), "@ABCDGHJKLMPSTXbd"[r.IntN(17)])
		case 2, 3:
			b.WriteString(ps[r.IntN(7)])
		case 4:
			b.WriteString(strings.Repeat("w", r.IntN(25)))
		default:
			b.WriteString(ps[r.IntN(len(ps))])
		}
	}
	return b.String()
}

func randSize(r *rand.Rand) (int, int) { return 1 + r.IntN(14), 1 + r.IntN(7) }

// seeds returns how many random streams a property is tried on.
// VT_SEEDS multiplies it, for a long run.
func seeds(t *testing.T, n int) int {
	if k, err := strconv.Atoi(os.Getenv("VT_SEEDS")); err == nil {
		return n * k
	}
	if testing.Short() {
		return n / 10
	}
	return n
}

func diff(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out strings.Builder
	for i := range max(len(x), len(y)) {
		var p, q string
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			fmt.Fprintf(&out, "line %d\n  %s\n  %s\n", i, p, q)
		}
	}
	return out.String()
}

func TestChunkInvariance(t *testing.T) {
	for seed := range seeds(t, 500) {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		cols, rows := randSize(r)
		in := stream(r, 60)
		whole := newTest(cols, rows)
		whole.Write([]byte(in))
		for _, size := range []int{1, 7, 0} {
			c := newTest(cols, rows)
			for p := []byte(in); len(p) > 0; {
				n := size
				if n == 0 {
					n = 1 + r.IntN(9)
				}
				n = min(n, len(p))
				c.Write(p[:n])
				p = p[n:]
			}
			if !c.Equal(whole) {
				t.Fatalf("seed %d size %d %q:\n%s", seed, size, in, diff(whole.dump(), c.dump()))
			}
		}
		checkInvariants(t, whole)
	}
}

// TestSnapshotAtEveryCut: snapshot, pending and the rest make the same state as
// the whole stream, into a fresh terminal and into a used one.
func TestSnapshotAtEveryCut(t *testing.T) {
	for seed := range seeds(t, 150) {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		cols, rows := randSize(r)
		in := []byte(stream(r, 25))
		whole := newTest(cols, rows)
		whole.Write(in)
		want := whole.dump()
		a := newTest(cols, rows)
		for cut := range len(in) {
			a.Write(in[cut : cut+1])
			b := newTest(cols, rows)
			b.Write(a.Snapshot(SnapshotOptions{History: 1 << 20, Keyframe: true}))
			if got, now := b.dump(), a.dump(); got != now {
				t.Fatalf("seed %d cut %d %q: snapshot differs\n%s\n%q", seed, cut+1, in[:cut+1], diff(now, got), a.Snapshot(SnapshotOptions{History: 1 << 20, Keyframe: true}))
			}
			b.Write(a.Pending())
			b.Write(in[cut+1:])
			if got := b.dump(); got != want {
				t.Fatalf("seed %d cut %d %q | %q | %q: rest differs\n%s", seed, cut+1, in[:cut+1], a.Pending(), in[cut+1:], diff(want, got))
			}
		}
	}
}

func TestSnapshotAfterResizeAndIntoUsed(t *testing.T) {
	for seed := range seeds(t, 500) {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		cols, rows := randSize(r)
		a := newTest(cols, rows)
		var log strings.Builder
		for range 3 {
			in := stream(r, 25)
			a.Write([]byte(in))
			cols, rows = randSize(r)
			a.Resize(cols, rows)
			fmt.Fprintf(&log, "%q resize %d %d ", in, cols, rows)
			checkInvariants(t, a)
		}
		b := newTest(cols, rows)
		b.Write(a.Snapshot(SnapshotOptions{History: 1 << 20, Keyframe: true}))
		if got, want := b.dump(), a.dump(); got != want {
			t.Fatalf("seed %d %s: fresh differs\n%s", seed, log.String(), diff(want, got))
		}
		used := New(cols, rows, Options{})
		junk := stream(r, 40) + "\x18"
		used.Write([]byte(strings.ReplaceAll(junk, "\x1b[?1007", ""))) // see altScrollTouched
		used.Write(a.Snapshot(SnapshotOptions{Keyframe: true}))
		c := New(cols, rows, Options{})
		c.Write(a.Snapshot(SnapshotOptions{Keyframe: true}))
		if got, want := used.dump(), c.dump(); got != want {
			t.Fatalf("seed %d %s: used differs\n%s", seed, log.String(), diff(want, got))
		}
		other := newTest(3+r.IntN(9), 2+r.IntN(5))
		oc, or := other.Size()
		before := a.dump()
		other.Write(a.Snapshot(SnapshotOptions{History: 1 << 20, Keyframe: true, Cols: oc, Rows: or}))
		if a.dump() != before {
			t.Fatalf("seed %d: snapshot of another size changed the terminal", seed)
		}
		a.Resize(oc, or)
		if got, want := other.dump(), a.dump(); got != want {
			t.Fatalf("seed %d %s: to %dx%d differs\n%s", seed, log.String(), oc, or, diff(want, got))
		}
	}
}

// checkInvariants: cursor and region inside, wide pairs whole, nothing beyond used.
func checkInvariants(t *testing.T, v *Terminal) {
	t.Helper()
	if v.x < 0 || v.x >= v.cols || v.y < 0 || v.y >= v.rows {
		t.Fatalf("cursor %d,%d outside %dx%d", v.x, v.y, v.cols, v.rows)
	}
	if v.top < 0 || v.bot >= v.rows || v.top > v.bot {
		t.Fatalf("region %d-%d", v.top, v.bot)
	}
	if v.pending && v.x != v.cols-1 {
		t.Fatalf("pending at %d", v.x)
	}
	for _, s := range []*screen{&v.main, &v.alt} {
		seen := map[uint16]bool{}
		for y := range len(s.order) {
			if seen[s.order[y]] {
				t.Fatalf("row %d twice", s.order[y])
			}
			seen[s.order[y]] = true
			checkRow(t, v, s.row(y), s.rowUsed(y))
		}
	}
	if v.main.wrapped(v.rows - 1) {
		t.Fatal("the last row is wrapped")
	}
}

func checkRow(t *testing.T, v *Terminal, row []cell, used int) {
	t.Helper()
	for x, c := range row {
		if x >= used && c != (cell{}) {
			t.Fatalf("cell %d beyond used %d", x, used)
		}
		if c.isWide() && (x+1 == len(row) || !row[x+1].isTail()) {
			t.Fatalf("wide cell %d without tail", x)
		}
		if c.isTail() && (x == 0 || !row[x-1].isWide()) {
			t.Fatalf("tail %d without wide cell", x)
		}
		if c.kind() == kindFiller && x != len(row)-1 {
			t.Fatalf("filler at %d", x)
		}
		if int(c.st) >= len(v.tab.styles) || c.ch&chCluster != 0 && int(c.ch&chMask) >= len(v.tab.clusters) {
			t.Fatalf("cell %d has a bad id", x)
		}
	}
}

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"agentmux/logstore"
	"agentmux/pty/vt"
	"agentmux/session/wire"
)

// The simulation: what happens in days of coming and going, in seconds. Each
// seed is one session with a program that paints, and terminals that attach,
// detach, type, are resized, stall and recover, while the server is killed. At
// each quiet point every terminal of the session's size must show just what a
// terminal would that had been given the whole log.
//
// Four seeds are always run; AGENTMUX_SIM_SEEDS=N runs N random ones in their
// place, AGENTMUX_SIM_SEED=S only this one.
// With AGENTMUX_SIM_STRICT=1 also a main screen is compared that was below the
// alternate one when a window was resized: a terminal wraps it anew with its own
// scrollback, which is not the session's.

// simSizes are few, so that terminals often have the session's size.
var simSizes = [][2]int{{80, 24}, {100, 30}, {62, 18}}

func TestSimulation(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4}
	if s, err := strconv.ParseUint(os.Getenv("AGENTMUX_SIM_SEED"), 10, 64); err == nil {
		seeds = []uint64{s}
	} else if n, err := strconv.Atoi(os.Getenv("AGENTMUX_SIM_SEEDS")); err == nil {
		seeds = nil
		for range n {
			seeds = append(seeds, rand.Uint64()%1_000_000)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed, 14)
		})
	}
}

// simulation is one seed under way.
type simulation struct {
	t       *testing.T
	w       *world
	r       *rand.Rand
	dir     string // of the painter
	orders  int    // given to the painter
	log     *logstore.Follower
	shown   *vt.Terminal // the reference: fed with the whole log
	size    [2]int       // the session's, by the log
	viewers []*viewer
	trace   []string
}

// viewer is a terminal that is attached.
type viewer struct {
	*terminal
	n          int
	cols, rows int
	stalled    bool
}

func simulate(t *testing.T, seed uint64, steps int) {
	w := newWorld(t)
	s := &simulation{t: t, w: w, r: rand.New(rand.NewPCG(seed, 7)), dir: w.path("painter")}
	defer func() {
		if t.Failed() {
			t.Logf("again: AGENTMUX_SIM_SEED=%d go test -run TestSimulation ./cmd/agentmux\n%s", seed, strings.Join(s.trace, "\n"))
		}
	}()
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	strict := os.Getenv("AGENTMUX_SIM_STRICT") == "1"
	w.start("p", helper("painter", fmt.Sprintf("-strict=%v", strict), strconv.FormatUint(seed, 10), s.dir)...)
	dir, _, err := w.mux().Find("p")
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := logstore.NewPrivateWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	if s.log, err = watcher.Follow(dir.Log(), 0, func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	defer s.log.Close()
	s.shown = vt.New(80, 24, vt.Options{HistoryLines: 1000, HistoryBytes: 1 << 20})
	s.attach()
	s.quiet()
	for range steps {
		for range 1 + s.r.IntN(4) {
			s.step()
		}
		s.quiet()
	}
	for len(s.viewers) > 0 {
		s.detach(0)
	}
	s.quiet()
}

func (s *simulation) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// step does something, without waiting for what comes of it.
func (s *simulation) step() {
	some := -1
	if len(s.viewers) > 0 {
		some = s.r.IntN(len(s.viewers))
	}
	switch s.r.IntN(12) {
	case 0:
		if len(s.viewers) < 4 {
			s.attach()
		}
	case 1:
		if some >= 0 {
			s.recover(some)
			s.detach(some)
		}
	case 2:
		if some >= 0 {
			s.resize(some, 1)
		}
	case 3: // a window that is dragged
		if some >= 0 {
			s.resize(some, 2+s.r.IntN(6))
		}
	case 4: // all at once, as when a tiling window manager lays out anew
		for i := range s.viewers {
			s.resize(i, 1)
		}
	case 5:
		if some >= 0 {
			s.note("%d types", s.viewers[some].n)
			s.viewers[some].typed("k")
		}
	case 6:
		if some >= 0 && !s.viewers[some].stalled {
			s.note("%d stalls", s.viewers[some].n)
			s.viewers[some].pause()
			s.viewers[some].stalled = true
			s.paint("flood", 3000+s.r.IntN(20000))
		}
	case 7:
		if some >= 0 {
			rate := 2000 << s.r.IntN(7)
			s.note("%d reads %d bytes a second", s.viewers[some].n, rate)
			s.viewers[some].slow(rate)
			s.paint("flood", 500+s.r.IntN(4000))
		}
	case 8:
		if s.w.server() != 0 {
			s.note("kill the server")
			s.w.killServer()
		}
	default:
		kinds := []string{"lines", "repaint", "scroll", "modes", "styles", "alternate"}
		s.paint(kinds[s.r.IntN(len(kinds))], 1+s.r.IntN(40))
	}
}

func (s *simulation) attach() {
	size := simSizes[s.r.IntN(len(simSizes))]
	v := &viewer{terminal: s.w.terminal(size[0], size[1]).answering(0), n: len(s.trace), cols: size[0], rows: size[1]}
	s.note("%d attaches, %dx%d", v.n, v.cols, v.rows)
	v.run("attach", "p")
	eventually(s.t, "raw", func() bool {
		select {
		case <-v.exited:
			s.t.Fatalf("the client ended: %q", shortened(v.text()))
		default:
		}
		return v.raw()
	})
	s.viewers = append(s.viewers, v)
}

func (s *simulation) detach(i int) {
	v := s.viewers[i]
	s.note("%d detaches", v.n)
	v.detach()
	v.clean()
	v.drop()
	s.viewers = append(s.viewers[:i:i], s.viewers[i+1:]...)
}

// resize changes a window's size so many times, the last one staying.
func (s *simulation) resize(i, times int) {
	v := s.viewers[i]
	for range times {
		size := simSizes[s.r.IntN(len(simSizes))]
		v.cols, v.rows = size[0], size[1]
		s.note("%d is resized to %dx%d", v.n, v.cols, v.rows)
		v.terminal.resize(v.cols, v.rows)
	}
}

// recover makes a terminal read at full speed again.
func (s *simulation) recover(i int) {
	v := s.viewers[i]
	if v.stalled {
		s.note("%d goes on", v.n)
		v.stalled = false
	}
	v.slow(0)
	v.resume()
}

// paint tells the painter to print something, and waits until it has, with
// the signals of new sizes that came before taken care of.
func (s *simulation) paint(kind string, n int) {
	s.t.Helper()
	s.orders++
	s.note("paint %s %d", kind, n)
	file := filepath.Join(s.dir, strconv.Itoa(s.orders))
	if err := os.WriteFile(file+".tmp", fmt.Appendf(nil, "%s %d", kind, n), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "the painter has painted", func() bool {
		_, err := os.Stat(file + ".done")
		return err == nil
	})
}

// quiet lets everything settle, with the session at the size of one of the
// terminals if there are any, and compares all screens.
func (s *simulation) quiet() {
	s.t.Helper()
	for i := range s.viewers {
		s.recover(i)
	}
	if len(s.viewers) > 0 {
		v := s.viewers[s.r.IntN(len(s.viewers))]
		s.note("%d types; quiet", v.n)
		v.typed("k")
		last := time.Now()
		for deadline := time.Now().Add(patience); s.size != [2]int{v.cols, v.rows}; s.follow() {
			if time.Now().After(deadline) {
				s.t.Fatalf("the session is %dx%d, and terminal %d, which types, %dx%d", s.size[0], s.size[1], v.n, v.cols, v.rows)
			}
			if time.Since(last) > 200*time.Millisecond { // people type more than one key
				v.typed("k")
				last = time.Now()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	mark := fmt.Sprintf("quiet point %d", s.orders)
	s.paint(strings.ReplaceAll(mark, " ", "-"), 0)
	deadline := time.Now().Add(patience)
	for {
		s.follow()
		wrong := s.differs(strings.ReplaceAll(mark, " ", "-"))
		if wrong == "" && !s.follow() {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatal(wrong)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// follow feeds the reference with what is new in the log, and reports whether
// there was any.
func (s *simulation) follow() bool {
	s.t.Helper()
	for news := false; ; news = true {
		frame, err := s.log.TryNext()
		if errors.Is(err, logstore.ErrNotYet) {
			return news
		}
		if err != nil {
			s.t.Fatalf("the log: %v", err)
		}
		switch frame.Type {
		case logstore.TypeOut:
			s.shown.Write(frame.Payload)
		case logstore.TypeSize:
			z, err := logstore.DecodeSize(frame.Payload)
			if err != nil {
				s.t.Fatal(err)
			}
			s.size = [2]int{int(z.Cols), int(z.Rows)}
			s.shown.Resize(int(z.Cols), int(z.Rows))
		}
	}
}

// differs says which screen is not that of the reference, empty if none.
func (s *simulation) differs(mark string) string {
	want := portrait(s.shown)
	if !strings.Contains(want, mark) {
		return fmt.Sprintf("%q is not shown by what is in the log, but\n%s", mark, want)
	}
	compared := 0
	for _, v := range s.viewers {
		if s.size != [2]int{v.cols, v.rows} {
			continue
		}
		compared++
		v.mu.Lock()
		got := portrait(v.screen)
		v.mu.Unlock()
		if got != want {
			return fmt.Sprintf("terminal %d (%dx%d):\n%s", v.n, v.cols, v.rows, lineDiff(want, got))
		}
	}
	if len(s.viewers) > 0 && compared == 0 {
		return "no terminal has the session's size"
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := s.w.mux().Capture(ctx, wire.CaptureParams{Target: wire.Target{Name: "p"}, ANSI: true})
	if err != nil {
		return fmt.Sprintf("capture: %v", err)
	}
	lines := ansiLines(s.shown)
	if c := s.shown.Cursor(); got.CursorX != c.X || got.CursorY != c.Y || got.Title != s.shown.Title() || got.Alt != s.shown.AltScreen() {
		return fmt.Sprintf("capture: cursor %d,%d, title %q, alternate %v; want\n%s", got.CursorX, got.CursorY, got.Title, got.Alt, want)
	}
	return lineDiff(strings.Join(lines, "\n"), strings.Join(got.Lines, "\n"))
}

func ansiLines(v *vt.Terminal) (lines []string) {
	for _, l := range v.Lines() {
		lines = append(lines, strings.TrimRight(l.ANSI(), " "))
	}
	return lines
}

// portrait is all that a user sees of a screen, and what input depends on.
func portrait(v *vt.Terminal) string {
	cols, rows := v.Size()
	m := v.Modes()
	m.Sync, m.InBandResize = false, false // these the filter and the snapshot keep from a terminal
	c := v.Cursor()
	top, bottom := v.Region()
	return fmt.Sprintf("%s\nsize %dx%d, cursor %+v, region %d-%d, alternate %v, title %q\nmodes %+v",
		strings.Join(ansiLines(v), "\n"), cols, rows, c, top, bottom, v.AltScreen(), v.Title(), m)
}

// lineDiff shows in which lines got is not want.
func lineDiff(want, got string) string {
	x, y := strings.Split(want, "\n"), strings.Split(got, "\n")
	var b strings.Builder
	for i := range max(len(x), len(y)) {
		p, q := "", ""
		if i < len(x) {
			p = x[i]
		}
		if i < len(y) {
			q = y[i]
		}
		if p != q {
			fmt.Fprintf(&b, "row %d\n  want %q\n  got  %q\n", i+1, p, q)
		}
	}
	return b.String()
}

// A key that is typed right after the window was resized counts for the new
// size.
func TestSizeOfAKeyAfterAResize(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	tm := w.terminal(80, 24)
	tm.attach("a")
	other := w.terminal(90, 28)
	other.attach("a")
	for range 5 {
		other.typed("o")
		eventually(t, "the other's size", func() bool { return readProbe(t, log).last() == "90x28" })
		tm.resize(90, 28)
		tm.resize(101, 30)
		tm.typed("k")
		within(t, 5*time.Second, "the size of the one who typed last", func() bool { return readProbe(t, log).last() == "101x30" })
	}
	tm.detach()
	other.detach()
}

// So does one that is typed at a terminal which has not shown yet that another
// has the session.
func TestSizeOfALaggingTypist(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.path("keys")
	gate := w.path("go")
	w.start("a", "sh", "-c", fmt.Sprintf("%s @flood -go %s 40000 & exec %s @probe %s", self, gate, self, log))
	w.probeUp(log)
	slow := w.terminal(80, 24)
	slow.attach("a")
	slow.typed("s")
	w.received(log, "s")
	slow.pause()
	w.write("go", "")
	eventually(t, "the flood has ended", func() bool { return bytes.Contains(w.raw("a"), []byte("FLOOD END")) })
	other := w.terminal(100, 30)
	other.attach("a")
	other.typed("o")
	eventually(t, "the other's size", func() bool { return readProbe(t, log).last() == "100x30" })
	slow.typed("k")
	w.received(log, "sok")
	within(t, 5*time.Second, "the size of the one who typed last", func() bool { return readProbe(t, log).last() == "80x24" })
	slow.resume()
	slow.detach()
	other.detach()
}

// painterMain paints what it is told to, and the whole screen at a new size:
//
//	@painter [-strict] SEED DIR
//
// The orders are DIR/1, DIR/2 and so on, each "KIND N"; when one is carried
// out there is DIR/1.done.
func painterMain(args []string) int {
	f := flag.NewFlagSet("painter", flag.ExitOnError)
	strict := f.Bool("strict", false, "do not repaint a main screen that a new size has gone over unseen")
	f.Parse(args)
	seed, _ := strconv.ParseUint(f.Arg(0), 10, 64)
	dir := f.Arg(1)
	sizes := make(chan os.Signal, 64)
	signal.Notify(sizes, syscall.SIGWINCH)
	term.MakeRaw(0)
	go func() { // keys are of no interest
		buf := make([]byte, 4096)
		for {
			if _, err := os.Stdin.Read(buf); err != nil {
				return
			}
		}
	}()
	p := &painter{r: rand.New(rand.NewPCG(seed, 8)), strict: *strict}
	p.repaint()
	for n := 1; ; {
		select {
		case <-sizes:
			p.repaint()
			continue
		case <-time.After(3 * time.Millisecond):
		}
		file := filepath.Join(dir, strconv.Itoa(n))
		order, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		kind, count, _ := strings.Cut(string(order), " ")
		k, _ := strconv.Atoi(count)
		p.paint(kind, k)
		os.WriteFile(file+".done", nil, 0o600)
		n++
	}
}

// painter paints at random, but the same for the same seed and sizes.
type painter struct {
	r          *rand.Rand
	cols, rows int
	mark       string // of the last quiet point; it is there after each repaint
	alternate  bool   // on the alternate screen
	stale      bool   // it was resized there
	strict     bool
}

// words are the text of the pictures, of all widths.
var words = []string{
	"lorem", "ipsum", "dolor", "\u2500\u2500\u2500", "\u4e2d\u6587", "\u2588\u2592", "e\u0301t\u00e9", "\U0001f680", "\u2764\ufe0f", "\U0001f469\u200d\U0001f467",
	"\u276f", "\u2733", "x", "0123456789", "\ud55c\uad6d", "  ", "\u28ff\u28c0",
}

func (p *painter) word() string { return words[p.r.IntN(len(words))] }

func (p *painter) style() string {
	styles := []string{
		"\x1b[m", "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[4m", "\x1b[4:3m", "\x1b[7m", "\x1b[9m", "\x1b[22;23;24;27;29m", "\x1b[39;49m",
		fmt.Sprintf("\x1b[3%dm", p.r.IntN(8)), fmt.Sprintf("\x1b[4%dm", p.r.IntN(8)), fmt.Sprintf("\x1b[38;5;%dm", p.r.IntN(256)),
		fmt.Sprintf("\x1b[48;2;%d;%d;%dm", p.r.IntN(256), p.r.IntN(256), p.r.IntN(256)), fmt.Sprintf("\x1b[58:5:%dm", p.r.IntN(256)),
	}
	return styles[p.r.IntN(len(styles))]
}

// text is n words in styles.
func (p *painter) text(n int) string {
	var b strings.Builder
	for range n {
		if p.r.IntN(3) == 0 {
			b.WriteString(p.style())
		}
		b.WriteString(p.word())
	}
	return b.String()
}

func (p *painter) goTo() string {
	return fmt.Sprintf("\x1b[%d;%dH", 1+p.r.IntN(max(1, p.rows)), 1+p.r.IntN(max(1, p.cols)))
}

// repaint draws everything, as agents do at a new size.
func (p *painter) repaint() {
	p.cols, p.rows, _ = term.GetSize(0)
	p.stale = p.stale || p.alternate
	var b strings.Builder
	b.WriteString("\x1b[?2026h\x1b[r\x1b[?6l\x1b[?7h\x1b[4l\x1b(B\x0f\x1b[m\x1b[H\x1b[2J")
	for y := range p.rows {
		fmt.Fprintf(&b, "\x1b[%d;1H%d %s\x1b[m", y+1, y, p.text(1+p.r.IntN(max(1, p.cols/12))))
	}
	b.WriteString("\x1b[1;1H" + p.mark + p.goTo() + "\x1b[?2026l")
	put(b.String())
}

func (p *painter) paint(kind string, n int) {
	var b strings.Builder
	switch kind {
	case "lines":
		for range n {
			b.WriteString(p.text(1+p.r.IntN(25)) + "\r\n")
		}
	case "flood":
		for i := range n {
			fmt.Fprintf(&b, "%d %s\x1b[m\r\n", i, p.text(1+p.r.IntN(6)))
		}
	case "repaint":
		for range 1 + n/8 {
			p.repaint()
		}
	case "scroll":
		top := 1 + p.r.IntN(max(1, p.rows-3))
		fmt.Fprintf(&b, "\x1b[%d;%dr", top, top+1+p.r.IntN(max(1, p.rows-top)))
		for range n {
			b.WriteString(p.goTo())
			b.WriteString([]string{"\n", "\x1bM", "\x1b[L", "\x1b[2M", "\x1b[S", "\x1b[T", "\x1b[3@", "\x1b[2P", "\x1b[4X", "\x1b[K", "\x1b[1K", "\x1b[3b", "\t"}[p.r.IntN(13)])
			b.WriteString(p.text(1 + p.r.IntN(3)))
		}
		if p.r.IntN(2) == 0 {
			b.WriteString("\x1b[r")
		}
	case "modes":
		for range n {
			m := []int{1, 7, 25, 1000, 1002, 1003, 1006, 1004, 2004, 12, 45}[p.r.IntN(11)]
			fmt.Fprintf(&b, "\x1b[?%d%c", m, "hl"[p.r.IntN(2)])
		}
		b.WriteString([]string{"\x1b=", "\x1b>", "\x1b[5 q", "\x1b[0 q", "\x1b[>1u", "\x1b[<u", "\x1b[>4;2m", "\x1b[>4m"}[p.r.IntN(8)])
		fmt.Fprintf(&b, "\x1b]0;title %d \u2733\a", p.r.IntN(100))
	case "styles":
		for range n {
			b.WriteString(p.goTo() + p.text(1+p.r.IntN(4)))
		}
		b.WriteString("\x1b]8;;https://example.invalid/" + strconv.Itoa(n) + "\x1b\\link\x1b]8;;\x1b\\")
	case "alternate":
		b.WriteString("\x1b[?1049h" + p.text(n))
		p.alternate = p.r.IntN(2) == 0
		if !p.alternate {
			b.WriteString("\x1b[?1049l")
		}
		if !p.alternate && p.stale && !p.strict {
			put(b.String())
			b.Reset()
			p.repaint()
		}
		p.stale = p.stale && p.alternate
	default:
		p.mark = kind
		b.WriteString("\r" + kind)
	}
	put(b.String())
}

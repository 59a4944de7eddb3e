//go:build linux

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A viewer of another size than the session's gets a rendered view.

// cells is a part of a row of paintScreen's, from column x on.
func cells(x, y, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyz"[(x+i+y)%36])
	}
	return b.String()
}

// painted starts a session of this size that paints itself at every size, with
// a terminal of the same size attached.
func painted(w *world, cols, rows int) (active *terminal, log string) {
	w.t.Helper()
	log = w.startProbe("a", "-paint", "winch")
	active = w.terminal(cols, rows)
	active.attach("a")
	active.sees(fmt.Sprintf("%dx%d", cols, rows))
	active.row(2, cells(0, 1, cols))
	return active, log
}

// alternate reports whether the terminal shows its alternate screen.
func (tm *terminal) alternate() bool {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.screen.AltScreen()
}

func TestView01SmallerTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	active, log := painted(w, 100, 30)
	small := w.terminal(40, 10)
	small.show("$ make\r\nall good\r\n$ ")
	small.attach("a")
	for y := 1; y < 10; y++ {
		small.row(y+1, cells(0, y, 40))
	}
	if !small.alternate() {
		t.Error("not on the alternate screen")
	}
	if got := readProbe(t, log).last(); got != "100x30" {
		t.Errorf("looking on has set the size to %s", got)
	}
	small.resize(50, 12)
	small.row(12, cells(0, 11, 50))
	small.detach()
	small.clean()
	if rows := small.lines(); rows[1] != "all good" {
		t.Errorf("the user's screen is %q", rows)
	}
	active.row(2, cells(0, 1, 100))
	active.detach()
	active.clean()
}

func TestView02LargerTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	active, _ := painted(w, 60, 20)
	large := w.terminal(80, 24)
	large.attach("-r", "a")
	large.row(2, cells(0, 1, 60)+"│")
	large.row(21, strings.Repeat("─", 60)+"┘")
	large.row(22, "")
	large.resize(60, 24)
	large.row(2, cells(0, 1, 60))
	large.resize(60, 20) // the session's
	eventually(t, "it is passed through", func() bool { return !large.alternate() })
	large.same(active.picture())
	large.resize(70, 20)
	large.row(2, cells(0, 1, 60)+"│")
	large.detach()
	large.clean()
	active.detach()
}

// Who types gets the size, and the bytes; the other one a view.
func TestView03SizeGoesToAndFro(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, log := painted(w, 100, 30)
	b := w.terminal(60, 20)
	b.attach("a")
	b.row(2, cells(0, 1, 60))
	for range 3 {
		b.typed("b")
		b.sees("60x20")
		eventually(t, "the bytes go to the typist", func() bool { return !b.alternate() && a.alternate() })
		a.row(3, cells(0, 2, 60)+"│")
		a.typed("a")
		a.sees("100x30")
		eventually(t, "the bytes go to the typist", func() bool { return !a.alternate() && b.alternate() })
		b.row(3, cells(0, 2, 60))
		a.row(3, cells(0, 2, 100))
	}
	w.received(log, "bababa")
	a.resize(90, 25) // it has the size: the session goes along
	a.sees("90x25")
	b.row(3, cells(0, 2, 60))
	if a.alternate() {
		t.Error("the owner's window is rendered")
	}
	for _, tm := range []*terminal{a, b} {
		tm.detach()
		tm.clean()
	}
}

func TestView04Modes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-on", "\x1b[?1h\x1b=\x1b[?1002;1006;1004;2004h\x1b[>5u\x1b]2;the title\a")
	typist, looker := w.terminal(60, 20), w.terminal(60, 20)
	first := w.terminal(80, 24)
	first.attach("a")
	typist.attach("a")
	eventually(t, "the modes are on", func() bool {
		on := typist.modes()
		for _, m := range []string{"?1 ", "?1002", "?1004", "?1006", "?1049", "?2004", "keypad", "kitty1:5/1"} {
			if !strings.Contains(on+" ", m) {
				return false
			}
		}
		return true
	})
	looker.attach("-r", "a")
	eventually(t, "it is drawn", looker.alternate)
	stays(t, 100*time.Millisecond, "no input modes are on", func() bool {
		on := looker.modes()
		return !strings.Contains(on, "?1002") && !strings.Contains(on, "?2004") && !strings.Contains(on, "kitty")
	})
	// Shown from the corner: the mouse is where it is. A report is no typing.
	before := string(readProbe(t, log).input)
	typist.typed("\x1b[<0;60;20M\x1b[<0;61;2M")
	w.received(log, before+"\x1b[<0;60;20M\x1b[<0;61;2M")
	if got := readProbe(t, log).last(); got != "80x24" {
		t.Errorf("the mouse has set the size to %s", got)
	}
	for _, tm := range []*terminal{typist, looker, first} {
		tm.detach()
		tm.clean()
	}
}

// The agent's end is told, also to who looks on and in the moment of a change.
func TestView05End(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sh", "-c", "echo ready; read line; exit 3")
	w.shows("a", "ready")
	first := w.terminal(80, 24)
	first.attach("a")
	second, looker := w.terminal(60, 20), w.terminal(100, 30)
	second.attach("a")
	looker.attach("-r", "a")
	eventually(t, "both are drawn", func() bool { return second.alternate() && looker.alternate() })
	second.typed("\r")
	for _, tm := range []*terminal{first, second, looker} {
		tm.exit(3)
		tm.clean()
	}
}

// A viewer that takes nothing costs nothing, and then sees the newest.
func TestView06Stalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("flood", "-go", w.path("go"), "-stay", "200000")...)
	first := w.terminal(80, 24)
	first.attach("a")
	stalled := w.terminal(60, 20)
	stalled.attach("-r", "a")
	eventually(t, "it is drawn", stalled.alternate)
	stalled.pause()
	memory := residentKiB(t, stalled.cmd.Process.Pid)
	w.write("go", "")
	eventually(t, "the flood has ended", func() bool { return strings.Contains(w.screen("a"), "FLOOD END") })
	if now := residentKiB(t, stalled.cmd.Process.Pid); now > memory+32<<10 {
		t.Errorf("the stalled viewer has %d KiB, had %d", now, memory)
	}
	stalled.resume()
	stalled.sees("FLOOD END")
	if n := len(stalled.text()); n > 4<<20 {
		t.Errorf("it was sent %d bytes", n)
	}
	first.sees("FLOOD END")
	stalled.detach()
	stalled.clean()
	first.detach()
	first.clean()
}

// The view goes on while the server is away.
func TestView07ServerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	active, log := painted(w, 100, 30)
	small := w.terminal(40, 10)
	small.attach("a")
	small.row(2, cells(0, 1, 40))
	w.killServer()
	active.typed("x")
	w.received(log, "x")
	active.resize(80, 24)
	active.sees("80x24")
	small.sees("80x24")
	small.typed("y")
	small.sees("40x10")
	active.row(2, cells(0, 1, 40)+"│")
	for _, tm := range []*terminal{active, small} {
		tm.detach()
		tm.clean()
	}
}

// A client that is ended by a signal leaves the terminal as it was.
func TestView08Terminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	active, _ := painted(w, 100, 30)
	small := w.terminal(40, 10)
	small.attach("a")
	small.row(2, cells(0, 1, 40))
	small.cmd.Process.Signal(syscall.SIGTERM)
	small.exit(128 + int(syscall.SIGTERM))
	small.clean()
	active.detach()
}

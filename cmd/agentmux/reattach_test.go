//go:build linux

package main

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

func TestRA01SameSizeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "once")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("80x24")
	picture := w.terminal(80, 24)
	tm.settled()
	first := tm.picture()
	tm.detach()
	tm.clean()
	picture.attach("a")
	picture.same(first)
	tm.attach("a")
	tm.same(first)
	got := readProbe(t, log)
	if len(got.input) != 0 || got.last() != "80x24" {
		t.Errorf("input %q, sizes %v", got.input, got.winch)
	}
}

func TestRA03CursorAfterReattach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, text := range map[string]string{
		"prompt": "one\r\ntwo\r\n> ", "pending wrap": strings.Repeat("x", 80), "last cell": "\x1b[24;80H", "hidden": "a\x1b[?25lb",
		"wide": "\u4e2d", "region": "\x1b[5;10r\x1b[7;3Hin", "alternate": "main\x1b[?1049h\x1b[4;5Halt",
	} {
		t.Run(name, func(t *testing.T) {
			name := strings.ReplaceAll(name, " ", "-")
			w.startProbe(name, "-echo", "-on", text)
			eventually(t, "the text is in the log", func() bool { return string(w.raw(name)) == text })
			tm := w.terminal(80, 24)
			tm.attach(name)
			eventually(t, "the screen is there", func() bool { return !strings.Contains(tm.modes(), "?2026") && len(tm.recent()) > 200 })
			tm.settled()
			before := tm.picture()
			tm.detach()
			again := w.terminal(80, 24)
			again.attach(name)
			again.same(before)
			again.typed("Z")
			w.shows(name, "Z")
			again.sees("Z")
			third := w.terminal(80, 24)
			third.attach(name)
			third.same(again.picture())
			again.detach()
			again.clean()
		})
	}
}

func TestRA04EveryCutIsABadOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	unit := "\x1b[38;2;153;153;153m*\x1b[0m\x1b[48;5;236m\u4e2d\U0001f680\x1b[m\x1b]8;;https://example.invalid/a;b\x1b\\l\x1b]8;;\x1b\\"
	w.startProbe("a", "-on", strings.Repeat(unit, 1000)+"\x1b[m\x1b[H\x1b[2JTOP OK\r\ncut test\r\n")
	for range 4 {
		tm := w.terminal(80, 24)
		tm.attach("a")
		tm.row(1, "TOP OK")
		for i, row := range tm.lines() {
			if want := []string{"TOP OK", "cut test"}; i < 2 && row != want[i] || i >= 2 && row != "" {
				t.Errorf("row %d is %q", i+1, row)
			}
		}
		if out := tm.text(); strings.Contains(out, "\ufffd") {
			t.Error("a replacement mark was written")
		}
		tm.detach()
		tm.clean()
	}
}

func TestRA07TrueSizeComesLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, size := range [][2]int{{132, 43}, {80, 24}} {
		name := fmt.Sprintf("a%d", size[0])
		log := w.startProbe(name, "-paint", "winch")
		tm := w.terminal(100, 30)
		tm.run("attach", name)
		eventually(t, "raw", tm.raw)
		tm.resize(size[0], size[1])
		want := fmt.Sprintf("%dx%d", size[0], size[1])
		eventually(t, "the true size", func() bool { return readProbe(t, log).last() == want })
		tm.row(1, paintedRow(size[0]))
		if got := readProbe(t, log).winch; len(got) > 3 {
			t.Errorf("%d sizes: %v", len(got), got)
		}
		tm.detach()
	}
}

// paintedRow is the first row as paintScreen leaves it.
func paintedRow(cols int) string {
	var b strings.Builder
	for x := range cols {
		b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyz"[x%36])
	}
	label := map[int]string{80: "80x24", 132: "132x43"}[cols]
	return label + b.String()[len(label):]
}

func TestRA09ShellsLinesComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-paint", "once")
	tm := w.terminal(80, 24)
	for i := range 5 {
		tm.show(fmt.Sprintf("SHELL LINE %d\r\n", i+1))
	}
	tm.attach("a")
	tm.sees("80x24")
	tm.detach()
	tm.clean()
	if tm.seen("ED3") != 0 || tm.seen("RIS") != 0 {
		t.Errorf("scrollback erased %d times, terminal reset %d times", tm.seen("ED3"), tm.seen("RIS"))
	}
	tm.mu.Lock()
	defer tm.mu.Unlock()
	var all strings.Builder
	for _, l := range append(tm.screen.History(1000), tm.screen.Lines()...) {
		all.WriteString(l.Text() + "\n")
	}
	for i := range 5 {
		if line := fmt.Sprintf("SHELL LINE %d\n", i+1); !strings.Contains(all.String(), line) {
			t.Errorf("%q is gone", line)
		}
	}
}

func TestRA10HugeRestoreThroughSlowTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-history", "30000")
	tm := w.terminal(80, 24)
	tm.slow(200 << 10)
	tm.run("attach", "--history", "30000", "a")
	eventually(t, "raw", tm.raw)
	for _, key := range "0123456789" {
		tm.typed(string(key))
	}
	w.received(log, "0123456789")
	tm.sees("history that is long enough")
	tm.slow(0)
	tm.detach()
	tm.clean()
}

func TestRA11ClientDiesInTheRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-history", "30000", "-paint", "once")
	for range 3 {
		tm := w.terminal(80, 24)
		tm.pause()
		tm.run("attach", "--history", "30000", "a")
		eventually(t, "raw", tm.raw)
		tm.drop()
		within(t, 5*time.Second, "nobody is attached", func() bool { return w.status("a").Attached == 0 })
		tm.end()
	}
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("80x24")
	tm.detach()
}

// everyMode is all that an agent may switch on.
const everyMode = "\x1b[?1049h\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1005h\x1b[?1015h\x1b[?1006h\x1b[?1016h\x1b[?1004h\x1b[?2004h\x1b[?2031h" +
	"\x1b[?2048h\x1b[?1h\x1b=\x1b[>1u\x1b[>5u\x1b[=7;1u\x1b[>4;2m\x1b[5 q\x1b[?25l\x1b[3;10r\x1b[?6h\x1b[?7l\x1b[4h\x1b(0\x0e\x1b[1;31;44m" +
	"\x1b]8;;https://example.invalid/\x1b\\\x1b]9;4;3;0\x1b\\\x1b]22;wait\x1b\\\x1b]11;#112233\x1b\\\x1b[?2026h\x1b[22;0t\x1b]0;agent title\aMODES ON"

func TestTM01AndTM06EveryWayOut(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world, *terminal){
		"detach":  func(_ *world, tm *terminal) { tm.detach() },
		"exit":    func(w *world, tm *terminal) { w.ok("send", "a", "x"); tm.exit(0) },
		"killed":  func(w *world, tm *terminal) { syscall.Kill(w.status("a").AgentPID, syscall.SIGKILL); tm.exit(137) },
		"TERM":    func(_ *world, tm *terminal) { tm.cmd.Process.Signal(syscall.SIGTERM); tm.exit(143) },
		"sent":    func(w *world, tm *terminal) { w.ok("detach", "a"); tm.exit(0) },
		"no shim": func(w *world, tm *terminal) { syscall.Kill(w.status("a").ShimPID, syscall.SIGKILL); tm.exit(125) },
		"no server": func(w *world, tm *terminal) {
			w.killServer()
			tm.detach()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, fresh := range []bool{false, true} {
				w.start("a", "sh", "-c", "stty raw -echo; printf %s \"$1\"; while [ \"$(head -c 1)\" != x ]; do :; done", "sh", everyMode)
				tm := w.terminal(80, 24)
				if fresh { // the modes come in the snapshot
					eventually(t, "the modes are on", func() bool { return strings.Contains(string(w.raw("a")), "MODES ON") })
				}
				tm.attach("a")
				eventually(t, "the modes are on", func() bool {
					modes := tm.modes()
					return strings.Contains(modes, "?1003") && strings.Contains(modes, "?2004")
				})
				tm.settled()
				leave(w, tm)
				tm.clean()
				w.killAll()
			}
		})
	}
}

// killAll ends and removes all sessions.
func (w *world) killAll() {
	w.t.Helper()
	for _, s := range w.list(true) {
		if s.State == session.Running {
			w.run("kill", "--grace", "1s", s.Name)
		}
		w.ok("rm", string(s.ID))
	}
}

func TestTM02AndTM06ModesComeBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b[?1h\x1b=\x1b[5 q\x1b[?25l\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?1004h\x1b]2;the title\aHERE")
	for range 2 {
		tm := w.terminal(80, 24)
		tm.attach("a")
		tm.sees("HERE")
		tm.settled()
		for _, mode := range []string{"?1 ", "keypad", "cursor-style", "?25", "?1002", "?1006", "?2004", "?1004"} {
			if !strings.Contains(tm.modes()+" ", mode) {
				t.Errorf("%s is not on: %s", mode, tm.modes())
			}
		}
		tm.mu.Lock()
		title := tm.screen.Title()
		tm.mu.Unlock()
		if title != "the title" {
			t.Errorf("the title is %q", title)
		}
		tm.detach()
		tm.clean()
	}
}

func TestTM03KittyLevels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b[>1u\x1b[>5u\x1b[=7;1uHERE")
	tm := w.terminal(80, 24)
	tm.show("\x1b[>1u") // the user's own level
	for range 2 {
		tm.attach("a")
		tm.sees("HERE")
		eventually(t, "flags 7", func() bool { return strings.Contains(tm.modes(), "kitty0:7/") })
		tm.detach()
		tm.clean()
		if got := tm.modes(); got != "kitty0:1/1" {
			t.Errorf("the user's level is %q", got)
		}
	}
}

func TestTM09TerminalSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a")
	tm := w.terminal(80, 24)
	for name, leave := range map[string]func(){
		"no such session": func() { tm.run("attach", "none"); tm.exit(3) },
		"detach":          func() { tm.attach("a"); tm.detach() },
		"TERM":            func() { tm.attach("a"); tm.cmd.Process.Signal(syscall.SIGTERM); tm.exit(143) },
		"server killed":   func() { tm.attach("a"); w.killServer(); tm.detach() },
		"child exit": func() {
			tm.foreground("b", "true")
			tm.exit(0)
		},
		"ls": func() { tm.run("ls"); tm.exit(0) },
	} {
		t.Run(name, func(t *testing.T) {
			leave()
			tm.clean()
		})
	}
	t.Run("client killed", func(t *testing.T) {
		tm.attach("a")
		tm.cmd.Process.Kill()
		tm.end()
		if _, flags := tm.settings(); flags != tm.flags {
			t.Errorf("descriptor flags are %#x, were %#x", flags, tm.flags)
		}
	})
}

func TestTM11And13OffBeforeTheMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tm := w.terminal(80, 24)
	tm.foreground("a", "sh", "-c", `printf '\033[?2004h\033]9;4;3;0\033\\UP'; kill -9 $$`)
	tm.exit(137)
	tm.clean()
	out := tm.text()
	message := strings.Index(out, "[a was ended")
	if message < 0 || strings.Contains(out[message:], "?2004l") || strings.Contains(out[message:], "]9;4;0") {
		t.Errorf("the output ends in %q", tail(out))
	}
	if strings.Contains(out, "\x1b]9;4;3") && !strings.Contains(out, "\x1b]9;4;0") {
		t.Errorf("the progress bar was not ended: %q", tail(out))
	}
}

func TestTM12ModesOfADeadProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sh", "-c", `sh -c 'printf "\033[?1002h\033[?2004h"; kill -9 $$'; echo SHELL; sleep 600`)
	w.shows("a", "SHELL")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("SHELL")
	tm.settled()
	if !strings.Contains(tm.modes(), "?1002") {
		t.Errorf("modes are not those that a terminal would hold: %s", tm.modes())
	}
	tm.detach()
	tm.clean()
}

func TestDK01And02And03DetachKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, v := range []struct {
		name, on, typed, reaches string
		detaches                 bool
	}{
		{"byte", "", "\x1c", "", true},
		{"kitty", "\x1b[>1u", "\x1b[92;5u", "", true},
		{"num lock", "\x1b[>1u", "\x1b[92;133u", "", true},
		{"caps lock", "\x1b[>1u", "\x1b[92;69u", "", true},
		{"press", "\x1b[>3u", "\x1b[92;5:1u", "", true},
		{"release", "\x1b[>3u", "\x1b[92;5:3u", "", false},
		{"alternate", "\x1b[>5u", "\x1b[92:124;5u", "", true},
		{"text", "\x1b[>17u", "\x1b[92;5;28u", "", true},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[27;5;92~", "", true},
		{"alt", "\x1b[>1u", "\x1b[92;3u", "\x1b[92;3u", false},
		{"ctrl-shift", "\x1b[>1u", "\x1b[92;6u", "\x1b[92;6u", false},
		{"other key", "\x1b[>1u", "\x1b[93;5u", "\x1b[93;5u", false},
		{"more digits", "\x1b[>1u", "\x1b[192;5u", "\x1b[192;5u", false},
		{"batched", "", "abc\x1cdef", "abc", true},
		{"batched report", "\x1b[>1u", "abc\x1b[92;5uxyz", "abc", true},
		{"mouse", "\x1b[?1000h\x1b[?1006h", "\x1b[<92;5;5M", "\x1b[<92;5;5M", false},
		{"arrow", "", "\x1b[1;5A", "\x1b[1;5A", false},
		{"in a paste", "\x1b[?2004h", "\x1b[200~a\x1cb\x1b[201~", "\x1b[200~a\x1cb\x1b[201~", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			name := fmt.Sprintf("k%d", i)
			log := w.startProbe(name, "-on", v.on+"HERE")
			tm := w.terminal(80, 24)
			tm.attach(name)
			tm.sees("HERE")
			tm.typed(v.typed)
			if v.detaches {
				tm.exit(0)
				tm.clean()
				w.received(log, v.reaches)
			} else {
				tm.typed("!")
				w.received(log, v.reaches+"!")
				tm.drop()
			}
			w.ok("kill", name)
		})
	}
	t.Run("split", func(t *testing.T) {
		log := w.startProbe("split", "-on", "\x1b[>1uHERE")
		tm := w.terminal(80, 24)
		tm.attach("split")
		tm.sees("HERE")
		tm.typed("\x1b[92")
		tm.typed(";5u")
		tm.exit(0)
		tm.clean()
		w.received(log, "")
	})
}

func TestDK07And09OtherKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	if out := w.ok("attach", "--help"); !strings.Contains(out, `--key 'ctrl-\'`) {
		t.Errorf("the help does not say how to send the key itself:\n%s", out)
	}
	w.ok("send", "--key", `ctrl-\`, "a")
	w.received(log, "\x1c")
	tm := w.terminal(80, 24)
	tm.attach("--detach-keys", "ctrl-b,d", "a")
	tm.typed("\x1c\x02x\x02")
	w.received(log, "\x1c\x1c\x02x")
	tm.typed("d")
	tm.exit(0)
	tm.clean()
	w.setenv("AGENTMUX_DETACH_KEYS=ctrl-g")
	tm.attach("a")
	tm.typed("\x07")
	tm.exit(0)
	tm.foreground("b", "sleep", "600")
	tm.attached("b", 1)
	tm.typed("\x07")
	tm.exit(0)
	tm.clean()
}

func TestDK10ListRightAfterDetach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a")
	tm := w.terminal(80, 24)
	for range 25 {
		tm.attach("a")
		tm.typed(detachKey)
		tm.exit(0)
		if n := w.status("a").Attached; n != 0 {
			t.Fatalf("%d attached right after the client's end", n)
		}
	}
}

func TestTQ01NothingAskedNothingTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "once")
	for _, delay := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond} {
		tm := w.terminal(80, 24).answering(delay)
		for range 2 {
			tm.attach("a")
			tm.sees("80x24")
			tm.detach()
			tm.clean()
		}
		// Left before the answers have come.
		tm.run("attach", "a")
		eventually(t, "raw", tm.raw)
		tm.attached("a", 1)
		tm.typed(detachKey)
		tm.exit(0)
		tm.clean()
		tm.attach("a")
		tm.typed("x")
		eventually(t, "the key arrives", func() bool { return strings.HasSuffix(string(readProbe(t, log).input), "x") })
		tm.detach()
	}
	w.received(log, "xxx")
}

func TestTQ02And12OneAnswerEach(t *testing.T) {
	t.Parallel()
	for _, viewers := range []int{1, 2} {
		t.Run(fmt.Sprint(viewers), func(t *testing.T) {
			w := newWorld(t)
			file := w.path("asked")
			a := w.terminal(80, 24).answering(10 * time.Millisecond)
			a.foreground("q", append([]string{"sh", "-c", `while [ ! -e go ]; do sleep 0.01; done; exec "$@"`, "sh"}, helper("ask", file)...)...)
			a.attached("q", 1)
			if viewers == 2 {
				b := w.terminal(80, 24).answering(0)
				b.attach("q")
			}
			w.write("w/go", "")
			got := readAsked(t, file)
			for name, n := range got.Count {
				if n > 1 {
					t.Errorf("%s was answered %d times", name, n)
				}
			}
			for _, name := range []string{"DA1", "DSR", "CPR", "OSC10", "OSC11"} {
				if got.Count[name] != 1 {
					t.Errorf("%s was answered %d times", name, got.Count[name])
				}
			}
			if got.Rest != "" || !strings.Contains(got.Raw, "rgb:1111/2222/3333") {
				t.Errorf("the program got %q", got.Raw)
			}
		})
	}
	t.Run("at once", func(t *testing.T) {
		w := newWorld(t)
		file := w.path("asked")
		tm := w.terminal(80, 24).answering(10 * time.Millisecond)
		tm.foreground("q", helper("ask", file)...)
		got := readAsked(t, file)
		for name, n := range got.Count {
			if n != 1 && name != "XTVERSION" && name != "KITTY" && name != "SYNC" && name != "DA2" || n > 1 {
				t.Errorf("%s was answered %d times", name, n)
			}
		}
		if got.Rest != "" {
			t.Errorf("the program got %q", got.Raw)
		}
		tm.typed(detachKey)
		tm.exit(0)
		tm.clean()
	})
}

func TestTQ03AnsweredWithNobodyThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("asked")
	w.start("q", helper("ask", "-one-by-one", "-wait", "1s", file)...)
	got := readAsked(t, file)
	for _, name := range []string{"DA1", "DSR", "CPR"} {
		if d := got.Delay[name]; got.Count[name] != 1 || d > 500*time.Millisecond {
			t.Errorf("%s: %d answers, after %v", name, got.Count[name], d)
		}
	}
	if got.Rest != "" {
		t.Errorf("beside the answers came %q", got.Rest)
	}
}

func TestTQ06AskedAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, delay := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond} {
		tm := w.terminal(80, 24).answering(delay)
		tm.foreground(fmt.Sprintf("q%d", i), helper("ask", "-at-exit", w.path("none"))...)
		tm.exit(0)
		tm.clean()
	}
}

func TestTQ10NoAnswerIsPrinted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-mirror", "-on", "HERE")
	for range 4 {
		tm := w.terminal(80, 24).answering(300 * time.Millisecond)
		tm.attach("a")
		tm.sees("HERE")
		eventually(t, "the terminal has answered", func() bool { return len(tm.replies) == 0 })
		tm.detach()
		tm.clean()
	}
	if got := string(w.raw("a")); got != "HERE" {
		t.Errorf("the program printed %q", got)
	}
}

func TestRS01ControllingTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	pid := w.status("a").AgentPID
	fields := statFields(t, pid)
	if fields[3] != fmt.Sprint(pid) || fields[4] == "0" || fields[5] != fmt.Sprint(pid) {
		t.Errorf("session %s, terminal %s, foreground group %s; pid %d", fields[3], fields[4], fields[5], pid)
	}
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.resize(90, 30)
	tm.typed("x")
	eventually(t, "the new size", func() bool { return readProbe(t, log).last() == "90x30" })
	tm.detach()
	w.start("b", "sh", "-c", "echo UP >/dev/tty; exec sleep 600")
	w.shows("b", "UP")
	tm.attach("b")
	tm.typed("\x03")
	tm.exit(130)
	w.exited("b", session.Exit{Signal: "SIGINT"})
}

func TestRS02OddSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "winch")
	for _, size := range [][2]int{{0, 0}, {1, 1}, {2, 1}, {10000, 10000}, {65535, 1}, {80, 24}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			before := readProbe(t, log).last()
			tm := w.terminal(80, 24)
			tm.setSize(size[0], size[1])
			tm.attach("a")
			tm.typed("x")
			eventually(t, "the key arrives", func() bool { return strings.HasSuffix(string(readProbe(t, log).input), "x") })
			after := readProbe(t, log).last()
			if size == [2]int{0, 0} && after != before {
				t.Errorf("without a size it is %s, was %s", after, before)
			}
			var cols, rows int
			fmt.Sscanf(after, "%dx%d", &cols, &rows)
			if cols < session.MinCols || rows < session.MinRows || cols > session.MaxCols || rows > session.MaxRows {
				t.Errorf("the program has %s", after)
			}
			tm.detach()
			tm.clean()
		})
	}
	if kib := residentKiB(t, w.server()); kib > 400<<10 {
		t.Errorf("the server has %d KiB", kib)
	}
}

func TestRS03FrozenSmallClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "winch")
	small := w.terminal(40, 10)
	small.attach("a")
	small.typed("x")
	eventually(t, "the small size", func() bool { return readProbe(t, log).last() == "40x10" })
	small.cmd.Process.Signal(syscall.SIGSTOP)
	large := w.terminal(120, 40)
	large.attach("a")
	large.typed("y")
	within(t, 5*time.Second, "the large size", func() bool { return readProbe(t, log).last() == "120x40" })
	large.sees("120x40")
	if r := w.run("detach", "a"); r.code != 0 || r.took > 5*time.Second {
		t.Errorf("detach: %v", r)
	}
	large.exit(0)
	small.cmd.Process.Signal(syscall.SIGCONT)
	small.exit(0)
	small.clean()
}

func TestRS06FromAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "winch")
	large := w.terminal(200, 50)
	large.attach("a")
	large.sees("200x50")
	large.detach()
	small := w.terminal(80, 24)
	small.attach("a")
	small.sees("80x24")
	small.row(1, paintedRow(80))
	if got := readProbe(t, log).last(); got != "80x24" {
		t.Errorf("the last size is %s", got)
	}
	small.detach()
}

func TestRS08ReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-echo")
	active := w.terminal(100, 30)
	active.attach("a")
	active.typed("x")
	eventually(t, "its size", func() bool { return readProbe(t, log).last() == "100x30" })
	watcher := w.terminal(30, 10)
	watcher.attach("-r", "a")
	watcher.typed("nothing")
	watcher.resize(40, 12)
	active.typed("y")
	w.received(log, "xy")
	if got := readProbe(t, log).last(); got != "100x30" {
		t.Errorf("the watcher has set the size to %s", got)
	}
	watcher.typed(detachKey)
	watcher.exit(0)
	watcher.clean()
	active.detach()
}

func TestOS01NothingHappensAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b]52;c;b2xk\a\x1b]9;build finished\a\x1b]777;notify;agent;needs\a\x1b]99;i=1:d=0;build\x1b\\\a\x1b]133;A\a$ \x1b]7;file://host/tmp\x1b\\HERE")
	w.shows("a", "HERE")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("HERE")
	tm.detach()
	for _, what := range []string{"OSC52", "OSC9", "OSC777", "OSC99", "BEL", "OSC133", "OSC7"} {
		if n := tm.seen(what); n != 0 {
			t.Errorf("%s: %d times", what, n)
		}
	}
}

func TestOS02LiveEffectsReachTheTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-mirror")
	tm := w.terminal(80, 24)
	tm.attach("a")
	w.probeUp(log)
	tm.mark()
	for _, effect := range []string{"\x1b]52;c;bmV3\a", "\x1b]52;c;bmV3\x1b\\", "\x1b]9;build finished\a", "\a"} {
		w.ok("send", "a", effect)
		tm.expect(effect)
	}
	tm.typed("OK")
	tm.expect("OK")
	tm.detach()
	tm.clean()
}

func TestOS05And06And07TitleMarksAndLinks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b]0;* working on x\a\x1b]133;A\a\x1b]8;id=1;https://example.invalid/x\x1b\\link")
	tm := w.terminal(80, 24)
	tm.show("\x1b]0;my shell\a")
	for range 2 {
		tm.attach("a")
		tm.sees("link")
		tm.settled()
		tm.mu.Lock()
		title := tm.screen.Title()
		tm.mu.Unlock()
		if title != "* working on x" {
			t.Errorf("attached, the title is %q", title)
		}
		tm.detach()
		tm.clean()
		tm.mu.Lock()
		title = tm.screen.Title()
		tm.mu.Unlock()
		if title != "my shell" {
			t.Errorf("after detach the title is %q", title)
		}
	}
}

func TestOS11StringThatNeverEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sh", "-c", `printf 'before\r\n\033]0;no end here '; head -c 3000000 /dev/zero | tr '\0' a; printf '\030\r\nAFTER\r\n'; sleep 600`)
	w.shows("a", "AFTER")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("AFTER")
	tm.detach()
	tm.clean()
	if n := len(w.raw("a")); n < 3000000 {
		t.Errorf("%d bytes are in the log", n)
	}
}

func TestOS13TitleIsShownSafely(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b]2;a;b \u00e9 \u202e\x1b[31m\aHERE")
	w.shows("a", "HERE")
	for _, args := range [][]string{{"ls"}, {"status", "a"}, {"capture", "a"}} {
		if out := w.ok(args...); strings.ContainsAny(out, "\x1b\a\u202e") {
			t.Errorf("%v: %q", args, out)
		}
	}
}

func TestSB06OtherSessionsHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", strings.Repeat("AAAA\r\n", 100))
	w.startProbe("b", "-on", strings.Repeat("BBBB\r\n", 100))
	tm := w.terminal(80, 24)
	tm.attach("--history", "1000", "a")
	tm.sees("AAAA")
	tm.detach()
	tm.mark()
	tm.attach("--history", "1000", "b")
	tm.expect("BBBB")
	tm.detach()
	if strings.Contains(tm.recent(), "AAAA") {
		t.Error("lines of a were written for b")
	}
}

func TestWC02And05And07Cells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, v := range map[string]struct{ text, row, bytes string }{
		"selector": {"\u26a0\ufe0f hello|", "\u26a0\ufe0f hello|", "\u26a0\ufe0f"},
		"adjacent": {"\u4e2d\u6587\u5b57\u5e45", "\u4e2d\u6587\u5b57\u5e45", "\u4e2d\u6587\u5b57\u5e45"},
		"right":    {"\u4e2d\x1b[1;2HZ", " Z", "Z"},
		"left":     {"\u4e2d\x1b[1;1HZ", "Z", "Z"},
	} {
		t.Run(name, func(t *testing.T) {
			w.startProbe(name, "-on", v.text)
			live := w.terminal(80, 24)
			live.attach(name)
			live.row(1, v.row)
			fresh := w.terminal(80, 24)
			fresh.attach(name)
			fresh.same(live.picture())
			if !strings.Contains(fresh.text(), v.bytes) {
				t.Errorf("the bytes %q were not written", v.bytes)
			}
			if got := w.ok("log", name); got != v.row+"\n" {
				t.Errorf("the log is %q", got)
			}
			live.detach()
			fresh.detach()
		})
	}
}

func TestFL01And02SynchronizedUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("split", helper("redraw", "3", "\x1b[?2026hone two\x1b[?2026l")...)
	w.start("nest", helper("redraw", "9", "\x1b[?2026h\x1b[?2026hA\x1b[?2026lB\x1b[?2026lC")...)
	for name, want := range map[string]string{"split": "one two", "nest": "ABC"} {
		tm := w.terminal(80, 24)
		tm.attach(name)
		tm.row(1, want)
		eventually(t, "no update is open", func() bool { return !strings.Contains(tm.modes(), "?2026") })
		tm.detach()
		tm.clean()
	}
}

// Fifty viewers of one session see the same, and leave nothing behind.
func TestFiftyClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-echo", "-on", "HERE ")
	pids := map[string]int{"server": w.server(), "shim": w.status("a").ShimPID}
	before := make(map[string]int)
	for who, pid := range pids {
		before[who] = descriptors(t, pid)
	}
	const clients = 50
	terminals := make([]*terminal, clients)
	for i := range terminals {
		terminals[i] = w.terminal(80, 24)
		terminals[i].run("attach", "a")
	}
	eventually(t, "all are attached", func() bool { return w.status("a").Attached == clients })
	for _, tm := range terminals {
		tm.sees("HERE")
	}
	terminals[7].typed("hello")
	w.received(log, "hello")
	for _, tm := range terminals {
		tm.row(1, "HERE hello")
	}
	if out := w.ok("detach", "a"); out != fmt.Sprintf("%d clients detached\n", clients) {
		t.Errorf("detach printed %q", out)
	}
	for _, tm := range terminals {
		tm.exit(0)
		tm.clean()
	}
	for who, pid := range pids {
		within(t, 5*time.Second, who+"'s descriptors are back", func() bool { return descriptors(t, pid) <= before[who]+2 })
	}
}

// What the program does while it is watched, by several at a time: attach and
// detach at random, all screens are equal in the end.
func TestManyComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("flood", "-color", "-rate", "20000", "-stay", "40000")...)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 8 {
				tm := w.terminal(80, 24)
				tm.run("attach", "a")
				eventually(t, "raw", tm.raw)
				tm.attached("a", 1)
				tm.typed(detachKey)
				tm.exit(0)
				tm.clean()
				tm.drop()
			}
		})
	}
	wait.Wait()
	eventually(t, "the flood has ended", func() bool { return strings.Contains(w.screen("a"), "FLOOD END") })
	w.wholeFlood("a", 40000)
}

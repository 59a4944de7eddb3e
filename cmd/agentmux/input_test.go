//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

// paste is a bracketed paste of printable bytes with line ends.
func paste(size int) string {
	body := make([]byte, size)
	random := rand.New(rand.NewSource(int64(size)))
	for i := range body {
		if body[i] = byte(' ' + random.Intn(95)); i%80 == 79 {
			body[i] = '\r'
		}
	}
	return "\x1b[200~" + string(body) + "\x1b[201~"
}

// pasted types a paste in pieces, as terminals do.
func (tm *terminal) pasted(text string) {
	for piece := range slices.Chunk([]byte(text), 4096) {
		tm.typed(string(piece))
	}
}

func TestIN01AndIN02LargePaste(t *testing.T) {
	t.Parallel()
	t.Run("mirror", func(t *testing.T) {
		w := newWorld(t)
		log := w.startProbe("a", "-mirror", "-on", "\x1b[?2004h")
		w.start("other", "sleep", "600")
		tm := w.terminal(80, 24)
		tm.attach("a")
		text := paste(256 << 10)
		began := time.Now()
		tm.pasted(text)
		if r := w.run("ls"); r.code != 0 || r.took > 3*time.Second {
			t.Errorf("ls meanwhile: %v", r)
		}
		w.received(log, text)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("the paste took %v", took)
		}
		got := string(readProbe(t, log).input)
		for _, mark := range []string{"\x1b[200~", "\x1b[201~"} {
			if n := strings.Count(got, mark); n != 1 {
				t.Errorf("%d times %q", n, mark)
			}
		}
		tm.detach()
		tm.clean()
	})
	t.Run("cooked", func(t *testing.T) {
		w := newWorld(t)
		w.start("a", "sh", "-c", "cat | tail -c 20; sleep 600")
		tm := w.terminal(80, 24)
		tm.attach("a")
		for i := range 2000 {
			tm.typed(fmt.Sprintf("line %d of a paste that is typed\r", i))
		}
		tm.typed("THE END\r\x04")
		w.shows("a", "THE END")
		tm.detach()
	})
	t.Run("slow", func(t *testing.T) {
		w := newWorld(t)
		log := w.startProbe("a", "-slow", "5ms", "-on", "\x1b[?2004h")
		tm := w.terminal(80, 24)
		tm.attach("a")
		text := paste(64 << 10)
		tm.pasted(text)
		tm.typed("x")
		w.received(log, text+"x")
		tm.detach()
	})
	t.Run("nobody reads", func(t *testing.T) {
		w := newWorld(t)
		w.start("a", "sh", "-c", "stty raw -echo; echo UP; sleep 600")
		w.shows("a", "UP")
		tm := w.terminal(80, 24)
		tm.attach("a")
		tm.pasted(paste(64 << 10))
		tm.typed(detachKey)
		tm.end()
		tm.clean()
		if r := w.run("kill", "--grace", "1s", "a"); r.code != 0 {
			t.Errorf("kill: %v", r)
		}
	})
}

// An outer terminal whose paste marks are on although the program wants none.
func TestIN05UnaskedPasteMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "once")
	tm := w.terminal(80, 24)
	tm.show("\x1b[?2004h")
	tm.attach("a")
	tm.sees("80x24")
	if strings.Contains(tm.modes(), "?2004") {
		tm.typed("\x1b[200~abc\x1b[201~")
	} else {
		tm.typed("abc") // no marks come from a terminal that has them off
	}
	w.received(log, "abc")
	tm.detach()
}

func TestIN06TypingWhileTheServerIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	tm := w.terminal(80, 24)
	tm.attach("a")
	pid := w.server()
	syscall.Kill(pid, syscall.SIGSTOP)
	for _, key := range "abcdef" {
		tm.typed(string(key))
	}
	w.received(log, "abcdef")
	syscall.Kill(pid, syscall.SIGCONT)
	w.ok("send", "a", "g")
	w.received(log, "abcdefg")
}

// The shim itself is stopped for a while: what is typed waits, in order.
func TestIN06TypingWhileTheShimIsStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	tm := w.terminal(80, 24)
	tm.attach("a")
	shim := w.status("a").ShimPID
	tm.typed("1")
	w.received(log, "1")
	syscall.Kill(shim, syscall.SIGSTOP)
	for _, key := range "abcdef" {
		tm.typed(string(key))
	}
	syscall.Kill(shim, syscall.SIGCONT)
	w.received(log, "1abcdef")
}

func TestIN07TypingDuringAttach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-history", "50000")
	for _, when := range []string{"at once", "raw"} {
		t.Run(when, func(t *testing.T) {
			before := string(readProbe(t, log).input)
			tm := w.terminal(80, 24)
			tm.run("attach", "--history", "10000", "a")
			if when == "raw" {
				eventually(t, "raw", tm.raw)
			}
			for _, key := range "q1w2e3" {
				tm.typed(string(key))
			}
			w.received(log, before+"q1w2e3")
			tm.detach()
			tm.clean()
		})
	}
}

func TestIN09KeysStayTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	tm := w.terminal(80, 24)
	tm.attach("a")
	keys := []string{"\x1b[A", "\x1bOP", "\x1b[15~", "\x1b[1;5C", "\x1b[97;5u", "\x1bx", "\u4e2d", "\U0001f680", "\x1b[<0;10;10M"}
	random := rand.New(rand.NewSource(1))
	var want []string
	for range 150 {
		key := keys[random.Intn(len(keys))]
		want = append(want, key)
		tm.typed(key)
		w.received(log, strings.Join(want, ""))
	}
	var got []string
	for _, read := range readProbe(t, log).reads {
		got = append(got, string(read))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the program's reads were %q, want %q", got, want)
	}
}

func TestIN11Suspend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("stop", helper("die", "stop")...)
	w.shows("stop", "STOPPED")
	eventually(t, "stopped is shown", func() bool { return w.status("stop").Stopped })
	if out := w.ok("ls"); !strings.Contains(out, "stopped") {
		t.Errorf("ls:\n%s", out)
	}
	if out := w.ok("status", "stop"); !strings.Contains(out, "agentmux kill --signal CONT stop") {
		t.Errorf("status:\n%s", out)
	}
	tm := w.terminal(80, 24)
	tm.attach("stop")
	w.ok("kill", "--signal", "CONT", "stop")
	tm.expect("AGAIN")
	tm.exit(0)
	tm.clean()
	w.exited("stop", session.Exit{})

	// A typed Ctrl-Z does not end the conversation, neither with the agent, whose
	// process group no shell looks after, nor with the client.
	w.start("cooked", "sh", "-c", "echo UP; while read l; do echo \"GOT $l\"; done")
	tm = w.terminal(80, 24)
	tm.attach("cooked")
	tm.sees("UP")
	tm.typed("\x1a")
	tm.typed("more\r")
	tm.sees("GOT more")
	if state := processState(tm.cmd.Process.Pid); state == 'T' {
		t.Error("the client is stopped")
	}
	tm.detach()
	tm.clean()
}

func TestWC09EveryByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	tm := w.terminal(80, 24)
	tm.attach("--detach-keys", "none", "a")
	want := ""
	for _, b := range []byte("\u00e9\u4e2d\U0001f680") {
		tm.typed(string([]byte{b}))
		time.Sleep(20 * time.Millisecond) // the row asks for cut characters
	}
	want += "\u00e9\u4e2d\U0001f680"
	w.received(log, want)
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	tm.typed(string(all))
	w.received(log, want+string(all))
	tm.cmd.Process.Signal(syscall.SIGTERM)
	tm.end()
	tm.clean()
}

func TestSendReachesTheProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := w.startProbe("plain")
	pastes := w.startProbe("pastes", "-on", "\x1b[?2004h\x1b[?1hREADY")
	w.shows("pastes", "READY")
	w.ok("send", "plain", "one\ntwo")
	w.ok("send", "--enter", "plain", "three")
	w.ok("send", "--key", "up", "--key", "ctrl-c", "--key", "alt-x", "--key", `ctrl-\`, "--key", "f5", "--key", "\u4e2d", "plain")
	w.received(plain, "one\rtwothree\r\x1b[A\x03\x1bx\x1c\x1b[15~\u4e2d")
	w.ok("send", "pastes", "one\ntwo\x1b[201~three")
	w.ok("send", "--key", "up", "--enter", "pastes")
	w.received(pastes, "\x1b[200~one\ntwothree\x1b[201~\x1bOA\r")
	big := strings.Repeat("0123456789abcdef", 64<<10)
	file := w.write("text", big)
	w.ok("send", "--file", file, "plain")
	eventually(t, "the file has arrived", func() bool {
		return bytes.HasSuffix(readProbe(t, plain).input, []byte(big))
	})
	w.fails(3, "send", "none", "x")
	w.fails(2, "send", "--key", "hyper-q", "plain")
	w.ok("kill", "plain")
	w.fails(1, "send", "plain", "x")
}

// Twenty writers at once: each text arrives whole and once.
func TestSendFromManySides(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-on", "\x1b[?2004hREADY")
	w.shows("a", "READY")
	var want []string
	results := make(chan result)
	for i := range 20 {
		text := fmt.Sprintf("<%02d:%s>", i, strings.Repeat(string(rune('a'+i)), 3000))
		want = append(want, "\x1b[200~"+text+"\x1b[201~")
		go func() { results <- w.run("send", "a", text) }()
	}
	for range 20 {
		if r := <-results; r.code != 0 {
			t.Errorf("send: %v", r)
		}
	}
	length := len(strings.Join(want, ""))
	got := ""
	eventually(t, "all has arrived", func() bool {
		now := string(readProbe(t, log).input)
		got = now
		return len(got) >= length
	})
	for _, text := range want {
		if strings.Count(got, text) != 1 {
			t.Errorf("%s… is there %d times", text[6:10], strings.Count(got, text))
		}
	}
	if len(got) != length {
		t.Errorf("%d bytes, want %d", len(got), length)
	}
}

// The row that the whole design is for: the server is killed again and again
// under a flood while a user types.
func TestKilledServerWhileAttachedUnderFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 60000
	log := w.path("keys")
	script := fmt.Sprintf("%s @flood -rate 20000 %d & exec %s @probe %s", self, lines, self, log)
	w.start("a", "sh", "-c", script)
	w.probeUp(log)
	tm := w.terminal(80, 24)
	tm.attach("a")
	var want strings.Builder
	killed := 0
	for i := range 300 {
		key := fmt.Sprintf("%d,", i)
		want.WriteString(key)
		tm.typed(key)
		if i%30 == 15 && w.server() != 0 {
			syscall.Kill(w.server(), syscall.SIGKILL)
			killed++
		}
		time.Sleep(5 * time.Millisecond) // the typist's pace
	}
	w.received(log, want.String())
	eventually(t, "the flood has ended", func() bool { return bytes.Contains(w.raw("a"), []byte("FLOOD END")) })
	w.wholeFlood("a", lines)
	if killed < 3 {
		t.Errorf("the server was killed %d times only", killed)
	}
	tm.sees(fmt.Sprintf("FLOOD END %d", lines))
	eventually(t, "the client is listed again", func() bool { return w.status("a").Attached == 1 })
	fresh := w.terminal(80, 24)
	fresh.attach("a")
	fresh.same(tm.picture())
	tm.detach()
	tm.clean()
	if n := w.count("server"); n != 1 {
		t.Errorf("%d servers", n)
	}
}

// A killed client leaves a terminal that reset repairs.
func TestResetAfterKilledClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-on", "\x1b[?1049h\x1b[?1002h\x1b[?1006h\x1b[?2004h\x1b[?1h\x1b=\x1b[?25l\x1b[5 q\x1b[31m")
	tm := w.terminal(80, 24)
	before := tm.modes()
	tm.attach("a")
	eventually(t, "modes are on", func() bool { return strings.Contains(tm.modes(), "?1006") })
	tm.cmd.Process.Kill()
	tm.end()
	if !tm.raw() {
		t.Error("the terminal is not raw any more")
	}
	tm.run("reset")
	tm.exit(0)
	tm.settled()
	if after := tm.modes(); strings.Contains(after, "?") || strings.Contains(after, "keypad") || strings.Contains(after, "colours") {
		t.Errorf("left on: %s (before: %s)", after, before)
	}
	if tm.raw() {
		t.Error("the terminal is still raw")
	}
	eventually(t, "nobody is attached", func() bool { return w.status("a").Attached == 0 })
}

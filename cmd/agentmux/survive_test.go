//go:build linux

package main

import (
	"bytes"
	"fmt"
	"math/rand"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

// What survives what: the rows of the README's table that no other test has.

func TestShimToldToEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	trap := w.start("trap", helper("die", "trap")...)
	deaf := w.start("deaf", helper("die", "deaf")...)
	w.shows("trap", "UP")
	w.shows("deaf", "UP")
	for _, info := range []int{trap.ShimPID, deaf.ShimPID} {
		if err := syscall.Kill(info, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	info := w.exited("trap", session.Exit{Code: 5})
	if !strings.Contains(info.Evidence, "SIGTERM to the shim") {
		t.Errorf("the evidence is %q", info.Evidence)
	}
	if got := string(w.raw("trap")); !strings.HasSuffix(got, "LAST WORDS") {
		t.Errorf("the log ends in %q", tail(got))
	}
	w.exited("deaf", session.Exit{Signal: "SIGKILL"})
	eventually(t, "no shim is left", func() bool { return w.count("shim") == 0 })
}

// Signals of a logout or a terminal do nothing to a shim.
func TestShimIgnoresOtherSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	shim := w.status("a").ShimPID
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM} {
		if err := syscall.Kill(shim, sig); err != nil {
			t.Fatal(err)
		}
		w.ok("send", "a", "x")
	}
	w.received(log, strings.Repeat("x", 8))
	// The agent has inherited none of that.
	w.start("b", "sh", "-c", "kill -HUP $$; sleep 600")
	w.exited("b", session.Exit{Signal: "SIGHUP"})
}

// Clients are killed at random moments while they type: what arrives is the
// beginning of what each has typed, once.
func TestKilledClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-echo")
	random := rand.New(rand.NewSource(1))
	for i := range 12 {
		before := string(readProbe(t, log).input)
		tm := w.terminal(80, 24)
		tm.attach("a")
		var typed strings.Builder
		for n := range 10 + random.Intn(40) {
			key := fmt.Sprintf("%d.%d,", i, n)
			typed.WriteString(key)
			tm.typed(key)
		}
		tm.cmd.Process.Kill()
		tm.end()
		tm.drop()
		within(t, 5*time.Second, "nobody is attached", func() bool { return w.status("a").Attached == 0 })
		mark := fmt.Sprintf("<%d>", i)
		w.ok("send", "a", mark)
		eventually(t, "the mark arrives", func() bool { return strings.HasSuffix(string(readProbe(t, log).input), mark) })
		got, _ := strings.CutPrefix(string(readProbe(t, log).input), before)
		if got = strings.TrimSuffix(got, mark); !strings.HasPrefix(typed.String(), got) {
			t.Fatalf("of %q came %q", typed.String(), got)
		}
	}
}

// A new whose client is killed at a random moment leaves a whole session or
// none, and none twice.
func TestKilledNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok("server", "start")
	random := rand.New(rand.NewSource(2))
	for i := range 20 {
		cmd := w.command("new", "-d", "-n", fmt.Sprintf("s%d", i), "--", "sleep", "600")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(random.Intn(60)) * time.Millisecond) // the random moment
		cmd.Process.Kill()
		cmd.Wait()
	}
	w.start("last", "sleep", "600")
	names := make(map[string]int)
	for _, s := range w.list(true) {
		names[s.Name]++
		eventually(t, s.Name+" runs", func() bool { return w.status(s.Name).State == session.Running })
	}
	for name, n := range names {
		if n != 1 {
			t.Errorf("%d sessions are called %s", n, name)
		}
	}
	eventually(t, "one shim for each session", func() bool { return w.count("shim") == len(w.list(true)) })
}

// The server is killed at random moments while sessions are made: each new
// works, and each session is there once.
func TestKilledServerWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	random := rand.New(rand.NewSource(3))
	w.start("first", "sleep", "600")
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(200+random.Intn(400)) * time.Millisecond):
			}
			if pid := w.server(); pid != 0 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}()
	const sessions = 12
	for i := range sessions {
		r := w.run("new", "-d", "-n", fmt.Sprintf("s%d", i), "--", "sleep", "600")
		if r.code != 0 {
			t.Errorf("new: %v", r)
		}
	}
	close(stop)
	<-stopped
	list := w.listJSON()
	if len(list) != sessions+1 {
		t.Errorf("%d sessions", len(list))
	}
	for _, s := range list {
		if s.State != session.Running || !alive(s.AgentPID) {
			t.Errorf("%s is %s", s.Name, s.State)
		}
	}
	if n := w.count("shim"); n != sessions+1 {
		t.Errorf("%d shims", n)
	}
}

func TestIN11SuspendKeyIsAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("die", "suspend")...)
	w.shows("a", "UP")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.typed("\x1a")
	tm.sees("BACK")
	eventually(t, "it runs", func() bool { return !w.status("a").Stopped })
	tm.detach()
	tm.clean()
}

func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-paint", "winch")
	first := w.terminal(80, 24)
	first.attach("a")
	second := w.terminal(100, 30)
	second.run("attach", "--take-over", "a")
	first.exit(0)
	first.clean()
	second.sees("100x30")
	eventually(t, "one is attached", func() bool { return w.status("a").Attached == 1 })
	second.detach()
}

func TestEV01SSHAgentFollowsTheViewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	answer := func(name string) {
		l, err := net.Listen("unix", w.path(name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(c, name)
				c.Close()
			}
		}()
	}
	answer("agent-a")
	answer("agent-b")
	w.setenv("SSH_AUTH_SOCK=" + w.path("agent-a"))
	file := w.path("started")
	w.start("s", "sh", "-c", self+" @args "+file+"; sleep 600")
	path, _ := readStarted(t, file).getenv("SSH_AUTH_SOCK")
	asked := func() string {
		c, err := net.Dial("unix", path)
		if err != nil {
			return err.Error()
		}
		defer c.Close()
		var b bytes.Buffer
		b.ReadFrom(c)
		return b.String()
	}
	if got := asked(); got != "agent-a" {
		t.Errorf("at the start %s answers at %s", got, path)
	}
	w.setenv("SSH_AUTH_SOCK=" + w.path("agent-b"))
	tm := w.terminal(80, 24)
	tm.attach("s")
	if got := asked(); got != "agent-b" {
		t.Errorf("attached, %s answers", got)
	}
	tm.detach()
	if err := os.Remove(w.path("agent-b")); err != nil {
		t.Fatal(err)
	}
	w.setenv("SSH_AUTH_SOCK=" + w.path("agent-b")) // of a login that is gone
	tm.attach("s")
	tm.detach()
	w.setenv("SSH_AUTH_SOCK=" + w.path("agent-a"))
	tm.attach("s")
	if got := asked(); got != "agent-a" {
		t.Errorf("again, %s answers", got)
	}
	tm.detach()
}

// Many sessions at a time.
func TestManySessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const sessions = 40
	for i := range sessions {
		w.ok("new", "-d", "-n", fmt.Sprintf("s%d", i), "--", "sh", "-c", fmt.Sprintf("echo I am %d; sleep 600", i))
	}
	for i := range sessions {
		w.shows(fmt.Sprintf("s%d", i), fmt.Sprintf("I am %d", i))
	}
	server := w.server()
	old := descriptors(t, server)
	if r := w.run("ls"); r.code != 0 || r.took > 2*time.Second {
		t.Errorf("ls: %v", r)
	}
	w.killServer()
	began := time.Now()
	if n := len(w.listJSON()); n != sessions {
		t.Errorf("%d sessions", n)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the next server took %v", took)
	}
	for i := range sessions {
		w.shows(fmt.Sprintf("s%d", i), fmt.Sprintf("I am %d", i))
	}
	names := []string{"kill", "--grace", "2s"}
	for i := range sessions {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	w.ok(names...)
	eventually(t, "no shim is left", func() bool { return w.count("shim") == 0 })
	within(t, 5*time.Second, "the server has let go", func() bool { return descriptors(t, w.server()) < old-sessions })
}

// TestRM16WhatALostRunLeftIsEnded: a shim is killed, its agent ignores the
// hang-up. The session names the process, is not removed over it, and kill ends
// it.
func TestRM16WhatALostRunLeftIsEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info := w.start("a", "sh", "-c", "trap '' HUP; echo READY; while :; do sleep 1; done")
	w.shows("a", "READY")
	syscall.Kill(info.ShimPID, syscall.SIGKILL)
	eventually(t, "it is lost", func() bool { return w.status("a").State == "lost" })
	if left := w.status("a").Survivors; len(left) != 1 || left[0].PID != info.AgentPID {
		t.Fatalf("left over: %+v, want process %d", left, info.AgentPID)
	}
	if text := w.fails(7, "rm", "a"); !strings.Contains(text, "agentmux kill a") {
		t.Errorf("rm says %q", text)
	}
	w.ok("kill", "a")
	if alive(info.AgentPID) {
		t.Error("it still runs")
	}
	w.ok("rm", "a")
}

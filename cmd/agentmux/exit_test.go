//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

// foreground runs new in a terminal, attached.
func (tm *terminal) foreground(name string, argv ...string) {
	tm.t.Helper()
	tm.run(append([]string{"new", "-n", name, "--"}, argv...)...)
}

func TestEX01DeathIsReportedAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tm := w.terminal(80, 24)
	for i, v := range []struct {
		how  []string
		code int
		want session.Exit
		says string
	}{
		{[]string{"sig", "9"}, 137, session.Exit{Signal: "SIGKILL"}, "SIGKILL"},
		{[]string{"sig", "15"}, 143, session.Exit{Signal: "SIGTERM"}, "SIGTERM"},
		{[]string{"sig", "11"}, 139, session.Exit{Signal: "SIGSEGV"}, "SIGSEGV"},
		{[]string{"sig", "2"}, 130, session.Exit{Signal: "SIGINT"}, "SIGINT"},
		{[]string{"code", "0"}, 0, session.Exit{Code: 0}, "exit code 0"},
		{[]string{"code", "3"}, 3, session.Exit{Code: 3}, "exit code 3"},
		{[]string{"code", "255"}, 255, session.Exit{Code: 255}, "exit code 255"},
	} {
		t.Run(strings.Join(v.how, "-"), func(t *testing.T) {
			name := fmt.Sprintf("s%d", i)
			tm.mark()
			tm.foreground(name, helper("die", v.how...)...)
			tm.exit(v.code)
			tm.clean()
			if got := tm.recent(); !strings.Contains(got, "LAST WORDS") || !strings.Contains(got, v.says) {
				t.Errorf("the terminal got %q", got)
			}
			w.exited(name, v.want)
			if got := w.run("wait", name).code; got != v.code {
				t.Errorf("wait: status %d, want %d", got, v.code)
			}
			if got := w.run("attach", name); got.code != v.code {
				t.Errorf("attach to what has ended: %v", got)
			}
		})
	}
	table := w.ok("ls")
	for _, want := range []string{"SIGKILL", "SIGTERM", "SIGSEGV", "SIGINT", "exited 0", "exited 3", "exited 255"} {
		if !strings.Contains(table, want) {
			t.Errorf("ls does not show %q:\n%s", want, table)
		}
	}
}

func TestEX02ClosedStreamsAreNoEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, how := range []string{"stdin", "close"} {
		w.start(how, helper("die", how)...)
	}
	for _, how := range []string{"stdin", "close"} {
		t.Run(how, func(t *testing.T) {
			w.exited(how, session.Exit{Code: 19})
		})
	}
	log := string(w.raw("stdin"))
	for i := range 20 {
		if !strings.Contains(log, fmt.Sprintf("o%d\r\n", i)) {
			t.Errorf("o%d is not in the log", i)
		}
	}
}

func TestEX05KillEndsTheWholeTree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.path("tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.start("tree", helper("tree", "-stay", dir)...)
	w.shows("tree", "TREE UP")
	main := w.status("tree").AgentPID
	r := w.run("kill", "--grace", "2s", "tree")
	if r.code != 0 {
		t.Errorf("kill: %v", r)
	}
	for _, name := range treeNames {
		if pid := readPID(dir, name); alive(pid) && !strings.Contains(r.err, strconv.Itoa(pid)) {
			t.Errorf("%s (%d) lives on and kill did not say so: %v", name, pid, r)
		}
	}
	if alive(main) {
		t.Error("the agent lives on")
	}
	w.ended("tree")
}

func TestEX05WhatOutlivesItsAgentIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := w.path("tree")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.start("tree", helper("tree", dir)...)
	info := w.exited("tree", session.Exit{Code: 7})
	if got := string(w.raw("tree")); !strings.Contains(got, "TREE UP") {
		t.Errorf("the log is %q", got)
	}
	named := make(map[int]bool)
	for _, p := range info.Survivors {
		named[p.PID] = true
	}
	for _, name := range treeNames {
		if pid := readPID(dir, name); alive(pid) && !named[pid] {
			t.Errorf("%s (%d) lives and is not named in %v", name, pid, info.Survivors)
		}
	}
	if !named[readPID(dir, "quiet")] || !named[readPID(dir, "newsession")] {
		t.Errorf("the orphans are not named: %v", info.Survivors)
	}
	if got := w.ok("status", "tree"); !strings.Contains(got, "left over") {
		t.Errorf("status does not show what is left:\n%s", got)
	}
	eventually(t, "the shim has ended", func() bool { return w.count("shim") == 0 })
}

func TestEX06KillGetsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("deaf", helper("die", "deaf")...)
	w.start("trap", helper("die", "trap")...)
	w.shows("deaf", "UP")
	w.shows("trap", "UP")
	t.Run("trap", func(t *testing.T) {
		w.ok("kill", "trap")
		w.exited("trap", session.Exit{Code: 5})
		if got := string(w.raw("trap")); !strings.HasSuffix(got, "LAST WORDS") {
			t.Errorf("the log is %q", got)
		}
	})
	t.Run("deaf", func(t *testing.T) {
		if r := w.run("kill", "--grace", "1s", "deaf"); r.code != 0 || r.took > 15*time.Second {
			t.Errorf("kill: %v", r)
		}
		w.exited("deaf", session.Exit{Signal: "SIGKILL"})
	})
	t.Run("signal", func(t *testing.T) {
		w.start("one", "sleep", "600")
		w.ok("kill", "--signal", "USR1", "one")
		w.exited("one", session.Exit{Signal: "SIGUSR1"})
	})
}

func TestEX08ProcessOne(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skip("no namespaces here:", err)
	}
	w := newWorld(t)
	server := w.command("server", "run")
	server.Args = append([]string{"unshare", "-pf", "--mount-proc"}, server.Args...)
	server.Path, _ = exec.LookPath("unshare")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Signal(syscall.SIGKILL)
	first := 0
	eventually(t, "the server runs as process 1", func() bool {
		for _, p := range w.processes() {
			if p.is("server") && p.pid != server.Process.Pid {
				first = p.pid
				_, err := os.Stat(w.tree.ServerRecord())
				return err == nil
			}
		}
		return false
	})
	inside := func(args ...string) result {
		cmd := w.command(args...)
		cmd.Args = append([]string{"nsenter", "-t", strconv.Itoa(first), "-p", "-m", "--"}, cmd.Args...)
		cmd.Path, _ = exec.LookPath("nsenter")
		return w.finish(cmd)
	}
	const runs = 20
	for i := range runs {
		name := fmt.Sprintf("s%d", i)
		if r := inside("new", "-d", "-n", name, "--", "sh", "-c", "sleep 0.1 & exit 3"); r.code != 0 {
			t.Fatalf("new: %v", r)
		}
		if n := zombies(t, first); n > 5 {
			t.Errorf("%d zombies", n)
		}
	}
	for i := range runs {
		if r := inside("wait", fmt.Sprintf("s%d", i)); r.code != 3 {
			t.Errorf("wait: %v", r)
		}
	}
	within(t, 5*time.Second, "no zombies", func() bool { return zombies(t, first) == 0 })
}

// zombies counts the dead processes in the PID namespace of a process.
func zombies(t testing.TB, pid int) int {
	t.Helper()
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	n := 0
	for _, file := range files {
		dir := filepath.Dir(file)
		other, _ := strconv.Atoi(filepath.Base(dir))
		if processState(other) != 'Z' {
			continue
		}
		if got, err := os.Readlink(filepath.Join(dir, "ns", "pid")); err == nil && got == space {
			n++
		}
	}
	return n
}

func TestEX10KilledServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", "sleep", "600")
	b := w.start("b", "sh", "-c", "trap '' HUP; echo UP; sleep 600")
	w.shows("b", "UP")
	old := w.killServer()
	for _, was := range []struct {
		name       string
		agent, run int
	}{{"a", a.AgentPID, a.Run}, {"b", b.AgentPID, b.Run}} {
		now := w.status(was.name)
		if now.State != session.Running || now.AgentPID != was.agent || now.Run != was.run || !alive(was.agent) {
			t.Errorf("%s is %+v", was.name, now)
		}
	}
	if pid := w.server(); pid == 0 || pid == old {
		t.Errorf("the server is %d, was %d", pid, old)
	}
}

func TestEX10KilledShim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", "sleep", "600")
	b := w.start("b", "sh", "-c", "trap '' HUP; echo UP; sleep 600 >/dev/null 2>&1 </dev/null")
	w.shows("b", "UP")
	for _, pid := range []int{a.ShimPID, b.ShimPID} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		eventually(t, name+" is lost", func() bool { return w.status(name).State == session.Lost })
		if got := w.status(name); got.Exit != nil {
			t.Errorf("%s: an exit was made up: %+v", name, got.Exit)
		}
		if r := w.run("wait", name); r.code != 125 {
			t.Errorf("wait: %v", r)
		}
		if r := w.run("attach", name); r.code != 125 {
			t.Errorf("attach: %v", r)
		}
	}
	if got := string(w.raw("b")); got != "UP\r\n" {
		t.Errorf("the log of b is %q", got)
	}
	if !alive(b.AgentPID) {
		t.Fatal("the agent that ignores HUP has ended")
	}
	// A new look, by the next server, finds the survivor.
	w.killServer()
	if got := w.status("b"); got.State != session.Lost || len(got.Survivors) != 1 || got.Survivors[0].PID != b.AgentPID {
		t.Errorf("b is %+v", got)
	}
	if out := w.ok("ls"); !strings.Contains(out, "lost") {
		t.Errorf("ls:\n%s", out)
	}
}

func TestEX13LastLineThroughSlowTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 12 {
		tm := w.terminal(80, 24)
		tm.slow(4000)
		tm.foreground(fmt.Sprintf("x%d", i), "sh", "-c", "printf FINAL-%s LINE; exit 4")
		tm.exit(4)
		tm.settled()
		if !strings.Contains(tm.text(), "FINAL-LINE") {
			t.Fatalf("try %d: the terminal got %q", i, tm.text())
		}
		tm.drop()
	}
}

func TestEX14CutOutputAtTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, how := range []string{"utf8", "esc"} {
		t.Run(how, func(t *testing.T) {
			tm := w.terminal(80, 24)
			tm.foreground(how, helper("die", how)...)
			tm.exit(0)
			tm.clean()
			message := fmt.Sprintf("[%s ended with exit code 0]", how)
			tm.sees(message)
			for _, l := range tm.lines() {
				if strings.Contains(l, message) && l != message {
					t.Errorf("the message stands in %q", l)
				}
			}
			if !strings.HasSuffix(string(w.raw(how)), map[string]string{"utf8": "cut \xe4\xb8", "esc": "cut \x1b[38;5"}[how]) {
				t.Errorf("the log ends in %q", w.raw(how))
			}
		})
	}
}

func TestEX15SignalsToTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-paint", "winch", "-on", "\x1b[?1002h\x1b[?2004h")
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			tm := w.terminal(80, 24)
			tm.attach("a")
			tm.cmd.Process.Signal(sig)
			tm.exit(128 + int(sig))
			tm.clean()
		})
	}
	t.Run("drop", func(t *testing.T) {
		tm := w.terminal(80, 24)
		tm.attach("a")
		tm.drop()
		if status := tm.end(); status == 0 {
			t.Error("status 0 after the terminal went away")
		}
	})
	eventually(t, "nobody is attached", func() bool { return w.status("a").Attached == 0 })
	if got := w.status("a"); got.State != session.Running {
		t.Errorf("the agent is %s", got.State)
	}
	w.received(log, "")
}

// A client that waits for its server is raw already, and still has to hand the
// terminal back at any signal.
func TestEX15SignalsWhileStarting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok("server", "start")
	pid := w.server()
	syscall.Kill(pid, syscall.SIGSTOP)
	defer syscall.Kill(pid, syscall.SIGCONT)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT} {
		t.Run(sig.String(), func(t *testing.T) {
			tm := w.terminal(80, 24)
			tm.foreground("x", "sleep", "600")
			eventually(t, "the terminal is raw", tm.raw)
			tm.cmd.Process.Signal(sig)
			if status := tm.end(); status == 0 {
				t.Error("status 0")
			}
			tm.clean()
		})
	}
}

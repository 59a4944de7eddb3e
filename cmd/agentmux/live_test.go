//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/session"
)

// script runs a shell script in which $A is agentmux.
func (w *world) script(text string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", text)
	cmd.Env, cmd.Dir = append(w.env, "A="+program), w.path("w")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

func TestLV02CallersGroupIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cmd := w.script(`$A new -d -n s -- sleep 600; kill -9 -$$`)
	if r := w.finish(cmd); r.code != -1 {
		t.Fatalf("the script was not killed: %v", r)
	}
	if got := w.status("s"); got.State != session.Running || !alive(got.AgentPID) {
		t.Errorf("the session is %+v", got)
	}
}

func TestLV04TerminalClosedRightAfterTheStart(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*terminal){
		"drop": func(tm *terminal) { tm.drop() },
		"interrupt": func(tm *terminal) {
			tm.cmd.Process.Signal(syscall.SIGINT)
			tm.drop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tm := w.terminal(80, 24)
			tm.foreground("s", "sleep", "600")
			eventually(t, "the session is there", func() bool {
				_, _, err := w.mux().Find("s")
				return err == nil
			})
			end(tm)
			if tm.end() == 0 {
				t.Error("status 0")
			}
			eventually(t, "the session runs", func() bool { return len(w.list(false)) == 1 })
			got := w.status("s")
			if got.State != session.Running || !alive(got.AgentPID) {
				t.Fatalf("the session is %+v", got)
			}
			for what, pid := range map[string]int{"server": w.server(), "shim": got.ShimPID} {
				fields := statFields(t, pid)
				if sid, tty := fields[3], fields[4]; sid != fmt.Sprint(pid) || tty != "0" {
					t.Errorf("%s: session %s, terminal %s", what, sid, tty)
				}
				if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); dir != "/" {
					t.Errorf("%s: working directory %s, %v", what, dir, err)
				}
			}
		})
	}
}

func TestLV05NothingInherited(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"substitution": `x=$($A new -d -n s -- sleep 600); echo "got $x"`,
		"pipe":         `$A new -d -n s -- sleep 600 | cat`,
		"both":         `$A new -d -n s -- sleep 600 2>&1 | cat`,
		"lock":         `exec 9>lock; flock 9; $A new -d -n s -- sleep 600; exec 9>&-; flock -n lock true || echo "still locked"`,
		"closed":       `$A new -d -n s -- sleep 600 <&- >&- 2>&-; echo done`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			r := w.finish(w.script(text))
			if r.code != 0 || r.err != "" || strings.Contains(r.out, "locked") || r.took > 10*time.Second {
				t.Errorf("%v", r)
			}
			if got := w.status("s"); got.State != session.Running {
				t.Errorf("the session is %+v", got)
			}
		})
	}
}

func TestLV05TheProgramGetsItsTerminalOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("started")
	cmd := w.script(`exec 9>lock 8</dev/zero; $A new -d -n s -- ` + self + ` @args ` + file + `; $A wait s`)
	if r := w.finish(cmd); r.code != 0 {
		t.Fatal(r)
	}
	got := readStarted(t, file)
	for i, target := range got.Files {
		if i < 3 && !strings.HasPrefix(target, "/dev/pts/") || strings.Contains(target, "lock") || strings.Contains(target, "zero") {
			t.Errorf("descriptor %d is %s", i, target)
		}
	}
	if !got.TTY || !got.Foreground {
		t.Errorf("controlling terminal %v, in the foreground %v", got.TTY, got.Foreground)
	}
}

func TestLV06DeletedWorkingDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"x", "y"} {
		if err := os.Mkdir(w.path(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	in := func(dir, text string) result {
		cmd := w.script(text)
		cmd.Dir = w.path(dir)
		return w.finish(cmd)
	}
	if r := in("x", `$A new -d -n a -- sleep 600`); r.code != 0 {
		t.Fatal(r)
	}
	if err := os.RemoveAll(w.path("x")); err != nil {
		t.Fatal(err)
	}
	if r := in("y", `$A new -d -n b -- sleep 600`); r.code != 0 {
		t.Error(r)
	}
	r := in("y", `mkdir z; cd z; rm -r ../z; $A new -d -n c -- sleep 600`)
	if r.code != 1 || !strings.HasPrefix(r.err, "agentmux: error: ") || !strings.Contains(r.err, "-C") {
		t.Errorf("from a deleted directory: %v", r)
	}
	if r := in("y", `mkdir z; cd z; rm -r ../z; $A new -d -n d -C /tmp -- sleep 600 && $A ls`); r.code != 0 {
		t.Errorf("from a deleted directory with -C: %v", r)
	}
	if r := in("y", `$A new -d -n e -C /nonexistent -- sleep 600`); r.code != 1 || !strings.Contains(r.err, "/nonexistent") {
		t.Errorf("in a directory that is not there: %v", r)
	}
}

func TestLV10JunkFromAProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.start("b", "sleep", "600")
	a := w.start("a", "sh", "-c", "head -c 2000000 /dev/urandom; printf '\\030\\033c\\r\\nALIVE\\r\\n'; sleep 600")
	pid := w.server()
	tm := w.terminal(80, 24)
	tm.attach("a")
	w.shows("a", "ALIVE")
	tm.sees("ALIVE")
	tm.detach()
	tm.clean()
	if got := w.server(); got != pid {
		t.Errorf("the server is %d, was %d", got, pid)
	}
	for _, was := range []int{a.AgentPID, b.AgentPID} {
		if !alive(was) {
			t.Errorf("agent %d has ended", was)
		}
	}
	if raw := w.raw("a"); len(raw) < 2000000 {
		t.Errorf("%d bytes are in the log", len(raw))
	}
}

func dial(t testing.TB, path string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := shimapi.Dial(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// cut waits until the other side ends a connection.
func cut(t testing.TB, c net.Conn, limit time.Duration) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(limit))
	if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
		t.Errorf("the connection is still open after %v", limit)
	}
}

// sockets are those of the server and of a session's shim.
func (w *world) sockets(name string) map[string]string {
	w.t.Helper()
	r, err := shimapi.ReadServerRecord(string(w.tree))
	if err != nil {
		w.t.Fatal(err)
	}
	dir, _, err := w.mux().Find(name)
	if err != nil {
		w.t.Fatal(err)
	}
	start, err := shimapi.Bundle{Session: string(dir), Run: 1}.ReadStart()
	if err != nil {
		w.t.Fatal(err)
	}
	return map[string]string{"server": r.Socket, "shim": start.Socket}
}

func TestLV10JunkOnTheSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	info := w.status("a")
	pid := w.server()
	memory := map[string]int{"server": residentKiB(t, pid), "shim": residentKiB(t, info.ShimPID)}
	sockets := w.sockets("a")
	t.Run("junk", func(t *testing.T) {
		for who, path := range sockets {
			random := make([]byte, 1<<20)
			rand.New(rand.NewSource(1)).Read(random)
			hello := []byte("\x00AMXC\r\n\x1a")
			if who == "shim" {
				hello = nil
			}
			for name, data := range map[string][]byte{
				"random":        random,
				"zeros":         make([]byte, 1<<20),
				"giant":         append(append([]byte{}, hello...), 0xff, 0xff, 0xff, 0xff, 1, 2, 3),
				"half gigabyte": append(append([]byte{}, hello...), 0, 0, 0, 0x20, 1, 2, 3),
				"half frame":    append(append([]byte{}, hello...), 100, 0, 0, 0, 1, 2, 3),
				"empty hello":   append(append([]byte{}, hello...), 0, 0, 0, 0, 1),
			} {
				t.Run(who+" "+name, func(t *testing.T) {
					t.Parallel()
					c := dial(t, path)
					c.SetWriteDeadline(time.Now().Add(patience))
					c.Write(data)
					cut(t, c, 2*patience)
				})
			}
		}
	})
	if got := w.server(); got != pid {
		t.Errorf("the server is %d, was %d", got, pid)
	}
	now := map[string]int{"server": residentKiB(t, pid), "shim": residentKiB(t, info.ShimPID)}
	for who, kib := range now {
		if kib > memory[who]+64<<10 {
			t.Errorf("%s: %d KiB, before %d KiB", who, kib, memory[who])
		}
	}
	w.ok("send", "a", "still here")
	w.received(log, "still here")
}

// residentKiB is how much memory a process has in use.
func residentKiB(t testing.TB, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var n int
		if k, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); k == 1 && err == nil {
			return n
		}
	}
	t.Fatalf("process %d has no VmRSS", pid)
	return 0
}

func TestLV11TwoTrees(t *testing.T) {
	t.Parallel()
	a, b := newWorld(t), newWorld(t)
	b.setenv("XDG_RUNTIME_DIR="+a.getenv("XDG_RUNTIME_DIR"), "HOME="+a.getenv("HOME"))
	for _, w := range []*world{a, b} {
		w.start("one", "sleep", "600")
		w.start("two", "sleep", "600")
		w.start("gone", "true")
		w.ended("gone")
	}
	if a.server() == b.server() {
		t.Fatal("both trees have the same server")
	}
	a.ok("kill", "one")
	a.ok("rm", "gone")
	a.killServer()
	a.ok("server", "stop")
	for _, name := range []string{"one", "two"} {
		if got := b.status(name); got.State != session.Running || !alive(got.AgentPID) {
			t.Errorf("the other tree's %s is %+v", name, got)
		}
	}
	if got := b.status("gone"); got.State != session.Exited {
		t.Errorf("the other tree's ended session is %+v", got)
	}
}

func TestLV13StopLeavesSessionsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.start("alpha", "sleep", "600"), w.start("beta", "sleep", "600")
	out := w.ok("server", "stop")
	if !strings.Contains(out, "alpha") || !strings.Contains(out, "beta") {
		t.Errorf("server stop printed %q", out)
	}
	eventually(t, "the server is gone", func() bool { return w.count("server") == 0 })
	for _, info := range []int{a.AgentPID, b.AgentPID, a.ShimPID, b.ShimPID} {
		if !alive(info) {
			t.Errorf("process %d has ended", info)
		}
	}
	stays(t, 300*time.Millisecond, "no server", func() bool { return w.count("server") == 0 })
	if msg := w.fails(5, "ls"); !strings.Contains(msg, "server start") {
		t.Errorf("ls: %q", msg)
	}
	if r := w.run("server", "status", "--json"); r.code != 5 || !strings.Contains(r.out, `"pid": null`) {
		t.Errorf("server status: %v", r)
	}
	w.ok("server", "start")
	for _, name := range []string{"alpha", "beta"} {
		if got := w.status(name); got.State != session.Running {
			t.Errorf("%s is %+v", name, got)
		}
	}
	// From now on the server comes back by itself again.
	pid := w.killServer()
	within(t, 5*time.Second, "the next server", func() bool { got := w.server(); return got != 0 && got != pid })
}

// The server comes back by itself while a session lives, and commands wait for
// it.
func TestServerComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sleep", "600")
	for range 3 {
		old := w.killServer()
		if got := len(w.listJSON()); got != 1 {
			t.Fatalf("%d sessions", got)
		}
		if now := w.server(); now == old || now == 0 {
			t.Fatalf("the server is %d, was %d", now, old)
		}
	}
	if n := w.count("server"); n != 1 {
		t.Errorf("%d servers", n)
	}
}

func TestSK02WhatIsAtTheSocketsPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok("server", "start")
	socket := filepath.Join(string(w.tree), shimapi.ServerSocketName)
	t.Run("stale socket", func(t *testing.T) {
		w.killServer()
		if _, err := os.Lstat(socket); err != nil {
			t.Fatal(err)
		}
		w.start("s", "sleep", "5")
		w.ok("kill", "s")
	})
	for name, make := range map[string]func() error{
		"file":    func() error { return os.WriteFile(socket, []byte("mine"), 0o600) },
		"folder":  func() error { return os.Mkdir(socket, 0o700) },
		"symlink": func() error { return os.Symlink("/nonexistent", socket) },
	} {
		t.Run(name, func(t *testing.T) {
			if w.server() != 0 {
				w.ok("server", "stop")
			}
			eventually(t, "the server is gone", func() bool { return w.count("server") == 0 })
			os.RemoveAll(socket)
			if err := make(); err != nil {
				t.Fatal(err)
			}
			before, _ := os.Lstat(socket)
			if msg := w.fails(1, "new", "-d", "-n", "t", "--", "sleep", "5"); !strings.Contains(msg, socket) {
				t.Errorf("the message is %q", msg)
			}
			if after, err := os.Lstat(socket); err != nil || !os.SameFile(before, after) {
				t.Errorf("what was in the way is gone: %v", err)
			}
			os.RemoveAll(socket)
		})
	}
}

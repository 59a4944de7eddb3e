//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

func TestSK01LongPaths(t *testing.T) {
	t.Parallel()
	base := newWorld(t)
	name := strings.Repeat("n", 40)
	for _, length := range []int{60, 100, 107, 108, 150, 300} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			var ws []*world
			for _, last := range []string{"A", "B"} { // differ in the last byte only
				dir := base.path("l")
				for len(dir)+2 < length {
					dir += "/" + strings.Repeat("d", min(length-len(dir)-2, 100))
				}
				dir += last
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				ws = append(ws, newWorldIn(t, dir))
			}
			for _, w := range ws {
				log := w.startProbe(name)
				w.ok("send", name, w.dir[len(w.dir)-1:])
				w.received(log, w.dir[len(w.dir)-1:])
			}
			if ws[0].server() == ws[1].server() {
				t.Error("two trees share a server")
			}
		})
	}
}

func TestSK03ParallelFirstStarts(t *testing.T) {
	t.Parallel()
	const clients = 20
	for round := range 3 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			w := newWorld(t)
			if round > 0 { // with a stale socket
				w.ok("server", "start")
				w.killServer()
			}
			var wait sync.WaitGroup
			results := make([]result, clients)
			for i := range clients {
				wait.Go(func() {
					results[i] = w.run("new", "-d", "-n", fmt.Sprintf("s%d", i), "--", "sleep", "600")
				})
			}
			wait.Wait()
			for _, r := range results {
				if r.code != 0 {
					t.Errorf("new: %v", r)
				}
			}
			list := w.listJSON()
			if len(list) != clients {
				t.Errorf("%d sessions", len(list))
			}
			for _, s := range list {
				if s.State != session.Running || !alive(s.AgentPID) {
					t.Errorf("%s is %s", s.Name, s.State)
				}
			}
			if n := w.count("server"); n != 1 {
				t.Errorf("%d servers", n)
			}
		})
	}
}

// With the same name from all sides there is one session.
func TestSK03ParallelStartsOfOneName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var wait sync.WaitGroup
	var mu sync.Mutex
	codes := make(map[int]int)
	for range 10 {
		wait.Go(func() {
			r := w.run("new", "-d", "-n", "same", "--", "sleep", "600")
			mu.Lock()
			defer mu.Unlock()
			codes[r.code]++
		})
	}
	wait.Wait()
	if codes[0] != 1 || codes[7] != 9 {
		t.Errorf("statuses: %v", codes)
	}
	if n := w.count("shim"); n != 1 {
		t.Errorf("%d shims", n)
	}
}

func TestSK05AndLG14NobodyElseMayLook(t *testing.T) {
	t.Parallel()
	for _, mask := range []string{"000", "022"} {
		t.Run(mask, func(t *testing.T) {
			w := newWorld(t)
			file := w.path("started")
			r := w.finish(w.script("umask " + mask + "; $A new -d -n s -- sh -c '" + self + " @args " + file + "; sleep 600'; $A send s hello; $A server stop; $A server start"))
			if r.code != 0 {
				t.Fatal(r)
			}
			err := filepath.WalkDir(string(w.tree), func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err != nil {
					return err
				}
				info, err := d.Info()
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				if err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s: %v", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			if got := readStarted(t, file); fmt.Sprintf("%03o", got.Umask) != mask {
				t.Errorf("the program's umask is %03o", got.Umask)
			}
		})
	}
}

// as runs f on a thread with another user id, as root may.
func as(t testing.TB, uid int, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0))
		if errno != 0 {
			done <- errno
			return
		}
		f()
		done <- nil
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSK05OtherUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	const nobody = 65534
	for who, path := range w.sockets("a") {
		t.Run(who, func(t *testing.T) {
			connect := func() (net.Conn, error) { return net.Dial("unix", path) }
			as(t, nobody, func() {
				if c, err := connect(); err == nil {
					c.Close()
					t.Error("another user may connect")
				}
			})
			// Even where the modes would let him: the peer is asked.
			for p := path; len(p) >= len(w.dir); p = filepath.Dir(p) {
				info, err := os.Stat(p)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(p, 0o777); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(p, info.Mode().Perm())
			}
			as(t, nobody, func() {
				c, err := connect()
				if err != nil {
					t.Errorf("connect: %v", err)
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(5 * time.Second))
				if n, err := io.Copy(io.Discard, c); n > 0 || os.IsTimeout(err) {
					t.Errorf("%d bytes, then %v", n, err)
				}
			})
		})
	}
	w.ok("send", "a", "mine")
	w.received(log, "mine")
}

func TestSK09RuntimeDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign := w.path("foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 65534, 65534); err != nil {
		t.Skip("only root can give a directory away")
	}
	w.start("a", "sleep", "600")
	pid := w.server()
	for name, value := range map[string]string{
		"missing": "XDG_RUNTIME_DIR=" + w.path("none"), "foreign": "XDG_RUNTIME_DIR=" + foreign,
		"relative": "XDG_RUNTIME_DIR=run", "empty": "XDG_RUNTIME_DIR=", "unset": "XDG_RUNTIME_DIR", "no home": "HOME",
	} {
		t.Run(name, func(t *testing.T) {
			w.setenv(value)
			if n := len(w.listJSON()); n != 1 {
				t.Errorf("%d sessions", n)
			}
			if got := w.server(); got != pid {
				t.Errorf("the server is %d, was %d", got, pid)
			}
			w.killServer()
			w.ok("new", "-d", "-n", "b", "--", "true")
			w.ended("b")
			w.ok("rm", "b")
			pid = w.server()
		})
	}
	if entries, _ := os.ReadDir(foreign); len(entries) != 0 {
		t.Errorf("made in a foreign directory: %v", entries)
	}
	if entries, _ := os.ReadDir(w.path("w")); len(entries) != 0 {
		t.Errorf("made in the working directory: %v", entries)
	}
}

func TestSK11ConnectAndLeave(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sleep", "600")
	pids := map[string]int{"server": w.server(), "shim": w.status("a").ShimPID}
	sockets := w.sockets("a")
	before := make(map[string]int)
	for who, pid := range pids {
		before[who] = descriptors(t, pid)
	}
	var silent []net.Conn
	for _, path := range sockets {
		for range 1000 {
			c, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
		}
		for range 200 {
			silent = append(silent, dial(t, path))
		}
	}
	if r := w.run("ls"); r.code != 0 || r.took > 3*time.Second {
		t.Errorf("ls beside silent connections: %v", r)
	}
	if r := w.run("send", "a", "x"); r.code != 0 {
		t.Errorf("send beside silent connections: %v", r)
	}
	for _, c := range silent {
		cut(t, c, patience)
	}
	for who, pid := range pids {
		within(t, 5*time.Second, who+"'s descriptors are back to normal", func() bool { return descriptors(t, pid) <= before[who]+3 })
	}
	if w.server() != pids["server"] || !alive(pids["shim"]) {
		t.Error("the server or the shim has ended")
	}
}

func TestSK12RuntimeDirectoryVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sleep", "600")
	pid := w.server()
	if err := os.RemoveAll(w.getenv("XDG_RUNTIME_DIR")); err != nil {
		t.Fatal(err)
	}
	w.setenv("XDG_RUNTIME_DIR", "HOME=/nonexistent")
	if list := w.listJSON(); len(list) != 1 || list[0].Name != "a" {
		t.Errorf("the list is %v", list)
	}
	if got := w.server(); got != pid {
		t.Errorf("the server is %d, was %d", got, pid)
	}
}

// A cleaner of temporary files removes sockets; their owners bind them again.
func TestCleanedSockets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a")
	server, shim := w.server(), w.status("a").ShimPID
	sockets := w.sockets("a")
	for who, path := range sockets {
		t.Run(who, func(t *testing.T) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			tm := w.terminal(80, 24)
			tm.attach("a")
			tm.typed(who[:2])
			eventually(t, "the key arrives", func() bool { return strings.HasSuffix(string(readProbe(t, log).input), who[:2]) })
			tm.detach()
		})
	}
	if w.server() != server || w.status("a").ShimPID != shim || w.count("server") != 1 {
		t.Error("another server or shim was started")
	}
}

// Nobody attached waits for a server that is stopped.
func TestStoppedServerDoesNotSlowTyping(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-echo")
	tm := w.terminal(80, 24)
	tm.attach("a")
	pid := w.server()
	syscall.Kill(pid, syscall.SIGSTOP)
	defer syscall.Kill(pid, syscall.SIGCONT)
	var want string
	for i := range 20 {
		key := string(rune('a' + i))
		want += key
		began := time.Now()
		tm.typed(key)
		tm.sees(want)
		if took := time.Since(began); took > time.Second {
			t.Errorf("the echo took %v", took)
		}
	}
	w.received(log, want)
	tm.typed(detachKey)
	began := time.Now()
	tm.end()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("leaving took %v", took)
	}
	tm.clean()
}

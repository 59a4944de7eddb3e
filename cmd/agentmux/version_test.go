//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// buildRelease builds agentmux as a release of a version, without the race
// detector.
func buildRelease(t testing.TB, dir, version string) string {
	t.Helper()
	path := filepath.Join(dir, version, "agentmux")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w -X main.version="+version, "-o", path, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", version, err, out)
	}
	return path
}

func TestLV07NewerClientReplacesTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	older, newer := buildRelease(t, w.dir, "v1.2.9"), buildRelease(t, w.dir, "v1.10.0")
	with := func(exe string, args ...string) result {
		cmd := w.command(args...)
		cmd.Path = exe
		return w.finish(cmd)
	}
	serving := func() string {
		r, err := shimapi.ReadServerRecord(string(w.tree))
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	log := w.path("probe")
	if r := with(older, append([]string{"new", "-d", "-n", "a"}, helper("probe", log)...)...); r.code != 0 {
		t.Fatal(r)
	}
	w.probeUp(log)
	if got := serving(); got != "v1.2.9" {
		t.Fatalf("%s serves", got)
	}
	r := with(newer, "ls", "--json")
	var list struct{ Sessions []wire.Info }
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || r.code != 0 || len(list.Sessions) != 1 || list.Sessions[0].State != session.Running {
		t.Fatalf("ls of the newer: %v, %v", err, r)
	}
	if got := serving(); got != "v1.10.0" {
		t.Errorf("%s serves", got)
	}
	pid := w.server()
	for _, exe := range []string{older, program, newer} { // none of them is newer
		if r := with(exe, "send", "a", "x"); r.code != 0 {
			t.Errorf("send: %v", r)
		}
	}
	w.received(log, "xxx")
	if got := w.server(); got != pid {
		t.Errorf("the server is %d, was %d", got, pid)
	}
	// What the shim of the old version starts is the newer one.
	w.killServer()
	within(t, 5*time.Second, "the next server", func() bool { return w.server() != 0 && w.server() != pid })
	if got := serving(); got != "v1.10.0" {
		t.Errorf("%s serves", got)
	}
}

// A server of another protocol is a named error, never a hang.
func TestLV07OtherProtocol(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := w.tree.Make(); err != nil {
		t.Fatal(err)
	}
	lock, err := shimapi.TryLock(w.tree.ServerLock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	l, path, err := shimapi.Listen(string(w.tree), shimapi.ServerSocketName)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	record := shimapi.ServerRecord{Schema: shimapi.ServerSchema, PID: os.Getpid(), Version: "v99.0.0", Socket: path}
	if err := session.WriteJSON(w.tree.ServerRecord(), record); err != nil {
		t.Fatal(err)
	}
	hello, err := wire.Encode(map[string]any{"min": 99, "max": 100, "build": "v99.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	frame := []byte("noise of a login\r\n\x00AMXC\r\n\x1a")
	frame = append(binary.LittleEndian.AppendUint32(frame, uint32(len(hello))), byte(wire.TypeHello))
	frame = append(frame, hello...)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write(frame)
			io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	for _, args := range [][]string{{"ls"}, {"status", "a"}, {"new", "-d", "--", "true"}, {"server", "status"}, {"kill", "a"}} {
		r := w.run(args...)
		if r.code != 6 || !strings.Contains(r.err, "v99.0.0") || !strings.Contains(r.err, "agentmux: hint: ") || r.took > 5*time.Second {
			t.Errorf("%v: %v", args, r)
		}
	}
}

// Stand-ins for the programs of systemd: they write down how they are called.
func TestLV01SystemdStandIns(t *testing.T) {
	t.Parallel()
	standIns := func(w *world, linger string) string {
		calls := w.path("calls")
		bin, runtime := w.path("bin"), filepath.Join(w.getenv("XDG_RUNTIME_DIR"), "systemd")
		for _, dir := range []string{bin, runtime} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		os.WriteFile(filepath.Join(runtime, "private"), nil, 0o600)
		loginctl := fmt.Sprintf("#!/bin/sh\necho loginctl \"$@\" >>%s\ncase \"$*\" in *Linger*) echo Linger=%s;; *) echo KillUserProcesses=yes;; esac\n", calls, linger)
		systemdRun := fmt.Sprintf("#!/bin/sh\necho systemd-run \"$@\" >>%s\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n", calls)
		for name, text := range map[string]string{"loginctl": loginctl, "systemd-run": systemdRun} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		w.setenv("PATH=" + bin + ":" + w.getenv("PATH"))
		return calls
	}
	t.Run("no linger", func(t *testing.T) {
		w := newWorld(t)
		standIns(w, "no")
		for i, want := range []int{1, 0} { // it is said once
			r := w.run("new", "-d", "-n", fmt.Sprintf("s%d", i), "--", "sleep", "600")
			if r.code != 0 || strings.Count(r.err, "loginctl enable-linger") != want {
				t.Errorf("try %d: %v", i, r)
			}
		}
	})
	t.Run("linger", func(t *testing.T) {
		w := newWorld(t)
		calls := standIns(w, "yes")
		r := w.run("new", "-d", "-n", "s", "--", "sleep", "600")
		if r.code != 0 || r.err != "" {
			t.Errorf("%v", r)
		}
		data, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"--user --scope", "OOMPolicy=continue", "--unit=agentmux-" + string(w.status("s").ID) + "-1"} {
			if !strings.Contains(string(data), want) {
				t.Errorf("%q is not among the calls:\n%s", want, data)
			}
		}
		w.killServer()
		w.ok("ls")
	})
}

//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

// started runs the program that writes down what it finds, in a session.
func (w *world) started(name string) started {
	w.t.Helper()
	file := w.path("started-" + name)
	w.start(name, helper("args", file)...)
	got := readStarted(w.t, file)
	w.ended(name)
	return got
}

func TestEV03EnvironmentIsTheCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	clean := w.env
	w.setenv("CLAUDECODE=1", "CLAUDE_CODE_ENTRYPOINT=cli", "CODEX_SANDBOX=1", "AGENTMUX_X=1", "FIRST=1", "TMUX=/x,1,0", "NO_COLOR=1")
	a := w.started("a") // starts the server, too
	w.env = clean
	w.setenv("SECOND=2", "PATH=/bin:/usr/bin", "NO_COLOR=1")
	b := w.started("b")
	for _, name := range []string{"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "AGENTMUX_X", "FIRST", "TMUX"} {
		if v, set := b.getenv(name); set {
			t.Errorf("b has %s=%s of the server's first caller", name, v)
		}
	}
	for _, name := range []string{"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "TMUX", "NO_COLOR"} {
		if v, set := a.getenv(name); set {
			t.Errorf("a has %s=%s, a mark of what it was started in", name, v)
		}
	}
	for name, want := range map[string]string{"SECOND": "2", "PATH": "/bin:/usr/bin", "NO_COLOR": "1", "AGENTMUX_SESSION": "b", "AGENTMUX_ID": string(w.status("b").ID)} {
		if got, _ := b.getenv(name); got != want {
			t.Errorf("b has %s=%q, want %q", name, got, want)
		}
	}
	if v, _ := a.getenv("FIRST"); v != "1" {
		t.Errorf("a has FIRST=%q", v)
	}
	for _, got := range []started{a, b} {
		if _, set := got.getenv("AGENTMUX_DETACH"); set {
			t.Error("the stage variable has reached the program")
		}
		if got.Dir != w.path("w") {
			t.Errorf("the working directory is %s", got.Dir)
		}
	}
	// A server that a shim has brought back is as clean.
	w.start("live", "sleep", "600")
	w.killServer()
	if c := w.started("c"); len(c.Env) != len(b.Env) {
		t.Errorf("with the next server the environment is\n%q, was\n%q", c.Env, b.Env)
	}
}

func TestEV03GivenVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setenv("KEEP=old")
	file := w.path("started")
	w.ok(append([]string{"new", "-d", "-n", "a", "--env", "KEEP=new", "--env", "MORE=a=b c", "--env", "EMPTY="}, helper("args", file)...)...)
	got := readStarted(t, file)
	for name, want := range map[string]string{"MORE": "a=b c", "EMPTY": ""} {
		if v, set := got.getenv(name); v != want || !set {
			t.Errorf("%s=%q", name, v)
		}
	}
	keeps := 0
	for _, kv := range got.Env {
		if strings.HasPrefix(kv, "KEEP=") {
			keeps++
		}
	}
	if v, _ := got.getenv("KEEP"); v != "new" || keeps != 1 {
		t.Errorf("KEEP=%q, %d times", v, keeps)
	}
}

func TestEV05TerminalType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, v := range map[string]struct{ set, want string }{
		"unknown": {"TERM=xterm-ghostty-nonexistent", "xterm-256color"},
		"unset":   {"TERM", "xterm-256color"},
		"empty":   {"TERM=", "xterm-256color"},
		"dumb":    {"TERM=dumb", "xterm-256color"},
		"path":    {"TERM=../../etc/passwd", "xterm-256color"},
		"xterm":   {"TERM=xterm", "xterm"},
	} {
		t.Run(name, func(t *testing.T) {
			w.setenv(v.set)
			w.start(name, "sh", "-c", "echo T=$TERM; tput cup 1 1 >/dev/null; echo R=$?; sleep 600")
			w.shows(name, "T="+v.want)
			w.shows(name, "R=0")
			tm := w.terminal(80, 24)
			tm.attach(name)
			tm.row(1, "T="+v.want)
			tm.detach()
			tm.clean()
		})
	}
}

const multilingual = "K1 \u00e9\u00fc\u00df caf\u00e9 |\nK2 \u4e2d\u6587\u5b57\u5e45 |\nK3 \U0001f680\U0001f9e0\U0001f41b |\n" +
	"K4 \u2500\u2502\u256d\u2570\u23fa |\nK5 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1eb\U0001f1f7 \u26a0\ufe0f |\nK6 e\u0301 n\u0303 |\n"

func TestEV06AndWC01EveryLocaleAndEveryCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := strings.ReplaceAll(multilingual, "\n", "\r\n")
	for _, locale := range []string{"LC_ALL=C", "LANG"} {
		w.setenv("LC_ALL", "LANG=C.UTF-8")
		w.setenv(locale)
		for _, n := range []string{"1", "2", "3", "5"} {
			name := "\u4e2d" + n + locale[:2]
			t.Run(locale+" "+n, func(t *testing.T) {
				w.start(name, helper("redraw", n, multilingual)...)
				tm := w.terminal(80, 24)
				tm.attach(name)
				tm.sees("K6 e\u0301")
				for i, row := range strings.Split(strings.TrimSpace(multilingual), "\n") {
					tm.row(i+1, row)
				}
				again := w.terminal(80, 24)
				again.attach(name)
				again.same(tm.picture())
				if got := string(w.raw(name)); got != want {
					t.Errorf("the raw log is %q", got)
				}
				if got := w.ok("log", name); got != multilingual {
					t.Errorf("the log is %q", got)
				}
				if got := w.ok("log", "--raw", name); got != want {
					t.Errorf("log --raw is %q", got)
				}
				if got := w.ok("ls"); !strings.Contains(got, name) {
					t.Errorf("ls shows %q", got)
				}
				tm.detach()
				again.detach()
			})
		}
	}
}

func TestEV08NoTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if r := w.finish(w.script(`$A new -d -n a -- sleep 600 </dev/null >f 2>&1; cat f`)); r.code != 0 || r.out != "a\n" {
		t.Errorf("new -d: %v", r)
	}
	for name, text := range map[string]string{
		"attach to a pipe":      `$A attach a </dev/null | cat; exit 1`,
		"attach from nothing":   `$A attach a </dev/null`,
		"new in the foreground": `$A new -n x -- true </dev/null`,
		"new with nothing":      `$A new -n x -- true <&- >&- 2>/dev/null; s=$?; exit $s`,
		"attach with nothing":   `$A attach a <&- >&-`,
	} {
		t.Run(name, func(t *testing.T) {
			r := w.finish(w.script(text))
			if r.code != 1 || r.took > 5*time.Second || strings.Contains(r.err, "goroutine") {
				t.Errorf("%v", r)
			}
			if n := strings.Count(r.err, "agentmux: error: "); r.err != "" && n != 1 {
				t.Errorf("%d errors: %q", n, r.err)
			}
		})
	}
	if list := w.listJSON(); len(list) != 1 || list[0].State != session.Running || list[0].Attached != 0 {
		t.Errorf("the list is %+v", list)
	}
}

// inside types a command into the shell of a session and waits for what it
// prints.
func (w *world) inside(name, command, want string) {
	w.t.Helper()
	w.ok("send", "--enter", name, command+" 2>&1 | tr a-z A-Z; echo DONE | tr D d")
	w.shows(name, "dONE")
	if screen := w.screen(name); !strings.Contains(strings.ReplaceAll(screen, "\n", ""), want) {
		w.t.Errorf("%q in %s printed\n%s", command, name, screen)
	}
	w.ok("send", "--enter", name, "clear")
	eventually(w.t, "a clear screen", func() bool { return !strings.Contains(w.screen(name), "dONE") })
}

func TestEV10AttachWithinASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setenv("A="+program, "PS1=$ ")
	w.start("a", "sh")
	w.start("b", "sh")
	w.inside("a", "$A attach a", "INSIDE THE SESSION A")
	w.inside("a", "$A attach b", "INSIDE THE SESSION A")
	w.inside("a", "$A new -n c -- true", "INSIDE THE SESSION A")
	w.inside("a", "$A new -d -n d -- sleep 600", "D")
	d := w.status("d")
	if d.State != session.Running {
		t.Fatalf("d is %+v", d)
	}
	// What was started from within lives on its own.
	w.ok("kill", "a")
	if !alive(d.AgentPID) || !alive(d.ShimPID) || w.status("b").State != session.Running || w.server() == 0 {
		t.Error("more than a has ended")
	}
}

// The server that was started from within a session does not end with it.
func TestLV02ServerStartedWithinASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setenv("A="+program, "PS1=$ ")
	w.start("a", "sh")
	w.ok("server", "stop")
	eventually(t, "no server", func() bool { return w.count("server") == 0 })
	// Nobody can type while there is no server, but a terminal can attach, which
	// starts one; that is stopped from within.
	tm := w.terminal(80, 24)
	tm.run("attach", "a")
	eventually(t, "a server", func() bool { return w.server() != 0 })
	tm.attached("a", 1)
	tm.typed("$A server stop; sleep 0.2; $A new -d -n b -- sleep 600\r")
	eventually(t, "b runs", func() bool {
		_, _, err := w.mux().Find("b")
		return err == nil && w.server() != 0
	})
	tm.typed(detachKey)
	tm.end()
	eventually(t, "b is listed", func() bool { return len(w.list(false)) == 2 })
	w.ok("kill", "a")
	if b := w.status("b"); b.State != session.Running || !alive(b.AgentPID) {
		t.Errorf("b is %+v", b)
	}
}

func TestEV11StaleMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone := w.start("gone", "true")
	w.ended("gone")
	live := w.start("live", "sh", "-c", "echo HERE; sleep 600")
	for name, id := range map[string]string{"ended": string(gone.ID), "live": string(live.ID), "nonsense": "x"} {
		t.Run(name, func(t *testing.T) {
			w.setenv("AGENTMUX_ID="+id, "AGENTMUX_SESSION=whatever")
			tm := w.terminal(80, 24)
			tm.attach("live")
			tm.sees("HERE")
			tm.detach()
		})
	}
}

// mountTmpfs mounts a small file system at a directory, unmounted at the end.
func mountTmpfs(t testing.TB, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("no file system can be mounted here:", err)
	}
	t.Cleanup(func() {
		// The threads of a process that is dead already may hold files a little
		// longer than the process seems to live.
		eventually(t, "nothing holds the file system", func() bool { return syscall.Unmount(dir, 0) == nil })
	})
}

func TestEV13NowhereToWrite(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, r result, want string) {
		t.Helper()
		if r.code == 0 || r.code == 2 || !strings.HasPrefix(r.err, "agentmux: error: ") || !strings.Contains(r.err, want) ||
			strings.Contains(r.err, "goroutine ") || strings.Count(r.err, "\n") > 2 {
			t.Errorf("want a line that names %s: %v", want, r)
		}
	}
	t.Run("read-only", func(t *testing.T) {
		w := newWorld(t)
		mountTmpfs(t, w.path("s"), "ro")
		for _, args := range [][]string{{"new", "-d", "-n", "x", "--", "true"}, {"ls"}, {"server", "start"}} {
			check(t, w.run(args...), w.path("s"))
		}
	})
	t.Run("full", func(t *testing.T) {
		w := newWorld(t)
		mountTmpfs(t, w.path("s"), "size=64k")
		t.Cleanup(w.end)
		os.MkdirAll(string(w.tree), 0o700)
		os.WriteFile(w.path("s", "fill"), bytes.Repeat([]byte("x"), 64<<10), 0o600)
		check(t, w.run("new", "-d", "-n", "x", "--", "true"), "is full")
	})
	t.Run("no directory", func(t *testing.T) {
		w := newWorld(t)
		w.write("s", "a file")
		check(t, w.run("ls"), w.path("s"))
	})
	t.Run("another user's", func(t *testing.T) {
		w := newWorld(t)
		if err := os.MkdirAll(string(w.tree), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(string(w.tree), 65534, 65534); err != nil {
			t.Skip("only root can give a directory away")
		}
		check(t, w.run("ls"), "65534")
		os.Chown(string(w.tree), 0, 0)
	})
	t.Run("no terminals", func(t *testing.T) {
		w := newWorld(t)
		if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
			t.Skip("no namespaces here:", err)
		}
		empty := w.path("empty")
		os.Mkdir(empty, 0o755)
		cmd := w.script(`mount --bind ` + empty + ` /dev/pts && exec $A new -d -n x -- true`)
		cmd.Args = append([]string{"unshare", "-m"}, cmd.Args...)
		cmd.Path, _ = exec.LookPath("unshare")
		check(t, w.finish(cmd), "/dev/pt")
		if list := w.list(true); len(list) != 0 {
			t.Errorf("a session is left: %+v", list)
		}
	})
}

func TestExecErrorsLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := w.write("script", "no program\n")
	if err := os.Chmod(script, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := w.write("broken", "#!/nonexistent/interpreter\n")
	os.Chmod(broken, 0o700)
	for name, v := range map[string]struct {
		command string
		code    int
	}{
		"missing":        {"no-such-program-anywhere", 127},
		"missing path":   {"/nonexistent/agent", 127},
		"not executable": {script, 126},
		"a directory":    {w.dir, 126},
		"interpreter":    {broken, 127},
	} {
		t.Run(name, func(t *testing.T) {
			msg := w.fails(v.code, "new", "-d", "-n", "x", "--", v.command)
			if !strings.Contains(msg, v.command) || !strings.Contains(msg, "agentmux: hint: ") {
				t.Errorf("the message is %q", msg)
			}
			tm := w.terminal(80, 24)
			tm.foreground("x", v.command)
			tm.exit(v.code)
			tm.clean()
			tm.sees("agentmux: error:")
		})
	}
	if list := w.list(true); len(list) != 0 {
		t.Errorf("sessions are left: %+v", list)
	}
	if entries, err := os.ReadDir(w.tree.Sessions()); err != nil || len(entries) != 0 {
		t.Errorf("directories are left: %v, %v", entries, err)
	}
	eventually(t, "no shim is left", func() bool { return w.count("shim") == 0 })
}

func TestSC08NoValuesOfTheEnvironmentOnDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "s3cr3t-value-of-the-key"
	w.setenv("API_KEY=" + secret)
	w.ok("new", "-d", "-n", "k", "--env", "OTHER_KEY="+secret, "--", "sh", "-c", "sleep 600")
	w.ok("new", "-d", "-n", "gone", "--", "true")
	w.ended("gone")
	w.killServer()
	w.listJSON()
	w.grepNothing(secret)
	for _, p := range w.processes() {
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if p.own() && bytes.Contains(environ, []byte(secret)) {
			t.Errorf("%v has it in its environment", p)
		}
	}
}

// grepNothing fails the test if a text is in any file of the state tree.
func (w *world) grepNothing(text string) {
	w.t.Helper()
	files := 0
	err := filepath.WalkDir(string(w.tree), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreMissing(err)
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(text)) {
			w.t.Errorf("it is in %s", path)
		}
		files++
		return ignoreMissing(err)
	})
	if err != nil || files < 5 {
		w.t.Errorf("looked at %d files: %v", files, err)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// A session that a later agentmux has written is passed over and left alone.
func TestNewerSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("ended", "true")
	w.ended("ended")
	w.start("ok", "sleep", "600")
	dir, _, err := w.mux().Find("ended")
	if err != nil {
		t.Fatal(err)
	}
	record := `{"schema":99,"id":"` + string(dir.ID()) + `","name":{"new":"form"}}`
	if err := os.WriteFile(dir.Record(), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, junk := range []string{"8c99f87a-798d-45fc-93d5-40ca816ce238", "not-a-session", "9c99f87a-798d-45fc-93d5-40ca816ce238"} {
		os.MkdirAll(filepath.Join(w.tree.Sessions(), junk, "runs", "1"), 0o700)
	}
	os.WriteFile(filepath.Join(w.tree.Sessions(), "9c99f87a-798d-45fc-93d5-40ca816ce238", "session.json"), []byte("{half"), 0o600)
	w.killServer()
	if list := w.listJSON("--all"); len(list) != 1 || list[0].Name != "ok" {
		t.Errorf("the list is %+v", list)
	}
	w.start("more", "true")
	if got, err := os.ReadFile(dir.Record()); err != nil || string(got) != record {
		t.Errorf("the newer record is now %q, %v", got, err)
	}
}

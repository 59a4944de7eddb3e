//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/wire"
)

// The tests run the real program on real terminals, sockets and processes.
// Each has a world of its own: a home, a state tree and a server.

// program is the path of the agentmux under test, self that of this test
// binary, which is also the helper programs (helper_test.go).
var program, self string

// parallel is how many tests run at a time: most of them wait.
const parallel = 6

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "@") {
		os.Exit(runHelper(os.Args[1], os.Args[2:]))
	}
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
		panic(err)
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agentmux-build-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if self, err = os.Executable(); err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "agentmux")
	args := []string{"build", "-o", program}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build agentmux: %v\n%s", err, out)
		return 1
	}
	syscall.Umask(0o022)
	return m.Run()
}

// patience is how long a condition may take to come true. It is long, because
// the machine may be busy; what has to be fast is measured by itself.
const patience = 20 * time.Second

// eventually is the one place where tests wait: until a condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	within(t, patience, what, condition)
}

func within(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stays fails the test if a condition stops to hold within a time.
func stays(t testing.TB, d time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !condition() {
			t.Fatalf("within %v no longer: %s", d, what)
		}
	}
}

// world is a state tree with all that is started in it.
type world struct {
	t    testing.TB
	dir  string // private and short
	tree session.Tree
	env  []string

	mu        sync.Mutex
	terminals []*terminal
	closed    bool
}

// newWorld makes a world that is taken apart, and looked over for what was
// left behind, at the end of the test.
func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "amx")
	if err != nil {
		t.Fatal(err)
	}
	return newWorldIn(t, dir)
}

func newWorldIn(t testing.TB, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, tree: session.Tree(filepath.Join(dir, "s", "agentmux"))}
	w.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("h"), "XDG_STATE_HOME=" + w.path("s"),
		"XDG_RUNTIME_DIR=" + w.path("r"), "TERM=xterm-256color", "LANG=C.UTF-8", "SHELL=/bin/sh", "USER=root",
	}
	if raceEnabled {
		w.env = append(w.env, "GORACE=atexit_sleep_ms=0 log_path="+w.path("race"))
	}
	for _, d := range []string{"h", "r", "w"} {
		if err := os.Mkdir(w.path(d), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
	}
	t.Cleanup(w.close)
	return w
}

// path is a path within the world's directory.
func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

// write writes a file into the world's directory and returns its path.
func (w *world) write(name, content string) string {
	w.t.Helper()
	if err := os.WriteFile(w.path(name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return w.path(name)
}

// setenv changes the environment of what is started from now on.
func (w *world) setenv(kvs ...string) {
	for _, kv := range kvs {
		name, _, set := strings.Cut(kv, "=")
		w.env = slices.DeleteFunc(slices.Clone(w.env), func(old string) bool { return strings.HasPrefix(old, name+"=") })
		if set {
			w.env = append(w.env, kv)
		}
	}
}

func (w *world) getenv(name string) string {
	for _, kv := range w.env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// result is what a command did.
type result struct {
	out, err string
	code     int
	took     time.Duration
}

func (r result) String() string {
	return fmt.Sprintf("status %d after %v\nstdout: %q\nstderr: %q", r.code, r.took.Round(time.Millisecond), r.out, r.err)
}

// command is agentmux with arguments, in the world's environment and without
// a controlling terminal.
func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = w.env, w.path("w")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// finish runs a command to its end, which has to come soon, with nothing left
// that holds its output open.
func (w *world) finish(cmd *exec.Cmd) result {
	w.t.Helper()
	var out, stderr bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &stderr
	}
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	if err := cmd.Start(); err != nil {
		w.t.Fatalf("%v: %v", cmd.Args, err)
	}
	timer := time.AfterFunc(2*patience, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	r := result{out.String(), stderr.String(), cmd.ProcessState.ExitCode(), time.Since(began)}
	if !timer.Stop() {
		w.t.Fatalf("%v: did not end: %v", cmd.Args, r)
	}
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		w.t.Fatalf("%v: %v: %v", cmd.Args, err, r)
	}
	return r
}

// run runs agentmux.
func (w *world) run(args ...string) result {
	w.t.Helper()
	return w.finish(w.command(args...))
}

// ok runs agentmux, which has to succeed, and returns its standard output.
func (w *world) ok(args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	if r.code != 0 {
		w.t.Fatalf("agentmux %q: %v", args, r)
	}
	return r.out
}

// fails runs agentmux, which has to end with a status and an error on one
// line, and returns its standard error.
func (w *world) fails(code int, args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	if r.code != code || !strings.HasPrefix(r.err, "agentmux: error: ") || strings.Contains(r.err, "goroutine ") {
		w.t.Fatalf("agentmux %q, want status %d and an error: %v", args, code, r)
	}
	return r.err
}

// start makes a session without attaching to it.
func (w *world) start(name string, argv ...string) wire.Info {
	w.t.Helper()
	if out := w.ok(append([]string{"new", "-d", "--size", "80x24", "-n", name, "--"}, argv...)...); out != name+"\n" {
		w.t.Fatalf("new -d printed %q, want %q", out, name)
	}
	return w.status(name)
}

// helper is the command line of a helper program.
func helper(name string, args ...string) []string { return append([]string{self, "@" + name}, args...) }

// mux reaches the server from within the test, which is quicker than a
// command.
func (w *world) mux() *client.Mux {
	return &client.Mux{Tree: w.tree, Version: "dev", Executable: program, Getenv: w.getenv}
}

func (w *world) list(all bool) []wire.Info {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	list, err := w.mux().List(ctx, all)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// find is status for a session that may not be there.
func (w *world) find(name string) (wire.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return w.mux().Status(ctx, name)
}

func (w *world) status(name string) wire.Info {
	w.t.Helper()
	info, err := w.find(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}

// listJSON is the list as the command prints it.
func (w *world) listJSON(args ...string) []wire.Info {
	w.t.Helper()
	var list struct {
		Schema   int
		Sessions []wire.Info
	}
	if err := json.Unmarshal([]byte(w.ok(append([]string{"ls", "--json"}, args...)...)), &list); err != nil || list.Schema != 1 {
		w.t.Fatalf("ls --json: schema %d, %v", list.Schema, err)
	}
	return list.Sessions
}

// ended waits for the end of a session and returns what is told of it then.
func (w *world) ended(name string) wire.Info {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	info, err := w.mux().WaitExit(ctx, name)
	if err != nil {
		w.t.Fatalf("wait for the end of %s: %v", name, err)
	}
	return info
}

// exited waits for the end of a session, which must be by this code or signal.
func (w *world) exited(name string, want session.Exit) wire.Info {
	w.t.Helper()
	info := w.ended(name)
	if info.State != session.Exited || info.Exit == nil || *info.Exit != want {
		w.t.Fatalf("%s: %s, exit %+v (%s), want %+v", name, info.State, info.Exit, info.Evidence, want)
	}
	return info
}

// shows waits until a session's screen shows a text.
func (w *world) shows(name, text string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("%s shows %q", name, text), func() bool { return strings.Contains(w.screen(name), text) })
}

// screen is a session's screen as the server knows it.
func (w *world) screen(name string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := w.mux().Capture(ctx, wire.CaptureParams{Target: wire.Target{Name: name}})
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Join(got.Lines, "\n")
}

// raw is all output of a session that is in its log, read from the disk.
func (w *world) raw(name string) []byte {
	w.t.Helper()
	dir, _, err := w.mux().Find(name)
	if err != nil {
		w.t.Fatal(err)
	}
	f, err := logstore.Open(dir.Log(), 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var out []byte
	for {
		frame, err := f.TryNext()
		if err != nil {
			return out
		}
		if frame.Type == logstore.TypeOut {
			out = append(out, frame.Payload...)
		}
	}
}

// server is the pid of the server that serves, 0 if there is none.
func (w *world) server() int {
	r, err := shimapi.ReadServerRecord(string(w.tree))
	if err != nil || !alive(r.PID) {
		return 0
	}
	return r.PID
}

// killServer kills the server as tests do, and returns its pid.
func (w *world) killServer() int {
	w.t.Helper()
	pid := w.server()
	if pid == 0 {
		w.t.Fatal("no server to kill")
	}
	syscall.Kill(pid, syscall.SIGKILL)
	eventually(w.t, "the server is dead", func() bool { return !alive(pid) })
	return pid
}

// process is a process as /proc shows it.
type process struct {
	pid  int
	argv []string
	exe  string
}

func (p process) String() string { return fmt.Sprintf("%d %q", p.pid, p.argv) }

// own reports whether it is agentmux itself.
func (p process) own() bool { return filepath.Base(p.exe) == "agentmux" }

// is reports whether it is agentmux with this as its verb.
func (p process) is(verb string) bool { return p.own() && len(p.argv) > 1 && p.argv[1] == verb }

// processes are all that have the world's state tree in their environment or
// its directory on their command line. Dead ones that wait for their parent do
// not count.
func (w *world) processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.t.Fatal(err)
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		ours := bytes.Contains(append([]byte{0}, environ...), []byte("\x00XDG_STATE_HOME="+w.path("s")+"\x00")) ||
			bytes.Contains(cmdline, []byte(w.dir+"/"))
		if !ours || !alive(pid) {
			continue
		}
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		found = append(found, process{pid, strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00"), exe})
	}
	return found
}

// count is how many agentmux processes run with a verb.
func (w *world) count(verb string) int {
	n := 0
	for _, p := range w.processes() {
		if p.is(verb) {
			n++
		}
	}
	return n
}

// alive reports whether a process exists and is not dead already.
func alive(pid int) bool {
	state := processState(pid)
	return state != 0 && state != 'Z' && state != 'X'
}

// processState is the state letter of /proc/PID/stat, 0 for none.
func processState(pid int) byte {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(data, ')')
	if err != nil || i < 0 || i+2 >= len(data) {
		return 0
	}
	return data[i+2]
}

// statFields are the fields of /proc/PID/stat from the state (field 3) on.
func statFields(t testing.TB, pid int) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(data, ')')
	if err != nil || i < 0 {
		t.Fatalf("process %d: %v", pid, err)
	}
	return strings.Fields(string(data[i+1:]))
}

// descriptors is how many descriptors a process has open.
func descriptors(t testing.TB, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// close takes the world apart.
func (w *world) close() {
	w.end()
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Errorf("remove the test's directory: %v", err)
	}
}

// end ends all that was started in the world. Servers and shims have to go
// away by themselves once their agents are dead and the server was stopped.
func (w *world) end() {
	w.mu.Lock()
	terminals, done := w.terminals, w.closed
	w.closed = true
	w.mu.Unlock()
	if done {
		return
	}
	if w.t.Failed() {
		w.report()
	}
	for _, tm := range terminals {
		tm.drop()
	}
	os.MkdirAll(string(w.tree), 0o700)
	os.WriteFile(w.tree.Stopped(), nil, 0o600)
	var left []process
	for deadline := time.Now().Add(patience / 2); ; time.Sleep(10 * time.Millisecond) {
		left = w.processes()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		for _, p := range left {
			if !p.own() || p.is("server") {
				syscall.Kill(p.pid, syscall.SIGKILL)
			}
			syscall.Kill(p.pid, syscall.SIGCONT)
		}
	}
	for _, p := range left {
		w.t.Errorf("left behind: %v", p)
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	races, _ := filepath.Glob(w.path("race.*"))
	for _, file := range races {
		data, _ := os.ReadFile(file)
		w.t.Errorf("the race detector says:\n%s", data)
	}
}

// report shows what servers and shims wrote down, after a failure.
func (w *world) report() {
	files, _ := filepath.Glob(filepath.Join(w.tree.Sessions(), "*", "runs", "*", shimapi.ErrorName))
	for _, file := range append(files, w.tree.ServerLog()) {
		if data, err := os.ReadFile(file); err == nil && len(data) > 0 {
			w.t.Logf("%s:\n%s", file, data[max(0, len(data)-4096):])
		}
	}
	for _, p := range w.processes() {
		w.t.Logf("running: %v", p)
	}
}

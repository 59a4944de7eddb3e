//go:build e2e && linux

package realagents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"agentmux/scripts/harness"
)

// agent is an agent program and how it is used here.
type agent struct {
	name  string
	flags []string
	env   []string
	ready string // on its screen when it waits for a prompt
}

var all = []agent{
	{name: "claude", flags: []string{"--dangerously-skip-permissions"}, ready: "bypass permissions on"},
	{name: "codex", flags: []string{"--no-daemon", "-s", "danger-full-access", "-a", "never"}, ready: "Ask Codex to do anything"},
	{name: "gemini", flags: []string{"--yolo"}, env: []string{"GEMINI_CLI_NO_RELAUNCH=true"}, ready: "Type your message"},
}

const (
	cols, rows = 120, 40
	turn       = 2 * time.Minute // for a whole scripted turn, on a busy machine
)

func TestAgents(t *testing.T) {
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			id := start(t, a, a.name)
			t.Run("detached turn", func(t *testing.T) { detachedTurn(t, a) })
			if t.Failed() {
				return // what follows builds on it
			}
			t.Run("attach", func(t *testing.T) { attach(t, a) })
			t.Run("server killed in mid-turn", func(t *testing.T) { serverKilled(t, a) })
			t.Run("log", func(t *testing.T) { readLog(t, a.name, "DEMO-COMPLETE", "long", "typed while it was down") })
			t.Run("kill", func(t *testing.T) { kill(t, a.name, id) })
		})
	}
}

// must stops the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start starts an agent with nobody attached and waits for its prompt.
func start(t *testing.T, a agent, name string) (id string) {
	t.Helper()
	began := time.Now()
	args := []string{"new", "-d", "-n", name, "-C", repo(a.name)}
	for _, e := range a.env {
		args = append(args, "--env", e)
	}
	args = append(append(args, "--", filepath.Join(agents, "bin", a.name)), a.flags...)
	out, err := mux.Must(args...)
	must(t, err)
	if got := strings.TrimSpace(out); got != name {
		t.Fatalf("new -d printed %q, not the name", got)
	}
	waitText(t, name, regexp.QuoteMeta(a.ready), turn)
	s, err := mux.Session(name)
	must(t, err)
	if s.State != "running" || !harness.Alive(s.AgentPID) || !harness.Alive(s.ShimPID) {
		t.Fatalf("session after its start: %+v", s)
	}
	t.Logf("prompt after %v", time.Since(began).Round(10*time.Millisecond))
	return s.ID
}

// waitText waits, by the program's own wait, for a text on a session's screen.
func waitText(t *testing.T, name, pattern string, limit time.Duration) {
	t.Helper()
	r := mux.RunFor(limit+harness.Limit, "wait", "--until", "text="+pattern, "--timeout", limit.String(), name)
	if r.Code != 0 {
		screen, _ := mux.Screen(name)
		t.Fatalf("wait for %q: exit code %d: %s\nscreen:\n%s", pattern, r.Code, r.Err, screen)
	}
}

func send(t *testing.T, name, text string) {
	t.Helper()
	_, err := mux.Must("send", "--enter", name, text)
	must(t, err)
}

// awaitTurn waits until the model is asked. send does not check that the program
// took the Enter, so what a careful script would do is done here.
func awaitTurn(t *testing.T, name string) {
	t.Helper()
	var err error
	for range 5 {
		err = harness.Until(5*time.Second, "the turn begins", func() (bool, string) {
			n, err := streaming()
			return err == nil && n > 0, fmt.Sprint(n, err)
		})
		if err == nil {
			return
		}
		screen, _ := mux.Screen(name)
		t.Logf("NOTE: the Enter of send --enter was not taken as such; pressing it again. Screen:\n%s", screen)
		if _, err := mux.Must("send", "--key", "enter", name); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal(err)
}

// detachedTurn has a whole turn done, files edited, with nobody attached.
func detachedTurn(t *testing.T, a agent) {
	began := time.Now()
	send(t, a.name, "demo")
	awaitTurn(t, a.name)
	waitText(t, a.name, "DEMO-COMPLETE", turn)
	t.Logf("turn done after %v", time.Since(began).Round(10*time.Millisecond))
	s, err := mux.Session(a.name)
	must(t, err)
	if s.Attached != 0 {
		t.Errorf("%d clients are attached, not 0", s.Attached)
	}
	text, err := os.ReadFile(filepath.Join(repo(a.name), "hello.py"))
	must(t, err)
	if got, want := strings.TrimSpace(string(text)), "print('hello, scripted world')"; got != want {
		t.Errorf("hello.py holds %q, not %q", got, want)
	}
	text, err = os.ReadFile(filepath.Join(repo(a.name), "scripted.txt"))
	must(t, err)
	if string(text) != "one\n" {
		t.Errorf("scripted.txt holds %q", text)
	}
}

// terminal opens an outer terminal for the test.
func terminal(t *testing.T) *harness.Tmux {
	t.Helper()
	term, err := harness.NewTmux(t.TempDir(), mux.Env, cols, rows)
	must(t, err)
	t.Cleanup(func() {
		if err := term.Close(); err != nil {
			t.Error(err)
		}
	})
	return term
}

// sameScreens waits until terminal and capture show the same: a program may
// draw between the two looks.
func sameScreens(t *testing.T, term *harness.Tmux, name string) {
	t.Helper()
	var user, ours string
	err := harness.Until(harness.Limit, "terminal and capture show the same", func() (bool, string) {
		var err, err2 error
		user, err = term.Screen()
		ours, err2 = mux.Screen(name)
		return err == nil && err2 == nil && user == ours && user != "", ""
	})
	if err != nil {
		t.Fatalf("%v\nterminal:\n%s\ncapture:\n%s\n%s", err, user, ours, firstDifference(user, ours))
	}
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range max(len(x), len(y)) {
		var l, m string
		if i < len(x) {
			l = x[i]
		}
		if i < len(y) {
			m = y[i]
		}
		if l != m {
			return fmt.Sprintf("first difference in line %d:\n%q\n%q", i+1, l, m)
		}
	}
	return ""
}

// attachCommand is what a user types; it prints the status when it returns.
func attachCommand(name string) string {
	return mux.Bin + " attach " + name + "; echo left-with:$?"
}

// leave presses the detach key and checks that the terminal is as it was.
func leave(t *testing.T, term *harness.Tmux, name, before string) {
	t.Helper()
	must(t, term.Key(`C-\`))
	must(t, term.Await(harness.Limit, "left-with:0"))
	must(t, term.AwaitShell(harness.Limit))
	screen, err := term.Screen()
	must(t, err)
	if !strings.Contains(screen, "come back with: agentmux attach "+name) {
		t.Errorf("nothing on the screen says how to come back:\n%s", screen)
	}
	after, err := term.Modes()
	must(t, err)
	if after != before {
		t.Errorf("terminal before and after attach differ:\n%s\n%s", before, after)
	}
	// A late answer to a question of the agent would be typed at the shell.
	must(t, term.Command("echo clean-$((40+2))"))
	must(t, term.Await(harness.Limit, "\nclean-42"))
}

// attach shows the finished turn in a user's terminal and leaves again.
func attach(t *testing.T, a agent) {
	term := terminal(t)
	before, err := term.Modes()
	must(t, err)
	must(t, term.Command(attachCommand(a.name)))
	must(t, term.Await(harness.Limit, "DEMO-COMPLETE"))
	sameScreens(t, term, a.name)
	s, err := mux.Session(a.name)
	must(t, err)
	if s.Attached != 1 {
		t.Errorf("%d clients are attached, not 1", s.Attached)
	}
	must(t, term.Type("typed by hand"))
	must(t, term.Await(harness.Limit, "typed by hand"))
	sameScreens(t, term, a.name)
	clearPrompt(t, term, a, "typed by hand")
	leave(t, term, a.name, before)
}

// clearPrompt deletes what was typed and not submitted.
func clearPrompt(t *testing.T, term *harness.Tmux, a agent, typed string) {
	t.Helper()
	for range typed {
		must(t, term.Key("BSpace"))
	}
	must(t, harness.Until(harness.Limit, "the prompt is empty again", func() (bool, string) {
		screen, err := term.Screen()
		return err == nil && !strings.Contains(screen, typed), screen
	}))
}

// awaitStreaming waits until the model is in the middle of an answer, or not.
func awaitStreaming(t *testing.T, want int) {
	t.Helper()
	must(t, harness.Until(harness.Limit, fmt.Sprintf("the relay gives %d answers", want), func() (bool, string) {
		n, err := streaming()
		return err == nil && n == want, fmt.Sprint(n, err)
	}))
}

// submit presses Enter until the turn begins: an Enter that comes too soon
// after the text is a line end in it for some agents.
func submit(t *testing.T, term *harness.Tmux) {
	t.Helper()
	var err error
	for range 10 {
		must(t, term.Key("Enter"))
		err = harness.Until(2*time.Second, "the turn begins", func() (bool, string) {
			n, err := streaming()
			return err == nil && n == 1, fmt.Sprint(n, err)
		})
		if err == nil {
			return
		}
	}
	screen, _ := term.Screen()
	t.Fatalf("%v\n%s", err, screen)
}

// serverKilled kills the server while a user looks and types, in mid-turn.
func serverKilled(t *testing.T, a agent) {
	term := terminal(t)
	before, err := term.Modes()
	must(t, err)
	must(t, term.Command(attachCommand(a.name)))
	must(t, term.Await(harness.Limit, a.ready))
	must(t, term.Type("long"))
	must(t, term.Await(harness.Limit, "long"))
	sameScreens(t, term, a.name)
	submit(t, term)

	pid := mux.ServerPID()
	if pid == 0 {
		t.Fatal("no server before the kill")
	}
	must(t, syscall.Kill(pid, syscall.SIGKILL))
	killed := time.Now()
	must(t, term.Type("typed while it was down"))
	var back time.Duration
	must(t, harness.Until(harness.Limit, "the server is back by itself", func() (bool, string) {
		now := mux.ServerPID()
		back = time.Since(killed)
		return now != 0 && now != pid, fmt.Sprint(now)
	}))
	t.Logf("server back after %v", back.Round(time.Millisecond))
	if back > time.Second {
		t.Errorf("the server was back after %v, more than a second", back)
	}
	must(t, term.Await(harness.Limit, "typed while it was down"))
	if n, err := streaming(); err != nil || n != 1 {
		t.Errorf("the turn did not go on: %d answers under way, %v", n, err)
	}
	must(t, harness.Until(harness.Limit, "the client is attached to the new server", func() (bool, string) {
		s, err := mux.Session(a.name)
		return err == nil && s.Attached == 1, fmt.Sprint(s, err)
	}))

	must(t, term.Key("Escape"))
	awaitStreaming(t, 0)
	sameScreens(t, term, a.name)
	leave(t, term, a.name, before)
}

// readLog reads the record: what scrolled off and the screen as it is.
func readLog(t *testing.T, name string, want ...string) {
	out, err := mux.Must("log", name)
	must(t, err)
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("the log does not contain %q:\n%s", w, out)
		}
	}
	for _, c := range out {
		if unicode.IsControl(c) && c != '\n' || c == unicode.ReplacementChar {
			t.Fatalf("the log contains %U", c)
		}
	}
	s, err := mux.Session(name)
	must(t, err)
	if s.Lost != 0 {
		t.Errorf("%d bytes of the log are lost", s.Lost)
	}
}

// kill ends the session and looks for what is left of it.
func kill(t *testing.T, name, id string) {
	began := time.Now()
	_, err := mux.MustFor(time.Minute, "kill", name)
	must(t, err)
	t.Logf("killed after %v", time.Since(began).Round(time.Millisecond))
	// What the agent started carries the marker; what it is itself, too.
	must(t, harness.Gone(harness.Limit, "AGENTMUX_ID="+id, id))
	s, err := mux.Session(name)
	must(t, err)
	if s.State != "exited" || s.Exit == nil {
		t.Errorf("after the kill: %+v", s)
	}
	// An agent on the alternate screen takes it along when it ends; the exact
	// bytes stay.
	out, err := mux.Must("log", "--raw", name)
	must(t, err)
	if !strings.Contains(out, "DEMO-COMPLETE") {
		t.Errorf("the raw log after the end, %d bytes, does not contain DEMO-COMPLETE", len(out))
	}
}

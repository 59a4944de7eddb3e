package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Mux is an agentmux with a state tree of its own.
type Mux struct {
	Bin string   // the program
	Dir string   // everything it writes is below
	Env []string // its environment
}

// NewMux prepares a tree below dir, which it creates.
func NewMux(bin, dir string) (*Mux, error) {
	m := &Mux{Bin: bin, Dir: dir}
	for _, d := range []string{m.Home(), m.State()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("prepare a state tree: %w", err)
		}
	}
	m.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + m.Home(), "XDG_STATE_HOME=" + m.State(),
		"TERM=xterm-256color", "COLORTERM=truecolor", "LANG=C.UTF-8", "SHELL=/bin/sh",
	}
	return m, nil
}

// Home is the home directory of all that runs here.
func (m *Mux) Home() string { return filepath.Join(m.Dir, "home") }

// State is the XDG_STATE_HOME of all that runs here, by which its processes
// are told from others.
func (m *Mux) State() string { return filepath.Join(m.Dir, "state") }

// Result is how a call of the program ended.
type Result struct {
	Out, Err string
	Code     int
}

// Limit bounds every call that does not wait for something by itself.
const Limit = 20 * time.Second

// Run calls the program without a terminal.
func (m *Mux) Run(args ...string) Result { return m.RunFor(Limit, args...) }

// RunFor is Run with a limit of its own.
func (m *Mux) RunFor(limit time.Duration, args ...string) Result {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.Bin, args...)
	var out, errOut bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = m.Env, m.Home(), &out, &errOut, time.Second
	err := cmd.Run()
	r := Result{Out: out.String(), Err: errOut.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.Code = exit.ExitCode()
	case err != nil:
		r.Code = -1
		r.Err += err.Error()
	}
	if ctx.Err() != nil {
		r.Code = -1
		r.Err += fmt.Sprintf("\n%s did not return within %v", strings.Join(args, " "), limit)
	}
	return r
}

// Must is Run that has to succeed; it returns what was printed.
func (m *Mux) Must(args ...string) (string, error) { return m.MustFor(Limit, args...) }

// MustFor is Must with a limit of its own.
func (m *Mux) MustFor(limit time.Duration, args ...string) (string, error) {
	r := m.RunFor(limit, args...)
	if r.Code != 0 {
		return r.Out, fmt.Errorf("agentmux %s: exit code %d: %s", strings.Join(args, " "), r.Code, strings.TrimSpace(r.Err))
	}
	return r.Out, nil
}

// Session is what ls --json says of one, as far as the tests want it.
type Session struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	State    string `json:"state"`
	AgentPID int    `json:"agent_pid"`
	ShimPID  int    `json:"shim_pid"`
	Attached int    `json:"attached"`
	LogBytes int64  `json:"log_bytes"`
	Lost     int64  `json:"lost_bytes"`
	Exit     *struct {
		Code   int    `json:"code"`
		Signal string `json:"signal"`
	} `json:"exit"`
}

// Sessions lists all sessions of the tree.
func (m *Mux) Sessions() ([]Session, error) {
	out, err := m.Must("ls", "--all", "--json")
	if err != nil {
		return nil, err
	}
	var list struct {
		Schema   int       `json:"schema"`
		Sessions []Session `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("agentmux ls --json: %w", err)
	}
	if list.Schema != 1 {
		return nil, fmt.Errorf("agentmux ls --json: schema %d, not 1", list.Schema)
	}
	return list.Sessions, nil
}

// Session returns the newest session of a name.
func (m *Mux) Session(name string) (Session, error) {
	list, err := m.Sessions()
	if err != nil {
		return Session{}, err
	}
	for _, s := range list { // live ones come first
		if s.Name == name {
			return s, nil
		}
	}
	return Session{}, fmt.Errorf("agentmux ls: no session %s", name)
}

// ServerPID is the running server's, 0 for none. It never starts one.
func (m *Mux) ServerPID() int {
	r := m.Run("server", "status", "--json")
	var status struct {
		PID *int `json:"pid"`
	}
	if r.Code != 0 || json.Unmarshal([]byte(r.Out), &status) != nil || status.PID == nil {
		return 0
	}
	return *status.PID
}

// Screen is the session's screen as agentmux capture prints it.
func (m *Mux) Screen(name string) (string, error) {
	out, err := m.Must("capture", name)
	return Trim(out), err
}

// Trim drops what no two programs print alike: blanks at the ends of lines and
// empty lines at the end.
func Trim(screen string) string {
	lines := strings.Split(screen, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

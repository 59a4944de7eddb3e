package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// launchBudget is how long a shim may take until its agent runs.
const launchBudget = 30 * time.Second

// launcher starts shims. Where a systemd user manager runs and lingers, each
// goes into a scope of its own: outside the server's cgroup, so that what ends
// the server does not reach it, and outside the login session.
type launcher struct {
	executable string
	tree       string
	env        []string
	systemd    systemd
}

func newLauncher(o Options) launcher {
	return launcher{
		executable: o.Executable, tree: string(o.Tree), env: session.CleanEnvironment(o.Getenv),
		systemd: findSystemd(o.Getenv),
	}
}

// start starts the shim of a run and waits until its agent runs. An error that
// wraps *wire.Error means that the agent never started. The notes are for the
// user.
func (l launcher) start(b shimapi.Bundle, launch shimapi.Launch) ([]string, error) {
	notes := l.systemd.notes(l.tree)
	prefix := l.systemd.scope("agentmux-" + launch.Spec.Session + "-" + strconv.Itoa(b.Run))
	ready, err := l.detach(prefix, b, launch)
	if err != nil && len(prefix) > 0 {
		notes = append(notes, "systemd refused a scope of its own for the session ("+err.Error()+"); it runs without")
		ready, err = l.detach(nil, b, launch)
	}
	if err != nil {
		return nil, fmt.Errorf("start the session's shim: %w", err)
	}
	if ready.Error != "" {
		return nil, startError(ready)
	}
	return notes, nil
}

func startError(r shimapi.Ready) error {
	e := &wire.Error{Code: wire.CodeFailed, Message: r.Error, Exit: r.Code}
	if r.Code == 126 || r.Code == 127 {
		e.Code = "command"
		e.Hint = "no session was made; check the command's spelling and PATH"
	}
	return e
}

// detach starts the shim, gives it the launch and returns its answer.
func (l launcher) detach(prefix []string, b shimapi.Bundle, launch shimapi.Launch) (shimapi.Ready, error) {
	launchR, launchW, err := os.Pipe()
	if err != nil {
		return shimapi.Ready{}, err
	}
	defer launchW.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		launchR.Close()
		return shimapi.Ready{}, err
	}
	defer readyR.Close()
	err = shimapi.Detach(prefix, l.executable, []string{"shim", b.Session}, l.env, []*os.File{launchR, readyW})
	launchR.Close()
	readyW.Close()
	if err != nil {
		return shimapi.Ready{}, err
	}
	deadline := time.Now().Add(launchBudget)
	launchW.SetWriteDeadline(deadline)
	if err := json.NewEncoder(launchW).Encode(launch); err != nil {
		return shimapi.Ready{}, fmt.Errorf("tell the shim what to launch: %w", err)
	}
	launchW.Close()
	readyR.SetReadDeadline(deadline)
	var ready shimapi.Ready
	err = json.NewDecoder(readyR).Decode(&ready)
	switch {
	case errors.Is(err, io.EOF):
		return ready, errors.New("it ended before its agent ran" + complaint(b))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ready, fmt.Errorf("it said nothing within %v", launchBudget)
	case err != nil:
		return ready, err
	}
	return ready, nil
}

// complaint is what the shim wrote down before it ended, if anything.
func complaint(b shimapi.Bundle) string {
	data, err := os.ReadFile(b.File(shimapi.ErrorName))
	if err != nil || len(data) == 0 {
		return ""
	}
	return ": " + strings.TrimSpace(string(data))
}

// serverPrefix is what to put before the command line of the next server.
func (l launcher) serverPrefix() []string { return l.systemd.scope("") }

// systemd is what is known of the service manager; the zero value: there is
// none.
type systemd struct {
	run      string // systemd-run
	loginctl string
	lingers  bool
}

// findSystemd asks once, at the server's start. The programs are looked up in
// the PATH of the environment.
func findSystemd(getenv func(string) string) systemd {
	var s systemd
	runtime := getenv("XDG_RUNTIME_DIR")
	if runtime == "" {
		return s
	}
	if _, err := os.Stat(filepath.Join(runtime, "systemd", "private")); err != nil {
		return s
	}
	s.loginctl = lookPath("loginctl", getenv("PATH"))
	if s.loginctl == "" {
		return s
	}
	if s.lingers = s.ask("show-user", strconv.Itoa(os.Getuid()), "--property=Linger"); s.lingers {
		s.run = lookPath("systemd-run", getenv("PATH"))
	}
	return s
}

// ask runs loginctl and reports whether it printed "…=yes".
func (s systemd) ask(args ...string) bool {
	cmd := exec.Command(s.loginctl, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	return err == nil && strings.HasSuffix(strings.TrimSpace(string(out)), "=yes")
}

// scope is the command line that runs what follows it in a scope of its own,
// called unit, if that is possible here.
func (s systemd) scope(unit string) []string {
	if s.run == "" {
		return nil
	}
	prefix := []string{s.run, "--user", "--scope", "--quiet", "--collect", "--property=OOMPolicy=continue"}
	if unit != "" {
		prefix = append(prefix, "--unit="+unit)
	}
	return append(prefix, "--")
}

// notes are what the user of this machine should know, told once.
func (s systemd) notes(tree string) []string {
	if s.loginctl == "" || s.lingers {
		return nil
	}
	mark := filepath.Join(tree, "told-about-logout")
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil
	}
	f.Close()
	if !s.ask("show-user", "--property=KillUserProcesses") {
		return nil
	}
	return []string{"this machine ends your processes when you log out, agents too; 'loginctl enable-linger' keeps them"}
}

func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); filepath.IsAbs(dir) && err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return full
		}
	}
	return ""
}

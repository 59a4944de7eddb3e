//go:build e2e && linux

package realagents

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/scripts/harness"
)

// The world of this run: see scripts/e2e.
var (
	work   = os.Getenv("AGENTMUX_E2E_WORK")   // scratch directory, not below /tmp
	agents = os.Getenv("AGENTMUX_E2E_AGENTS") // the installed agents
	mux    *harness.Mux
	relay  string // the relay's address
)

func TestMain(m *testing.M) {
	status, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: FAILED:", err)
		status = 1
	}
	os.Exit(status)
}

func run(m *testing.M) (status int, err error) {
	if work == "" || agents == "" {
		return 1, errors.New("run it by scripts/e2e")
	}
	if mux, err = harness.NewMux(filepath.Join(work, "agentmux"), filepath.Join(work, "tree")); err != nil {
		return 1, err
	}
	for _, a := range all {
		if err := scratch(a.name); err != nil {
			return 1, err
		}
	}
	stop, err := startRelay()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := installAgents(); err != nil {
		return 1, err
	}
	status = m.Run()
	return status, errors.Join(end(), leftovers())
}

// repo is the scratch repository of an agent.
func repo(name string) string { return filepath.Join(work, "repo-"+name) }

// scratch makes a small git repository for an agent to work in.
func scratch(name string) error {
	dir := repo(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte("# Scratch\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "README.md"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "Begin"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	return nil
}

// startRelay starts the model relay on a free port.
func startRelay() (stop func() error, err error) {
	portFile := filepath.Join(work, "port")
	log, err := os.Create(filepath.Join(work, "relay.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(work, "fakerelay"), "-port", "0", "-port-file", portFile)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() error {
		err := cmd.Process.Kill()
		cmd.Wait()
		return err
	}
	err = harness.Until(harness.Limit, "the relay is ready", func() (bool, string) {
		port, err := os.ReadFile(portFile)
		if err != nil {
			return false, err.Error()
		}
		relay = "127.0.0.1:" + strings.TrimSpace(string(port))
		_, err = streaming()
		return err == nil, fmt.Sprint(err)
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// streaming is how many replies the relay is giving now.
func streaming() (int, error) {
	client := http.Client{Timeout: harness.Limit}
	resp, err := client.Get("http://" + relay + "/relay/status")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	var status struct {
		Streaming int `json:"streaming"`
	}
	return status.Streaming, json.Unmarshal(body, &status)
}

// installAgents installs the agents, unless an earlier run did, and points
// their launchers at the relay.
func installAgents() error {
	_, port, _ := strings.Cut(relay, ":")
	args := []string{os.Getenv("AGENTMUX_E2E_SETUP"), agents, port}
	for _, a := range all {
		args = append(args, repo(a.name))
	}
	began := time.Now()
	cmd := exec.Command("sh", args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install the agents: %w: %s", err, out)
	}
	fmt.Printf("agents ready after %v\n", time.Since(began).Round(time.Second))
	return os.WriteFile(os.Getenv("AGENTMUX_E2E_MARK"), nil, 0o644)
}

// end ends what a failed test has left running, by the program's own means.
func end() error {
	list, err := mux.Sessions()
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.State == "running" {
			fmt.Printf("ending session %s\n", s.Name)
			if r := mux.RunFor(time.Minute, "kill", s.Name); r.Code != 0 {
				err = errors.Join(err, fmt.Errorf("kill %s: %s", s.Name, r.Err))
			}
		}
	}
	if r := mux.Run("server", "stop"); r.Code != 0 {
		err = errors.Join(err, fmt.Errorf("server stop: exit code %d: %s", r.Code, r.Err))
	}
	return err
}

// leftovers fails if a process of this run is left: one with our state tree in
// its environment or our directory on its command line. It ends them, so that
// a failed run leaves nothing either.
func leftovers() error {
	err := harness.Gone(harness.Limit, "XDG_STATE_HOME="+mux.State(), mux.Dir, work+"/repo-")
	if err != nil {
		for _, p := range harness.Find("XDG_STATE_HOME="+mux.State(), mux.Dir) {
			fmt.Printf("left over, killed: %v\n", p)
			syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
	return err
}

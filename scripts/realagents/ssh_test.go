//go:build e2e && linux

package realagents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentmux/scripts/harness"
)

// TestSSH attaches to Claude Code through a real ssh connection between two
// network namespaces, cuts the link in mid-turn, and comes back by a new one.
func TestSSH(t *testing.T) {
	if os.Getenv("AGENTMUX_E2E_SKIP_SSH") == "1" {
		t.Log("NOT TESTED: the cut ssh connection, since AGENTMUX_E2E_SKIP_SSH=1")
		return
	}
	if os.Getuid() != 0 {
		t.Fatal("network namespaces need root; AGENTMUX_E2E_SKIP_SSH=1 leaves this test out")
	}
	link := newLink(t)
	startSSHD(t, link)

	// On the main screen everything that it says scrolls off into the log.
	a := all[0]
	a.env = []string{"CLAUDE_CODE_NO_FLICKER=0"}
	const name = "remote"
	id := start(t, a, name)
	s, err := mux.Session(name)
	must(t, err)

	first := terminal(t)
	must(t, first.Command(link.attach(name)))
	must(t, first.Await(harness.Limit, a.ready))
	sameScreens(t, first, name)
	must(t, first.Type("demo"))
	must(t, first.Await(harness.Limit, "demo"))
	submit(t, first)

	link.set(t, "down")
	began := time.Now()
	waitText(t, name, "DEMO-COMPLETE", turn)
	t.Logf("turn done %v after the link was cut", time.Since(began).Round(10*time.Millisecond))
	seen, err := first.Screen()
	must(t, err)
	if strings.Contains(seen, "DEMO-COMPLETE") {
		t.Fatal("the link was not cut: the end of the turn is on the first terminal")
	}
	text, err := os.ReadFile(filepath.Join(repo(a.name), "hello.py"))
	must(t, err)
	if !strings.Contains(string(text), "hello, scripted world") {
		t.Errorf("hello.py holds %q", text)
	}
	now, err := mux.Session(name)
	must(t, err)
	if now.AgentPID != s.AgentPID || now.State != "running" || !harness.Alive(s.AgentPID) {
		t.Fatalf("the agent was harmed: %+v before, %+v now", s, now)
	}

	// The user's machine has given the old connection up; the far end has not
	// noticed anything yet.
	must(t, first.Close())
	link.set(t, "up")
	second := terminal(t)
	must(t, second.Command(link.attach(name)))
	must(t, second.Await(harness.Limit, "DEMO-COMPLETE"))
	sameScreens(t, second, name)
	must(t, second.Type("and now go on"))
	must(t, second.Await(harness.Limit, "and now go on"))
	for range 10 {
		must(t, second.Key("Enter"))
		if err = second.Await(2*time.Second, "You said: and now go on"); err == nil {
			break
		}
	}
	must(t, err)
	sameScreens(t, second, name)
	must(t, second.Key(`C-\`))
	must(t, second.Await(harness.Limit, "left-with:0"))

	readLog(t, name, "demo", "DEMO-COMPLETE", "You said: and now go on")
	kill(t, name, id)
	readLog(t, name, "demo", "DEMO-COMPLETE", "You said: and now go on")
}

// link is a pair of network namespaces, the user's and the server's, with one
// cable between them.
type link struct {
	user, far   string // namespaces
	device      string // the user's end of the cable
	address     string // of the far end
	port        string
	key, config string // the user's
}

// command runs a program to its end.
func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

func newLink(t *testing.T) *link {
	t.Helper()
	id := fmt.Sprintf("am%d", os.Getpid())
	l := &link{user: id + "u", far: id + "f", device: id + "u", address: "10.213.77.2", port: "2222"}
	for _, ns := range []string{l.user, l.far} {
		command(t, "ip", "netns", "add", ns)
		t.Cleanup(func() { command(t, "ip", "netns", "del", ns) })
		command(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	command(t, "ip", "-n", l.user, "link", "add", l.device, "type", "veth", "peer", "name", l.far, "netns", l.far)
	command(t, "ip", "-n", l.user, "addr", "add", "10.213.77.1/30", "dev", l.device)
	command(t, "ip", "-n", l.far, "addr", "add", l.address+"/30", "dev", l.far)
	command(t, "ip", "-n", l.far, "link", "set", l.far, "up")
	l.set(t, "up")
	return l
}

// set pulls the cable (down) or puts it in again (up).
func (l *link) set(t *testing.T, state string) {
	t.Helper()
	command(t, "ip", "-n", l.user, "link", "set", l.device, state)
}

// attach is the command line of a user who goes to a session over there.
func (l *link) attach(name string) string {
	return fmt.Sprintf("ip netns exec %s ssh -F %s -i %s -p %s -t root@%s env HOME=%s XDG_STATE_HOME=%s %s attach %s; echo left-with:$?",
		l.user, l.config, l.key, l.port, l.address, mux.Home(), mux.State(), mux.Bin, name)
}

// startSSHD starts an sshd at the far end, with a configuration, a host key and
// a user's key of its own, and ends it, with all of its connections, at the
// end of the test.
func startSSHD(t *testing.T, l *link) {
	t.Helper()
	dir := filepath.Join(work, "ssh")
	must(t, os.MkdirAll(dir, 0o700))
	hostKey := filepath.Join(dir, "host")
	l.key, l.config = filepath.Join(dir, "user"), filepath.Join(dir, "ssh_config")
	for _, key := range []string{hostKey, l.key} {
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	}
	must(t, os.WriteFile(l.config, []byte(
		"StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\nIdentitiesOnly yes\nPasswordAuthentication no\n"), 0o600))
	config := filepath.Join(dir, "sshd_config")
	must(t, os.WriteFile(config, []byte(strings.Join([]string{
		"Port " + l.port, "ListenAddress " + l.address, "HostKey " + hostKey, "PidFile none",
		"AuthorizedKeysFile " + l.key + ".pub", "StrictModes no", "UsePAM no",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password",
		"PrintMotd no", "PrintLastLog no", "",
	}, "\n")), 0o600))
	must(t, os.MkdirAll("/run/sshd", 0o755)) // sshd does not start without

	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd"
	}
	logFile := filepath.Join(dir, "log")
	cmd := exec.Command("ip", "netns", "exec", l.far, program, "-D", "-f", config, "-E", logFile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, cmd.Start())
	t.Cleanup(func() {
		tree := descendants(cmd.Process.Pid)
		cmd.Process.Kill()
		cmd.Wait()
		for _, pid := range tree {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		if t.Failed() {
			text, _ := os.ReadFile(logFile)
			t.Logf("sshd:\n%s", text)
		}
	})
	must(t, harness.Until(harness.Limit, "sshd listens", func() (bool, string) {
		err := exec.Command("ip", "netns", "exec", l.user, "ssh-keyscan", "-T", "1", "-t", "ed25519", "-p", l.port, l.address).Run()
		text, _ := os.ReadFile(logFile)
		return err == nil, fmt.Sprintf("%v\n%s", err, text)
	}))
}

// descendants are the processes below one: for an sshd, its connections and
// what they run.
func descendants(pid int) []int {
	var all []int
	for _, child := range harness.Children(pid) {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}

package shimapi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// stageVariable tells a process that Detach started that it is the first of
// two stages, and with its value what the second is to be.
const stageVariable = "AGENTMUX_DETACH"

// Detach starts exe with args and exactly the environment env as a process
// that nothing ties to the caller: the child of init (or of the nearest
// subreaper), leader of a session of its own without a terminal, in directory
// /, with its standard streams on /dev/null and of all the caller's
// descriptors only files, numbered from 3. It is the double fork of daemon(7),
// done by executing twice, since a Go process cannot fork: exe must call
// RunDetachStage first thing in main.
//
// prefix, when not empty, is a command line that executes what follows it in
// place of itself, as systemd-run --scope does.
//
// Detach returns when the first stage has ended; whether the program then
// works is for the caller to hear over files.
func Detach(prefix []string, exe string, args, env []string, files []*os.File) error {
	argv := append(append([]string{}, prefix...), append([]string{exe}, args...)...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(append([]string{}, env...), fmt.Sprintf("%s=%d", stageVariable, len(files)))
	cmd.Dir = "/"
	cmd.ExtraFiles = files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("start %s: %w%s", filepath.Base(argv[0]), err, lastLine(out))
	}
	return nil
}

func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	if text == "" {
		return ""
	}
	return ": " + text[strings.LastIndexByte(text, '\n')+1:]
}

// RunDetachStage does the first stage of Detach and exits, if this process is
// one; otherwise it returns at once. Nothing else may run before it.
func RunDetachStage() {
	count, ok := os.LookupEnv(stageVariable)
	if !ok {
		return
	}
	os.Unsetenv(stageVariable)
	if err := secondStage(count); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func secondStage(count string) error {
	var n int
	if _, err := fmt.Sscanf(count, "%d", &n); err != nil || n < 0 || n > 16 {
		return fmt.Errorf("%s=%q is not a number of descriptors", stageVariable, count)
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the own executable: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the null device: %w", err)
	}
	files := []*os.File{null, null, null}
	for i := range n {
		files = append(files, os.NewFile(uintptr(3+i), "inherited"))
	}
	closeOthers(3 + n)
	p, err := os.StartProcess(exe, os.Args, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", exe, err)
	}
	return p.Release()
}

// closeOthers marks every descriptor from first on close-on-exec: what the
// caller of the caller left open (a lock, a pipe that somebody reads to its
// end) must not live on in a daemon.
func closeOthers(first int) {
	names, err := readNames("/proc/self/fd")
	if err != nil {
		names, err = readNames("/dev/fd")
	}
	if err != nil {
		return
	}
	for _, name := range names {
		var fd int
		if _, err := fmt.Sscanf(name, "%d", &fd); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

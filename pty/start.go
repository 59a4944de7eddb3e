package pty

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Command is a program to be started on a terminal.
type Command struct {
	// Argv is the command line. Argv[0] is looked up in the PATH of Env, as
	// a shell would.
	Argv []string
	// Env is the whole environment, as KEY=VALUE.
	Env []string
	// Dir is the working directory, absolute.
	Dir string
}

// Errors of Start. A shell exits with 127 for the first and 126 for the second.
var (
	ErrNoCommand     = errors.New("command not found")
	ErrNotExecutable = errors.New("cannot be executed")
)

// Start starts the command with all three standard streams on the slave side
// of a terminal, as the leader of a new session whose controlling terminal it
// is. No other descriptor is passed on. Execution errors are returned, wrapped
// in ErrNoCommand or ErrNotExecutable where they are the user's to mend.
func (c Command) Start(slave *os.File) (*os.Process, error) {
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, fmt.Errorf("%w: the command is empty", ErrNoCommand)
	}
	if info, err := os.Stat(c.Dir); err != nil {
		return nil, fmt.Errorf("enter the working directory: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("enter the working directory: %s is no directory", c.Dir)
	}
	path, err := c.lookPath()
	if err != nil {
		return nil, err
	}
	p, err := os.StartProcess(path, c.Argv, &os.ProcAttr{
		Dir: c.Dir, Env: c.Env,
		Files: []*os.File{slave, slave, slave},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	})
	if err != nil {
		return nil, execError(c.Argv[0], err)
	}
	return p, nil
}

func execError(name string, err error) error {
	cause := err
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		cause = pathErr.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		// The file is there, or lookPath would have failed: its interpreter is not.
		return fmt.Errorf("%w: %q: its interpreter does not exist", ErrNoCommand, name)
	}
	if errors.Is(err, syscall.ENOEXEC) {
		return fmt.Errorf("%w: %q: it is neither a program nor a script with a #! line", ErrNotExecutable, name)
	}
	return fmt.Errorf("%w: %q: %w", ErrNotExecutable, name, cause)
}

// lookPath finds the program as execvp(3) does, in the environment of the
// command and not in that of this process.
func (c Command) lookPath() (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(c.Dir, path)
		}
		return path, checkExecutable(name, path)
	}
	var denied error
	for _, dir := range filepath.SplitList(c.searchPath()) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.Dir, dir)
		}
		path := filepath.Join(dir, name)
		err := checkExecutable(name, path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, ErrNotExecutable) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("%w: %q is in no directory of PATH", ErrNoCommand, name)
}

func (c Command) searchPath() string {
	for i := len(c.Env) - 1; i >= 0; i-- {
		if path, ok := strings.CutPrefix(c.Env[i], "PATH="); ok {
			return path
		}
	}
	return "/usr/local/bin:/usr/bin:/bin"
}

func checkExecutable(name, path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %q: permission denied", ErrNotExecutable, name)
	case err != nil:
		return fmt.Errorf("%w: %q does not exist", ErrNoCommand, name)
	case info.IsDir():
		return fmt.Errorf("%w: %q is a directory", ErrNotExecutable, name)
	case info.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%w: %q is not marked as executable", ErrNotExecutable, name)
	}
	return nil
}

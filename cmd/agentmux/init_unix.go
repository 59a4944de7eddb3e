package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// runAsInit is for process 1 of a container: it runs the same command line as
// a child, collects every orphan that ends, and passes signals on. So neither
// a server nor a foreground command has to be an init as well.
func runAsInit() int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGCHLD)
	exe, err := os.Executable()
	if err != nil {
		exe = os.Args[0]
	}
	child, err := os.StartProcess(exe, os.Args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		os.Stderr.WriteString("agentmux: error: " + err.Error() + "\n")
		return exitAgentmux
	}
	for sig := range signals {
		if sig != syscall.SIGCHLD {
			child.Signal(sig)
			continue
		}
		if status, ended := collect(child.Pid); ended {
			return status
		}
	}
	return exitAgentmux
}

// collect reaps all that has ended and reports whether pid was among it.
func collect(pid int) (status int, ended bool) {
	for {
		var ws syscall.WaitStatus
		got, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if got <= 0 {
			return status, ended
		}
		if got != pid {
			continue
		}
		status, ended = ws.ExitStatus(), true
		if ws.Signaled() {
			status = 128 + int(ws.Signal())
		}
	}
}

package shimapi

import (
	"fmt"
	"strings"
	"syscall"
)

// signalNames are the signals that a person may name or a record may hold.
var signalNames = [...]struct {
	name   string
	signal syscall.Signal
}{
	{"SIGHUP", syscall.SIGHUP}, {"SIGINT", syscall.SIGINT}, {"SIGQUIT", syscall.SIGQUIT},
	{"SIGILL", syscall.SIGILL}, {"SIGTRAP", syscall.SIGTRAP}, {"SIGABRT", syscall.SIGABRT},
	{"SIGBUS", syscall.SIGBUS}, {"SIGFPE", syscall.SIGFPE}, {"SIGKILL", syscall.SIGKILL},
	{"SIGUSR1", syscall.SIGUSR1}, {"SIGSEGV", syscall.SIGSEGV}, {"SIGUSR2", syscall.SIGUSR2},
	{"SIGPIPE", syscall.SIGPIPE}, {"SIGALRM", syscall.SIGALRM}, {"SIGTERM", syscall.SIGTERM},
	{"SIGCHLD", syscall.SIGCHLD}, {"SIGCONT", syscall.SIGCONT}, {"SIGSTOP", syscall.SIGSTOP},
	{"SIGTSTP", syscall.SIGTSTP}, {"SIGTTIN", syscall.SIGTTIN}, {"SIGTTOU", syscall.SIGTTOU},
	{"SIGURG", syscall.SIGURG}, {"SIGXCPU", syscall.SIGXCPU}, {"SIGXFSZ", syscall.SIGXFSZ},
	{"SIGVTALRM", syscall.SIGVTALRM}, {"SIGPROF", syscall.SIGPROF}, {"SIGWINCH", syscall.SIGWINCH},
	{"SIGIO", syscall.SIGIO}, {"SIGSYS", syscall.SIGSYS},
}

// SignalName returns the name of a signal, as "SIGKILL", or "SIG" and its
// number for one without a name.
func SignalName(sig syscall.Signal) string {
	for _, s := range signalNames {
		if s.signal == sig {
			return s.name
		}
	}
	return fmt.Sprintf("SIG%d", int(sig))
}

// ParseSignalName reads a signal's name, with or without SIG and in any case, or
// its number from 1 to 64.
func ParseSignalName(text string) (syscall.Signal, error) {
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	for _, s := range signalNames {
		if s.name == name {
			return s.signal, nil
		}
	}
	var n int
	if _, err := fmt.Sscanf(name, "SIG%d", &n); err == nil && n >= 1 && n <= 64 && name == fmt.Sprintf("SIG%d", n) {
		return syscall.Signal(n), nil
	}
	return 0, fmt.Errorf("%q is no signal: give a name such as TERM, or a number from 1 to 64", text)
}

package shim

import (
	"os"
	"path/filepath"
	"syscall"
	"time"

	"agentmux/pty/shimapi"
)

// guard brings the server back: it sleeps in the kernel, waiting for the lock
// that the server holds for life, and starts the next one when it gets it.
type guard struct {
	tree   string
	rearmC chan struct{} // capacity 1
}

func newGuard(tree string) *guard { return &guard{tree: tree, rearmC: make(chan struct{}, 1)} }

// rearm makes a guard that found the server stopped on purpose wait again.
func (g *guard) rearm() {
	select {
	case g.rearmC <- struct{}{}:
	default:
	}
}

// run lives as long as the process. It ends early only when the lock cannot be
// waited for at all; a client starts the server then.
func (g *guard) run() {
	path := filepath.Join(g.tree, shimapi.ServerLockName)
	for {
		lock, err := shimapi.WaitLock(path)
		if err != nil {
			return
		}
		if shimapi.Stopped(g.tree) {
			lock.Release()
			<-g.rearmC
			continue
		}
		if wait := lock.NoteStart(time.Now()); wait > 0 {
			time.Sleep(wait) // servers die at once, again and again
		}
		g.startServer(lock)
		lock.Release()
	}
}

// startServer starts a server that inherits the lock, from the program that
// the last server was installed as: this process may have been started from a
// file that an upgrade has replaced.
func (g *guard) startServer(lock *shimapi.Lock) {
	record, err := shimapi.ReadServerRecord(g.tree)
	if err != nil {
		record.Env = os.Environ()
	}
	if _, err := os.Stat(record.Executable); err != nil {
		record.Executable = "/proc/self/exe"
	}
	argv := append(append(record.Prefix, record.Executable), shimapi.ServerArgs(g.tree)...)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir: "/", Env: record.Env,
		Files: []*os.File{null, null, null, lock.File()},
		Sys:   siblingProcess(&syscall.SysProcAttr{Setsid: true}),
	})
	if err == nil {
		p.Release()
	}
}

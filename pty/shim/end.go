package shim

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
)

// signal does what a Signal frame asks for.
func (s *shim) signal(sig shimapi.Signal) shimapi.Status {
	if s.exited.Load() {
		return shimapi.StatusEnded
	}
	switch sig.Operation {
	case shimapi.OpSignal:
		return s.sendSignal(syscall.Signal(sig.Signal), sig.Target)
	case shimapi.OpEnd:
		s.end.begin("kill", time.Duration(sig.Grace)*time.Millisecond)
		return shimapi.StatusAccepted
	case shimapi.OpRearm:
		s.guard.rearm()
		return shimapi.StatusAccepted
	}
	return shimapi.StatusBad
}

func (s *shim) sendSignal(sig syscall.Signal, to shimapi.Target) shimapi.Status {
	if sig <= 0 || sig > 64 {
		return shimapi.StatusBad
	}
	var err error
	switch to {
	case shimapi.TargetForeground:
		pgid, fgErr := s.master.Foreground()
		if fgErr != nil || pgid <= 1 {
			return shimapi.StatusEnded
		}
		err = syscall.Kill(-pgid, sig)
	case shimapi.TargetAgent:
		err = syscall.Kill(-s.agent, sig)
	case shimapi.TargetTree:
		for _, p := range s.tree() {
			err = errors.Join(err, ignoreGone(syscall.Kill(p.PID, sig)))
		}
	default:
		return shimapi.StatusBad
	}
	if ignoreGone(err) != nil {
		return shimapi.StatusBad
	}
	return shimapi.StatusAccepted
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// tree returns the agent and all that descends from it, orphans included,
// since this process is their subreaper. What only happens to live below a
// session because it was started from inside it, a server or another session's
// shim, is no part of it.
func (s *shim) tree() []proctree.Process {
	table, err := proctree.Table()
	if err != nil {
		s.complain(err)
		return nil
	}
	foreign := s.foreign()
	return proctree.Descendants(table, os.Getpid(), func(p proctree.Process) bool {
		start, ok := foreign[p.PID]
		return ok && start == p.Start
	})
}

// foreign returns the server and all other shims of the state tree, as start
// times by pid.
func (s *shim) foreign() map[int]uint64 {
	found := make(map[int]uint64)
	if r, err := shimapi.ReadServerRecord(s.launch.Tree); err == nil {
		found[r.PID] = r.Start
	}
	pattern := filepath.Join(filepath.Dir(s.bundle.Session), "*", "runs", "*", shimapi.StartName)
	files, _ := filepath.Glob(pattern) // fails only for a bad pattern
	for _, file := range files {
		if filepath.Dir(file) == s.bundle.Dir() {
			continue
		}
		other := shimapi.Bundle{Session: filepath.Dir(filepath.Dir(filepath.Dir(file))), Run: runNumber(file)}
		if start, err := other.ReadStart(); err == nil {
			found[start.ShimPID] = start.ShimStart
		}
	}
	return found
}

// ending ends the tree on request, once.
type ending struct {
	s    *shim
	once sync.Once
	gone chan struct{} // closed when nothing is left or nothing more can be done

	mu    sync.Mutex
	cause string
}

func newEnding(s *shim) *ending { return &ending{s: s, gone: make(chan struct{})} }

// begin starts to end the tree: first TERM, with CONT for what is stopped;
// after a part of the grace HUP, since an interactive shell ignores TERM; and
// after the grace KILL, repeated until nothing is left. TERM comes before HUP
// because a program that tidies up at TERM often just dies of HUP.
func (e *ending) begin(cause string, grace time.Duration) {
	e.once.Do(func() {
		e.mu.Lock()
		e.cause = cause
		e.mu.Unlock()
		if grace <= 0 {
			grace = defaultEnd
		}
		go e.run(grace)
	})
}

// killBound is how long KILL is repeated. What is left then sleeps in the
// kernel and cannot be ended by anybody.
const killBound = 3 * time.Second

func (e *ending) run(grace time.Duration) {
	defer close(e.gone)
	e.signalAll(func(pid int) syscall.Signal {
		if proctree.Ignores(pid, syscall.SIGTERM) {
			return syscall.SIGHUP
		}
		return syscall.SIGTERM
	})
	if e.empty(grace * 2 / 5) {
		return
	}
	e.signalAll(func(int) syscall.Signal { return syscall.SIGHUP })
	if e.empty(grace * 3 / 5) {
		return
	}
	for range 10 {
		e.signalAll(func(int) syscall.Signal { return syscall.SIGKILL })
		if e.empty(killBound / 10) {
			return
		}
	}
}

func (e *ending) signalAll(choose func(pid int) syscall.Signal) {
	for _, p := range e.s.tree() {
		syscall.Kill(p.PID, choose(p.PID))
		syscall.Kill(p.PID, syscall.SIGCONT)
	}
}

// empty waits until no process of the tree is left, at most for d. The kernel
// tells nobody when a grandchild of a stranger ends, so it looks.
func (e *ending) empty(d time.Duration) bool {
	bound := time.NewTimer(d)
	defer bound.Stop()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for len(e.s.tree()) > 0 {
		select {
		case <-bound.C:
			return len(e.s.tree()) == 0
		case <-look.C:
		}
	}
	return true
}

// wait waits for an end that was begun, and prevents one from now on.
func (e *ending) wait() {
	e.once.Do(func() { close(e.gone) })
	<-e.gone
}

func (e *ending) why() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cause
}

// catchSignals catches all that would end or stop this process. They are
// caught and not ignored, because the agent would inherit that.
func catchSignals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)
	return c
}

// handleSignals ends the run in order at SIGTERM (logout, shutdown) and binds
// the socket again at the signal for it. It lives as long as the process.
func (s *shim) handleSignals(c <-chan os.Signal) {
	for sig := range c {
		switch sig {
		case syscall.SIGTERM:
			s.end.begin("SIGTERM to the shim", 0)
		case shimapi.RecreateSignal:
			s.control.relisten()
		}
	}
}

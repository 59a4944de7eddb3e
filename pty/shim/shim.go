package shim

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"agentmux/logstore"
	"agentmux/pty"
	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
)

// Times that the end of a run may take.
const (
	drainQuiet  = 100 * time.Millisecond // no output for so long after the agent's end: that was all
	drainBound  = 2 * time.Second        // a grandchild that goes on printing is not waited for longer
	closeBound  = 5 * time.Second        // for the log's last frames on a sick disk
	defaultEnd  = 5 * time.Second        // grace between TERM and KILL when nobody named one
	exitReserve = 64 << 10               // bytes kept on disk for exit.json
)

// Main runs a shim in this process, which shimapi.Detach started with the
// session's directory as its only argument. It returns the exit status.
func Main(args []string) int {
	ready := os.NewFile(shimapi.ReadyFD, "ready")
	syscall.CloseOnExec(shimapi.ReadyFD)
	s, err := start(args)
	if err != nil {
		json.NewEncoder(ready).Encode(shimapi.Ready{Error: err.Error(), Code: failureCode(err)})
		return 1
	}
	json.NewEncoder(ready).Encode(shimapi.Ready{ShimPID: os.Getpid(), AgentPID: s.agent})
	ready.Close()
	s.run()
	return 0
}

// failureCode is the exit status by which a shell would report err.
func failureCode(err error) int {
	switch {
	case errors.Is(err, pty.ErrNoCommand):
		return 127
	case errors.Is(err, pty.ErrNotExecutable):
		return 126
	}
	return 125
}

// shim is the state of the process. What is set by start is not changed after.
type shim struct {
	bundle  shimapi.Bundle
	launch  shimapi.Launch
	session [16]byte
	lock    *shimapi.Lock // held until the process ends
	log     *logstore.Appender
	master  *pty.Master
	slave   *os.File // kept open so that the agent may close its streams
	agent   int      // pid
	record  shimapi.Start
	oom     uint64 // kills in the cgroup before the agent started
	reserve *os.File

	input    *input
	control  *control
	end      *ending
	guard    *guard
	output   atomic.Uint64 // bytes read from the PTY
	statuses chan status   // from reap, once
	drained  chan struct{} // closed by read
	exited   atomic.Bool
}

// start does everything up to the running agent. Its order is the design: the
// lock before the log, so that there is one writer; the record before the
// agent, so that no agent runs unrecorded.
func start(args []string) (*shim, error) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50)
	syscall.Umask(0o077)
	launch, err := readLaunch()
	if err != nil {
		return nil, err
	}
	if len(args) != 1 {
		return nil, errors.New("the shim is started by agentmux itself, with a session's directory")
	}
	s := &shim{
		bundle: shimapi.Bundle{Session: args[0], Run: launch.Spec.Run},
		launch: launch, statuses: make(chan status, 1), drained: make(chan struct{}),
	}
	if s.session, err = parseSession(launch.Spec.Session); err != nil {
		return nil, err
	}
	signals := catchSignals()
	becomeSubreaper()
	if err := s.open(); err != nil {
		s.abandon()
		return nil, err
	}
	s.end = newEnding(s)
	s.input = newInput(s)
	s.guard = newGuard(launch.Tree)
	if err := s.startAgent(); err != nil {
		s.abandon()
		return nil, err
	}
	go s.handleSignals(signals)
	return s, nil
}

func readLaunch() (shimapi.Launch, error) {
	f := os.NewFile(shimapi.LaunchFD, "launch")
	syscall.CloseOnExec(shimapi.LaunchFD)
	defer f.Close()
	var l shimapi.Launch
	if err := json.NewDecoder(io.LimitReader(f, 64<<20)).Decode(&l); err != nil {
		return l, fmt.Errorf("read what to launch: %w", err)
	}
	if l.Spec.Schema != shimapi.SpecSchema || l.Spec.Run < 1 {
		return l, fmt.Errorf("read what to launch: schema %d, run %d", l.Spec.Schema, l.Spec.Run)
	}
	return l, nil
}

// open takes the lock and makes the log, the socket and the PTY.
func (s *shim) open() error {
	lock, err := shimapi.TryLock(s.bundle.Lock())
	if err != nil {
		return fmt.Errorf("take the session: %w", err)
	}
	s.lock = lock
	if _, err := os.Lstat(s.bundle.File(shimapi.StartName)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run %d was started before and is not started again", s.bundle.Run)
	}
	w, err := logstore.Create(s.bundle.Log(), logstore.Options{Session: s.session, Run: uint16(s.bundle.Run)})
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	s.log = logstore.NewAppender(w, logstore.AppenderOptions{OnStatus: s.logStatus})
	spec := s.launch.Spec
	size := pty.Size{Cols: uint16(spec.Cols), Rows: uint16(spec.Rows)}
	if s.master, s.slave, err = pty.Open(size); err != nil {
		return err
	}
	if s.control, err = listen(s); err != nil {
		return err
	}
	return s.writeStart()
}

// writeStart records the run, before its agent exists.
func (s *shim) writeStart() error {
	self, err := proctree.Find(os.Getpid())
	if err != nil {
		return err
	}
	cgroup, kills := oomKills()
	s.oom = kills
	s.record = shimapi.Start{
		Schema: shimapi.StartSchema, Run: s.bundle.Run,
		Protocol: [2]int{shimapi.ProtocolVersion, shimapi.ProtocolVersion}, Version: s.launch.Version,
		BootID: proctree.BootID(), ShimPID: self.PID, ShimStart: self.Start,
		PTY: s.master.Name(), Socket: s.control.path, Started: time.Now().UTC(), Cgroup: cgroup,
	}
	s.reserve, err = reserveFile(s.bundle.File(shimapi.ExitName+".tmp"), exitReserve)
	if err != nil {
		return fmt.Errorf("reserve room for the exit record: %w", err)
	}
	return s.bundle.WriteStart(s.record)
}

// meta is the payload of the log's META frame.
type meta struct {
	Argv    []string `json:"argv"`
	Dir     string   `json:"cwd"`
	Term    string   `json:"term"`
	Version string   `json:"version"`
	ShimPID int      `json:"shim_pid"`
}

func (s *shim) startAgent() error {
	spec := s.launch.Spec
	command := pty.Command{Argv: shimapi.Texts(s.launch.Argv), Env: shimapi.Texts(s.launch.Env), Dir: string(s.launch.Dir)}
	data, err := json.Marshal(meta{spec.Argv, spec.Dir, lookup(command.Env, "TERM"), s.launch.Version, os.Getpid()})
	if err != nil {
		return fmt.Errorf("describe the run: %w", err)
	}
	s.log.Add(logstore.TypeMeta, data)
	s.input.logSize(pty.Size{Cols: uint16(spec.Cols), Rows: uint16(spec.Rows)}, 0)
	old := syscall.Umask(s.launch.Umask & 0o777)
	p, err := command.Start(s.slave)
	syscall.Umask(old)
	if err != nil {
		return err
	}
	s.agent = p.Pid
	s.launch.Env = nil
	offerToOOMKiller(s.agent)
	s.record.AgentPID = s.agent
	if agent, err := proctree.Find(s.agent); err == nil {
		s.record.AgentStart = agent.Start
	}
	go s.reap(p)
	if err := s.bundle.WriteStart(s.record); err != nil {
		s.complain(err)
	}
	return nil
}

// abandon undoes what open did, for a run that never came to be. The lock is
// free before anybody hears of it, since a held lock means a live run.
func (s *shim) abandon() {
	if s.lock != nil {
		defer s.lock.Release()
	}
	if s.control != nil {
		s.control.close()
	}
	if s.log != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeBound)
		defer cancel()
		s.log.Close(ctx, nil)
	}
}

// run keeps the agent until it has ended and everything is written down.
func (s *shim) run() {
	go s.read()
	go s.input.run()
	go s.control.run()
	go s.guard.run()
	st := <-s.statuses
	s.exited.Store(true)
	s.slave.Close()
	s.master.SetReadDeadline(time.Now().Add(drainQuiet))
	<-s.drained
	s.end.wait()
	s.input.stop()
	s.finish(st)
}

// read moves output from the PTY to the log until the PTY is closed or, after
// the agent's end, has nothing more to say.
func (s *shim) read() {
	defer close(s.drained)
	buf := make([]byte, 64<<10)
	var bound time.Time
	for {
		n, err := s.master.Read(buf)
		if n > 0 {
			s.output.Add(uint64(n))
			s.log.Out(buf[:n])
		}
		if n < pty.ShortRead {
			runtime.Gosched() // to the appender: an echo goes to the log before the next read
		}
		ended := s.exited.Load()
		if ended && bound.IsZero() {
			bound = time.Now().Add(drainBound)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !ended:
			s.master.SetReadDeadline(time.Time{})
		case err != nil, ended && time.Now().After(bound):
			return
		case ended:
			s.master.SetReadDeadline(time.Now().Add(drainQuiet))
		}
	}
}

// logStatus tells everybody connected when the log stalls and when it goes on.
// The appender must not wait for them.
func (s *shim) logStatus(logstore.Status) {
	if s.control != nil {
		go func() { s.control.broadcast(s.state()) }()
	}
}

// complain writes to the bundle what nobody is there to hear.
func (s *shim) complain(err error) {
	const limit = 64 << 10
	f, openErr := os.OpenFile(s.bundle.File(shimapi.ErrorName), os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if openErr != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > limit {
		return
	}
	fmt.Fprintf(f, "%s %v\n", time.Now().UTC().Format(time.RFC3339), err)
}

func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if len(env[i]) > len(name) && env[i][:len(name)] == name && env[i][len(name)] == '=' {
			return env[i][len(name)+1:]
		}
	}
	return ""
}

// parseSession reads the 32 hexadecimal digits of a UUID.
func parseSession(id string) (b [16]byte, err error) {
	digits := strings.ReplaceAll(id, "-", "")
	if len(digits) != 2*len(b) {
		return b, fmt.Errorf("%q is no session id", id)
	}
	if _, err := hex.Decode(b[:], []byte(digits)); err != nil {
		return b, fmt.Errorf("%q is no session id", id)
	}
	return b, nil
}

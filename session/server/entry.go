package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"agentmux/logstore"
	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/agent"
	"agentmux/session/wire"
)

// entry is one session as the server knows it.
type entry struct {
	s      *Server
	id     session.ID
	dir    session.Dir
	bundle shimapi.Bundle // of the newest run
	start  shimapi.Start

	mu       sync.Mutex
	rec      session.Record
	run      *run // while it lives
	state    session.State
	exit     *session.Exit
	ended    *time.Time
	evidence string
	tail     tail
	left     []proctree.Process // that outlived the run, when it was last looked at
	viewers  map[*peer]wire.AttachParams
}

// tail is what stays known of a run that has ended.
type tail struct {
	size      session.Size
	title     string
	logEnd    int64
	lostBytes uint64
}

func newEntry(s *Server, dir session.Dir, rec session.Record, b shimapi.Bundle, start shimapi.Start) *entry {
	return &entry{
		s: s, id: dir.ID(), dir: dir, bundle: b, start: start, rec: rec,
		state: session.Unknown, viewers: make(map[*peer]wire.AttachParams),
	}
}

func (e *entry) name() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec.Name
}

func (e *entry) record() session.Record {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rec
}

func (e *entry) rename(name string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	rec := e.rec
	rec.Name = name
	if err := e.dir.WriteRecord(rec); err != nil {
		return err
	}
	e.rec = rec
	return nil
}

// live returns the run while it lives, else nil.
func (e *entry) live() *run {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run
}

// startRun begins to follow a run whose shim lives.
func (e *entry) startRun() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state, e.evidence = session.Running, "its shim holds the session's lock"
	e.run = startRun(e)
}

// stop ends the following; the agent does not notice.
func (e *entry) stop() {
	if r := e.live(); r != nil {
		r.stop()
	}
}

// removed reports whether somebody has deleted the session's directory.
func (e *entry) removed() bool {
	_, err := os.Lstat(string(e.dir))
	return errors.Is(err, fs.ErrNotExist)
}

func (e *entry) setUnknown(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.state, e.evidence = session.Unknown, err.Error()
}

// setEnded finds out how the newest run ended, now that nobody holds its lock.
func (e *entry) setEnded() {
	record, recordErr := e.bundle.ReadExit()
	logged, size, end := e.readLogEnd()
	e.mu.Lock()
	defer e.mu.Unlock()
	if r := e.run; r != nil {
		e.tail = r.tail()
		e.run = nil
	} else {
		e.tail = tail{size: size}
	}
	e.tail.logEnd = max(e.tail.logEnd, int64(end))
	e.tail.lostBytes = max(e.tail.lostBytes, record.LostBytes)
	switch {
	case recordErr == nil:
		e.setExit(record)
	case logged != nil:
		e.setLogged(*logged)
	default:
		e.setLost()
	}
}

func (e *entry) setExit(r shimapi.ExitRecord) {
	e.state, e.ended, e.evidence = session.Exited, &r.Ended, "recorded by its shim"
	e.exit = &session.Exit{Code: r.Code, Signal: r.Signal}
	if r.Error != "" {
		e.state, e.exit, e.evidence = session.Lost, nil, "its shim could not learn how it ended: "+r.Error
	}
	if r.Cause != "" {
		e.evidence += ", ended by " + r.Cause
	}
	if r.OOM != nil {
		e.evidence += fmt.Sprintf(", the kernel ran out of memory in its cgroup %d time(s)", r.OOM.Kills)
	}
	e.left = nil
	for _, p := range r.Survivors {
		e.left = append(e.left, proctree.Process{PID: p.PID, Start: p.Start})
	}
}

// survivors are the processes that outlived the run and still live. e.mu is
// held.
func (e *entry) survivors() []wire.Process {
	e.left = slices.DeleteFunc(e.left, func(p proctree.Process) bool { return !proctree.IsAlive(p.PID, p.Start) })
	var list []wire.Process
	for _, p := range e.left {
		list = append(list, wire.Process{PID: p.PID, Argv: proctree.Argv(p.PID)})
	}
	return list
}

// endSurvivors ends what outlived the run: TERM, and KILL after the grace. It
// reports whether there was anything.
func (e *entry) endSurvivors(ctx context.Context, grace time.Duration) bool {
	e.mu.Lock()
	e.survivors()
	left := slices.Clone(e.left)
	e.mu.Unlock()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		for _, p := range left {
			if proctree.IsAlive(p.PID, p.Start) {
				syscall.Kill(p.PID, sig)
			}
		}
		awaitEnd(ctx, left, grace)
	}
	return len(left) > 0
}

// awaitEnd waits until none of the processes lives, at most for d. They are
// nobody's children here, so it looks.
func awaitEnd(ctx context.Context, processes []proctree.Process, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for slices.ContainsFunc(processes, func(p proctree.Process) bool { return proctree.IsAlive(p.PID, p.Start) }) {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// setLogged takes the log's EXIT frame for the exit record that is missing.
func (e *entry) setLogged(x logstore.Exit) {
	at := time.Unix(0, x.Wall).UTC()
	e.state, e.ended, e.evidence = session.Exited, &at, "recorded in its log"
	switch x.Kind {
	case logstore.ExitCode:
		e.exit = &session.Exit{Code: int(x.Code)}
	case logstore.ExitSignal:
		e.exit = &session.Exit{Signal: shimapi.SignalName(syscall.Signal(x.Code))}
	default:
		e.state, e.exit = session.Lost, nil
	}
}

// setLost states what can be said of a run whose shim is gone without a word.
func (e *entry) setLost() {
	e.state, e.exit = session.Lost, nil
	e.ended = lastChange(e.dir.Log())
	boot := proctree.BootID()
	switch {
	case e.start.BootID != "" && e.start.BootID != boot:
		e.evidence = "the machine was restarted while it ran; how it ended is not known"
	case e.start.AgentPID == 0:
		e.evidence = "its shim ended while starting the agent; whether the agent ran is not known"
	case proctree.IsAlive(e.start.AgentPID, e.start.AgentStart):
		e.evidence = fmt.Sprintf("its shim is gone, the agent's process %d still runs without a terminal", e.start.AgentPID)
		e.left = []proctree.Process{{PID: e.start.AgentPID, Start: e.start.AgentStart}}
	default:
		e.evidence = "its shim and its agent are gone; how the agent ended is not known"
	}
}

// lastChange is when the log in dir was last written.
func lastChange(dir string) *time.Time {
	var last time.Time
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	last = last.UTC()
	return &last
}

// readLogEnd reads the newest segment for the exit, the size and the end of
// the log.
func (e *entry) readLogEnd() (exit *logstore.Exit, size session.Size, end logstore.Position) {
	segments, err := logstore.Segments(e.dir.Log())
	if err != nil || len(segments) == 0 {
		return nil, size, 0
	}
	f, err := logstore.Open(e.dir.Log(), segments[len(segments)-1].Base)
	if err != nil {
		return nil, size, 0
	}
	defer f.Close()
	for {
		frame, err := f.TryNext()
		if err != nil && !logstore.IsHole(err) {
			return exit, size, f.Position()
		}
		switch frame.Type {
		case logstore.TypeExit:
			if x, err := logstore.DecodeExit(frame.Payload); err == nil {
				exit = &x
			}
		case logstore.TypeSize:
			if z, err := logstore.DecodeSize(frame.Payload); err == nil {
				size = session.Size{Cols: int(z.Cols), Rows: int(z.Rows)}
			}
		}
	}
}

// info is all that a client may know.
func (e *entry) info() wire.Info {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	in := wire.Info{
		ID: e.id, Name: e.rec.Name, State: e.state, Agent: agent.Program(e.rec.Argv), Command: e.rec.Argv,
		Dir: e.rec.Dir, Host: host, AgentPID: e.start.AgentPID, ShimPID: e.start.ShimPID, Run: e.bundle.Run,
		Created: e.rec.Created, Started: e.start.Started, Ended: e.ended, Exit: e.exit, Evidence: e.evidence,
		Attached: len(e.viewers), LogState: "ok", Survivors: e.survivors(),
	}
	t := e.tail
	if e.run != nil {
		t = e.run.tail()
		in.LogState, in.LastOutput = e.run.logState(), e.run.lastOutput()
		if agent, err := proctree.Find(e.start.AgentPID); err == nil {
			in.Stopped = agent.Start == e.start.AgentStart && agent.State == 'T'
		}
	}
	in.Size, in.Title, in.LogBytes, in.LostBytes = t.size, t.title, t.logEnd, t.lostBytes
	return in
}

// register notes a client as a viewer. It reports whether no other one that
// may type is there, and what the program did to be noticed while none was.
func (e *entry) register(p *peer, in wire.AttachParams) (alone bool, attention string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	alone = true
	for other, v := range e.viewers {
		if v.Client == in.Client {
			delete(e.viewers, other) // itself, on an older connection
			continue
		}
		alone = alone && v.ReadOnly
	}
	before := e.typists()
	e.viewers[p] = in
	if e.run == nil {
		return alone, ""
	}
	e.run.setProfile(in.Profile)
	if before == 0 && e.typists() > 0 {
		attention = e.run.setWatched(true)
		if !in.Resumed {
			e.run.tellFocus(true)
		}
	}
	return alone, attention
}

// typists counts the viewers that may type. e.mu is held.
func (e *entry) typists() int {
	n := 0
	for _, v := range e.viewers {
		if !v.ReadOnly {
			n++
		}
	}
	return n
}

func (e *entry) unregister(p *peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.typists()
	delete(e.viewers, p)
	if e.run != nil && before > 0 && e.typists() == 0 {
		e.run.setWatched(false)
		e.run.tellFocus(false)
	}
}

// dismiss asks all viewers to leave and returns how many there were. They no
// longer count as attached from now on.
func (e *entry) dismiss(reason string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := len(e.viewers)
	for p := range e.viewers {
		p.notify(wire.Notice{Kind: wire.NoticeDetach, Reason: reason})
	}
	if e.run != nil && e.typists() > 0 {
		e.run.setWatched(false)
		e.run.tellFocus(false)
	}
	clear(e.viewers)
	return n
}

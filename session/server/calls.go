package server

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"time"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// answer turns a request into a response.
func (s *Server) answer(ctx context.Context, p *peer, req wire.Request) wire.Response {
	result, err := s.call(ctx, p, req)
	if err != nil {
		return wire.Response{ID: req.ID, Error: wire.FromError(err)}
	}
	data, err := wire.Encode(result)
	if err != nil {
		return wire.Response{ID: req.ID, Error: wire.FromError(err)}
	}
	return wire.Response{ID: req.ID, Result: data}
}

func (s *Server) call(ctx context.Context, p *peer, req wire.Request) (any, error) {
	switch req.Method {
	case wire.MethodNew:
		return with(req, func(in wire.NewParams) (wire.NewResult, error) { return s.registry.create(ctx, in) })
	case wire.MethodList:
		return with(req, func(in wire.ListParams) (wire.ListResult, error) { return s.registry.list(in), nil })
	case wire.MethodStatus:
		return with(req, s.status)
	case wire.MethodAttach:
		return with(req, func(in wire.AttachParams) (wire.AttachResult, error) { return s.attach(ctx, p, in) })
	case wire.MethodSync:
		return with(req, func(in wire.SyncParams) (wire.Sync, error) { return s.sync(ctx, in) })
	case wire.MethodDetach:
		return with(req, s.detach)
	case wire.MethodKill:
		return with(req, func(in wire.KillParams) (wire.KillResult, error) { return s.kill(ctx, in) })
	case wire.MethodRename:
		return with(req, func(in wire.RenameParams) (wire.Info, error) { return s.registry.rename(in) })
	case wire.MethodSend:
		return with(req, func(in wire.SendParams) (wire.Info, error) { return s.send(ctx, in) })
	case wire.MethodCapture:
		return with(req, func(in wire.CaptureParams) (wire.CaptureResult, error) { return s.capture(ctx, in) })
	case wire.MethodWait:
		return with(req, func(in wire.WaitParams) (wire.WaitResult, error) { return s.wait(ctx, in) })
	case wire.MethodRemove:
		return with(req, func(in wire.Target) (wire.Info, error) { return s.registry.remove(in) })
	case wire.MethodVersion:
		return s.version(), nil
	case wire.MethodStop:
		return s.stop()
	case wire.MethodYield:
		return with(req, s.yield)
	}
	return nil, &wire.Error{
		Code: wire.CodeFailed, Message: fmt.Sprintf("this server (%s) does not know the request %q", s.o.Version, req.Method),
		Hint: "client and server are of different versions; 'agentmux server stop' and run the command again: sessions go on meanwhile",
	}
}

// with decodes a request's parameters and calls f.
func with[In, Out any](req wire.Request, f func(In) (Out, error)) (any, error) {
	var in In
	if err := wire.Decode(req.Params, &in); err != nil {
		return nil, err
	}
	return f(in)
}

func (s *Server) attach(ctx context.Context, p *peer, in wire.AttachParams) (wire.AttachResult, error) {
	e, err := s.registry.find(in.Target)
	if err != nil {
		return wire.AttachResult{}, err
	}
	r := e.live()
	if r == nil {
		return wire.AttachResult{}, notRunning(e)
	}
	if in.TakeOver && !in.Resumed {
		e.dismiss("taken over from another terminal")
	}
	if in.SSHAgent != "" && !in.Resumed {
		if err := e.pointSSHAgent(in.SSHAgent); err != nil {
			s.o.Log.Warn("point the session's SSH_AUTH_SOCK", "session", e.id, "err", err)
		}
	}
	alone, attention := e.register(p, in)
	out := wire.AttachResult{Dir: string(e.dir), Alone: alone, Attention: attention}
	if !in.Resumed {
		// A client that is alone gives the session its size in a moment.
		size := session.Size{}
		if alone && !in.ReadOnly {
			size = in.Size
		}
		if out.Sync, err = r.sync(ctx, in.History, size); err != nil {
			e.unregister(p)
			return wire.AttachResult{}, err
		}
	}
	out.Session = e.info()
	return out, nil
}

func (s *Server) status(in wire.Target) (wire.Info, error) {
	e, err := s.registry.find(in)
	if err != nil {
		return wire.Info{}, err
	}
	return e.info(), nil
}

func notRunning(e *entry) error {
	info := e.info()
	return &wire.Error{
		Code:    "not-running",
		Message: fmt.Sprintf("session %s is not running: it %s", info.Name, howEnded(info)),
		Hint:    fmt.Sprintf("'agentmux log %s' shows what it printed", info.Name),
	}
}

// howEnded says in a few words what became of a session.
func howEnded(info wire.Info) string {
	switch {
	case info.Exit == nil:
		return "is " + string(info.State) + "; " + info.Evidence
	case info.Exit.Signal != "":
		return "was ended by " + info.Exit.Signal
	}
	return fmt.Sprintf("ended with exit code %d", info.Exit.Code)
}

func (s *Server) sync(ctx context.Context, in wire.SyncParams) (wire.Sync, error) {
	r, err := s.liveRun(in.Target)
	if err != nil {
		return wire.Sync{}, err
	}
	if err := r.reach(ctx, logstore.Position(in.After)); err != nil {
		return wire.Sync{}, err
	}
	return r.sync(ctx, in.History, in.For)
}

// liveRun finds a session that must be running.
func (s *Server) liveRun(t wire.Target) (*run, error) {
	e, err := s.registry.find(t)
	if err != nil {
		return nil, err
	}
	r := e.live()
	if r == nil {
		return nil, notRunning(e)
	}
	return r, nil
}

func (s *Server) detach(in wire.Target) (wire.DetachResult, error) {
	e, err := s.registry.find(in)
	if err != nil {
		return wire.DetachResult{}, err
	}
	return wire.DetachResult{Count: e.dismiss("detached by another client")}, nil
}

// killSlack is how long beyond the grace a tree may take to end and its record
// to be written.
const killSlack = 15 * time.Second

func (s *Server) kill(ctx context.Context, in wire.KillParams) (wire.KillResult, error) {
	in.Exact = true // a prefix must never end the wrong session
	e, err := s.registry.find(in.Target)
	if err != nil {
		return wire.KillResult{}, err
	}
	r := e.live()
	if r == nil && in.Signal == 0 && e.endSurvivors(ctx, in.Grace) {
		return wire.KillResult{Session: e.info()}, nil
	}
	if r == nil {
		return wire.KillResult{}, notRunning(e)
	}
	if in.Signal != 0 {
		sig := shimapi.Signal{Operation: shimapi.OpSignal, Target: shimapi.TargetAgent, Signal: uint16(in.Signal)}
		err := r.signal(ctx, sig)
		return wire.KillResult{Session: e.info()}, err
	}
	sig := shimapi.Signal{Operation: shimapi.OpEnd, Grace: uint32(in.Grace.Milliseconds())}
	if err := r.signal(ctx, sig); err != nil {
		return wire.KillResult{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, in.Grace+killSlack)
	defer cancel()
	select {
	case <-r.ended:
		return wire.KillResult{Session: e.info()}, nil
	case <-ctx.Done():
		return wire.KillResult{}, fmt.Errorf("end session %s: %w; it is still %s", e.name(), session.ErrTimeout, e.info().State)
	}
}

func (s *Server) capture(ctx context.Context, in wire.CaptureParams) (wire.CaptureResult, error) {
	r, err := s.liveRun(in.Target)
	if err != nil {
		return wire.CaptureResult{}, err
	}
	return r.capture(ctx, in)
}

func (s *Server) wait(ctx context.Context, in wire.WaitParams) (wire.WaitResult, error) {
	e, err := s.registry.find(in.Target)
	if err != nil {
		return wire.WaitResult{}, err
	}
	var pattern *regexp.Regexp
	if in.Text != "" {
		if pattern, err = regexp.Compile(in.Text); err != nil {
			return wire.WaitResult{}, fmt.Errorf("the text to wait for is no regular expression: %w", err)
		}
	}
	r := e.live()
	if r == nil {
		if pattern != nil {
			return wire.WaitResult{}, notRunning(e)
		}
		return wire.WaitResult{Session: e.info()}, nil
	}
	matched, err := r.wait(ctx, pattern)
	if err != nil {
		return wire.WaitResult{}, err
	}
	if pattern != nil && matched == "" {
		return wire.WaitResult{}, notRunning(e)
	}
	return wire.WaitResult{Session: e.info(), Matched: matched}, nil
}

func (s *Server) version() wire.VersionResult {
	return wire.VersionResult{
		Version: s.o.Version, PID: os.Getpid(), Socket: s.path, Started: s.started.UTC(),
		Live: len(s.registry.liveNames()),
	}
}

// stop ends the server on the user's word. The mark keeps shims from starting
// the next one.
func (s *Server) stop() (wire.StopResult, error) {
	f, err := os.OpenFile(s.o.Tree.Stopped(), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return wire.StopResult{}, fmt.Errorf("mark the server as stopped: %w", err)
	}
	f.Close()
	time.AfterFunc(lingerAfterStop, s.cancel) // when the answer is on its way
	return wire.StopResult{Live: s.registry.liveNames()}, nil
}

const lingerAfterStop = 20 * time.Millisecond

// yield hands the lock to a server started from another program and ends this
// one. If it cannot be started, this one goes on.
func (s *Server) yield(in wire.YieldParams) (wire.VersionResult, error) {
	env := session.CleanEnvironment(s.o.Getenv)
	err := shimapi.Detach(s.launcher.serverPrefix(), in.Executable, shimapi.ServerArgs(string(s.o.Tree)), env, []*os.File{s.o.Lock.File()})
	if err != nil {
		return wire.VersionResult{}, fmt.Errorf("start server %s: %w", in.Version, err)
	}
	s.o.Log.Info("stepping aside", "for", in.Version)
	time.AfterFunc(lingerAfterStop, s.cancel)
	return s.version(), nil
}

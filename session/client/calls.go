package client

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// attempts is how often a request is sent when the server dies under it.
// Requests are made so that a repetition does nothing twice.
const attempts = 8

// do connects, calls and repeats the call on a new connection when the server
// went away before it answered. repeated tells whether an earlier attempt may
// have had its effect.
func do[Out any](ctx context.Context, m *Mux, force bool, method string, in any) (out Out, repeated bool, err error) {
	for attempt := range attempts {
		var c *Conn
		if c, err = m.Connect(ctx, force); err != nil {
			return out, attempt > 0, err
		}
		err = c.Call(ctx, method, in, &out)
		c.Close()
		if !broken(err) || ctx.Err() != nil {
			return out, attempt > 0, err
		}
	}
	return out, true, err
}

// NewOptions describe a session to be made.
type NewOptions struct {
	Name    string // empty: made from directory and program
	Argv    []string
	Dir     string // absolute
	Env     []string
	Umask   int
	Size    session.Size
	Profile wire.Profile
}

// New makes a session and starts its command.
func (m *Mux) New(ctx context.Context, o NewOptions) (wire.NewResult, error) {
	out, _, err := do[wire.NewResult](ctx, m, true, wire.MethodNew, wire.NewParams{
		ID: session.NewID(), Name: o.Name, Argv: o.Argv, Dir: o.Dir, Env: o.Env, Umask: o.Umask,
		Size: o.Size, Profile: o.Profile,
	})
	return out, err
}

// List returns the sessions: live ones, those that ended lately, and with all
// those that ended at any time.
func (m *Mux) List(ctx context.Context, all bool) ([]wire.Info, error) {
	out, _, err := do[wire.ListResult](ctx, m, false, wire.MethodList, wire.ListParams{All: all})
	return out.Sessions, err
}

// Status returns one session.
func (m *Mux) Status(ctx context.Context, name string) (wire.Info, error) {
	out, _, err := do[wire.Info](ctx, m, false, wire.MethodStatus, wire.Target{Name: name})
	return out, err
}

// Detach asks all clients of a session to leave and returns how many did.
func (m *Mux) Detach(ctx context.Context, name string) (int, error) {
	out, _, err := do[wire.DetachResult](ctx, m, false, wire.MethodDetach, wire.Target{Name: name})
	return out.Count, err
}

// Kill ends a session's agent and all its processes, or with a signal other
// than 0 only sends that.
func (m *Mux) Kill(ctx context.Context, name string, signal int, grace time.Duration) (wire.Info, error) {
	in := wire.KillParams{Target: wire.Target{Name: name}, Signal: signal, Grace: grace}
	out, repeated, err := do[wire.KillResult](ctx, m, false, wire.MethodKill, in)
	if repeated && errors.Is(err, session.ErrNotRunning) {
		return m.Status(ctx, name)
	}
	return out.Session, err
}

// Rename gives a session another name.
func (m *Mux) Rename(ctx context.Context, name, newName string) (wire.Info, error) {
	in := wire.RenameParams{Target: wire.Target{Name: name}, NewName: newName}
	out, repeated, err := do[wire.Info](ctx, m, false, wire.MethodRename, in)
	if repeated && errors.Is(err, session.ErrNotFound) {
		return m.Status(ctx, newName)
	}
	return out, err
}

// Remove deletes an ended session and its log.
func (m *Mux) Remove(ctx context.Context, name string) (wire.Info, error) {
	out, repeated, err := do[wire.Info](ctx, m, false, wire.MethodRemove, wire.Target{Name: name})
	if repeated && errors.Is(err, session.ErrNotFound) {
		return wire.Info{Name: name}, nil
	}
	return out, err
}

// Send types at a session.
func (m *Mux) Send(ctx context.Context, in wire.SendParams) (wire.Info, error) {
	writer := shimapi.NewWriter()
	in.Writer = writer[:]
	out, _, err := do[wire.Info](ctx, m, false, wire.MethodSend, in)
	return out, err
}

// Capture returns the screen.
func (m *Mux) Capture(ctx context.Context, in wire.CaptureParams) (wire.CaptureResult, error) {
	out, _, err := do[wire.CaptureResult](ctx, m, false, wire.MethodCapture, in)
	return out, err
}

// WaitExit waits until the session has ended.
func (m *Mux) WaitExit(ctx context.Context, name string) (wire.Info, error) {
	in := wire.WaitParams{Target: wire.Target{Name: name}, Exit: true}
	out, _, err := do[wire.WaitResult](ctx, m, false, wire.MethodWait, in)
	return out.Session, err
}

// WaitText waits until the screen shows a match of the regular expression.
func (m *Mux) WaitText(ctx context.Context, name, pattern string) (wire.WaitResult, error) {
	in := wire.WaitParams{Target: wire.Target{Name: name}, Text: pattern}
	out, _, err := do[wire.WaitResult](ctx, m, false, wire.MethodWait, in)
	return out, err
}

// ServerVersion describes the running server, or returns session.ErrNoServer.
func (m *Mux) ServerVersion(ctx context.Context) (wire.VersionResult, error) {
	var out wire.VersionResult
	c, err := m.Running(ctx)
	if err != nil {
		return out, err
	}
	defer c.Close()
	return out, c.Call(ctx, wire.MethodVersion, nil, &out)
}

// StopServer ends the running server and returns the names of the sessions
// that go on without one.
func (m *Mux) StopServer(ctx context.Context) ([]string, error) {
	c, err := m.Running(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out wire.StopResult
	if err := c.Call(ctx, wire.MethodStop, nil, &out); err != nil {
		return nil, err
	}
	for range c.Notices { // until it has gone
	}
	return out.Live, nil
}

// Nested returns the session inside which this process runs, if it does: the
// marker in the environment counts only if that session's shim is really an
// ancestor.
func (m *Mux) Nested() (session.ID, bool) {
	id, err := session.ParseID(m.Getenv("AGENTMUX_ID"))
	if err != nil {
		return "", false
	}
	dir := m.Tree.Session(id)
	n, err := dir.NewestRun()
	if err != nil || n == 0 {
		return "", false
	}
	start, err := shimapi.Bundle{Session: string(dir), Run: n}.ReadStart()
	if err != nil {
		return "", false
	}
	table, err := proctree.Table()
	if err != nil {
		return "", false
	}
	return id, slices.Contains(proctree.Ancestors(table, os.Getpid()), start.ShimPID)
}

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/pty/tty"
	"agentmux/session"
	"agentmux/session/wire"
)

// AttachOptions describe an attach.
type AttachOptions struct {
	// Target is the session's name, a unique prefix or its id.
	Target     string
	ReadOnly   bool
	TakeOver   bool // make all other clients leave
	History    int  // lines of scrollback to bring along
	DetachKeys tty.DetachKeys
	Screen     *Screen
	// Fresh: the session was made a moment ago, with Target its id. What it
	// printed is shown even if it has ended since.
	Fresh bool
}

// Reason is why an attach ended.
type Reason int

// Reasons.
const (
	// Detached by the detach key.
	Detached Reason = iota + 1
	// Dismissed by somebody else; Outcome.Message says how.
	Dismissed
	// Ended: the agent has ended, Outcome.Exit says how.
	Ended
	// Lost: the run ended without a record.
	Lost
	// HungUp: the terminal went away or this process was told to end.
	HungUp
)

// Outcome is how an attach ended.
type Outcome struct {
	Reason  Reason
	Session wire.Info
	Exit    session.Exit // with Ended
	Message string
	Signal  syscall.Signal // with HungUp, if it was a signal
}

// Timings of an attach.
const (
	// resizePause is the least time between two sizes passed on, so that a
	// window that is being dragged does not make the agent repaint for each.
	resizePause = 50 * time.Millisecond
	// slowWrite and farBehind: a terminal that takes this long for a piece of
	// output while so many bytes wait is shown the newest screen instead.
	slowWrite = 200 * time.Millisecond
	farBehind = 1 << 20
	// maxPiece is how much output is written at a time, in bytes, and echoPiece
	// what is so little that it goes out before the log is asked for more.
	maxPiece  = 64 << 10
	echoPiece = 256
	// leaveBudget bounds the way out on a terminal that takes no output.
	leaveBudget = time.Second
	// drainQuiet is how long the terminal must be silent before it is handed
	// back: repeats of the detach key and late answers are ours.
	drainQuiet = 25 * time.Millisecond
	// exitBudget is how long after the agent's last word its keeper may take
	// to be gone, so that a listing right after tells the same.
	exitBudget = time.Second
)

// attachment is the state of one attach. The goroutines: output (log to
// terminal), input (terminal to shim), link (registration with the server),
// typing.run, and the caller's, which waits for the first reason to leave.
type attachment struct {
	m       *Mux
	o       AttachOptions
	screen  *Screen
	id      session.ID // of this attach
	info    wire.Info
	dir     session.Dir
	typing  *typing
	watcher *logstore.Watcher

	leave   chan Outcome  // capacity for every goroutine
	logSize atomic.Uint64 // the newest SIZE of the log
	owner   atomic.Bool   // the last to have set the size is this client
	asked   atomic.Uint64 // the size that the session has or was last asked to have
	claimed atomic.Uint64 // the size that this client has last asked for
	conn    atomic.Pointer[Conn]
	told    wire.Profile // with the first registration
	damaged atomic.Bool  // the terminal was resized, and the session was not

	attention string       // what to tell after the first snapshot; output's
	noticed   atomic.Bool  // that is on the screen
	answers   atomic.Int64 // until then, in ns since 1970, the terminal's answers are the program's

	view    *view                // nil: the program's bytes are passed through; output's
	pane    atomic.Pointer[pane] // what the view shows, nil without one
	resized waker                // ends output's waits when the terminal's size has changed
}

// Attach shows a session on the user's terminal until its end, the detach key,
// or the end of the terminal. The terminal must be in raw mode (Screen.Begin);
// it is left as it was found by Screen.End, which is the caller's to call.
func (m *Mux) Attach(ctx context.Context, o AttachOptions) (Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &attachment{m: m, o: o, screen: o.Screen, id: session.NewID(), leave: make(chan Outcome, 16)}
	first, err := a.register(ctx)
	if err != nil {
		return Outcome{}, err
	}
	a.info, a.dir, a.attention = first.Session, session.Dir(first.Dir), first.Attention
	if a.watcher, err = logstore.NewPrivateWatcher(); err != nil {
		return Outcome{}, fmt.Errorf("watch the log: %w", err)
	}
	defer a.watcher.Close()
	role := shimapi.RoleWriter
	if o.ReadOnly {
		role = shimapi.RoleReadOnly
	}
	bundle := shimapi.Bundle{Session: first.Dir, Run: first.Session.Run}
	a.typing = newTyping(bundle, first.Session.ID.Bytes(), role, a.screen.bell)
	a.logSize.Store(packSize(first.Size))
	a.asked.Store(packSize(first.Size))
	resizes := a.screen.terminal.Resizes(ctx)
	a.takeSize(a.screen.size(), first.Alone)

	outputDone := make(chan struct{})
	go func() { defer close(outputDone); a.output(ctx, first.Sync) }()
	go a.typing.run(ctx)
	go a.link(ctx)
	inputDone := make(chan struct{})
	go func() { defer close(inputDone); a.input(ctx) }()

	outcome := a.wait(ctx, resizes)
	a.typing.settle(leaveBudget)
	cancel()
	<-outputDone
	<-inputDone
	if c := a.conn.Load(); c != nil {
		a.goodbye(c)
	}
	outcome.Session = a.info
	if outcome.Reason == Lost {
		a.readExit(&outcome)
	}
	return outcome, nil
}

// register asks the server for the screen and to be listed as attached. A fresh
// session that has ended already is shown from the beginning of its log.
func (a *attachment) register(ctx context.Context) (wire.AttachResult, error) {
	out, err := a.registerLive(ctx)
	if !a.o.Fresh || !errors.Is(err, session.ErrNotRunning) {
		return out, err
	}
	if out.Session, err = a.m.Status(ctx, a.o.Target); err != nil {
		return out, err
	}
	out.Dir = string(a.m.Tree.Session(out.Session.ID))
	first, _, err := logstore.Ends(session.Dir(out.Dir).Log())
	out.Sync = wire.Sync{Position: uint64(first), Size: out.Session.Size}
	return out, err
}

func (a *attachment) registerLive(ctx context.Context) (wire.AttachResult, error) {
	var out wire.AttachResult
	var err error
	for range attempts {
		var c *Conn
		if c, err = a.m.Connect(ctx, true); err != nil {
			return out, err
		}
		in := a.params(false)
		a.told = in.Profile
		if err = c.Call(ctx, wire.MethodAttach, in, &out); err == nil {
			a.conn.Store(c)
			return out, nil
		}
		c.Close()
		if !broken(err) {
			break
		}
	}
	return out, err
}

func (a *attachment) params(resumed bool) wire.AttachParams {
	target := wire.Target{Name: a.o.Target}
	if a.info.ID != "" {
		target.Name = string(a.info.ID)
	}
	size := a.screen.size()
	return wire.AttachParams{
		Target: target, Client: a.id, Size: session.Size{Cols: size.Cols, Rows: size.Rows},
		ReadOnly: a.o.ReadOnly, History: a.o.History, Profile: a.screen.profile(), PID: os.Getpid(), Resumed: resumed,
		TakeOver: a.o.TakeOver, SSHAgent: a.m.Getenv("SSH_AUTH_SOCK"),
	}
}

// readExit looks for the exit record of a run whose log was followed from
// behind its EXIT frame.
func (a *attachment) readExit(o *Outcome) {
	select {
	case <-a.typing.gone:
	case <-time.After(exitBudget):
	}
	r, err := a.typing.bundle.ReadExit()
	if err == nil && r.Error == "" {
		o.Reason, o.Exit = Ended, session.Exit{Code: r.Code, Signal: r.Signal}
	}
}

// goodbye ends the registration and waits until the server has noticed, so
// that a listing right after this client's end does not show it any more.
func (a *attachment) goodbye(c *Conn) {
	c.nc.(interface{ CloseWrite() error }).CloseWrite()
	timer := time.AfterFunc(leaveBudget, func() { c.Close() })
	defer timer.Stop()
	for range c.Notices {
	}
}

// wait returns the first reason to leave, and passes sizes on until then.
func (a *attachment) wait(ctx context.Context, resizes <-chan tty.Size) Outcome {
	var pause <-chan time.Time
	var last time.Time
	for {
		select {
		case o := <-a.leave:
			return o
		case <-ctx.Done():
			var sig SignalError
			errors.As(context.Cause(ctx), &sig)
			return Outcome{Reason: HungUp, Signal: sig.Signal}
		case _, open := <-resizes:
			if !open {
				resizes = nil
				continue
			}
			if since := time.Since(last); since < resizePause {
				if pause == nil {
					pause = time.After(resizePause - since)
				}
				continue
			}
			last = time.Now()
			a.windowChanged()
		case <-pause:
			pause, last = nil, time.Now()
			a.windowChanged()
		}
	}
}

// windowChanged passes the new size of the terminal on, if it counts. If it
// does not, or is the same as before, the program will not repaint, but the
// terminal may have cut or wrapped what it shows: then it is shown anew.
func (a *attachment) windowChanged() {
	if a.takeSize(a.screen.size(), a.owner.Load()) {
		return
	}
	a.damaged.Store(true)
	a.resized.wake()
}

// takeSize gives the terminal's size to the session if pass is set, unless that
// has it already, as far as is known here, and from this client. It reports
// whether a size went out. A terminal without a size changes nothing.
func (a *attachment) takeSize(z tty.Size, pass bool) bool {
	defer a.resized.wake()
	if !pass {
		return false
	}
	size, news := a.claimSize(z)
	if news {
		a.typing.setSize(size)
	}
	return news
}

// claimSize makes this client the one whose size the session has, as far as is
// known here, and returns what to tell the shim and whether it is news. A
// terminal without a size, or one that only looks, claims none.
func (a *attachment) claimSize(z tty.Size) (size shimapi.Resize, news bool) {
	if a.o.ReadOnly || z.Cols <= 0 || z.Rows <= 0 {
		return size, false
	}
	clamped := session.Size{Cols: z.Cols, Rows: z.Rows}.Clamp()
	mine := a.owner.Swap(true)
	a.claimed.Store(packSize(clamped))
	same := a.asked.Swap(packSize(clamped)) == packSize(clamped)
	return shimapi.Resize{
		Cols: uint16(clamped.Cols), Rows: uint16(clamped.Rows),
		XPixel: uint16(max(0, min(z.XPixel, 65535))), YPixel: uint16(max(0, min(z.YPixel, 65535))),
		Client: clientNumber(a.id),
	}, !mine || !same
}

func packSize(s session.Size) uint64 { return uint64(s.Cols)<<32 | uint64(s.Rows) }

// clientNumber is how the log's SIZE frames name a client.
func clientNumber(id session.ID) uint32 {
	b := id.Bytes()
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// link keeps the registration: when the server is killed, with the next one.
func (a *attachment) link(ctx context.Context) {
	c := a.conn.Load()
	if c == nil {
		return // it has ended already
	}
	told := a.told
	a.screen.whenProbed(ctx, func() {
		if a.screen.profile() != told { // the screen was asked for before the terminal had answered
			a.conn.Load().Call(ctx, wire.MethodAttach, a.params(true), nil)
		}
	})
	for {
		for n := range c.Notices {
			if n.Kind == wire.NoticeDetach {
				a.leave <- Outcome{Reason: Dismissed, Message: n.Reason}
				return
			}
		}
		if c = a.relink(ctx); c == nil {
			return
		}
		a.conn.Store(c)
	}
}

// relink registers with the next server. It returns nil when ctx has ended or
// the session has.
func (a *attachment) relink(ctx context.Context) *Conn {
	pause := 20 * time.Millisecond
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.typing.gone:
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, time.Second)
		c, err := a.m.Connect(ctx, false)
		if err != nil {
			continue
		}
		err = c.Call(ctx, wire.MethodAttach, a.params(true), nil)
		if err == nil {
			return c
		}
		c.Close()
	}
}

// output shows the snapshot and then the log, until the run has ended.
func (a *attachment) output(ctx context.Context, at wire.Sync) {
	for {
		f, err := a.watcher.Follow(a.dir.Log(), logstore.Position(at.Position), a.typing.alive)
		if err == nil {
			err = a.show(ctx, f, at)
			f.Close()
		}
		switch {
		case errors.Is(err, errBehind), errors.Is(err, errDamaged):
			pos := f.Position()
			if at, err = a.resync(ctx, pos); err != nil { // without a server: go on as it is
				at = wire.Sync{Position: uint64(pos)}
			}
			continue
		case errors.Is(err, errSwitch):
			at = a.switchView(ctx, f.Position())
			continue
		case err == nil, ctx.Err() != nil:
			return
		}
		a.leave <- outcomeOf(err)
		return
	}
}

// errBehind: the terminal is too slow for what is printed.
var errBehind = errors.New("too far behind")

// errDamaged: the terminal may not show any more what was written to it.
var errDamaged = errors.New("to be shown anew")

// endError carries the agent's end out of show.
type endError struct{ outcome Outcome }

func (e endError) Error() string { return "the agent has ended" }

func outcomeOf(err error) Outcome {
	var end endError
	switch {
	case errors.As(err, &end):
		return end.outcome
	case errors.Is(err, logstore.ErrLost), errors.Is(err, logstore.ErrEnded):
		return Outcome{Reason: Lost}
	case errors.Is(err, io.EOF), errors.Is(err, syscall.EIO):
		return Outcome{Reason: HungUp}
	}
	return Outcome{Reason: HungUp, Message: err.Error()}
}

// show writes the snapshot and what follows, or draws them in a terminal of
// another size. It returns only with an error, or nil when ctx has ended.
func (a *attachment) show(ctx context.Context, f *logstore.Follower, at wire.Sync) error {
	if a.begin(at) {
		return a.showView(ctx, f)
	}
	out := a.screen.filter.Filter(nil, a.screen.scrollAway())
	out = a.screen.filter.Filter(out, at.Snapshot)
	out = a.screen.filter.Filter(out, at.Pending)
	out = a.notice(out)
	for {
		frame, err := f.TryNext()
		if errors.Is(err, logstore.ErrNotYet) || len(out) >= maxPiece {
			behind, writeErr := a.write(ctx, f, out)
			out = out[:0]
			if writeErr != nil || behind {
				return errors.Join(writeErr, behindError(behind))
			}
		}
		if errors.Is(err, logstore.ErrNotYet) {
			frame, err = a.next(ctx, f, 0)
		}
		if errors.Is(err, errWoken) {
			if a.misfit() {
				return errSwitch
			}
			if a.damaged.Swap(false) {
				return errDamaged
			}
			continue
		}
		if err != nil && !logstore.IsHole(err) {
			a.screen.write(ctx, out)
			return err
		}
		switch frame.Type {
		case logstore.TypeOut:
			if a.noticed.Swap(false) {
				return errDamaged
			}
			out = a.screen.filter.Filter(out, frame.Payload)
			out = a.passQuestions(out, f, frame)
			if len(out) < echoPiece && !f.Buffered() { // hardly more is there: do not ask first
				if err := a.screen.write(ctx, out); err != nil {
					return err
				}
				out = out[:0]
			}
		case logstore.TypeSize:
			before := a.logSize.Load()
			a.sized(frame)
			if a.misfit() {
				return errors.Join(a.screen.write(ctx, out), errSwitch)
			}
			if a.logSize.Load() != before {
				// Terminals differ in what a new size does to what they show.
				return errors.Join(a.screen.write(ctx, out), errDamaged)
			}
		case logstore.TypeExit:
			if err := a.screen.write(ctx, out); err != nil {
				return err
			}
			return a.ended(ctx, frame)
		}
	}
}

func behindError(behind bool) error {
	if behind {
		return errBehind
	}
	return nil
}

// write writes a piece of output and reports whether the terminal is so slow,
// and so much waits, that a fresh screen is better.
func (a *attachment) write(ctx context.Context, f *logstore.Follower, out []byte) (behind bool, err error) {
	began := time.Now()
	if err := a.screen.write(ctx, out); err != nil {
		return false, err
	}
	if time.Since(began) < slowWrite || a.conn.Load() == nil {
		return false, nil
	}
	_, end, err := logstore.Ends(a.dir.Log())
	return err == nil && end > f.Position()+farBehind, nil
}

// resync asks for the screen as it is now, or at least at pos.
func (a *attachment) resync(ctx context.Context, pos logstore.Position) (wire.Sync, error) {
	in := wire.SyncParams{Target: wire.Target{Name: string(a.info.ID)}, After: uint64(pos)}
	if a.owner.Load() { // this terminal's size may still be on its way to the session
		in.For = unpackSize(a.claimed.Load())
	}
	at, _, err := do[wire.Sync](ctx, a.m, false, wire.MethodSync, in)
	if err != nil {
		return at, err
	}
	return at, a.screen.write(ctx, a.screen.filter.Neutral())
}

// sized takes note of a size in the log.
func (a *attachment) sized(frame logstore.Frame) {
	z, err := logstore.DecodeSize(frame.Payload)
	if err != nil {
		return
	}
	size := packSize(session.Size{Cols: int(z.Cols), Rows: int(z.Rows)})
	a.logSize.Store(size)
	own := z.Client == clientNumber(a.id)
	a.owner.Store(own)
	if own { // the one asked for last comes back too, if this one is older
		size = a.claimed.Load()
	}
	a.asked.Store(size)
}

// ended is the outcome that an EXIT frame tells, once the shim is gone.
func (a *attachment) ended(ctx context.Context, frame logstore.Frame) error {
	x, err := logstore.DecodeExit(frame.Payload)
	if err != nil {
		return err
	}
	timer := time.NewTimer(exitBudget)
	defer timer.Stop()
	select {
	case <-a.typing.gone:
	case <-timer.C:
	case <-ctx.Done():
	}
	o := Outcome{Reason: Ended}
	switch x.Kind {
	case logstore.ExitCode:
		o.Exit.Code = int(x.Code)
	case logstore.ExitSignal:
		o.Exit.Signal = shimapi.SignalName(syscall.Signal(x.Code))
	default:
		o.Reason = Lost
	}
	return endError{o}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"agentmux/logstore"
	"agentmux/session"
	"agentmux/session/wire"
)

// Timings of a view.
const (
	// frameTime is the least time between two frames.
	frameTime = time.Second / 30
	// updateTime is how long a program's synchronized update may keep the view
	// from being drawn.
	updateTime = 150 * time.Millisecond
)

var (
	// errSwitch: the sizes of terminal and session are equal now, or are not any
	// more, so that the session has to be shown the other way.
	errSwitch = errors.New("to be shown in another way")
	// errWoken ends a wait for the log that something else ended.
	errWoken = errors.New("woken")
)

// waker ends the waits of one goroutine. What is told before it waits ends the
// next wait.
type waker struct {
	mu     sync.Mutex
	ctx    context.Context
	cancel context.CancelFunc
}

// context is what to wait with: it ends, or has ended, with the first wake
// since arm.
func (w *waker) context(parent context.Context) context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancel(parent)
	}
	return w.ctx
}

// arm makes the waker ready for the next wake, after one was noticed.
func (w *waker) arm(parent context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
	w.ctx, w.cancel = context.WithCancel(parent)
}

func (w *waker) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	w.cancel()
}

// next waits for the next frame of the log. It returns errWoken when the size
// of the terminal may have changed, or after d, if that is not 0.
func (a *attachment) next(ctx context.Context, f *logstore.Follower, d time.Duration) (logstore.Frame, error) {
	wait := a.resized.context(ctx)
	if d > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, d)
		defer cancel()
	}
	frame, err := f.Next(wait)
	if err != nil && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		a.resized.arm(ctx) // before the size is asked for
		return frame, errWoken
	}
	return frame, err
}

// wantsView reports whether a session of this size needs a view. While a size
// of this terminal's is on its way to the session, all stays as it is: else
// each step of a window being dragged would switch twice.
func (a *attachment) wantsView(of session.Size) bool {
	z := a.screen.size()
	here := session.Size{Cols: z.Cols, Rows: z.Rows}
	switch {
	case z.Cols <= 0 || z.Rows <= 0, here == of:
		return false
	case a.owner.Load() && here.Clamp() != of:
		return a.view != nil
	}
	return true
}

// misfit reports that the session is not shown as it should be.
func (a *attachment) misfit() bool {
	packed := a.logSize.Load()
	return a.wantsView(unpackSize(packed)) != (a.view != nil)
}

func unpackSize(v uint64) session.Size {
	return session.Size{Cols: int(v >> 32), Rows: int(uint32(v))}
}

// begin takes note of a sync and reports whether it is shown by a view. A sync
// without a screen goes on as before.
func (a *attachment) begin(at wire.Sync) bool {
	if at.Snapshot == nil {
		return a.view != nil
	}
	size := packSize(at.Size)
	if old := a.logSize.Swap(size); old != size && size != a.asked.Load() {
		a.owner.Store(false) // somebody has set it in what was skipped
		a.asked.Store(size)
	}
	if a.view == nil && a.wantsView(at.Size) {
		a.view = a.newView(at)
	}
	return a.view != nil
}

func (a *attachment) newView(at wire.Sync) *view {
	z := a.screen.size()
	return newView(at, z.Cols, z.Rows, a.o.ReadOnly)
}

// switchView goes over to the other way of showing the session, from pos in
// the log on. Without a fresh screen all stays as it is: the session has ended
// (and its log says how), or the next change of a size tries again.
func (a *attachment) switchView(ctx context.Context, pos logstore.Position) wire.Sync {
	at, err := a.resync(ctx, pos)
	if v := a.view; v != nil {
		a.view = nil
		a.pane.Store(nil)
		if err == nil {
			return at // it knows the history, of which a larger screen shows more
		}
		a.screen.write(ctx, a.screen.filter.Neutral()) // its error comes again
		return v.sync(pos)
	}
	if err != nil {
		return wire.Sync{Position: uint64(pos)}
	}
	if at.Position < uint64(pos) { // the server is behind: the sizes up to pos come again
		a.view = a.newView(at)
		a.view.live = pos
	}
	return at
}

// showView draws the session and what follows in the log. It returns only with
// an error.
func (a *attachment) showView(ctx context.Context, f *logstore.Follower) error {
	p := pacer{since: time.Now(), dirty: true}
	for {
		frame, err := f.TryNext()
		idle := errors.Is(err, logstore.ErrNotYet)
		wait, drawErr := a.drawDue(ctx, &p, idle)
		if drawErr != nil {
			return drawErr
		}
		if idle {
			frame, err = a.next(ctx, f, wait)
		}
		switch {
		case errors.Is(err, errWoken):
			if err := a.fitView(&p); err != nil {
				return err
			}
			continue
		case err != nil && !logstore.IsHole(err):
			return err
		}
		if err := a.viewFrame(ctx, &p, frame); err != nil {
			return err
		}
	}
}

// viewFrame takes a frame of the log.
func (a *attachment) viewFrame(ctx context.Context, p *pacer, frame logstore.Frame) error {
	switch frame.Type {
	case logstore.TypeOut:
		a.view.output(frame)
		p.changed()
	case logstore.TypeSize:
		a.sized(frame)
		z := unpackSize(a.logSize.Load())
		a.view.screen.Resize(z.Cols, z.Rows)
		p.changed()
		if a.misfit() {
			return errSwitch
		}
	case logstore.TypeExit:
		if err := a.draw(ctx, p); err != nil {
			return err
		}
		return a.ended(ctx, frame)
	}
	return nil
}

// fitView gives the view the size of the terminal. It returns errSwitch when
// that is the session's.
func (a *attachment) fitView(p *pacer) error {
	if a.misfit() {
		return errSwitch
	}
	if z := a.screen.size(); a.damaged.Swap(false) || z.Cols != a.view.cols || z.Rows != a.view.rows {
		a.view.resize(z.Cols, z.Rows)
		a.view.shown = nil // also of a terminal that is back at its size
		p.changed()
	}
	return nil
}

// drawDue draws a frame if it is time and returns how long to wait until it
// will be, 0 when there is nothing to draw.
func (a *attachment) drawDue(ctx context.Context, p *pacer, idle bool) (time.Duration, error) {
	if !p.dirty {
		return 0, nil
	}
	if wait := p.wait(time.Now(), idle, a.view.updating()); wait > 0 && !a.view.full() {
		return wait, nil
	}
	if !idle { // nothing waits to be woken
		if err := a.fitView(p); err != nil {
			return 0, err
		}
	}
	err := a.draw(ctx, p)
	if p.dirty {
		return frameTime, err
	}
	return 0, err
}

// draw draws a frame. A terminal that takes nothing holds it up, and with it
// the reading of the log.
func (a *attachment) draw(ctx context.Context, p *pacer) error {
	out := a.screen.filter.Filter(nil, a.view.frame(nil))
	a.pane.Store(a.view.pane())
	err := a.screen.write(ctx, out)
	p.drew(time.Now())
	if a.view.drifting() {
		p.changed()
	}
	return err
}

// pacer says when a frame is due.
type pacer struct {
	dirty bool      // there is something to draw
	since time.Time // since then
	last  time.Time // end of the last frame
}

func (p *pacer) changed() {
	if !p.dirty {
		p.dirty, p.since = true, time.Now()
	}
}

func (p *pacer) drew(now time.Time) { p.dirty, p.last = false, now }

// wait returns how long the next frame has to wait. idle: all there is of the
// log was read; if not, the rest may belong to the same picture. updating: the
// program says that it does.
func (p *pacer) wait(now time.Time, idle, updating bool) time.Duration {
	due := p.last.Add(frameTime)
	var patience time.Duration
	switch {
	case updating:
		patience = updateTime
	case !idle:
		patience = frameTime
	}
	if more := p.since.Add(patience); more.After(due) {
		due = more
	}
	return max(0, due.Sub(now))
}

// pane is what a view shows, for whoever passes the mouse on.
type pane struct {
	shifted    bool // not from the top left corner
	cols, rows int  // of the session
	pixels     bool // the mouse reports pixels
}

func (v *view) pane() *pane {
	cols, rows := v.screen.Size()
	return &pane{
		shifted: v.x != 0 || v.y != 0, cols: cols, rows: rows,
		pixels: v.screen.Modes().MouseEncoding == 1016,
	}
}

// mouse returns what to pass on of a report of the mouse, nil for nothing: where
// the view does not begin in the corner it tells the wrong place, and outside
// of the session there is none. The end of what was begun inside is told at
// the edge, so that no button seems to be held for ever.
func (p *pane) mouse(report []byte) []byte {
	if p == nil {
		return report
	}
	if p.shifted {
		return nil
	}
	if p.pixels {
		return report
	}
	var button, x, y int
	var final byte
	if n, _ := fmt.Sscanf(string(report), "\x1b[<%d;%d;%d%c", &button, &x, &y, &final); n != 4 {
		return report
	}
	if x <= p.cols && y <= p.rows {
		return report
	}
	if final != 'm' {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[<%d;%d;%dm", button, min(x, p.cols), min(y, p.rows))
}

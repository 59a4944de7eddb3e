package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/session"
)

// shimLink is the connection to the shim of a live run, made again when it
// breaks for as long as the shim lives.
type shimLink struct {
	bundle  shimapi.Bundle
	session [16]byte
	gone    atomic.Bool // the shim's lock is free
	up      chan struct{}

	mu      sync.Mutex
	conn    *shimapi.Conn
	state   shimapi.Welcome
	answers map[answerKey]chan shimapi.Status
	signals uint32
}

type answerKey struct {
	writer   shimapi.Writer
	sequence uint64
}

func newShimLink(b shimapi.Bundle, id [16]byte) *shimLink {
	return &shimLink{bundle: b, session: id, up: make(chan struct{}), answers: make(map[answerKey]chan shimapi.Status)}
}

// alive reports whether the shim lives. It asks nobody: keep finds out.
func (l *shimLink) alive() bool { return !l.gone.Load() }

// The pause between attempts to reach a shim that holds its lock and does not
// answer: short at first, for one that is about to end.
const firstRelink, maxRelink = time.Millisecond, 250 * time.Millisecond

// keep holds the connection until the shim is gone or ctx ends.
func (l *shimLink) keep(ctx context.Context) {
	pause := firstRelink
	for ctx.Err() == nil {
		conn, err := shimapi.ConnectRun(ctx, l.bundle, l.session, shimapi.RoleServer)
		if err == nil {
			l.serve(ctx, conn)
			pause = firstRelink
		}
		if locked, err := shimapi.Locked(l.bundle.Lock()); err == nil && !locked {
			l.gone.Store(true)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, maxRelink)
		}
	}
}

// serve reads from one connection until it ends.
func (l *shimLink) serve(ctx context.Context, conn *shimapi.Conn) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	l.mu.Lock()
	l.conn, l.state = conn, conn.Welcome()
	l.mu.Unlock()
	select {
	case <-l.up:
	default:
		close(l.up)
	}
	conn.Send(shimapi.Signal{Operation: shimapi.OpRearm})
	for {
		m, err := conn.Next()
		if err != nil {
			break
		}
		switch m := m.(type) {
		case shimapi.Welcome:
			l.mu.Lock()
			l.state = m
			l.mu.Unlock()
		case shimapi.Ack:
			l.answered(m)
		}
	}
	conn.Close()
	l.mu.Lock()
	l.conn = nil
	for key, c := range l.answers {
		close(c)
		delete(l.answers, key)
	}
	l.mu.Unlock()
}

func (l *shimLink) answered(a shimapi.Ack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := answerKey{a.Writer, a.Sequence}
	if c := l.answers[key]; c != nil {
		c <- a.Status // capacity 1
		delete(l.answers, key)
	}
}

// errNoLink: the shim cannot be reached at the moment.
var errNoLink = errors.New("the session's shim does not answer")

// awaitUp waits until the shim has been reached for the first time, at most
// for d.
func (l *shimLink) awaitUp(d time.Duration) {
	select {
	case <-l.up:
		return
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.up:
	case <-timer.C:
	}
}

// send passes a message on without waiting for an answer.
func (l *shimLink) send(m interface{ Append([]byte) []byte }) error {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn == nil {
		return errNoLink
	}
	return conn.Send(m)
}

// linkBudget is how long a call waits for the shim to be reached.
const linkBudget = 5 * time.Second

// ask sends a message and waits for the Ack with the given writer and
// sequence.
func (l *shimLink) ask(ctx context.Context, m interface{ Append([]byte) []byte }, key answerKey) (shimapi.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, linkBudget)
	defer cancel()
	select {
	case <-l.up:
	case <-ctx.Done():
		return 0, errNoLink
	}
	c := make(chan shimapi.Status, 1)
	l.mu.Lock()
	l.answers[key] = c
	l.mu.Unlock()
	if err := l.send(m); err != nil {
		return 0, err
	}
	select {
	case status, ok := <-c:
		if !ok {
			return 0, errNoLink
		}
		return status, nil
	case <-ctx.Done():
		return 0, errNoLink
	}
}

// signal sends a Signal and returns what the shim made of it.
func (r *run) signal(ctx context.Context, sig shimapi.Signal) error {
	l := r.shim
	l.mu.Lock()
	l.signals++
	sig.ID = l.signals
	l.mu.Unlock()
	status, err := l.ask(ctx, sig, answerKey{sequence: uint64(sig.ID)})
	if err != nil {
		return err
	}
	switch status {
	case shimapi.StatusAccepted:
		return nil
	case shimapi.StatusEnded:
		return fmt.Errorf("%w: the agent has ended", session.ErrNotRunning)
	}
	return fmt.Errorf("%w: the shim answered with status %d", session.ErrRefused, status)
}

func (l *shimLink) lostBytes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.LostBytes
}

// logState is "ok", or says that and why the log cannot be written.
func (l *shimLink) logState() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Flags&shimapi.WelcomeStalled == 0 {
		return "ok"
	}
	if l.conn != nil {
		go l.conn.Stat() // how much is lost by now, for whoever looks next
	}
	return "stalled: " + logstore.Cause(l.state.StallCause).String()
}

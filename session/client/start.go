package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// Mux is a state tree as its user sees it. It holds no connection: each call
// makes one, starting the server where none runs.
type Mux struct {
	Tree session.Tree
	// Version and Executable are those of this program. A server is started
	// from the executable.
	Version, Executable string
	Getenv              func(string) string
}

// Budgets for reaching a server.
const (
	// startBudget bounds the whole way to a serving server.
	startBudget = 20 * time.Second
	// dialEvery is the pause between attempts while another process starts it.
	dialEvery = 5 * time.Millisecond
	// recreateAfter is how long a living server may be unreachable before it
	// is asked to bind its socket again.
	recreateAfter = 300 * time.Millisecond
)

// Running connects to the server if one runs, and returns session.ErrNoServer
// otherwise.
func (m *Mux) Running(ctx context.Context) (*Conn, error) {
	locked, err := shimapi.Locked(m.Tree.ServerLock())
	if err != nil {
		return nil, err
	}
	if !locked {
		return nil, session.ErrNoServer
	}
	return m.connect(ctx, false)
}

// Connect connects to the server and starts it where none runs. If the user
// has stopped the server, only a forced Connect starts one again.
func (m *Mux) Connect(ctx context.Context, force bool) (*Conn, error) {
	if err := m.Tree.Make(); err != nil {
		return nil, err
	}
	if force {
		if err := os.Remove(m.Tree.Stopped()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the mark of the stopped server: %w", err)
		}
	}
	c, err := m.connect(ctx, true)
	if err != nil {
		return nil, err
	}
	if !newer(m.Version, c.peer.Version) {
		return c, nil
	}
	return m.replace(ctx, c)
}

// connect dials until it succeeds, starting a server if it may and gets the
// lock. Whoever else holds the lock is a server or is about to start one.
func (m *Mux) connect(ctx context.Context, mayStart bool) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, startBudget)
	defer cancel()
	tick := time.NewTicker(dialEvery)
	defer tick.Stop()
	began, asked := time.Now(), false
	for {
		c, record, err := dialServer(ctx, m.Tree, m.Version)
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, session.ErrVersion):
			return nil, m.versionError(err)
		case errors.Is(err, errSilent):
			return nil, m.unreachable(err)
		}
		if !mayStart {
			if locked, lockErr := shimapi.Locked(m.Tree.ServerLock()); lockErr == nil && !locked {
				return nil, session.ErrNoServer
			}
		}
		if mayStart {
			startErr := m.tryStart(ctx)
			if startErr != nil && !errors.Is(startErr, shimapi.ErrLocked) {
				return nil, startErr
			}
		}
		if !asked && time.Since(began) > recreateAfter && proctree.IsAlive(record.PID, record.Start) {
			asked = true
			syscall.Kill(record.PID, shimapi.RecreateSignal)
		}
		select {
		case <-ctx.Done():
			return nil, m.unreachable(err)
		case <-tick.C:
		}
	}
}

func (m *Mux) versionError(err error) error {
	return &wire.Error{
		Code: "version", Message: err.Error(),
		Hint: "'agentmux server stop' ends the old server; sessions go on, and the next command starts the new one",
	}
}

func (m *Mux) unreachable(err error) error {
	return &wire.Error{
		Code: "no-server", Message: fmt.Sprintf("the server does not answer: %v", err),
		Hint: fmt.Sprintf("%s tells what it is doing; sessions go on meanwhile", m.Tree.ServerLog()),
	}
}

// tryStart starts a server if the lock can be had, and waits until it serves
// or has given up. It returns shimapi.ErrLocked if somebody else has the lock.
func (m *Mux) tryStart(ctx context.Context) error {
	if shimapi.Stopped(string(m.Tree)) {
		return &wire.Error{
			Code: "no-server", Message: "the server was stopped with 'agentmux server stop'",
			Hint: "'agentmux attach' and 'agentmux new' start it again, and so does 'agentmux server start'",
		}
	}
	lock, err := shimapi.TryLock(m.Tree.ServerLock())
	if err != nil {
		return err
	}
	defer lock.Release()
	if wait := lock.NoteStart(time.Now()); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return m.unreachable(errors.New("it keeps ending as soon as it is started"))
		}
	}
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	defer readyR.Close()
	args := append(shimapi.ServerArgs(string(m.Tree)), "--ready")
	err = shimapi.Detach(nil, m.Executable, args, session.CleanEnvironment(m.Getenv), []*os.File{lock.File(), readyW})
	readyW.Close()
	if err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { readyR.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	complaint, err := io.ReadAll(io.LimitReader(readyR, 4096))
	if err == nil && len(complaint) > 0 {
		return fmt.Errorf("start the server: %s", strings.TrimSpace(string(complaint)))
	}
	return nil
}

// replace asks an older server to step aside for this program's version.
func (m *Mux) replace(ctx context.Context, old *Conn) (*Conn, error) {
	err := old.Call(ctx, wire.MethodYield, wire.YieldParams{Executable: m.Executable, Version: m.Version}, nil)
	if err != nil {
		return old, nil // it is good enough: the versions understand each other
	}
	for range old.Notices { // until it has gone
	}
	return m.connect(ctx, true)
}

// newer reports whether version a is a strictly higher release than b. What is
// no release, such as a development build, is never newer nor older.
func newer(a, b string) bool {
	x, okA := release(a)
	y, okB := release(b)
	if !okA || !okB {
		return false
	}
	for i := range x {
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}

// release reads "v1.2.3".
func release(version string) (n [3]int, ok bool) {
	rest, ok := strings.CutPrefix(version, "v")
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 3 {
		return n, false
	}
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 {
			return n, false
		}
		n[i] = v
	}
	return n, true
}

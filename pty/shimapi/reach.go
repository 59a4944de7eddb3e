package shimapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"agentmux/pty/proctree"
)

// RecreateSignal asks a shim or a server to bind its socket again: whoever
// cannot dial although the owner lives sends it, since cleaners of temporary
// directories remove sockets.
const RecreateSignal = syscall.SIGUSR1

// retryEvery is the pause between two attempts to dial.
const retryEvery = 10 * time.Millisecond

// ConnectRun connects to the live shim of a run. It returns fs.ErrNotExist
// when the run was never started and ErrGone when its shim is not alive.
func ConnectRun(ctx context.Context, b Bundle, session [16]byte, role Role) (*Conn, error) {
	start, err := b.ReadStart()
	if err != nil {
		return nil, fmt.Errorf("read where the shim listens: %w", err)
	}
	conn, err := Connect(ctx, start.Socket, session, b.Run, role)
	if err == nil || !noListener(err) {
		return conn, err
	}
	if !proctree.IsAlive(start.ShimPID, start.ShimStart) {
		return nil, fmt.Errorf("run %d: %w", b.Run, ErrGone)
	}
	err = redial(ctx, start, func() error {
		conn, err = Connect(ctx, start.Socket, session, b.Run, role)
		return err
	})
	return conn, err
}

// ErrGone: the shim is not alive.
var ErrGone = errors.New("its shim is gone")

// redial asks the living shim to bind its socket again and calls dial until it
// succeeds, fails for another reason than a missing listener, or the shim is
// gone.
func redial(ctx context.Context, start Start, dial func() error) error {
	if err := syscall.Kill(start.ShimPID, RecreateSignal); err != nil {
		return fmt.Errorf("ask process %d for a new socket: %w", start.ShimPID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialBudget)
	defer cancel()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		err := dial()
		if err == nil || !noListener(err) {
			return err
		}
		if !proctree.IsAlive(start.ShimPID, start.ShimStart) {
			return fmt.Errorf("process %d: %w", start.ShimPID, ErrGone)
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// noListener reports whether a dial failed because no socket is there or
// nobody listens on it.
func noListener(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/server"
	"agentmux/session/wire"
)

func (a *app) serverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Look at, start or stop the server",
		Long: `The server keeps the screens of your sessions and answers all commands. It is
started when it is needed and comes back when it dies; agents do not notice.`,
		Example: "  agentmux server status --json",
		Args:    arguments(0, 0),
		RunE:    a.with(func(ctx context.Context, m *client.Mux, _ []string) error { return a.serverStatus(ctx, m, false) }),
	}
	cmd.AddCommand(a.serverRunCommand(), a.serverStartCommand(), a.serverStatusCommand(), a.serverStopCommand())
	return cmd
}

func (a *app) serverRunCommand() *cobra.Command {
	var inherit, ready, wait bool
	var tree string
	cmd := &cobra.Command{
		Use:     "run [--wait]",
		Short:   "Serve in the foreground, as a service manager wants it",
		Example: "  agentmux server run --wait",
		Args:    arguments(0, 0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, _ []string) error {
			if tree != "" {
				m.Tree = session.Tree(tree)
			}
			var announce *os.File
			if ready {
				announce = os.NewFile(shimapi.ServerReadyFD, "ready")
				syscall.CloseOnExec(shimapi.ServerReadyFD)
			}
			err := a.serve(ctx, m, inherit, wait, announce)
			if err != nil && announce != nil {
				fmt.Fprintln(announce, err)
			}
			return err
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&wait, "wait", false, "wait for a server that runs already to end")
	f.BoolVar(&inherit, "inherit", false, "the lock is held on a descriptor of the starter")
	f.BoolVar(&ready, "ready", false, "tell the starter when it serves")
	f.StringVar(&tree, "tree", "", "the state tree, in place of the environment's")
	f.MarkHidden("tree")
	f.MarkHidden("inherit")
	f.MarkHidden("ready")
	return cmd
}

func (a *app) serve(ctx context.Context, m *client.Mux, inherit, wait bool, ready *os.File) error {
	syscall.Umask(0o077)
	if err := m.Tree.Make(); err != nil {
		return err
	}
	lock, err := takeServerLock(ctx, m, inherit, wait)
	if err != nil {
		return err
	}
	defer lock.Release()
	log, err := openServerLog(m.Tree, a.err, inherit)
	if err != nil { // a full disk is no reason not to serve
		log = serverLog{Writer: a.err}
	}
	defer log.Close()
	o := server.Options{
		Tree: m.Tree, Lock: lock, Version: m.Version, Executable: m.Executable, Getenv: a.getenv,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	if ready != nil {
		o.Ready = ready
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("leave the working directory: %w", err)
	}
	return server.Run(ctx, o)
}

// takeServerLock takes the lock of the tree. To serve by name is an explicit
// start, so the mark of a stopped server goes, but only from who has the lock.
func takeServerLock(ctx context.Context, m *client.Mux, inherit, wait bool) (*shimapi.Lock, error) {
	path := m.Tree.ServerLock()
	if inherit {
		return shimapi.InheritLock(shimapi.ServerLockFD, path), nil
	}
	lock, err := shimapi.TryLock(path)
	if wait && errors.Is(err, shimapi.ErrLocked) {
		lock, err = waitServerLock(ctx, path)
	}
	if errors.Is(err, shimapi.ErrLocked) {
		return nil, &wire.Error{
			Code: "busy", Message: "a server is running already",
			Hint: "'agentmux server status' shows it; --wait waits for its end",
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Remove(m.Tree.Stopped()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("remove the mark of the stopped server: %w", err), lock.Release())
	}
	return lock, nil
}

// waitServerLock waits for the lock until ctx ends. The wait itself cannot be
// broken off, so its goroutine is left to the end of the process.
func waitServerLock(ctx context.Context, path string) (*shimapi.Lock, error) {
	type result struct {
		lock *shimapi.Lock
		err  error
	}
	got := make(chan result, 1)
	go func() {
		lock, err := shimapi.WaitLock(path)
		got <- result{lock, err}
	}()
	select {
	case r := <-got:
		return r.lock, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the running server to end: %w", ctx.Err())
	}
}

// maxServerLog is where the server's log is begun anew.
const maxServerLog = 1 << 20

type serverLog struct {
	io.Writer
	file *os.File
}

func (l serverLog) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// openServerLog opens the server's log, which a server in the foreground
// shows on its standard error too.
func openServerLog(tree session.Tree, stderr io.Writer, quiet bool) (serverLog, error) {
	path := tree.ServerLog()
	if info, err := os.Stat(path); err == nil && info.Size() > maxServerLog {
		if err := os.Rename(path, path+".old"); err != nil {
			return serverLog{}, fmt.Errorf("begin a new server log: %w", err)
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return serverLog{}, fmt.Errorf("open the server's log: %w", err)
	}
	if quiet {
		return serverLog{f, f}, nil
	}
	return serverLog{io.MultiWriter(f, stderr), f}, nil
}

func (a *app) serverStartCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "start",
		Short:   "Start the server if none runs",
		Example: "  agentmux server start",
		Args:    arguments(0, 0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, _ []string) error {
			c, err := m.Connect(ctx, true)
			if err != nil {
				return err
			}
			return c.Close()
		}),
	}
}

func (a *app) serverStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status [--json]",
		Short:   "Show the server; with none the status is 5",
		Example: "  agentmux server status --json",
		Args:    arguments(0, 0),
		RunE:    a.with(func(ctx context.Context, m *client.Mux, _ []string) error { return a.serverStatus(ctx, m, asJSON) }),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// serverStatusJSON is what server status --json prints; without a server all
// but the schema is null.
type serverStatusJSON struct {
	Schema  int        `json:"schema"`
	PID     *int       `json:"pid"`
	Version *string    `json:"version"`
	Socket  *string    `json:"socket"`
	Started *time.Time `json:"started"`
	Live    *int       `json:"live_sessions"`
}

func (a *app) serverStatus(ctx context.Context, m *client.Mux, asJSON bool) error {
	v, err := m.ServerVersion(ctx)
	if asJSON && (err == nil || errors.Is(err, session.ErrNoServer)) {
		out := serverStatusJSON{Schema: listSchema}
		if err == nil {
			out.PID, out.Version, out.Socket, out.Started, out.Live = &v.PID, &v.Version, &v.Socket, &v.Started, &v.Live
		}
		if err := printJSON(a.out, out); err != nil {
			return err
		}
		if err != nil {
			return statusError{status: exitNoServer}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return printTable(a.out, [][]string{
		{"pid", fmt.Sprint(v.PID)}, {"version", v.Version}, {"socket", v.Socket},
		{"started", when(v.Started)}, {"live sessions", fmt.Sprint(v.Live)},
	})
}

func (a *app) serverStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop",
		Short: "Stop the server; sessions go on without it",
		Long: `Stop the server. Sessions go on without it, and their logs too; 'agentmux kill'
ends a session. 'agentmux new', 'agentmux attach' and 'agentmux server start'
start the server again.`,
		Example: "  agentmux server stop",
		Args:    arguments(0, 0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, _ []string) error {
			live, err := m.StopServer(ctx)
			if err != nil {
				return err
			}
			text := "server stopped"
			if len(live) > 0 {
				text += fmt.Sprintf("; going on without it: %s", strings.Join(live, ", "))
			}
			say(a.out, text)
			return nil
		}),
	}
}

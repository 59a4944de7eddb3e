package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"agentmux/logstore"
	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// Options describe a server.
type Options struct {
	Tree session.Tree
	// Lock is the held lock of the tree, which the server owns from now on.
	Lock *shimapi.Lock
	// Version is that of the program.
	Version string
	// Executable is the installed program: what shims run, and what a shim
	// starts when this server has died.
	Executable string
	// Getenv is the environment, os.Getenv outside of tests.
	Getenv func(string) string
	// Ready, if not nil, is closed once the server serves.
	Ready io.Closer
	Log   *slog.Logger
}

// helloBudget is how long a connection may stay silent before its hello,
// writeBudget how long a peer may leave an answer unread.
const (
	helloBudget    = 10 * time.Second
	writeBudget    = 10 * time.Second
	maxConnections = 4096
	// pace is the least time between two wake-ups by logs: on a small machine
	// a server that looks at every byte at once competes with the agents and
	// with the clients that show them.
	pace = 2 * time.Millisecond
)

// Server serves one state tree.
type Server struct {
	o        Options
	started  time.Time
	registry *registry
	watcher  *logstore.Watcher
	launcher launcher
	path     string // of the socket
	cancel   context.CancelFunc

	mu       sync.Mutex
	listener *net.UnixListener
	conns    map[net.Conn]struct{}
	closing  bool
	working  sync.WaitGroup // connections
}

// Run serves until ctx ends, SIGTERM or SIGINT comes, or a client asks for the
// end. It returns nil then, and an error if it could not serve at all.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher, err := logstore.NewPacedWatcher(pace)
	if err != nil {
		return fmt.Errorf("watch logs: %w", err)
	}
	defer watcher.Close()
	s := &Server{
		o: o, started: time.Now(), watcher: watcher, cancel: cancel,
		conns: make(map[net.Conn]struct{}), launcher: newLauncher(o),
	}
	s.registry = newRegistry(s)
	if err := s.listen(); err != nil {
		return err
	}
	defer s.close()
	if err := s.writeRecord(); err != nil {
		// On a full disk a server is needed more than ever, to end and to
		// remove what fills it. Its socket is where the last one was.
		o.Log.Error("serve without a record", "err", err)
	}
	if err := s.registry.adopt(ctx); err != nil {
		return err
	}
	if o.Ready != nil {
		o.Ready.Close()
	}
	go s.handleSignals(ctx)
	go s.accept(ctx)
	o.Log.Info("serving", "socket", s.path, "sessions", s.registry.count())
	<-ctx.Done()
	return nil
}

func (s *Server) listen() error {
	l, path, err := shimapi.Listen(string(s.o.Tree), shimapi.ServerSocketName)
	if err != nil {
		return fmt.Errorf("open the control socket: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.listener; old != nil {
		old.Close()
	}
	s.listener, s.path = l, path
	return nil
}

// writeRecord tells clients where the server is and shims how to start the
// next one.
func (s *Server) writeRecord() error {
	self, err := proctree.Find(os.Getpid())
	if err != nil {
		return err
	}
	r := shimapi.ServerRecord{
		Schema: shimapi.ServerSchema, PID: self.PID, Start: self.Start, Version: s.o.Version,
		Socket: s.path, Started: s.started.UTC(), Executable: s.o.Executable,
		Prefix: s.launcher.serverPrefix(), Env: session.CleanEnvironment(s.o.Getenv),
	}
	if err := session.WriteJSON(s.o.Tree.ServerRecord(), r); err != nil {
		return fmt.Errorf("write the server's record: %w", err)
	}
	return nil
}

// handleSignals ends the server in order and binds the socket again when a
// client that cannot dial asks for it.
func (s *Server) handleSignals(ctx context.Context) {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, shimapi.RecreateSignal)
	defer signal.Stop(c)
	for {
		select {
		case <-ctx.Done():
			return
		case sig := <-c:
			switch sig {
			case shimapi.RecreateSignal:
				if err := s.listen(); err != nil {
					s.o.Log.Error("open the control socket again", "err", err)
				}
			case syscall.SIGTERM, syscall.SIGINT:
				s.cancel()
			}
		}
	}
}

func (s *Server) accept(ctx context.Context) {
	for {
		s.mu.Lock()
		l, closing := s.listener, s.closing
		s.mu.Unlock()
		if closing {
			return
		}
		conn, err := l.AcceptUnix()
		if err == nil {
			s.admit(ctx, conn)
			continue
		}
		if !errors.Is(err, net.ErrClosed) {
			s.o.Log.Error("accept", "err", err)
			select { // out of descriptors, most likely: let some go
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}
}

func (s *Server) admit(ctx context.Context, conn *net.UnixConn) {
	uid, err := shimapi.PeerUID(conn)
	if err != nil || uid != os.Geteuid() && uid != 0 {
		s.o.Log.Warn("refused a connection", "uid", uid, "err", err)
		conn.Close()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.conns) >= maxConnections {
		conn.Close()
		return
	}
	s.conns[conn] = struct{}{}
	s.working.Go(func() {
		defer func() {
			conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		}()
		s.serve(ctx, conn)
	})
}

// close ends all connections. The lock ends with the process, after them.
func (s *Server) close() {
	s.mu.Lock()
	s.closing = true
	s.listener.Close()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.working.Wait()
	s.registry.close()
}

// boundedConn gives every write a deadline, so that a peer that does not read
// costs one connection and nothing else.
type boundedConn struct{ net.Conn }

func (c boundedConn) Write(p []byte) (int, error) {
	c.SetWriteDeadline(time.Now().Add(writeBudget))
	return c.Conn.Write(p)
}

// serve handles one connection. Requests are answered one after the other,
// except that wait and attach go on while the connection is read, so that the
// client's leaving ends them.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	peer := &peer{conn: wire.NewConn(boundedConn{conn}), end: cancel}
	conn.SetReadDeadline(time.Now().Add(helloBudget))
	if _, err := peer.conn.Greet(wire.Hello{Version: s.o.Version, PID: os.Getpid()}); err != nil {
		return
	}
	conn.SetReadDeadline(time.Time{})
	var calls sync.WaitGroup
	defer func() { // in this order: a call that is under way may register the peer
		cancel()
		calls.Wait()
		s.registry.leave(peer)
	}()
	for {
		t, payload, err := peer.conn.Receive()
		if err != nil {
			return
		}
		if t != wire.TypeRequest {
			continue
		}
		var req wire.Request
		if err := wire.Decode(payload, &req); err != nil {
			return
		}
		calls.Go(func() {
			if err := peer.conn.Send(wire.TypeResponse, s.answer(ctx, peer, req)); err != nil {
				conn.Close()
			}
		})
	}
}

// peer is one connected client.
type peer struct {
	conn *wire.Conn
	end  context.CancelFunc
}

// notify sends a notice, on its own goroutine: who asks must not wait for a
// client that does not read.
func (p *peer) notify(n wire.Notice) {
	go p.conn.Send(wire.TypeNotice, n)
}

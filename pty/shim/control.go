package shim

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"agentmux/pty/shimapi"
)

// Bounds of the control socket.
const (
	maxConnections = 512
	helloBudget    = 5 * time.Second  // for a peer that connects and says nothing
	writeBudget    = 10 * time.Second // for a peer that does not read its answers
)

// control serves the shim protocol.
type control struct {
	s    *shim
	path string // where to dial

	mu       sync.Mutex
	listener *net.UnixListener
	conns    map[*connection]struct{}
	closed   bool
}

// connection is one client of the shim.
type connection struct {
	conn *net.UnixConn
	role shimapi.Role

	mu   sync.Mutex // guards what follows, and writes
	out  []byte
	late struct {
		ack   shimapi.Ack
		due   bool // ack is to be sent
		bytes int  // of input that it covers
	}
}

// Keys are acknowledged a moment late, many at once: nobody waits for it, and
// it would wake the client just when the echo is due. A client may have many
// times lateBytes on their way.
const (
	lateFor   = 10 * time.Millisecond
	lateBytes = 4 << 10
)

func listen(s *shim) (*control, error) {
	l, path, err := shimapi.Listen(s.bundle.Dir(), shimapi.SocketName)
	if err != nil {
		return nil, err
	}
	return &control{s: s, path: path, listener: l, conns: make(map[*connection]struct{})}, nil
}

// relisten binds the socket again, after somebody has removed it.
func (c *control) relisten() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	l, _, err := shimapi.Listen(c.s.bundle.Dir(), shimapi.SocketName)
	if err != nil {
		c.s.complain(err)
		return
	}
	old := c.listener
	c.listener = l
	old.Close() // its accept fails, and run goes on with the new one
}

func (c *control) current() (*net.UnixListener, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listener, !c.closed
}

// run accepts until close.
func (c *control) run() {
	for {
		l, open := c.current()
		if !open {
			return
		}
		conn, err := l.AcceptUnix()
		if err == nil {
			c.admit(conn)
			continue
		}
		if !errors.Is(err, net.ErrClosed) {
			c.s.complain(fmt.Errorf("accept: %w", err))
			time.Sleep(writeBudget / 100) // out of descriptors, most likely: let some go
		}
	}
}

func (c *control) admit(conn *net.UnixConn) {
	uid, err := shimapi.PeerUID(conn)
	if err != nil || uid != os.Geteuid() && uid != 0 {
		conn.Close()
		return
	}
	cn := &connection{conn: conn}
	c.mu.Lock()
	refused := c.closed || len(c.conns) >= maxConnections
	if !refused {
		c.conns[cn] = struct{}{}
	}
	c.mu.Unlock()
	if refused {
		conn.Close()
		return
	}
	go c.serve(cn)
}

// serve handles one connection until either side ends it.
func (c *control) serve(cn *connection) {
	groups := make(map[shimapi.Writer]*group)
	defer func() {
		c.s.input.dropAll(groups)
		cn.conn.Close()
		c.mu.Lock()
		delete(c.conns, cn)
		c.mu.Unlock()
	}()
	cn.conn.SetReadDeadline(time.Now().Add(helloBudget))
	frames := shimapi.NewFrameReader(cn.conn)
	t, p, err := frames.Next()
	if err != nil || t != shimapi.TypeHello || !c.welcome(cn, p) {
		return
	}
	cn.conn.SetReadDeadline(time.Time{})
	for {
		t, p, err := frames.Next()
		if err != nil || !c.handle(cn, t, p, groups) {
			return
		}
	}
}

// welcome answers a Hello, if it is meant for this run and a version fits.
func (c *control) welcome(cn *connection, p []byte) bool {
	h, err := shimapi.ParseHello(p)
	if err != nil || h.Run != uint32(c.s.bundle.Run) || h.Session != c.s.session {
		return false
	}
	if h.Min > shimapi.ProtocolVersion || h.Max < shimapi.ProtocolVersion {
		// The peer learns our version from the welcome and gives up.
		cn.send(c.s.state())
		return false
	}
	cn.role = h.Role
	return cn.send(c.s.state())
}

// handle does what one frame asks for. It returns false to end the connection.
func (c *control) handle(cn *connection, t shimapi.Type, p []byte, groups map[shimapi.Writer]*group) bool {
	switch t {
	case shimapi.TypeInput:
		return c.handleInput(cn, p, groups)
	case shimapi.TypeResize:
		r, err := shimapi.ParseResize(p)
		if err == nil && cn.role != shimapi.RoleReadOnly {
			c.s.input.resize(r)
		}
		return err == nil
	case shimapi.TypeSignal:
		return c.handleSignal(cn, p)
	case shimapi.TypeStat:
		return cn.send(c.s.state())
	}
	return true // of a later version
}

func (c *control) handleInput(cn *connection, p []byte, groups map[shimapi.Writer]*group) bool {
	in, err := shimapi.ParseInput(p)
	if err != nil {
		return false
	}
	status, answer := shimapi.StatusReadOnly, true
	if cn.role != shimapi.RoleReadOnly {
		status, answer = c.s.input.take(in, groups)
	}
	if !answer {
		return true
	}
	ack := shimapi.Ack{Writer: in.Writer, Sequence: in.Sequence, Status: status}
	if in.Kind == shimapi.KindKey && status == shimapi.StatusAccepted {
		return cn.sendLate(ack, len(in.Data))
	}
	return cn.send(ack)
}

func (c *control) handleSignal(cn *connection, p []byte) bool {
	sig, err := shimapi.ParseSignal(p)
	if err != nil {
		return false
	}
	status := shimapi.StatusReadOnly
	if cn.role != shimapi.RoleReadOnly {
		status = c.s.signal(sig)
	}
	return cn.send(shimapi.Ack{Sequence: uint64(sig.ID), Status: status})
}

// frame is a message that the shim sends.
type frame interface{ Append([]byte) []byte }

func (cn *connection) send(f frame) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.write(f.Append(cn.appendLate(cn.out[:0])))
}

// write sends frames. cn.mu is held.
func (cn *connection) write(frames []byte) bool {
	cn.out = frames
	if len(frames) == 0 {
		return true
	}
	cn.conn.SetWriteDeadline(time.Now().Add(writeBudget))
	_, err := cn.conn.Write(frames)
	return err == nil
}

// sendLate sends an acknowledgement within lateFor. It covers those that the
// same writer was owed before. cn.mu is not held.
func (cn *connection) sendLate(a shimapi.Ack, size int) bool {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	var before []byte
	if cn.late.due && cn.late.ack.Writer != a.Writer {
		before = cn.appendLate(cn.out[:0])
	}
	if !cn.late.due {
		time.AfterFunc(lateFor, cn.flush)
	}
	cn.late.ack, cn.late.due = a, true
	cn.late.bytes += size
	if cn.late.bytes >= lateBytes {
		before = cn.appendLate(before)
	}
	return cn.write(before)
}

// flush sends the acknowledgement that is due, if it still is.
func (cn *connection) flush() {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	cn.write(cn.appendLate(cn.out[:0]))
}

// appendLate appends the acknowledgement that is due. cn.mu is held.
func (cn *connection) appendLate(b []byte) []byte {
	if !cn.late.due {
		return b
	}
	cn.late.due, cn.late.bytes = false, 0
	return cn.late.ack.Append(b)
}

// broadcast sends f to every connection, without waiting for one that does
// not read.
func (c *control) broadcast(f frame) {
	c.mu.Lock()
	conns := make([]*connection, 0, len(c.conns))
	for cn := range c.conns {
		conns = append(conns, cn)
	}
	c.mu.Unlock()
	data := f.Append(nil)
	for _, cn := range conns {
		if cn.mu.TryLock() {
			cn.conn.SetWriteDeadline(time.Now().Add(writeBudget / 100))
			cn.conn.Write(data)
			cn.mu.Unlock()
		}
	}
}

// close ends the socket and all connections.
func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.listener.Close()
	os.Remove(c.path)
	for cn := range c.conns {
		cn.conn.Close()
	}
}

// state is what Welcome says.
func (s *shim) state() shimapi.Welcome {
	queued, size := s.input.state()
	log := s.log.Status()
	w := shimapi.Welcome{
		Version: shimapi.ProtocolVersion, Run: uint32(s.bundle.Run),
		ShimPID: uint32(os.Getpid()), AgentPID: uint32(s.agent),
		LogEnd: uint64(log.End), LostBytes: log.LostBytes,
		Queued: uint32(queued), Cols: size.Cols, Rows: size.Rows, Output: s.output.Load(),
	}
	if log.Stalled {
		w.Flags |= shimapi.WelcomeStalled
		w.StallCause = uint8(log.Cause)
	}
	if s.exited.Load() {
		w.Flags |= shimapi.WelcomeExited
	}
	return w
}

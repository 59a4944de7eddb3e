package shimapi

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"sync"
	"time"
)

// dialBudget is how long a shim may take to say welcome. A shim that is alive
// answers at once; one that is stopped must not hold anybody up.
const dialBudget = 5 * time.Second

// sendBudget is how long a shim may leave a frame unread, as one that is
// stopped does. The connection is given up then.
const sendBudget = 10 * time.Second

// NewWriter returns a writer id that nobody else has.
func NewWriter() Writer {
	var w Writer
	rand.Read(w[:]) // never fails
	return w
}

// Conn is a connection to a shim. Its methods may be called from several
// goroutines, but Next from one at a time.
type Conn struct {
	conn    *net.UnixConn
	frames  *FrameReader
	welcome Welcome

	mu  sync.Mutex // guards writes and out
	out []byte
}

// Connect dials the shim of a run by the path in its start record and says
// hello. It returns an error that wraps ErrProtocol when the shim speaks no
// version that is known here.
func Connect(ctx context.Context, path string, session [16]byte, run int, role Role) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialBudget)
	defer cancel()
	nc, err := Dial(ctx, path)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	c := &Conn{conn: nc, frames: NewFrameReader(nc)}
	if err := c.hello(session, run, role); err != nil {
		stop()
		nc.Close()
		return nil, fmt.Errorf("greet the shim of run %d: %w", run, err)
	}
	if !stop() {
		nc.Close()
		return nil, fmt.Errorf("greet the shim of run %d: %w", run, ctx.Err())
	}
	return c, nil
}

func (c *Conn) hello(session [16]byte, run int, role Role) error {
	h := Hello{Min: ProtocolVersion, Max: ProtocolVersion, Role: role, Run: uint32(run), Session: session}
	if _, err := c.conn.Write(h.Append(nil)); err != nil {
		return err
	}
	for {
		t, p, err := c.frames.Next()
		if err != nil {
			return err
		}
		if t != TypeWelcome {
			continue
		}
		c.welcome, err = ParseWelcome(p)
		return err
	}
}

// Welcome is what the shim said when the connection was made.
func (c *Conn) Welcome() Welcome { return c.welcome }

// Next returns the next frame from the shim: Welcome, Ack or Exit, as the
// decoded message, or nil for a type that is not known here.
func (c *Conn) Next() (any, error) {
	t, p, err := c.frames.Next()
	if err != nil {
		return nil, err
	}
	switch t {
	case TypeWelcome:
		return ParseWelcome(p)
	case TypeAck:
		return ParseAck(p)
	case TypeExit:
		return ParseExit(p)
	}
	return nil, nil
}

// appender is a message that knows its own frame.
type appender interface{ Append([]byte) []byte }

// Send writes frames, in one piece: Inputs, Resizes, Signals. It may wait for a
// shim that does not read; after an error the connection is closed.
func (c *Conn) Send(messages ...appender) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = c.out[:0]
	for _, m := range messages {
		c.out = m.Append(c.out)
	}
	c.conn.SetWriteDeadline(time.Now().Add(sendBudget))
	if _, err := c.conn.Write(c.out); err != nil {
		c.conn.Close() // a frame may have gone out in part
		return fmt.Errorf("write to the shim: %w", err)
	}
	if cap(c.out) > 256<<10 {
		c.out = nil
	}
	return nil
}

// Stat asks for a Welcome, which Next will return.
func (c *Conn) Stat() error { return c.Send(statMessage{}) }

type statMessage struct{}

func (statMessage) Append(b []byte) []byte { return AppendFrame(b, TypeStat, nil) }

// Close ends the connection. A Next that is under way returns an error.
func (c *Conn) Close() error { return c.conn.Close() }

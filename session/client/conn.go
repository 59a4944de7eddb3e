package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// Conn is one connection to a server. Call may be used by several goroutines
// at a time.
type Conn struct {
	nc   net.Conn
	wire *wire.Conn
	peer wire.Hello
	// Notices are what the server says unasked; closed when the connection
	// ends. The owner of the connection must read it.
	Notices chan wire.Notice

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan wire.Response
	err     error // set when the connection has ended
}

// errBroken marks a connection that ended before an answer came.
var errBroken = errors.New("the connection to the server broke")

// greet turns a fresh network connection into a Conn. It closes nc on error.
func greet(ctx context.Context, nc net.Conn, version string) (*Conn, error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	c := &Conn{
		nc: nc, wire: wire.NewConn(nc), Notices: make(chan wire.Notice, 16),
		pending: make(map[uint64]chan wire.Response),
	}
	peer, err := c.wire.Greet(wire.Hello{Version: version, PID: os.Getpid()})
	if err != nil {
		nc.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("greet the server: %w", err)
	}
	c.peer = peer
	go c.read()
	return c, nil
}

// read hands out what comes in, until the connection ends.
func (c *Conn) read() {
	defer close(c.Notices)
	for {
		t, payload, err := c.wire.Receive()
		if err == nil {
			err = c.dispatch(t, payload)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Conn) dispatch(t wire.Type, payload []byte) error {
	switch t {
	case wire.TypeResponse:
		var r wire.Response
		if err := wire.Decode(payload, &r); err != nil {
			return err
		}
		c.mu.Lock()
		reply := c.pending[r.ID]
		delete(c.pending, r.ID)
		c.mu.Unlock()
		if reply != nil {
			reply <- r // capacity 1
		}
	case wire.TypeNotice:
		var n wire.Notice
		if err := wire.Decode(payload, &n); err != nil {
			return err
		}
		select {
		case c.Notices <- n:
		default: // nobody reads: it was not attached
		}
	}
	return nil
}

func (c *Conn) fail(err error) {
	c.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for id, reply := range c.pending {
		close(reply)
		delete(c.pending, id)
	}
}

// Call asks for one thing. in and out are messages of package wire; out may be
// nil. An error of the server's is a *wire.Error.
func (c *Conn) Call(ctx context.Context, method string, in, out any) error {
	params, err := wire.Encode(in)
	if err != nil {
		return err
	}
	reply := make(chan wire.Response, 1)
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return errBroken
	}
	c.next++
	id := c.next
	c.pending[id] = reply
	c.mu.Unlock()
	if err := c.wire.Send(wire.TypeRequest, wire.Request{ID: id, Method: method, Params: params}); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	select {
	case r, ok := <-reply:
		if !ok {
			return errBroken
		}
		if r.Error != nil {
			return r.Error
		}
		if out == nil {
			return nil
		}
		return wire.Decode(r.Result, out)
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		return ctx.Err()
	}
}

// Close ends the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// broken reports whether err means that the connection and not the request
// failed, so that the request may be repeated on another one.
func broken(err error) bool {
	var remote *wire.Error
	if errors.As(err, &remote) {
		return remote.Code == wire.CodeRetry
	}
	return errors.Is(err, errBroken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// dialServer connects to a server that runs, by its record.
func dialServer(ctx context.Context, tree session.Tree, version string) (*Conn, shimapi.ServerRecord, error) {
	record, err := shimapi.ReadServerRecord(string(tree))
	if err != nil { // it could not be written, or is not yet
		record = shimapi.ServerRecord{Socket: filepath.Join(string(tree), shimapi.ServerSocketName)}
	}
	nc, err := shimapi.Dial(ctx, record.Socket)
	if err != nil {
		return nil, record, err
	}
	hello, cancel := context.WithTimeout(ctx, helloBudget)
	defer cancel()
	c, err := greet(hello, nc, version)
	if hello.Err() != nil && ctx.Err() == nil {
		err = errSilent
	}
	return c, record, err
}

// helloBudget is how long a server that takes a connection may take to say
// hello. One that serves does so at once; one that is stopped never does.
const helloBudget = 5 * time.Second

// errSilent: the server takes connections and says nothing.
var errSilent = errors.New("it takes connections but says nothing; is it stopped?")

package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"agentmux/session"
)

// Type is the type of an envelope. Its numbers are on the wire: never change
// one, never use one again.
type Type uint8

// Envelope types.
const (
	TypeHello    Type = 1
	TypeRequest  Type = 2
	TypeResponse Type = 3
	TypeNotice   Type = 4
)

// Versions of the control protocol spoken here.
const (
	MinVersion = 1
	MaxVersion = 1
)

// MaxPayload is the most bytes of one payload.
const MaxPayload = 16 << 20

// maxNoise is how much may precede the preamble.
const maxNoise = 64 << 10

// preamble begins what each side sends. It holds a NUL and a line end so that
// no banner contains it, and its loss or change shows at once.
var preamble = []byte("\x00AMXC\r\n\x1a")

// ErrProtocol wraps every complaint about bytes that are no valid envelope.
var ErrProtocol = errors.New("control protocol error")

// Hello introduces a side.
type Hello struct {
	Min      int      `msgpack:"min"`
	Max      int      `msgpack:"max"`
	Version  string   `msgpack:"build"`
	PID      int      `msgpack:"pid"`
	Features []string `msgpack:"features,omitempty"`
}

// Request asks for one thing. IDs are chosen by the client and come back in
// the response; they are unique within a connection.
type Request struct {
	ID     uint64             `msgpack:"id"`
	Method string             `msgpack:"method"`
	Params msgpack.RawMessage `msgpack:"params,omitempty"`
}

// Response answers the request of the same ID.
type Response struct {
	ID     uint64             `msgpack:"id"`
	Error  *Error             `msgpack:"error,omitempty"`
	Result msgpack.RawMessage `msgpack:"result,omitempty"`
}

// Notice tells an attached client something that it did not ask for.
type Notice struct {
	Kind   string `msgpack:"kind"`
	Reason string `msgpack:"reason,omitempty"`
}

// Kinds of notices.
const (
	// NoticeDetach: the client is to leave.
	NoticeDetach = "detach"
)

// Conn sends and receives envelopes. Send may be called from several
// goroutines, Receive from one at a time.
type Conn struct {
	r *bufio.Reader

	mu  sync.Mutex // guards w
	w   io.Writer
	out bytes.Buffer
}

// NewConn wraps a connection; closing it stays the caller's business.
func NewConn(rw io.ReadWriter) *Conn {
	return &Conn{r: bufio.NewReader(rw), w: rw}
}

// Greet sends the own hello, waits for the peer's and returns it. It returns
// an error that wraps session.ErrVersion when no version fits, and ErrProtocol
// when the other side is something else.
func (c *Conn) Greet(own Hello) (Hello, error) {
	own.Min, own.Max = MinVersion, MaxVersion
	if err := c.send(preamble, TypeHello, own); err != nil {
		return Hello{}, err
	}
	if err := c.skipNoise(); err != nil {
		return Hello{}, err
	}
	t, payload, err := c.Receive()
	if err != nil {
		return Hello{}, err
	}
	var peer Hello
	if t != TypeHello {
		return peer, fmt.Errorf("%w: type %d in place of a hello", ErrProtocol, t)
	}
	if err := Decode(payload, &peer); err != nil {
		return peer, err
	}
	if peer.Max < MinVersion || peer.Min > MaxVersion {
		return peer, fmt.Errorf("%w: the other side (%s) speaks protocol %d to %d, this one (%s) %d to %d",
			session.ErrVersion, peer.Version, peer.Min, peer.Max, own.Version, MinVersion, MaxVersion)
	}
	return peer, nil
}

// skipNoise reads up to and including the preamble.
func (c *Conn) skipNoise() error {
	matched := 0
	for n := 0; n < maxNoise; n++ {
		b, err := c.r.ReadByte()
		if err != nil {
			return fmt.Errorf("wait for the other side's hello: %w", err)
		}
		if b != preamble[matched] {
			matched = 0
		}
		if b == preamble[matched] {
			matched++
		}
		if matched == len(preamble) {
			return nil
		}
	}
	return fmt.Errorf("%w: the other side is no agentmux", ErrProtocol)
}

// Send writes one envelope with v as its payload.
func (c *Conn) Send(t Type, v any) error { return c.send(nil, t, v) }

func (c *Conn) send(before []byte, t Type, v any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Reset()
	c.out.Write(before)
	c.out.Write([]byte{0, 0, 0, 0, byte(t)})
	if err := msgpack.NewEncoder(&c.out).Encode(v); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	data := c.out.Bytes()
	size := len(data) - len(before) - 5
	if size > MaxPayload {
		return fmt.Errorf("%w: a message of %d bytes, at most %d are allowed", ErrProtocol, size, MaxPayload)
	}
	binary.LittleEndian.PutUint32(data[len(before):], uint32(size))
	_, err := c.w.Write(data)
	if c.out.Cap() > 1<<20 {
		c.out = bytes.Buffer{}
	}
	return err
}

// Receive returns the next envelope. At a clean end it returns io.EOF.
func (c *Conn) Receive() (Type, []byte, error) {
	var header [5]byte
	if _, err := io.ReadFull(c.r, header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(header[:])
	if n > MaxPayload {
		return 0, nil, fmt.Errorf("%w: a message of %d bytes, at most %d are allowed", ErrProtocol, n, MaxPayload)
	}
	var payload bytes.Buffer // grows with what arrives, not with what is claimed
	if _, err := io.CopyN(&payload, c.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return Type(header[4]), payload.Bytes(), nil
}

// Encode returns v as msgpack, for the raw fields of Request and Response.
func Encode(v any) (msgpack.RawMessage, error) {
	data, err := msgpack.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return data, nil
}

// Decode reads msgpack into v; fields that v does not have are ignored. No
// data at all leaves v as it is.
func Decode(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	if err := msgpack.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil
}

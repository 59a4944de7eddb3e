package shimapi

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ProtocolVersion is the version of the shim protocol spoken here. The plan is
// that it stays 1.
const ProtocolVersion = 1

// MaxInput is the most bytes that one Input frame may carry.
const MaxInput = 1 << 20

// maxPayload is checked before anything is allocated.
const maxPayload = MaxInput + 64

// Type is the type of a frame. The numbers are on the wire of every shim ever
// released: never change one, never use one again.
type Type uint8

// Frame types.
const (
	TypeHello   Type = 1
	TypeInput   Type = 2
	TypeResize  Type = 3
	TypeSignal  Type = 4
	TypeStat    Type = 5
	TypeWelcome Type = 129
	TypeAck     Type = 130
	TypeExit    Type = 131
)

// Role says what a connection is for.
type Role uint8

// Roles.
const (
	// RoleControl asks and signals; it may type as well.
	RoleControl Role = 0
	// RoleWriter is an attached client.
	RoleWriter Role = 1
	// RoleReadOnly may only ask: its Input, Resize and Signal are refused.
	RoleReadOnly Role = 2
	// RoleServer is the server of the state tree.
	RoleServer Role = 3
)

// Kind says where input comes from.
type Kind uint8

// Kinds of input.
const (
	KindKey   Kind = 1
	KindPaste Kind = 2
	KindSend  Kind = 3
	KindReply Kind = 4
)

// FlagMore marks an Input frame that is not the last of its group.
const FlagMore = 1

// Status is the shim's answer to Input and Signal.
type Status uint8

// Statuses. Accepted means: taken into the queue (Input), done (Signal).
const (
	StatusAccepted  Status = 0
	StatusDuplicate Status = 1 // taken already, not typed again
	StatusBusy      Status = 2 // the queue is full: try again, nothing was taken
	StatusUncertain Status = 3 // not known whether what came before was taken
	StatusReadOnly  Status = 4
	StatusTooLarge  Status = 5 // the group is over MaxGroup and was dropped
	StatusEnded     Status = 6 // the agent has ended
	StatusLeftover  Status = 7 // a tree was ended but for what exit.json lists
	StatusBad       Status = 8 // the frame makes no sense
)

// MaxGroup is the most bytes of one group of Input frames.
const MaxGroup = 16 << 20

// Operation is what a Signal asks for.
type Operation uint8

// Operations.
const (
	// OpSignal sends one signal to the target.
	OpSignal Operation = 1
	// OpEnd ends the agent and every process it left: HUP and CONT, after the
	// grace TERM, after the grace again KILL.
	OpEnd Operation = 2
	// OpRearm makes a shim that had given up waiting for the server's lock
	// (the server was stopped on purpose) wait for it again.
	OpRearm Operation = 3
)

// Target is whom an OpSignal goes to.
type Target uint8

// Targets.
const (
	TargetForeground Target = 1 // the PTY's foreground process group
	TargetAgent      Target = 2 // the agent's own process group
	TargetTree       Target = 3 // the agent and all its descendants
)

var magic = [4]byte{'A', 'M', 'X', 'S'}

// ErrProtocol wraps every complaint about bytes that are no valid frame.
var ErrProtocol = errors.New("shim protocol error")

// Writer identifies the origin of input; 128 random bits.
type Writer [16]byte

// Hello opens a connection.
type Hello struct {
	Min, Max uint16
	Role     Role
	Run      uint32
	Session  [16]byte
}

// Input is bytes to be typed at the agent.
type Input struct {
	Writer   Writer
	Sequence uint64
	Kind     Kind
	Flags    uint8
	Data     []byte // aliases the reader's memory until its next frame
}

// Resize is a new size of the terminal, in cells and pixels (0: not known).
type Resize struct {
	Cols, Rows, XPixel, YPixel uint16
	Client                     uint32
}

// Signal asks for a signal or for the end.
type Signal struct {
	ID        uint32
	Operation Operation
	Target    Target
	Signal    uint16
	Grace     uint32 // milliseconds
}

// Welcome flags.
const (
	// WelcomeStalled: the log cannot be written at the moment.
	WelcomeStalled = 1
	// WelcomeExited: the agent has ended.
	WelcomeExited = 2
)

// Welcome is the state of a run.
type Welcome struct {
	Version    uint16
	Flags      uint8
	StallCause uint8 // a cause of package logstore's GAP frame
	Run        uint32
	ShimPID    uint32
	AgentPID   uint32
	LogEnd     uint64 // position
	LostBytes  uint64 // output bytes that are missing from the log
	Queued     uint32 // bytes of input not yet taken by the program
	Cols, Rows uint16
	Output     uint64 // bytes read from the PTY so far
}

// Ack answers Input and Signal.
type Ack struct {
	Writer   Writer
	Sequence uint64
	Status   Status
}

// Exit kinds, as in the log's EXIT frame.
const (
	ExitCode   = 0
	ExitSignal = 1
	ExitFailed = 2 // the status could not be learnt
)

// Exit tells how the agent ended.
type Exit struct {
	Kind uint8
	Core uint8
	Code uint16
	Wall int64 // ns since 1970
}

// frameHeader is the bytes before a payload.
const frameHeader = 5

// AppendFrame appends a frame to b.
func AppendFrame(b []byte, t Type, payload []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, byte(t))
	return append(b, payload...)
}

// Append appends h as a frame to b. So do the methods of the other messages.
func (h Hello) Append(b []byte) []byte {
	p := append(make([]byte, 0, 30), magic[:]...)
	p = binary.LittleEndian.AppendUint16(p, h.Min)
	p = binary.LittleEndian.AppendUint16(p, h.Max)
	p = append(p, byte(h.Role), 0)
	p = binary.LittleEndian.AppendUint32(p, h.Run)
	p = append(p, h.Session[:]...)
	return AppendFrame(b, TypeHello, p)
}

// Append appends in as a frame to b.
func (in Input) Append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(inputHeader+len(in.Data)))
	b = append(b, byte(TypeInput))
	b = append(b, in.Writer[:]...)
	b = binary.LittleEndian.AppendUint64(b, in.Sequence)
	b = append(b, byte(in.Kind), in.Flags)
	return append(b, in.Data...)
}

// Append appends r as a frame to b.
func (r Resize) Append(b []byte) []byte {
	p := make([]byte, 0, 12)
	for _, v := range []uint16{r.Cols, r.Rows, r.XPixel, r.YPixel} {
		p = binary.LittleEndian.AppendUint16(p, v)
	}
	p = binary.LittleEndian.AppendUint32(p, r.Client)
	return AppendFrame(b, TypeResize, p)
}

// Append appends s as a frame to b.
func (s Signal) Append(b []byte) []byte {
	p := binary.LittleEndian.AppendUint32(make([]byte, 0, 12), s.ID)
	p = append(p, byte(s.Operation), byte(s.Target))
	p = binary.LittleEndian.AppendUint16(p, s.Signal)
	p = binary.LittleEndian.AppendUint32(p, s.Grace)
	return AppendFrame(b, TypeSignal, p)
}

// Append appends w as a frame to b.
func (w Welcome) Append(b []byte) []byte {
	p := append(make([]byte, 0, welcomeSize), magic[:]...)
	p = binary.LittleEndian.AppendUint16(p, w.Version)
	p = append(p, w.Flags, w.StallCause)
	p = binary.LittleEndian.AppendUint32(p, w.Run)
	p = binary.LittleEndian.AppendUint32(p, w.ShimPID)
	p = binary.LittleEndian.AppendUint32(p, w.AgentPID)
	p = binary.LittleEndian.AppendUint64(p, w.LogEnd)
	p = binary.LittleEndian.AppendUint64(p, w.LostBytes)
	p = binary.LittleEndian.AppendUint32(p, w.Queued)
	p = binary.LittleEndian.AppendUint16(p, w.Cols)
	p = binary.LittleEndian.AppendUint16(p, w.Rows)
	p = binary.LittleEndian.AppendUint64(p, w.Output)
	return AppendFrame(b, TypeWelcome, p)
}

// Append appends a as a frame to b.
func (a Ack) Append(b []byte) []byte {
	p := append(make([]byte, 0, ackSize), a.Writer[:]...)
	p = binary.LittleEndian.AppendUint64(p, a.Sequence)
	p = append(p, byte(a.Status))
	return AppendFrame(b, TypeAck, p)
}

// Append appends e as a frame to b.
func (e Exit) Append(b []byte) []byte {
	p := append(make([]byte, 0, exitSize), e.Kind, e.Core)
	p = binary.LittleEndian.AppendUint16(p, e.Code)
	p = binary.LittleEndian.AppendUint64(p, uint64(e.Wall))
	return AppendFrame(b, TypeExit, p)
}

// Sizes of the payloads as they were when frozen.
const (
	helloSize   = 30
	inputHeader = 26
	resizeSize  = 12
	signalSize  = 12
	welcomeSize = 52
	ackSize     = 25
	exitSize    = 12
)

// ParseHello decodes the payload of a Hello frame. It and the other parsers
// return an error that wraps ErrProtocol for a payload that is too short.
func ParseHello(p []byte) (Hello, error) {
	if err := checkSize("hello", p, helloSize); err != nil {
		return Hello{}, err
	}
	if [4]byte(p) != magic {
		return Hello{}, fmt.Errorf("%w: the peer is no agentmux", ErrProtocol)
	}
	le := binary.LittleEndian
	return Hello{
		Min: le.Uint16(p[4:]), Max: le.Uint16(p[6:]),
		Role: Role(p[8]), Run: le.Uint32(p[10:]), Session: [16]byte(p[14:]),
	}, nil
}

// ParseInput decodes the payload of an Input frame; Data aliases p.
func ParseInput(p []byte) (Input, error) {
	if err := checkSize("input", p, inputHeader); err != nil {
		return Input{}, err
	}
	return Input{
		Writer: Writer(p), Sequence: binary.LittleEndian.Uint64(p[16:]),
		Kind: Kind(p[24]), Flags: p[25], Data: p[26:],
	}, nil
}

// ParseResize decodes the payload of a Resize frame.
func ParseResize(p []byte) (Resize, error) {
	if err := checkSize("resize", p, resizeSize); err != nil {
		return Resize{}, err
	}
	le := binary.LittleEndian
	return Resize{
		Cols: le.Uint16(p), Rows: le.Uint16(p[2:]),
		XPixel: le.Uint16(p[4:]), YPixel: le.Uint16(p[6:]), Client: le.Uint32(p[8:]),
	}, nil
}

// ParseSignal decodes the payload of a Signal frame.
func ParseSignal(p []byte) (Signal, error) {
	if err := checkSize("signal", p, signalSize); err != nil {
		return Signal{}, err
	}
	le := binary.LittleEndian
	return Signal{
		ID: le.Uint32(p), Operation: Operation(p[4]), Target: Target(p[5]),
		Signal: le.Uint16(p[6:]), Grace: le.Uint32(p[8:]),
	}, nil
}

// ParseWelcome decodes the payload of a Welcome frame.
func ParseWelcome(p []byte) (Welcome, error) {
	if err := checkSize("welcome", p, welcomeSize); err != nil {
		return Welcome{}, err
	}
	if [4]byte(p) != magic {
		return Welcome{}, fmt.Errorf("%w: the peer is no shim", ErrProtocol)
	}
	le := binary.LittleEndian
	return Welcome{
		Version: le.Uint16(p[4:]), Flags: p[6], StallCause: p[7],
		Run: le.Uint32(p[8:]), ShimPID: le.Uint32(p[12:]), AgentPID: le.Uint32(p[16:]),
		LogEnd: le.Uint64(p[20:]), LostBytes: le.Uint64(p[28:]), Queued: le.Uint32(p[36:]),
		Cols: le.Uint16(p[40:]), Rows: le.Uint16(p[42:]), Output: le.Uint64(p[44:]),
	}, nil
}

// ParseAck decodes the payload of an Ack frame.
func ParseAck(p []byte) (Ack, error) {
	if err := checkSize("ack", p, ackSize); err != nil {
		return Ack{}, err
	}
	return Ack{Writer: Writer(p), Sequence: binary.LittleEndian.Uint64(p[16:]), Status: Status(p[24])}, nil
}

// ParseExit decodes the payload of an Exit frame.
func ParseExit(p []byte) (Exit, error) {
	if err := checkSize("exit", p, exitSize); err != nil {
		return Exit{}, err
	}
	le := binary.LittleEndian
	return Exit{Kind: p[0], Core: p[1], Code: le.Uint16(p[2:]), Wall: int64(le.Uint64(p[4:]))}, nil
}

func checkSize(what string, p []byte, least int) error {
	if len(p) < least {
		return fmt.Errorf("%w: %s of %d bytes, at least %d are needed", ErrProtocol, what, len(p), least)
	}
	return nil
}

// FrameReader reads frames from a connection. It is used by one goroutine.
type FrameReader struct {
	r      io.Reader
	header [frameHeader]byte
	buf    []byte
}

// NewFrameReader returns a reader of the frames in r.
func NewFrameReader(r io.Reader) *FrameReader {
	return &FrameReader{r: bufio.NewReaderSize(r, 4<<10)}
}

// Next returns the next frame. The payload is valid until the next call. At a
// clean end it returns io.EOF, within a frame io.ErrUnexpectedEOF, and for a
// frame over the limit an error that wraps ErrProtocol.
func (f *FrameReader) Next() (Type, []byte, error) {
	if _, err := io.ReadFull(f.r, f.header[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(f.header[:])
	if n > maxPayload {
		return 0, nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are allowed", ErrProtocol, n, maxPayload)
	}
	if err := f.fill(int(n)); err != nil {
		return 0, nil, err
	}
	return Type(f.header[4]), f.buf[:n], nil
}

// fill reads n bytes into the buffer. It grows the buffer no faster than bytes
// arrive, so that a length alone costs a hostile peer's victim nothing.
func (f *FrameReader) fill(n int) error {
	const step = 64 << 10
	for have := 0; have < n; {
		want := min(n, have+step)
		if want > len(f.buf) {
			f.buf = append(f.buf[:have], make([]byte, max(want-have, min(n-have, 512)))...)
		}
		if _, err := io.ReadFull(f.r, f.buf[have:want]); err != nil {
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		have = want
	}
	if cap(f.buf) > 4*step && n < step {
		f.buf = f.buf[:n:n] // let go of a paste's buffer at the next growth
	}
	return nil
}

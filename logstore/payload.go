package logstore

import (
	"encoding/binary"
	"fmt"
)

// Size is the payload of SIZE: the terminal's size from here on.
type Size struct {
	Cols, Rows, XPixel, YPixel uint16
	Client                     uint32 // who asked for it; 0: agentmux itself
}

const (
	sizeBytes    = 12
	exitBytes    = 12 // and the resource usage behind it
	gapBytes     = 40
	endBytes     = 9
	clockBytes   = 40
	durableBytes = 8
)

// EncodeSize makes the payload of a SIZE frame.
func EncodeSize(s Size) []byte {
	le := binary.LittleEndian
	p := le.AppendUint16(make([]byte, 0, sizeBytes), s.Cols)
	p = le.AppendUint16(p, s.Rows)
	p = le.AppendUint16(p, s.XPixel)
	p = le.AppendUint16(p, s.YPixel)
	return le.AppendUint32(p, s.Client)
}

// DecodeSize reads the payload of a SIZE frame. Bytes behind the known ones are ignored, here and below.
func DecodeSize(p []byte) (Size, error) {
	if len(p) < sizeBytes {
		return Size{}, shortPayload(TypeSize, p)
	}
	le := binary.LittleEndian
	return Size{Cols: le.Uint16(p), Rows: le.Uint16(p[2:]), XPixel: le.Uint16(p[4:]), YPixel: le.Uint16(p[6:]), Client: le.Uint32(p[8:])}, nil
}

// ExitKind says what Exit.Code is.
type ExitKind uint8

// Kinds of exit.
const (
	ExitCode    ExitKind = 0 // Code is the exit code
	ExitSignal  ExitKind = 1 // Code is the signal number
	ExitUnknown ExitKind = 2 // nobody could find out
)

// Exit is the payload of EXIT: how the run ended.
type Exit struct {
	Kind   ExitKind
	Core   bool // a core was dumped
	Code   uint16
	Wall   int64  // nanoseconds since 1970
	Rusage []byte // JSON, may be empty
}

// EncodeExit makes the payload of an EXIT frame.
func EncodeExit(e Exit) []byte {
	p := make([]byte, 0, exitBytes+len(e.Rusage))
	p = append(p, byte(e.Kind), boolByte(e.Core))
	p = binary.LittleEndian.AppendUint16(p, e.Code)
	p = binary.LittleEndian.AppendUint64(p, uint64(e.Wall))
	return append(p, e.Rusage...)
}

// DecodeExit reads the payload of an EXIT frame; Rusage aliases p.
func DecodeExit(p []byte) (Exit, error) {
	if len(p) < exitBytes {
		return Exit{}, shortPayload(TypeExit, p)
	}
	le := binary.LittleEndian
	return Exit{Kind: ExitKind(p[0]), Core: p[1] != 0, Code: le.Uint16(p[2:]), Wall: int64(le.Uint64(p[4:])), Rusage: p[exitBytes:]}, nil
}

// Gap is the payload of GAP: output that was read but could not be written.
// Zero bytes mean that nothing is known to be missing although the disk failed
// (a sync that returned an error).
type Gap struct {
	Cause       Cause
	Errno       uint32 // of the machine that wrote it
	Bytes       uint64
	Reads       uint64
	First, Last int64 // session time of the first and last lost byte, microseconds
}

// EncodeGap makes the payload of a GAP frame.
func EncodeGap(g Gap) []byte { return appendGap(make([]byte, 0, gapBytes), g) }

func appendGap(p []byte, g Gap) []byte {
	le := binary.LittleEndian
	p = append(p, byte(g.Cause), 0, 0, 0)
	p = le.AppendUint32(p, g.Errno)
	p = le.AppendUint64(p, g.Bytes)
	p = le.AppendUint64(p, g.Reads)
	p = le.AppendUint64(p, uint64(g.First))
	return le.AppendUint64(p, uint64(g.Last))
}

// DecodeGap reads the payload of a GAP frame.
func DecodeGap(p []byte) (Gap, error) {
	if len(p) < gapBytes {
		return Gap{}, shortPayload(TypeGap, p)
	}
	le := binary.LittleEndian
	return Gap{Cause: Cause(p[0]), Errno: le.Uint32(p[4:]), Bytes: le.Uint64(p[8:]), Reads: le.Uint64(p[16:]),
		First: int64(le.Uint64(p[24:])), Last: int64(le.Uint64(p[32:]))}, nil
}

// add merges a later loss into g. The first cause stays.
func (g *Gap) add(o Gap) {
	if o == (Gap{}) {
		return
	}
	if *g == (Gap{}) {
		*g = o
		return
	}
	if g.Bytes == 0 {
		g.First = o.First
	}
	if o.Bytes > 0 {
		g.Last = o.Last
	}
	g.Bytes += o.Bytes
	g.Reads += o.Reads
}

// EndReason says why a segment ended.
type EndReason uint8

// Reasons of END.
const (
	EndSize  EndReason = 1 // it was full; the next one follows at once
	EndAge   EndReason = 2 // it was a day old; the next one follows at once
	EndExit  EndReason = 3 // the run is over
	EndAsked EndReason = 4 // the writer was closed, without an exit
)

// rolled tells that the same writer went on to another segment.
func (r EndReason) rolled() bool { return r == EndSize || r == EndAge }

// End is the payload of END, the last frame of a segment.
type End struct {
	Next   Position // base of the next segment, whoever writes it
	Reason EndReason
}

// EncodeEnd makes the payload of an END frame.
func EncodeEnd(e End) []byte {
	return append(binary.LittleEndian.AppendUint64(make([]byte, 0, endBytes), uint64(e.Next)), byte(e.Reason))
}

// DecodeEnd reads the payload of an END frame.
func DecodeEnd(p []byte) (End, error) {
	if len(p) < endBytes {
		return End{}, shortPayload(TypeEnd, p)
	}
	return End{Next: Position(binary.LittleEndian.Uint64(p)), Reason: EndReason(p[8])}, nil
}

// Clock is one reading of the machine's clocks and the payload of CLOCK. It
// belongs to the session time of its frame.
type Clock struct {
	Wall   int64    // nanoseconds since 1970
	Boot   uint64   // microseconds since boot, suspend included
	Mono   uint64   // microseconds since boot, suspend excluded
	BootID [16]byte // names the boot; zero: unknown
}

// EncodeClock makes the payload of a CLOCK frame.
func EncodeClock(c Clock) []byte { return appendClock(make([]byte, 0, clockBytes), c) }

func appendClock(p []byte, c Clock) []byte {
	le := binary.LittleEndian
	p = le.AppendUint64(p, uint64(c.Wall))
	p = le.AppendUint64(p, c.Boot)
	p = le.AppendUint64(p, c.Mono)
	return append(p, c.BootID[:]...)
}

// DecodeClock reads the payload of a CLOCK frame.
func DecodeClock(p []byte) (Clock, error) {
	if len(p) < clockBytes {
		return Clock{}, shortPayload(TypeClock, p)
	}
	le := binary.LittleEndian
	c := Clock{Wall: int64(le.Uint64(p)), Boot: le.Uint64(p[8:]), Mono: le.Uint64(p[16:])}
	copy(c.BootID[:], p[24:])
	return c, nil
}

// DecodeDurable reads the payload of a DURABLE frame.
func DecodeDurable(p []byte) (Position, error) {
	if len(p) < durableBytes {
		return 0, shortPayload(TypeDurable, p)
	}
	return Position(binary.LittleEndian.Uint64(p)), nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func shortPayload(t Type, p []byte) error {
	return fmt.Errorf("payload of %v: %d bytes are too few", t, len(p))
}

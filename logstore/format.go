package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// Numbers of the format. They are on disk for ever: never change or reuse one.
const (
	Major = 1 // readers refuse a greater one
	Minor = 0 // readers ignore what they don't know

	HeaderSize      = 64      // bytes of a segment header
	FrameHeaderSize = 20      // bytes before each payload
	MaxPayload      = 1 << 20 // bytes of one payload
	MaxTime         = 1<<48 - 1

	frameMarker = 0xFB // byte 8 of every frame; occurs in no UTF-8 text

	// SegmentSuffix ends the name of a raw segment: 16 hex digits of its base position and this.
	SegmentSuffix = ".seg"
	// SealedSuffix ends the name of a sealed segment (made by logstore/seal).
	SealedSuffix = ".sgz"

	tempSuffix = ".tmp" // a segment before it is published by rename
)

// magic are the first bytes of every segment. It follows PNG: not text, and a
// transfer that touches line ends or the eighth bit breaks it.
const magic = "\x89AML\r\n\x1a\n"

// Flags of a segment header.
const (
	HeaderFirstOfRun uint16 = 1 // the first segment of a run
	HeaderUnclean    uint16 = 2 // the segment before has no proper end
)

// FlagOwn marks a frame that agentmux made up, as opposed to what a program did.
const FlagOwn uint8 = 1

// Position counts bytes of the raw segments from the session's first, headers
// included. It never goes back and stays valid when segments are sealed or removed.
type Position uint64

// Type is the kind of a frame. 1..127 are critical (a reader that doesn't know
// one must stop), 128..255 may be skipped. 0 is never valid.
type Type uint8

// Frame types.
const (
	TypeOut     Type = 1   // bytes the program printed
	TypeIn      Type = 2   // input: u32 client, u32 length, the bytes only if recording is on
	TypeSize    Type = 3   // Size
	TypeMeta    Type = 4   // JSON about the run, its first frame but CLOCK
	TypeExit    Type = 5   // Exit
	TypeGap     Type = 6   // Gap
	TypeEnd     Type = 7   // End, the last frame of a segment
	TypeClock   Type = 128 // Clock, the first frame of every segment
	TypeMark    Type = 129 // JSON note; reserved
	TypeDurable Type = 130 // u64: the position below which everything was synced
	TypeKey     Type = 131 // reserved: keyframe
)

var typeNames = map[Type]string{
	TypeOut: "OUT", TypeIn: "IN", TypeSize: "SIZE", TypeMeta: "META", TypeExit: "EXIT", TypeGap: "GAP",
	TypeEnd: "END", TypeClock: "CLOCK", TypeMark: "MARK", TypeDurable: "DURABLE", TypeKey: "KEY",
}

func (t Type) String() string {
	if s, ok := typeNames[t]; ok {
		return s
	}
	return "type " + strconv.Itoa(int(t))
}

// Critical tells whether a reader that doesn't know t must stop.
func (t Type) Critical() bool { return t < 128 }

func (t Type) known() bool {
	return t-1 < TypeEnd || t-TypeClock <= TypeKey-TypeClock
}

// Frame is one record of the log.
type Frame struct {
	Pos, Next Position // of this frame, and behind it
	Type      Type
	Flags     uint8
	Time      int64  // session time in microseconds, never decreasing
	Run       uint16 // of the segment
	Payload   []byte // aliases the reader's memory: valid until its next call
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Header is the start of a segment.
type Header struct {
	Major, Minor uint16
	Flags        uint16
	Run          uint16
	Session      [16]byte
	Base         Position
	Wall         int64 // of creation, nanoseconds since 1970
	Time         int64 // session time of creation, microseconds
	Salt         uint32
}

// AppendTo appends the 64 bytes of h, its checksum computed, to dst.
func (h *Header) AppendTo(dst []byte) []byte {
	n := len(dst)
	le := binary.LittleEndian
	dst = append(dst, magic...)
	dst = le.AppendUint16(dst, h.Major)
	dst = le.AppendUint16(dst, h.Minor)
	dst = le.AppendUint16(dst, h.Flags)
	dst = le.AppendUint16(dst, h.Run)
	dst = append(dst, h.Session[:]...)
	dst = le.AppendUint64(dst, uint64(h.Base))
	dst = le.AppendUint64(dst, uint64(h.Wall))
	dst = le.AppendUint64(dst, uint64(h.Time))
	dst = le.AppendUint32(dst, h.Salt)
	return le.AppendUint32(dst, crc32.Checksum(dst[n:], castagnoli))
}

var (
	errHeaderShort  = errors.New("segment header cut short")
	errHeaderDamage = errors.New("segment header damaged")
)

// ParseHeader reads a segment header. The magic number is judged first
// (ErrNotOurs), then the checksum, which is in the same place in every major
// version, then the version (*VersionError).
func ParseHeader(p []byte) (Header, error) {
	k := min(len(p), len(magic))
	if !bytes.Equal(p[:k], []byte(magic[:k])) {
		return Header{}, ErrNotOurs
	}
	if len(p) < HeaderSize {
		return Header{}, errHeaderShort
	}
	le := binary.LittleEndian
	if crc32.Checksum(p[:60], castagnoli) != le.Uint32(p[60:]) {
		return Header{}, errHeaderDamage
	}
	h := Header{
		Major: le.Uint16(p[8:]), Minor: le.Uint16(p[10:]), Flags: le.Uint16(p[12:]), Run: le.Uint16(p[14:]),
		Base: Position(le.Uint64(p[32:])), Wall: int64(le.Uint64(p[40:])), Time: int64(le.Uint64(p[48:])), Salt: le.Uint32(p[56:]),
	}
	copy(h.Session[:], p[16:32])
	if h.Major != Major {
		return h, &VersionError{Major: h.Major}
	}
	return h, nil
}

// putFrameHeader fills all of a frame's header but position and checksum.
func putFrameHeader(p []byte, t Type, flags uint8, at int64, payload int) {
	le := binary.LittleEndian
	le.PutUint32(p[4:], uint32(payload)|uint32(t)<<24)
	p[8] = frameMarker
	p[9] = flags
	putFrameTime(p, at)
}

func putFrameTime(p []byte, at int64) {
	binary.LittleEndian.PutUint32(p[10:], uint32(at))
	binary.LittleEndian.PutUint16(p[14:], uint16(at>>32))
}

func frameTime(p []byte) int64 {
	return int64(binary.LittleEndian.Uint32(p[10:])) | int64(binary.LittleEndian.Uint16(p[14:]))<<32
}

func frameType(p []byte) Type { return Type(p[7]) }

// frameLength is the length of the frame that starts p, header included.
func frameLength(p []byte) int {
	return FrameHeaderSize + int(binary.LittleEndian.Uint32(p[4:])&0xFFFFFF)
}

// finishFrame fills position and checksum of the whole frame p.
func finishFrame(p []byte, pos Position, salt uint32) {
	binary.LittleEndian.PutUint32(p[16:], uint32(pos))
	binary.LittleEndian.PutUint32(p, crc32.Update(salt, castagnoli, p[4:]))
}

type verdict uint8

const (
	framePartial verdict = iota // what is there may become a frame
	frameGood
	frameBad
)

// checkFrame judges the frame at the start of p, which ends where the file (or
// the buffer) does. The order of the checks is part of the format.
func checkFrame(p []byte, pos Position, salt uint32) (n int, v verdict) {
	if len(p) < FrameHeaderSize {
		return 0, checkStub(p)
	}
	le := binary.LittleEndian
	n = frameLength(p)
	if n > FrameHeaderSize+MaxPayload || p[7] == 0 || p[8] != frameMarker || le.Uint32(p[16:]) != uint32(pos) {
		return n, frameBad
	}
	if n > len(p) {
		return n, framePartial
	}
	if crc32.Update(salt, castagnoli, p[4:n]) != le.Uint32(p) {
		return n, frameBad
	}
	return n, frameGood
}

// checkStub judges less than a frame header.
func checkStub(p []byte) verdict {
	if len(p) > 7 && p[7] == 0 || len(p) > 8 && p[8] != frameMarker {
		return frameBad
	}
	return framePartial
}

// findFrame looks for a good frame in p at offset from or later; p starts at
// position pos. It returns the offset of a good frame, or of one that may be
// completed by more bytes, or (frameBad) the offset below which there is none.
func findFrame(p []byte, from int, pos Position, salt uint32) (int, verdict) {
	for i := from; i+FrameHeaderSize <= len(p); i++ {
		k := bytes.IndexByte(p[i+8:], frameMarker)
		if k < 0 || i+k+FrameHeaderSize > len(p) {
			break
		}
		i += k
		if _, v := checkFrame(p[i:], pos+Position(i), salt); v != frameBad {
			return i, v
		}
	}
	return max(from, len(p)-FrameHeaderSize+1), frameBad
}

// SegmentName is the file name of the raw segment at base.
func SegmentName(base Position) string { return baseName(base) + SegmentSuffix }

func baseName(base Position) string { return fmt.Sprintf("%016x", uint64(base)) }

// parseName reads the base position of a file name with the given suffix.
func parseName(name, suffix string) (Position, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != 16 || strings.ToLower(digits) != digits {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 16, 64)
	return Position(n), err == nil
}

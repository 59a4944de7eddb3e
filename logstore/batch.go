package logstore

import (
	"encoding/binary"
	"fmt"
)

// prefixRoom is kept free before a batch for the frames that the writer puts
// in front of it (CLOCK, DURABLE, GAP), so that all leaves in one write(2).
const prefixRoom = 3*FrameHeaderSize + clockBytes + durableBytes + gapBytes

const outFrameBytes = 64 << 10 // an OUT frame made by the appender is at most this long

// Batch is a number of frames that are written together or not at all. The
// zero value is empty and ready. Not safe for concurrent use.
type Batch struct {
	buf    []byte // prefixRoom bytes, then frames without position and checksum
	last   int    // offset of the last frame in buf
	frames int
	gap    Gap // of what was lost before the first frame

	outBytes, outReads uint64 // in the OUT frames here
	urgent             bool   // holds a frame that is synced at once
	seq                uint64 // the appender's count at the last addition
}

// Add appends a frame. at is its session time in microseconds, 0: that of the
// write. OUT longer than MaxPayload is split; anything else that long is
// refused with ErrTooLarge.
func (b *Batch) Add(t Type, flags uint8, at int64, payload []byte) error {
	if t == TypeOut {
		b.outReads++
		for len(payload) > MaxPayload {
			b.add(t, flags, at, payload[:MaxPayload])
			payload = payload[MaxPayload:]
		}
	}
	if len(payload) > MaxPayload {
		return fmt.Errorf("add %v of %d bytes: %w", t, len(payload), ErrTooLarge)
	}
	b.add(t, flags, at, payload)
	return nil
}

func (b *Batch) add(t Type, flags uint8, at int64, payload []byte) {
	if len(b.buf) == 0 {
		var room [prefixRoom + FrameHeaderSize]byte
		b.buf = append(b.buf, room[:prefixRoom]...)
	}
	var header [FrameHeaderSize]byte
	putFrameHeader(header[:], t, flags, at, len(payload))
	b.last = len(b.buf)
	b.buf = append(b.buf, header[:]...)
	b.buf = append(b.buf, payload...)
	b.frames++
	switch t {
	case TypeOut:
		b.outBytes += uint64(len(payload))
	case TypeMeta, TypeExit, TypeGap, TypeEnd:
		b.urgent = true
	}
}

// extend puts p behind the last frame if that is OUT and stays within bounds.
func (b *Batch) extend(p []byte) bool {
	if b.frames == 0 || frameType(b.buf[b.last:]) != TypeOut {
		return false
	}
	n := len(b.buf) - b.last - FrameHeaderSize + len(p)
	if n > outFrameBytes {
		return false
	}
	b.buf = append(b.buf, p...)
	binary.LittleEndian.PutUint32(b.buf[b.last+4:], uint32(n)|uint32(TypeOut)<<24)
	b.outBytes += uint64(len(p))
	b.outReads++
	return true
}

// dropOut removes all OUT frames and returns what that loses.
func (b *Batch) dropOut() Gap {
	lost := Gap{Bytes: b.outBytes, Reads: b.outReads}
	if lost.Bytes == 0 {
		return Gap{}
	}
	keep := b.buf[:prefixRoom]
	b.frames, b.outBytes, b.outReads = 0, 0, 0
	first := true
	for rest := b.buf[prefixRoom:]; len(rest) > 0; {
		n := frameLength(rest)
		if frameType(rest) == TypeOut {
			lost.Last = frameTime(rest)
			if first {
				lost.First, first = lost.Last, false
			}
		} else {
			b.last = len(keep)
			keep = append(keep, rest[:n]...)
			b.frames++
		}
		rest = rest[n:]
	}
	b.buf = keep
	return lost
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() { *b = Batch{buf: b.buf[:0]} }

// Len is the number of bytes b takes in the log.
func (b *Batch) Len() int { return max(0, len(b.buf)-prefixRoom) }

package logstore

import (
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	smallBuffer = 8 << 10   // of a reader at the live edge
	largeBuffer = 256 << 10 // of one that has much to read
)

// segmentReader reads the frames of one segment. It owns its descriptor.
type segmentReader struct {
	file  *os.File
	head  Header
	pos   Position // of buf[r]
	buf   []byte
	r, e  int // what was read and not yet taken
	large *largeBuffers
	big   *[]byte // buf comes from large

	clock   Clock // of the last CLOCK seen
	clockAt int64
	clocked bool
}

// largeBuffers lends big buffers to readers that are catching up, so that the
// idle ones, which are most, hold little memory.
type largeBuffers struct{ pool sync.Pool }

func (l *largeBuffers) get() *[]byte {
	if b, ok := l.pool.Get().(*[]byte); ok {
		return b
	}
	b := make([]byte, largeBuffer)
	return &b
}

// openSegment opens the segment file at path and reads its header and first CLOCK.
func openSegment(path string, large *largeBuffers) (*segmentReader, error) {
	f, err := openRead(path)
	if err != nil {
		return nil, err
	}
	s := &segmentReader{file: f, large: large}
	if err := s.readHead(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

func (s *segmentReader) readHead() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrNotOurs
	}
	var p [HeaderSize + FrameHeaderSize + 256]byte
	n, err := s.file.ReadAt(p[:], 0)
	if err != nil && err != io.EOF {
		return err
	}
	s.head, err = ParseHeader(p[:min(n, HeaderSize)])
	if err != nil {
		return err
	}
	first := p[HeaderSize:n]
	k, v := checkFrame(first, s.head.Base+HeaderSize, s.head.Salt)
	if v == frameGood && frameType(first) == TypeClock {
		s.noteClock(frameTime(first), first[FrameHeaderSize:k])
	}
	s.seek(s.head.Base + HeaderSize)
	return nil
}

func (s *segmentReader) noteClock(at int64, payload []byte) {
	c, err := DecodeClock(payload)
	if err != nil {
		return
	}
	s.clock, s.clockAt, s.clocked = c, at, true
}

// seek goes to pos, which need not be there yet.
func (s *segmentReader) seek(pos Position) {
	s.pos, s.r, s.e = pos, 0, 0
}

// next takes the frame at pos. Only frameGood moves on.
func (s *segmentReader) next(fr *Frame) verdict {
	p := s.buf[s.r:s.e]
	n, v := checkFrame(p, s.pos, s.head.Salt)
	if v != frameGood {
		return v
	}
	*fr = Frame{Pos: s.pos, Next: s.pos + Position(n), Type: frameType(p), Flags: p[9], Time: frameTime(p),
		Run: s.head.Run, Payload: p[FrameHeaderSize:n:n]}
	s.r += n
	s.pos = fr.Next
	if fr.Type == TypeClock {
		s.noteClock(fr.Time, fr.Payload)
	}
	return frameGood
}

// fill reads on behind what is buffered and returns how much there was.
func (s *segmentReader) fill() (int, error) {
	s.room()
	offset := int64(s.pos-s.head.Base) + int64(s.e-s.r)
	n, err := pread(s.file, s.buf[s.e:], offset)
	if err != nil {
		return 0, fmt.Errorf("read segment %s: %w", SegmentName(s.head.Base), err)
	}
	s.e += n
	return n, nil
}

// room makes free space in the buffer: by moving what is left to its start, or
// by a larger one when it is full (there is much to read, or a long frame).
func (s *segmentReader) room() {
	full := s.e == len(s.buf)
	if s.r > 0 {
		copy(s.buf, s.buf[s.r:s.e])
		s.r, s.e = 0, s.e-s.r
	}
	switch {
	case s.buf == nil:
		s.buf = make([]byte, smallBuffer)
	case !full:
	case len(s.buf) < largeBuffer:
		big := s.large.get()
		s.replace(*big)
		s.big = big
	case s.e == len(s.buf):
		grown := make([]byte, 2*len(s.buf))
		s.replace(grown)
	}
}

// replace puts what is buffered into b and gives a borrowed buffer back.
func (s *segmentReader) replace(b []byte) {
	copy(b, s.buf[s.r:s.e])
	s.r, s.e = 0, s.e-s.r
	if s.big != nil {
		s.large.pool.Put(s.big)
		s.big = nil
	}
	s.buf = b
}

// rest forgets what is buffered and gives a large buffer back: there is
// nothing to read for a while. The payload of the last frame becomes invalid.
func (s *segmentReader) rest() {
	s.r, s.e = 0, 0
	if len(s.buf) > smallBuffer {
		s.replace(make([]byte, smallBuffer))
	}
}

// again reads what is at pos anew, in case the writer has cut and rewritten it.
func (s *segmentReader) again() (verdict, error) {
	s.r, s.e = 0, 0
	if _, err := s.fill(); err != nil {
		return frameBad, err
	}
	return s.judge()
}

// judge tells what is at pos, reading on as far as the frame goes.
func (s *segmentReader) judge() (verdict, error) {
	for {
		_, v := checkFrame(s.buf[s.r:s.e], s.pos, s.head.Salt)
		if v != framePartial {
			return v, nil
		}
		n, err := s.fill()
		if err != nil || n == 0 {
			return framePartial, err
		}
	}
}

// buffered is the number of bytes read and not taken.
func (s *segmentReader) buffered() int { return s.e - s.r }

// resync goes to the first good frame behind pos. Without one it stays, and
// the result is the end of the file and false.
func (s *segmentReader) resync() (Position, bool, error) {
	start, skip := s.pos, 1
	for {
		i, v := findFrame(s.buf[s.r:s.e], skip, s.pos, s.head.Salt)
		if v == frameGood {
			s.skip(i)
			return s.pos, true, nil
		}
		i = min(i, s.buffered())
		skip = max(0, skip-i)
		s.skip(i)
		n, err := s.fill()
		if err != nil {
			return 0, false, err
		}
		if n > 0 {
			continue
		}
		if v == framePartial && s.buffered() > 0 {
			skip = 1 // it will not be completed
			continue
		}
		end := s.pos + Position(s.buffered())
		s.seek(start)
		return end, false, nil
	}
}

func (s *segmentReader) skip(n int) {
	s.r += n
	s.pos += Position(n)
}

func (s *segmentReader) close() error {
	if s.big != nil {
		s.large.pool.Put(s.big)
	}
	s.buf, s.big = nil, nil
	return s.file.Close()
}

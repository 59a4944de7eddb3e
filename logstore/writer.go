package logstore

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	defaultSegmentBytes = 16 << 20
	defaultSyncEvery    = time.Second
	segmentAge          = int64(24 * time.Hour / time.Microsecond)
	clockEvery          = int64(time.Minute / time.Microsecond)
	clockJump           = int64(time.Second / time.Microsecond)

	reserveTail = 64 << 10 // kept for GAP, EXIT and END on a full disk
	reserveStep = 64 << 10 // reserved in one go on top of what is needed
	reserveMost = 1 << 20  // and at most: a quarter of what is there
	lowSpace    = 1 << 20  // where space can't be reserved: OUT leaves this much free
)

// Options of a Writer.
type Options struct {
	Session      [16]byte
	Run          uint16        // number of this run, from 1
	SegmentBytes int64         // a segment is closed before it gets longer; 0: 16 MiB
	SyncEvery    time.Duration // bound on what a power cut may cost; 0: 1 s; < 0: no syncing
	Clock        func() Clock  // safe for concurrent use; nil: the machine's clocks
	files        fileSystem    // tests put faults in here
}

// Writer appends to the log of one session. There must be one per session at a
// time, in all processes (the caller holds the session's lock). Its methods
// belong to one goroutine, but End and Now, which any may call.
type Writer struct {
	dir    string
	opts   Options
	fs     fileSystem
	clock  func() Clock
	offset int64 // session time minus boot time, microseconds
	end    atomic.Uint64
	sync   *syncer

	seg       segment
	nextFlags uint16 // of the next segment
	limit     int64
	tryRoll   int64 // after a roll that failed: not before this length

	lastTime    int64 // of the last frame
	lastClock   Clock
	lastClockAt int64
	durable     Position // as last told by a DURABLE frame
	trouble     Gap      // to be told before the next frame
	closed      bool
}

// segment is the one that is being written.
type segment struct {
	file     segmentFile // nil: none, the next write opens one
	base     Position
	salt     uint32
	length   int64 // of good frames; the file is never longer after a call
	first    int64 // length when it was opened
	opened   int64 // session time
	reserved int64 // disk space is there up to this offset
	plain    bool  // the file system can't reserve
	checked  int64 // plain: free space was last looked at at this length
	wroteOut bool
}

// Create opens the log in dir, which is made if need be, for appending. It
// starts a new segment behind whatever is there and changes no older one. A
// full disk is reported as *StallError.
func Create(dir string, o Options) (*Writer, error) {
	w := newWriter(dir, o)
	if err := w.fs.makeDir(dir); err != nil {
		return nil, fmt.Errorf("make log directory: %w", newStall(err))
	}
	w.removeTemps()
	tail, err := recoverTail(dir, o.Session)
	if err != nil {
		return nil, fmt.Errorf("recover log %s: %w", dir, err)
	}
	now := w.clock()
	w.offset = tail.sessionTime(now) - int64(now.Boot)
	w.lastTime = tail.time
	w.end.Store(uint64(tail.end))
	w.nextFlags = HeaderFirstOfRun
	if tail.unclean {
		w.nextFlags |= HeaderUnclean
	}
	if err := w.open(now); err != nil {
		w.sync.close()
		return nil, fmt.Errorf("start log segment: %w", newStall(err))
	}
	return w, nil
}

func newWriter(dir string, o Options) *Writer {
	w := &Writer{dir: dir, opts: o, fs: o.files, clock: o.Clock}
	if w.fs == nil {
		w.fs = diskFS{}
	}
	if w.clock == nil {
		w.clock = systemClock()
	}
	w.limit = o.SegmentBytes
	if w.limit <= 0 {
		w.limit = defaultSegmentBytes
	}
	every := o.SyncEvery
	if every == 0 {
		every = defaultSyncEvery
	}
	w.sync = newSyncer(w.fs, dir, every)
	return w
}

// removeTemps deletes segments that an earlier writer did not live to publish.
func (w *Writer) removeTemps() {
	entries, _ := os.ReadDir(w.dir) // what can't be listed fails loudly in recoverTail
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), SegmentSuffix+tempSuffix) {
			w.fs.remove(filepath.Join(w.dir, e.Name()))
		}
	}
}

// End is the position behind the last frame.
func (w *Writer) End() Position { return Position(w.end.Load()) }

// Now is the session time in microseconds.
func (w *Writer) Now() int64 { return w.sessionTime(w.clock()) }

func (w *Writer) sessionTime(c Clock) int64 { return max(1, int64(c.Boot)+w.offset) }

// Write appends the frames of b with one write(2). On failure nothing of b is
// in the log and the error is a *StallError (or ErrClosed): the caller may
// write the same batch again later.
func (w *Writer) Write(b *Batch) error {
	if w.closed {
		return ErrClosed
	}
	if b.Len() == 0 {
		return nil
	}
	now := w.clock()
	if err := w.prepare(b, now); err != nil {
		return err
	}
	data, at := w.finish(b, now)
	if err := w.append(data, at, b.urgent); err != nil {
		return err
	}
	w.seg.wroteOut = w.seg.wroteOut || b.outBytes > 0
	return nil
}

// prepare sees to it that there is a segment with room for b.
func (w *Writer) prepare(b *Batch, now Clock) error {
	_, failed, gone := w.sync.state()
	if failed != nil {
		stall := newStall(failed)
		w.trouble.add(Gap{Cause: stall.Cause, Errno: uint32(stall.Errno), First: w.lastTime, Last: w.lastTime})
		w.abandon()
	}
	if gone {
		w.abandon()
	}
	if w.seg.file == nil {
		if err := w.open(now); err != nil {
			return newStall(err)
		}
	}
	need := int64(len(b.buf))
	if w.full(need, now) {
		if err := w.roll(now); err != nil {
			return err
		}
	}
	return w.reserve(need, b.outBytes > 0)
}

func (w *Writer) full(need int64, now Clock) bool {
	s := &w.seg
	if s.length == s.first || s.length < w.tryRoll {
		return false
	}
	return s.length+need+FrameHeaderSize+endBytes > w.limit || w.sessionTime(now)-s.opened > segmentAge
}

// finish puts the writer's own frames in front of b and makes all of it ready
// for the disk. It returns the bytes and the time of the last frame.
func (w *Writer) finish(b *Batch, now Clock) ([]byte, int64) {
	at := w.sessionTime(now)
	first := frameTime(b.buf[prefixRoom:])
	if first == 0 || first > at {
		first = at
	}
	first = max(first, w.lastTime)
	start := w.prefix(b, now, first)
	data := b.buf[start:]
	last := first
	pos := w.End()
	for rest := data; len(rest) > 0; {
		n := frameLength(rest)
		t := frameTime(rest)
		if t == 0 {
			t = at
		}
		last = max(last, min(t, MaxTime))
		putFrameTime(rest, last)
		finishFrame(rest[:n], pos, w.seg.salt)
		pos += Position(n)
		rest = rest[n:]
	}
	return data, last
}

// prefix writes the frames that go before b, right to left, and returns where
// they start in b.buf.
func (w *Writer) prefix(b *Batch, now Clock, at int64) int {
	start := prefixRoom
	gap := w.trouble
	gap.add(b.gap)
	if gap != (Gap{}) {
		start = putBefore(b.buf, start, TypeGap, at, gapBytes)
		appendGap(b.buf[start+FrameHeaderSize:start+FrameHeaderSize], gap)
		b.urgent = true
	}
	if durable, _, _ := w.sync.state(); durable > w.durable {
		start = putBefore(b.buf, start, TypeDurable, at, durableBytes)
		binary.LittleEndian.PutUint64(b.buf[start+FrameHeaderSize:], uint64(durable))
	}
	if w.clockDue(now) {
		start = putBefore(b.buf, start, TypeClock, at, clockBytes)
		back := w.sessionTime(now) - at
		c := now.minus(back)
		appendClock(b.buf[start+FrameHeaderSize:start+FrameHeaderSize], c)
	}
	return start
}

func putBefore(buf []byte, start int, t Type, at int64, payload int) int {
	start -= FrameHeaderSize + payload
	putFrameHeader(buf[start:], t, FlagOwn, at, payload)
	return start
}

// minus is the reading that c would have been us microseconds earlier.
func (c Clock) minus(us int64) Clock {
	c.Wall -= us * 1000
	c.Boot -= uint64(us)
	c.Mono -= uint64(us)
	return c
}

// clockDue tells whether readers need a new relation of the clocks.
func (w *Writer) clockDue(now Clock) bool {
	if w.sessionTime(now)-w.lastClockAt >= clockEvery {
		return true
	}
	boot := int64(now.Boot - w.lastClock.Boot)
	wall := (now.Wall - w.lastClock.Wall) / 1000
	mono := int64(now.Mono - w.lastClock.Mono)
	return jumped(wall-boot) || jumped(boot-mono)
}

func jumped(us int64) bool { return us > clockJump || us < -clockJump }

// append writes whole frames and moves the end, or leaves all as it was.
func (w *Writer) append(data []byte, at int64, urgent bool) error {
	n, err := w.seg.file.Write(data)
	if n != len(data) {
		if err == nil {
			err = errors.New("short write")
		}
		return w.fail(n, fmt.Errorf("append to %s: %w", SegmentName(w.seg.base), err))
	}
	w.seg.length += int64(n)
	w.lastTime = at
	end := w.End() + Position(n)
	w.end.Store(uint64(end))
	w.noteOwn(data)
	w.sync.wrote(end, urgent)
	return nil
}

// noteOwn remembers what the writer's own frames at the start of data told.
func (w *Writer) noteOwn(data []byte) {
	for len(data) >= FrameHeaderSize {
		n := frameLength(data)
		p := data[FrameHeaderSize:n]
		switch frameType(data) {
		case TypeClock:
			w.lastClock, _ = DecodeClock(p)
			w.lastClockAt = frameTime(data)
		case TypeDurable:
			w.durable, _ = DecodeDurable(p)
		case TypeGap:
			w.trouble = Gap{}
		default:
			return
		}
		data = data[n:]
	}
}

// fail repairs the segment after a write that did not do all and returns the
// *StallError for err.
func (w *Writer) fail(written int, err error) error {
	s := &w.seg
	stall := newStall(err)
	if written > 0 {
		if s.file.Truncate(s.length) != nil {
			w.abandon()
			return stall
		}
		s.reserved = s.length // cutting has given it back
	}
	switch stall.Cause {
	case CauseFileSize:
		if s.length > s.first {
			w.limit = s.length
			w.abandon()
		}
	case CauseNoSpace, CauseQuota, CauseReadOnly:
		s.tryReserve(s.length + reserveTail) // as much as there may be, for GAP, EXIT and END
	default:
		w.abandon()
	}
	return stall
}

// abandon gives the segment up without END; the next write opens another one.
func (w *Writer) abandon() {
	if w.seg.file == nil {
		return
	}
	w.sync.retire(retiredFile{file: w.seg.file, size: w.seg.length})
	w.seg = segment{}
	w.nextFlags |= HeaderUnclean
}

// reserve makes sure that need more bytes fit, and for OUT that the tail is
// kept besides. Thus a full disk is met here, before anything was written.
func (w *Writer) reserve(need int64, out bool) error {
	s := &w.seg
	if s.plain {
		return w.checkFree(need, out)
	}
	want := s.length + need + reserveTail
	if want <= s.reserved {
		return nil
	}
	err := s.tryReserve(want + min(max(s.length/4, reserveStep), reserveMost))
	if err != nil {
		err = s.tryReserve(want)
	}
	if err == nil || !out || s.plain {
		return nil // frames that are not OUT may use the tail
	}
	return w.fail(0, fmt.Errorf("reserve disk space: %w", err))
}

func (s *segment) tryReserve(upTo int64) error {
	from := max(s.reserved, s.length)
	if s.plain || upTo <= from {
		return nil
	}
	err := s.file.reserve(from, upTo-from)
	if err == nil {
		s.reserved = upTo
		return nil
	}
	if unsupported(err) {
		s.plain = true
		s.checked = -lowSpace
	}
	return err
}

// checkFree stands in for reserve where the file system has no fallocate: OUT
// keeps off when little is free. It looks once per MiB written.
func (w *Writer) checkFree(need int64, out bool) error {
	s := &w.seg
	if !out || s.length-s.checked < lowSpace {
		return nil
	}
	free, err := w.fs.free(w.dir)
	if err == nil && free < need+lowSpace {
		return newStall(fmt.Errorf("only %d bytes are free: %w", free, syscall.ENOSPC))
	}
	s.checked = s.length
	return nil
}

// roll ends the segment and goes on in a new one. The new one is made under a
// temporary name first, so that on a full disk the old one, with its reserve,
// is simply kept.
func (w *Writer) roll(now Clock) error {
	reason := EndSize
	if w.sessionTime(now)-w.seg.opened > segmentAge {
		reason = EndAge
	}
	base := w.End() + FrameHeaderSize + endBytes
	next, err := w.build(base, 0, now)
	if err == nil && next.reserveErr != nil {
		w.discard(next) // the old one has a reserve: worth more than a short segment
		err = next.reserveErr
	}
	if err != nil {
		w.tryRoll = w.seg.length + lowSpace
		return nil
	}
	if err := w.writeEnd(reason, base, now); err != nil {
		w.discard(next)
		return err
	}
	old := retiredFile{file: w.seg.file, size: w.seg.length, sync: true}
	w.seg = segment{}
	w.sync.retire(old)
	if err := w.publish(next); err != nil {
		return newStall(err)
	}
	return nil
}

func (w *Writer) writeEnd(reason EndReason, next Position, now Clock) error {
	var frame [FrameHeaderSize + endBytes]byte
	at := max(w.lastTime, w.sessionTime(now))
	putFrameHeader(frame[:], TypeEnd, FlagOwn, at, endBytes)
	copy(frame[FrameHeaderSize:], EncodeEnd(End{Next: next, Reason: reason}))
	finishFrame(frame[:], w.End(), w.seg.salt)
	return w.append(frame[:], at, true)
}

// open starts a segment at the end of the log.
func (w *Writer) open(now Clock) error {
	next, err := w.build(w.End(), w.nextFlags, now)
	if err != nil {
		return err
	}
	return w.publish(next)
}

// pending is a segment that has no name yet.
type pending struct {
	segment
	temp       string
	clock      Clock
	reserveErr error // there was no room for the reserve
}

// build makes a segment with header and CLOCK under a temporary name.
func (w *Writer) build(base Position, flags uint16, now Clock) (*pending, error) {
	temp := filepath.Join(w.dir, SegmentName(base)+tempSuffix)
	file, err := w.createFile(temp)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	p := &pending{temp: temp, clock: now, segment: segment{file: file, base: base, salt: newSalt(), opened: max(w.lastTime, w.sessionTime(now))}}
	p.reserveErr = p.tryReserve(reserveTail + reserveStep)
	if p.plain {
		p.reserveErr = nil
	}
	data := w.head(p, flags)
	n, err := file.Write(data)
	if n != len(data) {
		w.discard(p)
		if err == nil {
			err = errors.New("short write")
		}
		return nil, fmt.Errorf("write head of segment %s: %w", SegmentName(base), err)
	}
	p.length, p.first = int64(n), int64(n)
	return p, nil
}

// createFile makes the file, and the directory if somebody removed it.
func (w *Writer) createFile(temp string) (segmentFile, error) {
	file, err := w.fs.create(temp)
	if errors.Is(err, fs.ErrExist) {
		if err := w.fs.remove(temp); err != nil {
			return nil, err
		}
		return w.fs.create(temp)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	if err := w.fs.makeDir(w.dir); err != nil {
		return nil, err
	}
	return w.fs.create(temp)
}

// unsupported tells that err means that space can't be reserved here at all.
func unsupported(err error) bool {
	for _, e := range []error{syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EINVAL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// head returns the header and the first frame of a segment.
func (w *Writer) head(p *pending, flags uint16) []byte {
	h := Header{Major: Major, Minor: Minor, Flags: flags, Run: w.opts.Run, Session: w.opts.Session,
		Base: p.base, Wall: p.clock.Wall, Time: p.opened, Salt: p.salt}
	data := h.AppendTo(make([]byte, 0, HeaderSize+FrameHeaderSize+clockBytes))
	data = data[:cap(data)]
	frame := data[HeaderSize:]
	putFrameHeader(frame, TypeClock, FlagOwn, p.opened, clockBytes)
	appendClock(frame[FrameHeaderSize:FrameHeaderSize], p.clock.minus(w.sessionTime(p.clock)-p.opened))
	finishFrame(frame, p.base+HeaderSize, p.salt)
	return data
}

func (w *Writer) discard(p *pending) {
	p.file.Close()
	w.fs.remove(p.temp)
}

// publish gives p its name and makes it the segment that is written.
func (w *Writer) publish(p *pending) error {
	if err := w.fs.publish(p.temp, filepath.Join(w.dir, SegmentName(p.base))); err != nil {
		w.discard(p)
		return fmt.Errorf("publish segment: %w", err)
	}
	w.seg = p.segment
	w.nextFlags, w.tryRoll = 0, 0
	w.lastTime, w.lastClockAt, w.lastClock = p.opened, p.opened, p.clock.minus(w.sessionTime(p.clock)-p.opened)
	w.end.Store(uint64(p.base) + uint64(p.length))
	w.sync.use(p.file)
	w.sync.wrote(w.End(), true)
	return nil
}

// Close writes END and makes everything durable. The writer is closed also
// when it fails; a *StallError then says that END is missing.
func (w *Writer) Close(reason EndReason) error {
	if w.closed {
		return ErrClosed
	}
	err := w.closeSegment(reason)
	w.closed = true
	durable := w.sync.close()
	if err != nil {
		return fmt.Errorf("end the log: %w", err)
	}
	if !durable && w.sync.every >= 0 {
		return fmt.Errorf("end the log: %w", &StallError{Cause: CauseIO, Errno: syscall.EIO, Err: errors.New("not everything could be synced")})
	}
	return nil
}

func (w *Writer) closeSegment(reason EndReason) error {
	if w.seg.file == nil {
		if err := w.open(w.clock()); err != nil {
			return newStall(err)
		}
	}
	err := w.writeEnd(reason, w.End()+FrameHeaderSize+endBytes, w.clock())
	if w.seg.file != nil {
		w.sync.retire(retiredFile{file: w.seg.file, size: w.seg.length, sync: true})
		w.seg = segment{}
	}
	return err
}

// release closes without END, for a log that can't be written any more.
func (w *Writer) release() {
	if w.closed {
		return
	}
	w.closed = true
	w.abandon()
	w.sync.close()
}

func newSalt() uint32 {
	for {
		var b [4]byte
		rand.Read(b[:]) // never fails
		if salt := binary.LittleEndian.Uint32(b[:]); salt != 0 {
			return salt
		}
	}
}

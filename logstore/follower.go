package logstore

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

const (
	lookEvery     = time.Second            // is the writer alive, is there another segment?
	firstLook     = 5 * time.Millisecond   // the same after a hint that the writer is gone; doubled each time
	pollActive    = 20 * time.Millisecond  // without inotify, shortly after something came
	pollIdle      = 250 * time.Millisecond // without inotify, else
	pollActiveFor = 2 * time.Second
)

// Follower reads a log from a position on, through all segments and runs. It
// belongs to one goroutine. After any error but ErrClosed and that of the
// context the next call goes on; see the errors for where.
type Follower struct {
	dir   string
	alive func() bool // nil: at rest
	pos   Position    // of the next frame
	seg   *segmentReader
	large *largeBuffers
	clock func() Clock
	sub   *subscription // nil: at rest

	session  [16]byte
	known    bool // session is set
	exited   bool // the run's EXIT (or an END that says so) was seen, or searched for and found
	searched bool // the part of the segment before our start was searched for EXIT
	end      End  // of the segment, if its END was seen
	ended    bool
	mayBe    bool // the writer may be gone: look often, for a while
	left     bool // it has closed the segment: don't stop looking
	looked   time.Time
	delay    time.Duration // between looks
	polled   Position      // without inotify: pos at the last wait
	got      time.Time     // and when it changed
	timer    *time.Timer
	closed   bool
}

// Open reads the log in dir at rest: what is there, without ever waiting.
func Open(dir string, from Position) (*Follower, error) {
	f := &Follower{dir: dir, pos: from, large: new(largeBuffers), clock: systemClock()}
	if _, err := listBases(dir); err != nil {
		return nil, err
	}
	return f, nil
}

// Position is that of the next frame: where a later follower goes on.
func (f *Follower) Position() Position { return f.pos }

// Buffered reports whether more was read already than has been returned, so
// that the next frame may be had without asking the system.
func (f *Follower) Buffered() bool { return f.seg != nil && f.seg.buffered() > 0 }

// Close releases the follower.
func (f *Follower) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	if f.sub != nil {
		f.sub.cancel()
	}
	if f.timer != nil {
		f.timer.Stop()
	}
	return f.leave()
}

// Next returns the next frame. At the live edge it waits as long as the writer
// lives. Frames of unknown ignorable types are skipped.
func (f *Follower) Next(ctx context.Context) (Frame, error) {
	for {
		fr, err := f.TryNext()
		if err != ErrNotYet {
			return fr, err
		}
		if err := f.wait(ctx); err != nil {
			return Frame{}, err
		}
	}
}

// TryNext is Next without waiting: at the live edge it returns ErrNotYet.
func (f *Follower) TryNext() (Frame, error) {
	if f.closed {
		return Frame{}, ErrClosed
	}
	for {
		var fr Frame
		ok, err := f.step(&fr)
		if err != nil || ok {
			return fr, err
		}
	}
}

// step takes a frame, or does one thing towards the next.
func (f *Follower) step(fr *Frame) (bool, error) {
	if f.seg == nil {
		return false, f.locate()
	}
	switch f.seg.next(fr) {
	case frameGood:
		return f.accept(fr)
	case framePartial:
		n, err := f.seg.fill()
		if err != nil || n > 0 {
			return false, err
		}
		return false, f.edge()
	default:
		return false, f.damage()
	}
}

// accept notes what a frame says and tells whether the caller gets it.
func (f *Follower) accept(fr *Frame) (bool, error) {
	if !fr.Type.known() {
		if fr.Type.Critical() {
			f.seg.seek(fr.Pos)
			return false, &VersionError{Type: fr.Type, Pos: fr.Pos}
		}
		f.pos = fr.Next
		return false, nil
	}
	f.pos = fr.Next
	f.mayBe, f.left, f.delay = false, false, firstLook
	switch fr.Type {
	case TypeExit:
		f.exited = true
	case TypeEnd:
		end, err := DecodeEnd(fr.Payload)
		f.end, f.ended = end, err == nil
		f.exited = f.exited || !end.Reason.rolled()
	}
	return true, nil
}

// locate opens the segment that holds pos.
func (f *Follower) locate() error {
	looking := f.startLook()
	bases, err := listBases(f.dir)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && f.alive != nil) {
		return err
	}
	i, found := slices.BinarySearch(bases, f.pos)
	if !found {
		i--
	}
	if i < 0 && len(bases) > 0 {
		from := f.pos
		f.pos = bases[0]
		if from == 0 && f.pos == 0 {
			return nil
		}
		return &TrimmedError{From: from, To: f.pos}
	}
	if i < 0 {
		return f.answer(looking)
	}
	next, hasNext := Position(0), i+1 < len(bases)
	if hasNext {
		next = bases[i+1]
	}
	return f.enter(bases[i], next, hasNext, looking)
}

// enter opens the segment at base; next is the base of the one behind it.
func (f *Follower) enter(base, next Position, hasNext bool, looking look) error {
	s, err := openSegment(filepath.Join(f.dir, SegmentName(base)), f.large)
	if err == nil && (f.known && s.head.Session != f.session) {
		s.close()
		return ErrNotOurs
	}
	if err == nil && s.head.Base != base {
		s.close()
		err = errHeaderDamage
	}
	var version *VersionError
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed since the listing: look again
	case errors.As(err, &version):
		version.Pos = base
		return version
	case hasNext && errors.Is(err, errHeaderShort):
		f.pos = next // a writer died before its first byte: nothing was there
		return nil
	case errors.Is(err, errHeaderShort):
		return f.answer(looking)
	case hasNext && (errors.Is(err, errHeaderDamage) || errors.Is(err, ErrNotOurs)):
		return f.hole(next)
	case errors.Is(err, errHeaderDamage):
		return f.damagedHead(base, looking)
	default:
		return err
	}
	f.use(s)
	return nil
}

// damagedHead deals with a last segment that can't be read.
func (f *Follower) damagedHead(base Position, looking look) error {
	t := tail{}
	if err := t.unreadable(filepath.Join(f.dir, SegmentName(base)), base); err != nil {
		return err
	}
	if f.pos >= t.end {
		return f.answer(looking)
	}
	return f.hole(t.end)
}

// hole reports damage from pos to to, and goes there.
func (f *Follower) hole(to Position) error {
	from := f.pos
	f.pos = to
	return &DamageError{From: from, To: to}
}

// use makes s the segment that is read, from pos on.
func (f *Follower) use(s *segmentReader) {
	first := s.head.Base + HeaderSize
	f.searched = f.pos <= first
	f.pos = max(f.pos, first)
	s.seek(f.pos)
	if s.head.Flags&HeaderFirstOfRun != 0 || !f.known {
		f.exited = false
	}
	f.session, f.known = s.head.Session, true
	f.seg, f.ended = s, false
	f.mayBe, f.left, f.delay = false, false, firstLook
	f.looked = time.Time{} // the first edge in a segment always looks
	if f.sub != nil {
		f.sub.current.Store(uint64(s.head.Base))
	}
}

func (f *Follower) leave() error {
	if f.seg == nil {
		return nil
	}
	err := f.seg.close()
	f.seg = nil
	return err
}

// edge is called at the end of the file. It returns nil if there is something
// to go on with, else the answer.
func (f *Follower) edge() error {
	if !f.due() {
		f.seg.seek(f.pos) // what is there in part may be cut and written anew
		return ErrNotYet
	}
	looking := f.startLook()
	next, hasNext, err := f.successor()
	if err != nil {
		return err
	}
	if !hasNext && !looking.gone && f.seg.buffered() == 0 {
		return f.unlinked(f.answer(looking))
	}
	// Whatever the writer did before it died or went on is in the file now.
	v, err := f.seg.again()
	if err != nil || v == frameGood {
		return err
	}
	if v == frameBad {
		return f.damage()
	}
	if f.seg.buffered() > 0 {
		if found, err := f.skipDamage(); found || err != nil {
			return err
		}
		f.seg.again()
	}
	if hasNext {
		return f.advance(next)
	}
	f.seg.seek(f.pos)
	return f.unlinked(f.answer(looking))
}

// unlinked returns err unless the file has no name any more: then it is left,
// and what is now at pos is looked up. A removed segment that is complete
// answers as ever.
func (f *Follower) unlinked(err error) error {
	if f.ended || !(diskFile{f.seg.file}).deleted() {
		return err
	}
	bases, listErr := listBases(f.dir)
	if listErr != nil || len(bases) == 0 || bases[len(bases)-1] <= f.seg.head.Base && !slices.Contains(bases, f.seg.head.Base) {
		return err
	}
	f.leave()
	return nil
}

// skipDamage goes to a good frame behind pos and reports the hole.
func (f *Follower) skipDamage() (bool, error) {
	to, found, err := f.seg.resync()
	if err != nil || !found {
		return false, err
	}
	return true, f.hole(to)
}

// damage is called at bytes that can't be a frame.
func (f *Follower) damage() error {
	v, err := f.seg.again()
	if err != nil || v == frameGood {
		return err
	}
	if v == framePartial {
		return f.edge()
	}
	end, found, err := f.seg.resync()
	if err != nil {
		return err
	}
	if found {
		return f.hole(end)
	}
	f.seg.seek(f.pos)
	looking := f.startLook()
	next, hasNext, err := f.successor()
	switch {
	case err != nil:
		return err
	case hasNext && next > f.pos:
		f.leave()
		return f.hole(next)
	case hasNext:
		return f.advance(next)
	case !looking.gone:
		return ErrNotYet // the writer may be about to cut it away
	}
	err = f.hole(end)
	f.seg.seek(end)
	return err
}

// successor returns the base of the segment behind the open one.
func (f *Follower) successor() (Position, bool, error) {
	bases, err := listBases(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil // somebody removed the directory: the open file is what there is
	}
	i, found := slices.BinarySearch(bases, f.seg.head.Base)
	if found {
		i++
	}
	if err != nil || i == len(bases) {
		return 0, false, err
	}
	return bases[i], true, nil
}

// advance leaves the open segment, of which all was read, for the next one.
func (f *Follower) advance(next Position) error {
	torn := f.seg.buffered() > 0
	f.leave()
	if next <= f.pos {
		return nil // locate finds the segment that holds pos
	}
	if torn {
		return f.hole(next)
	}
	from := f.pos
	f.pos = next
	return &TrimmedError{From: from, To: next}
}

// look is what is known of the writer before the files are read once more.
type look struct{ gone bool }

// due tells whether this is the time to look for the writer and for other
// segments, apart from reading on in the file.
func (f *Follower) due() bool {
	if f.alive == nil {
		return true
	}
	if f.sub.changed.Swap(false) {
		f.mayBe, f.delay = true, firstLook
		f.left = f.sub.left.Swap(false) || f.left
		return true
	}
	if f.ended || f.looked.IsZero() {
		return true
	}
	if f.mayBe {
		return time.Since(f.looked) >= f.delay
	}
	return !f.sub.watched() && time.Since(f.looked) >= lookEvery
}

func (f *Follower) startLook() look {
	if f.alive == nil {
		return look{gone: true}
	}
	f.looked = time.Now()
	f.delay = min(2*f.delay, lookEvery)
	if f.delay == lookEvery && !f.left {
		f.mayBe = false
	}
	return look{gone: !f.alive()}
}

// answer says how things are when there is nothing to read.
func (f *Follower) answer(l look) error {
	if f.ended && f.exited {
		return ErrEnded
	}
	if !l.gone {
		return ErrNotYet
	}
	if f.exited || f.searchExit() {
		return ErrEnded
	}
	return ErrLost
}

// searchExit looks for EXIT in the part of the segment that was not read.
func (f *Follower) searchExit() bool {
	if f.seg == nil || f.searched {
		return false
	}
	f.searched = true
	s, err := openSegment(filepath.Join(f.dir, SegmentName(f.seg.head.Base)), f.large)
	if err != nil {
		return false
	}
	defer s.close()
	s.each(func(fr *Frame) bool {
		if fr.Type == TypeExit {
			f.exited = true
		}
		if fr.Type == TypeEnd {
			end, err := DecodeEnd(fr.Payload)
			f.exited = f.exited || err == nil && !end.Reason.rolled()
		}
		return !f.exited
	})
	return f.exited
}

// wait returns when there may be something new.
func (f *Follower) wait(ctx context.Context) error {
	if f.seg != nil {
		f.seg.rest()
	}
	d := f.patience()
	if f.sub.watch != nil && f.sub.watcher.notify.isPrivate() {
		return f.sub.watcher.notify.wait(ctx, f.sub, d)
	}
	var tick <-chan time.Time
	if d > 0 {
		tick = f.tick(d)
	}
	select {
	case <-f.sub.wake:
	case <-tick:
	case <-ctx.Done():
		return ctx.Err()
	case <-f.sub.watcher.done:
		return ErrClosed
	}
	return nil
}

// patience is how long to wait without an event; 0: for ever.
func (f *Follower) patience() time.Duration {
	switch {
	case !f.sub.watched():
		return f.poll()
	case f.mayBe || f.ended || f.seg == nil || f.sub.changed.Load():
		return f.delay
	}
	return 0
}

func (f *Follower) poll() time.Duration {
	now := time.Now()
	if f.pos != f.polled {
		f.polled, f.got = f.pos, now
	}
	if now.Sub(f.got) < pollActiveFor {
		return pollActive
	}
	return pollIdle
}

func (f *Follower) tick(d time.Duration) <-chan time.Time {
	if f.timer == nil {
		f.timer = time.NewTimer(d)
	} else {
		f.timer.Reset(d)
	}
	return f.timer.C
}

// Wall is the wall time at which fr was written; fr is the last frame returned.
func (f *Follower) Wall(fr Frame) time.Time {
	if f.seg == nil {
		return time.Time{}
	}
	return time.Unix(0, f.seg.wall(fr.Time))
}

// Age is how long ago fr, the last frame returned, was written, by the boot
// clock (suspend included). False: in another boot, or it can't be told.
func (f *Follower) Age(fr Frame) (time.Duration, bool) {
	if f.seg == nil || !f.seg.clocked || f.seg.clock.BootID == [16]byte{} {
		return 0, false
	}
	now := f.clock()
	if now.BootID != f.seg.clock.BootID {
		return 0, false
	}
	written := int64(f.seg.clock.Boot) + fr.Time - f.seg.clockAt
	return time.Duration(int64(now.Boot)-written) * time.Microsecond, true
}

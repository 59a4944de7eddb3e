package logstore

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"
)

const (
	defaultQueueBytes = 4 << 20
	defaultRetryEvery = 250 * time.Millisecond
	defaultStuckAfter = 2 * time.Second

	batchBytes  = outFrameBytes + FrameHeaderSize // of one write; only a single control frame may be longer
	freeBatches = 2                               // kept for reuse
)

// AppenderOptions of an Appender; zero values mean the defaults.
type AppenderOptions struct {
	QueueBytes int           // what waits for the disk, 4 MiB
	RetryEvery time.Duration // while stalled, 250 ms; after an I/O error four times that
	StuckAfter time.Duration // a write that takes longer counts as stalled, 2 s
	OnStatus   func(Status)  // told when the log stalls and when it goes on; one call at a time, must not block
}

// Status of an Appender.
type Status struct {
	Stalled              bool
	Cause                Cause // of the current stall
	Errno                syscall.Errno
	Since                time.Time // of the current stall
	LostBytes, LostReads uint64    // output that was dropped, in all
	End                  Position  // of the log
}

// Appender puts a bounded queue between the one who reads the terminal and the
// disk. Out blocks while the disk is slow but works; while it doesn't, Out
// drops the oldest output instead, and a GAP frame tells how much. Safe for
// concurrent use. It owns the Writer and one goroutine.
type Appender struct {
	w *Writer
	o AppenderOptions

	wake    chan struct{} // there is something to write
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the goroutine is gone

	mu       sync.Mutex
	queue    []*Batch // oldest first
	writing  *Batch   // not in queue while the goroutine writes it
	writes   uint64   // started
	free     []*Batch
	bytes    int           // in queue and writing
	gap      Gap           // lost before the next batch that is begun
	added    uint64        // frames and pieces of output given so far
	done     uint64        // of those, in the log
	changed  chan struct{} // closed and replaced when something changed and somebody waits
	waiters  int
	sleeping bool // the goroutine waits for wake
	stall    *StallError
	since    time.Time
	lost     Gap
	closed   bool
	reason   EndReason
	giveUp   time.Time // closing: no more attempts with output after this
	closeErr error

	watchdog *time.Timer // set only while a write runs and more comes
	watching bool
	watched  uint64 // the write it saw

	tell    sync.Mutex // held while OnStatus runs
	told    bool       // the last call said stalled
	toldFor Cause
}

// NewAppender starts an appender on w, which it owns from now on.
func NewAppender(w *Writer, o AppenderOptions) *Appender {
	if o.QueueBytes <= 0 {
		o.QueueBytes = defaultQueueBytes
	}
	if o.RetryEvery <= 0 {
		o.RetryEvery = defaultRetryEvery
	}
	if o.StuckAfter <= 0 {
		o.StuckAfter = defaultStuckAfter
	}
	a := &Appender{w: w, o: o, wake: make(chan struct{}, 1), closing: make(chan struct{}),
		stopped: make(chan struct{}), changed: make(chan struct{})}
	go a.run()
	return a
}

// Out appends what was read from the terminal. It copies p. It blocks while
// the queue is full and the disk merely slow; it never blocks while the log is
// stalled. After Close it does nothing.
func (a *Appender) Out(p []byte) {
	for len(p) > 0 {
		n := min(len(p), outFrameBytes)
		a.out(p[:n])
		p = p[n:]
	}
}

func (a *Appender) out(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.closed && a.stall == nil && a.over(len(p)) {
		a.watch()
		a.waitChange(context.Background())
	}
	if a.closed {
		return
	}
	a.drop(len(p))
	b := a.tail(len(p))
	before := b.Len()
	if !b.extend(p) {
		b.Add(TypeOut, 0, a.w.Now(), p)
	}
	a.took(b, before)
}

// Add appends a control frame in order with the output. It is never dropped
// and never waits, so the caller must not produce them without bound. The
// error is ErrTooLarge or ErrClosed.
func (a *Appender) Add(t Type, payload []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.add(t, payload)
}

func (a *Appender) add(t Type, payload []byte) error {
	if a.closed {
		return ErrClosed
	}
	b := a.tail(len(payload))
	before := b.Len()
	if err := b.Add(t, FlagOwn, a.w.Now(), payload); err != nil {
		return err
	}
	a.took(b, before)
	return nil
}

// over tells whether n bytes more are too many.
func (a *Appender) over(n int) bool {
	return a.bytes > 0 && a.bytes+n+FrameHeaderSize > a.o.QueueBytes
}

// tail is the batch that takes n bytes more.
func (a *Appender) tail(n int) *Batch {
	if k := len(a.queue); k > 0 && a.queue[k-1].Len()+FrameHeaderSize+n <= batchBytes {
		return a.queue[k-1]
	}
	var b *Batch
	if k := len(a.free); k > 0 {
		b, a.free = a.free[k-1], a.free[:k-1]
	} else {
		b = new(Batch)
	}
	b.gap, a.gap = a.gap, Gap{}
	a.queue = append(a.queue, b)
	return b
}

// took notes that b has grown, and wakes the goroutine if it sleeps.
func (a *Appender) took(b *Batch, before int) {
	a.bytes += b.Len() - before
	a.added++
	b.seq = a.added
	if a.sleeping {
		a.sleeping = false
		a.wake <- struct{}{} // has room: it was empty when sleeping was set
	} else if a.writing != nil {
		a.watch()
	}
}

// drop makes room for n bytes by losing the oldest output. The loss is noted
// at the batch that follows it. What is being written is not touched.
func (a *Appender) drop(n int) {
	for i := 0; i < len(a.queue) && a.over(n); {
		if a.dropAt(i) {
			continue
		}
		i++
	}
}

// dropAt loses the output of one batch and tells whether that was all of it.
func (a *Appender) dropAt(i int) bool {
	b := a.queue[i]
	before := b.Len()
	lost := b.dropOut()
	a.bytes += b.Len() - before
	if lost.Bytes > 0 {
		lost.Cause, lost.Errno = CauseOther, 0
		if a.stall != nil {
			lost.Cause, lost.Errno = a.stall.Cause, uint32(a.stall.Errno)
		}
		a.lost.add(lost)
		b.gap.add(lost)
	}
	if b.frames > 0 {
		return false
	}
	next := &a.gap
	if i+1 < len(a.queue) {
		next = &a.queue[i+1].gap
	}
	b.gap.add(*next)
	*next = b.gap
	a.queue = append(a.queue[:i], a.queue[i+1:]...)
	a.recycle(b)
	return true
}

func (a *Appender) recycle(b *Batch) {
	if len(a.free) < freeBatches && cap(b.buf) <= 2*batchBytes && a.stall == nil {
		b.Reset()
		a.free = append(a.free, b)
	}
}

// Flush waits until everything that was queued before the call is in the log.
// It returns a *StallError at once when the log is stalled, or when some of it
// was lost.
func (a *Appender) Flush(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	target, lost := a.added, a.lost.Bytes
	for {
		switch {
		case a.done >= target && a.lost.Bytes == lost:
			return nil
		case a.stall != nil:
			return a.stall
		case a.done >= target:
			return &StallError{Cause: a.lost.Cause, Errno: syscall.Errno(a.lost.Errno), Err: fmt.Errorf("%d bytes were lost", a.lost.Bytes-lost)}
		}
		if a.closed && a.isStopped() {
			return ErrClosed
		}
		a.watch()
		if err := a.waitChange(ctx); err != nil {
			return fmt.Errorf("flush log: %w", err)
		}
	}
}

func (a *Appender) isStopped() bool {
	select {
	case <-a.stopped:
		return true
	default:
		return false
	}
}

// Status says how things are.
func (a *Appender) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status()
}

func (a *Appender) status() Status {
	s := Status{LostBytes: a.lost.Bytes, LostReads: a.lost.Reads, End: a.w.End()}
	if a.stall != nil {
		s.Stalled, s.Cause, s.Errno, s.Since = true, a.stall.Cause, a.stall.Errno, a.since
	}
	return s
}

// Close appends exit (nil: none) as EXIT, writes everything, ends the log and
// the Writer. While the log is stalled it goes on trying for half of the time
// that ctx leaves (without a deadline: once more), then gives the output up for
// a GAP, so that EXIT and END go into the space that is reserved for them.
// When ctx ends it returns; a write that hangs is left behind.
func (a *Appender) Close(ctx context.Context, exit []byte) error {
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return ErrClosed
	}
	a.reason = EndAsked
	if exit != nil {
		a.reason = EndExit
		if err := a.add(TypeExit, exit); err != nil {
			a.mu.Unlock()
			return err
		}
	}
	a.closed = true
	a.giveUp = giveUpTime(ctx, a.o.RetryEvery)
	if a.sleeping {
		a.sleeping = false
		a.wake <- struct{}{}
	}
	close(a.closing)
	a.announce()
	a.mu.Unlock()

	select {
	case <-a.stopped:
		return a.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close log: %w", ctx.Err())
	}
}

func giveUpTime(ctx context.Context, retry time.Duration) time.Time {
	now := time.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		return now.Add(retry)
	}
	return now.Add(deadline.Sub(now) / 2)
}

// run is the appender's goroutine: the only one to use the Writer.
func (a *Appender) run() {
	for b := a.take(); b != nil; b = a.take() {
		err := a.w.Write(b)
		a.wrote(b, err)
		if err != nil {
			a.pause()
		}
	}
	a.finish()
}

// take waits for a batch to write; nil: closed, and there is none.
func (a *Appender) take() *Batch {
	a.mu.Lock()
	for len(a.queue) == 0 {
		if a.closed {
			a.mu.Unlock()
			return nil
		}
		a.sleeping = true
		a.mu.Unlock()
		<-a.wake
		a.mu.Lock()
	}
	b := a.queue[0]
	copy(a.queue, a.queue[1:])
	a.queue[len(a.queue)-1] = nil
	a.queue = a.queue[:len(a.queue)-1]
	a.writing = b
	a.writes++
	a.mu.Unlock()
	return b
}

// wrote notes what became of a batch.
func (a *Appender) wrote(b *Batch, err error) {
	a.mu.Lock()
	a.writing = nil
	if err != nil {
		a.queue = append(a.queue, nil)
		copy(a.queue[1:], a.queue)
		a.queue[0] = b
		a.stalled(newStall(err))
	} else {
		a.done = b.seq
		a.bytes -= b.Len()
		a.stall = nil
		a.recycle(b)
	}
	a.announce()
	a.mu.Unlock()
	a.tellStatus()
}

func (a *Appender) stalled(s *StallError) {
	if a.stall == nil {
		a.since = time.Now()
	}
	a.stall = s
}

// pause waits for the next attempt, and on closing gives up in time.
func (a *Appender) pause() {
	d := a.o.RetryEvery
	a.mu.Lock()
	if a.stall.Cause == CauseIO {
		d *= 4
	}
	closing, giveUp := a.closing, a.giveUp
	if a.closed {
		closing, d = nil, min(d, time.Until(giveUp))
	}
	a.mu.Unlock()
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-closing: // try once more
			return
		}
	}
	if closing == nil && !time.Now().Before(giveUp) {
		a.surrender()
	}
}

// surrender gives all output up, writes the control frames that are left and
// forgets them if even that fails.
func (a *Appender) surrender() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := 0; i < len(a.queue); {
		if !a.dropAt(i) {
			i++
		}
	}
	if len(a.queue) == 0 && a.gap != (Gap{}) {
		gap := a.gap
		a.gap = Gap{}
		b := a.tail(gapBytes)
		b.Add(TypeGap, FlagOwn, 0, EncodeGap(gap))
		a.bytes += b.Len()
		b.seq = a.added
	}
	for _, b := range a.queue {
		if a.closeErr = a.w.Write(b); a.closeErr != nil {
			break
		}
		a.done = b.seq
	}
	a.queue, a.bytes = nil, 0
}

// finish ends the log. Without the control frames, EXIT among them, it gets no END.
func (a *Appender) finish() {
	if a.closeErr == nil {
		a.closeErr = a.w.Close(a.reason)
	} else {
		a.w.release()
	}
	a.mu.Lock()
	if a.watchdog != nil {
		a.watchdog.Stop()
	}
	close(a.stopped)
	a.announce()
	a.mu.Unlock()
}

// waitChange releases the lock until something changed.
func (a *Appender) waitChange(ctx context.Context) error {
	changed := a.changed
	a.waiters++
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.waiters--
	}()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *Appender) announce() {
	if a.waiters > 0 {
		close(a.changed)
		a.changed = make(chan struct{})
	}
}

// watch sets the watchdog for the write that runs.
func (a *Appender) watch() {
	if a.watching || a.writing == nil {
		return
	}
	a.watching, a.watched = true, a.writes
	if a.watchdog == nil {
		a.watchdog = time.AfterFunc(a.o.StuckAfter, a.bark)
		return
	}
	a.watchdog.Reset(a.o.StuckAfter)
}

// bark declares the log stalled if the write that was watched still runs.
func (a *Appender) bark() {
	a.mu.Lock()
	a.watching = false
	if a.writing != nil && a.writes == a.watched && a.stall == nil {
		a.stalled(&StallError{Cause: CauseStuck, Err: fmt.Errorf("a write takes longer than %v", a.o.StuckAfter)})
		a.announce()
	} else if a.writing != nil && a.stall == nil {
		a.watch()
	}
	a.mu.Unlock()
	a.tellStatus()
}

// tellStatus calls OnStatus if the log has stalled or goes on since the last call.
func (a *Appender) tellStatus() {
	if a.o.OnStatus == nil {
		return
	}
	a.tell.Lock()
	defer a.tell.Unlock()
	a.mu.Lock()
	s := a.status()
	cause := Cause(0)
	if a.stall != nil {
		cause = a.stall.Cause
	}
	news := s.Stalled != a.told || cause != a.toldFor
	a.told, a.toldFor = s.Stalled, cause
	a.mu.Unlock()
	if news {
		a.o.OnStatus(s)
	}
}

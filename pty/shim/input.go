package shim

import (
	"errors"
	"os"
	"sync"
	"time"

	"agentmux/logstore"
	"agentmux/pty"
	"agentmux/pty/shimapi"
)

// Bounds of the input that waits for the agent.
const (
	maxQueued  = 4 << 20 // bytes; one group may go beyond when nothing else waits
	maxGroups  = 32 << 20
	maxWriters = 1024
	// resizePatience is how long a new size waits for input before it to be
	// taken: a program that does not read still learns its size.
	resizePatience = 200 * time.Millisecond
)

// input is the queue between the connections and the PTY. Its own goroutine
// types; everything else is under mu.
type input struct {
	s    *shim
	wake chan struct{} // capacity 1: something was queued, or stopped
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex
	queue    []item
	bytes    int // of queue, and of what is being typed
	grouped  int // bytes of unfinished groups on all connections
	writers  map[shimapi.Writer]*writer
	uses     uint64
	size     pty.Size
	client   uint32 // that has set it
	newest   uint64 // number of the newest size applied
	sizes    uint64 // number of the newest size asked for
	stopped  bool
	reported bool
}

// writer is what is remembered of an origin of input.
type writer struct{ sequence, used uint64 }

// item is bytes to be typed or, without any, a size to be set.
type item struct {
	data   []byte
	resize *sizeChange
}

type sizeChange struct {
	number uint64
	size   pty.Size
	client uint32
}

// group is input of one writer on one connection that waits for its last frame.
type group struct {
	next uint64 // sequence expected
	data []byte
}

func newInput(s *shim) *input {
	return &input{
		s: s, wake: make(chan struct{}, 1), done: make(chan struct{}),
		writers: make(map[shimapi.Writer]*writer),
		size:    pty.Size{Cols: uint16(s.launch.Spec.Cols), Rows: uint16(s.launch.Spec.Rows)},
	}
}

// take decides on one Input frame. groups holds the connection's unfinished
// groups. The answer to a frame within a group is the zero value and false:
// the group is acknowledged as a whole, by its last frame.
func (in *input) take(f shimapi.Input, groups map[shimapi.Writer]*group) (shimapi.Status, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped {
		return shimapi.StatusEnded, true
	}
	g := groups[f.Writer]
	if g == nil {
		if status, ok := in.expected(f); !ok {
			return status, true
		}
	} else if f.Sequence != g.next {
		in.drop(groups, f.Writer)
		return shimapi.StatusUncertain, true
	}
	if g != nil || f.Flags&shimapi.FlagMore != 0 {
		if g = in.gather(f, groups); g == nil {
			return shimapi.StatusTooLarge, true
		}
		if f.Flags&shimapi.FlagMore != 0 {
			return 0, false
		}
		f.Data = g.data
		in.drop(groups, f.Writer)
	}
	return in.push(f), true
}

// expected checks a frame's sequence against what its writer sent before.
func (in *input) expected(f shimapi.Input) (shimapi.Status, bool) {
	w := in.writers[f.Writer]
	switch {
	case f.Sequence == 0 || f.Kind == 0 || f.Kind > shimapi.KindReply:
		return shimapi.StatusBad, false
	case w != nil && f.Sequence <= w.sequence:
		return shimapi.StatusDuplicate, false
	case f.Kind == shimapi.KindReply:
		return 0, true // positions of questions: they only grow
	case w == nil && f.Sequence > 1, w != nil && f.Sequence > w.sequence+1:
		return shimapi.StatusUncertain, false
	}
	return 0, true
}

// gather adds a frame to its writer's group, or gives the group up and returns
// nil when it grows too large.
func (in *input) gather(f shimapi.Input, groups map[shimapi.Writer]*group) *group {
	g := groups[f.Writer]
	if g == nil {
		g = &group{}
		groups[f.Writer] = g
	}
	if len(g.data)+len(f.Data) > shimapi.MaxGroup || in.grouped+len(f.Data) > maxGroups {
		in.drop(groups, f.Writer)
		return nil
	}
	in.grouped += len(f.Data)
	g.data = append(g.data, f.Data...)
	g.next = f.Sequence + 1
	return g
}

func (in *input) drop(groups map[shimapi.Writer]*group, w shimapi.Writer) {
	in.grouped -= len(groups[w].data)
	delete(groups, w)
}

// dropAll forgets the unfinished groups of a connection that has ended.
func (in *input) dropAll(groups map[shimapi.Writer]*group) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for w := range groups {
		in.drop(groups, w)
	}
}

// push queues a frame or a whole group and remembers its sequence.
func (in *input) push(f shimapi.Input) shimapi.Status {
	if in.bytes > 0 && in.bytes+len(f.Data) > maxQueued {
		return shimapi.StatusBusy
	}
	in.remember(f.Writer, f.Sequence)
	rest := in.typeNow(f.Data)
	if len(rest) > 0 {
		in.enqueue(item{data: append([]byte(nil), rest...)})
	}
	return shimapi.StatusAccepted
}

// typeNow types what the program takes at once if nothing waits before it, and
// returns the rest: most keys need not wake the goroutine.
func (in *input) typeNow(data []byte) []byte {
	if in.bytes > 0 || len(in.queue) > 0 {
		return data
	}
	n, err := in.s.master.TryWrite(data)
	if err != nil {
		return nil // the terminal is gone, and the run about to end
	}
	return data[n:]
}

func (in *input) remember(id shimapi.Writer, sequence uint64) {
	in.uses++
	w := in.writers[id]
	if w == nil {
		if len(in.writers) >= maxWriters {
			in.forgetOldest()
		}
		w = &writer{}
		in.writers[id] = w
	}
	w.sequence, w.used = sequence, in.uses
}

func (in *input) forgetOldest() {
	var oldest shimapi.Writer
	least := uint64(0)
	for id, w := range in.writers {
		if least == 0 || w.used < least {
			oldest, least = id, w.used
		}
	}
	delete(in.writers, oldest)
}

func (in *input) enqueue(it item) {
	in.queue = append(in.queue, it)
	in.bytes += len(it.data)
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

// resize sets a new size in order with the input, at the latest after
// resizePatience. Of sizes that wait, only the newest is set.
func (in *input) resize(r shimapi.Resize) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stopped || r.Cols == 0 || r.Rows == 0 {
		return
	}
	in.sizes++
	change := sizeChange{in.sizes, pty.Size{Cols: r.Cols, Rows: r.Rows, XPixel: r.XPixel, YPixel: r.YPixel}, r.Client}
	if in.bytes == 0 && len(in.queue) == 0 {
		in.apply(change)
		return
	}
	if last := len(in.queue) - 1; last >= 0 && in.queue[last].resize != nil {
		*in.queue[last].resize = change
		return
	}
	in.enqueue(item{resize: &change})
	if in.bytes > 0 {
		time.AfterFunc(resizePatience, in.resizeNow)
	}
}

// resizeNow sets the newest size that waits, whatever is queued before it.
func (in *input) resizeNow() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := len(in.queue) - 1; i >= 0; i-- {
		if r := in.queue[i].resize; r != nil {
			in.apply(*r)
			return
		}
	}
}

// apply sets a size unless a newer one is set, or the same for the same client.
// The log gets to know it before the program does.
func (in *input) apply(c sizeChange) {
	if c.number <= in.newest || in.stopped {
		return
	}
	in.newest = c.number
	if c.size == in.size && c.client == in.client {
		return
	}
	same := c.size == in.size
	in.size, in.client = c.size, c.client
	in.logSize(c.size, c.client)
	if same {
		return // whose it is is news to the clients, not to the program
	}
	if err := in.s.master.SetSize(c.size); err != nil {
		in.s.complain(err)
	}
}

func (in *input) logSize(size pty.Size, client uint32) {
	in.s.log.Add(logstore.TypeSize, logstore.EncodeSize(logstore.Size{
		Cols: size.Cols, Rows: size.Rows, XPixel: size.XPixel, YPixel: size.YPixel, Client: client,
	}))
}

// run types what is queued until stop is called.
func (in *input) run() {
	defer close(in.done)
	for range in.wake {
		for {
			it, ok := in.next()
			if !ok {
				break
			}
			in.typeOut(it.data)
		}
		in.mu.Lock()
		stopped := in.stopped
		in.mu.Unlock()
		if stopped {
			return
		}
	}
}

// next takes the head of the queue and does size changes on the way.
func (in *input) next() (item, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) > 0 && !in.stopped {
		it := in.queue[0]
		in.queue = in.queue[1:]
		if it.resize == nil {
			return it, true
		}
		in.apply(*it.resize)
	}
	in.queue = nil
	return item{}, false
}

func (in *input) typeOut(data []byte) {
	_, err := in.s.master.Write(data)
	in.mu.Lock()
	defer in.mu.Unlock()
	in.bytes -= len(data)
	if err != nil && !in.stopped && !in.reported && !errors.Is(err, os.ErrDeadlineExceeded) {
		in.reported = true
		in.s.complain(err)
	}
}

// state returns the bytes that wait and the size.
func (in *input) state() (queued int, size pty.Size) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.bytes, in.size
}

// stop refuses further input and waits for the goroutine, which may be in the
// middle of a write that the program will never take.
func (in *input) stop() {
	in.mu.Lock()
	in.stopped = true
	in.mu.Unlock()
	in.s.master.SetWriteDeadline(time.Unix(1, 0))
	select {
	case in.wake <- struct{}{}:
	default:
	}
	<-in.done
}

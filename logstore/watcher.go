package logstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watcher wakes the followers of live logs: with one inotify instance for all,
// or by polling where that can't be had. Safe for concurrent use.
type Watcher struct {
	large largeBuffers
	clock func() Clock
	done  chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	notify *notifier // nil: poll
}

// NewWatcher starts a watcher. It works without inotify too, only slower; the
// error is for what would make it useless, of which there is nothing yet.
func NewWatcher() (*Watcher, error) { return NewPacedWatcher(0) }

// NewPacedWatcher is NewWatcher for somebody who follows many logs and whom
// nobody watches: after each wake-up it lets pace go by before the next, so
// that a busy log costs it a wake-up for many writes.
func NewPacedWatcher(pace time.Duration) (*Watcher, error) {
	w := &Watcher{clock: systemClock(), done: make(chan struct{})}
	w.notify = newNotifier(pace, false)
	return w, nil
}

// NewPrivateWatcher is NewWatcher for a single follower, which then waits for
// the kernel itself and not for a goroutine in between: that saves a hand-over
// for each key that a user types. It must not be given a second follower.
func NewPrivateWatcher() (*Watcher, error) {
	w := &Watcher{clock: systemClock(), done: make(chan struct{})}
	w.notify = newNotifier(0, true)
	return w, nil
}

// Follow reads the log in dir from a position on. alive tells whether the
// writer lives (its lock is held); it is asked seldom: at a directory change,
// when the writer's file was closed, and once a second where there is no
// inotify. nil: at rest, Next never waits. dir may not exist yet while alive.
func (w *Watcher) Follow(dir string, from Position, alive func() bool) (*Follower, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	f := &Follower{dir: dir, pos: from, alive: alive, large: &w.large, clock: w.clock, delay: firstLook}
	if alive == nil {
		_, err := listBases(dir)
		return f, err
	}
	f.sub = &subscription{watcher: w, dir: dir, wake: make(chan struct{}, 1)}
	f.sub.watched() // before the first read
	return f, nil
}

// Close ends the watcher. Followers that wait return ErrClosed.
func (w *Watcher) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	w.closed = true
	close(w.done)
	if w.notify == nil {
		return nil
	}
	return w.notify.close()
}

// subscription is one follower's part of the watcher. wake, changed and current
// are shared with the goroutine that reads the events; the rest is the follower's.
type subscription struct {
	watcher *Watcher
	dir     string
	wake    chan struct{}
	changed atomic.Bool   // the directory, or left
	left    atomic.Bool   // the writer has closed the current segment
	current atomic.Uint64 // base of the follower's segment
	watch   *watch        // nil: poll
}

// watched tells whether events come; without a watch it tries to get one.
func (s *subscription) watched() bool {
	if s.watch != nil && !s.watch.lost.Load() {
		return true
	}
	if s.watcher.notify == nil {
		return false
	}
	s.cancel()
	s.watch = s.watcher.notify.add(s.dir, s)
	if s.watch == nil {
		return false
	}
	s.event(true) // what happened before is not told
	return true
}

func (s *subscription) cancel() {
	if s.watch != nil {
		s.watcher.notify.remove(s.watch, s)
		s.watch = nil
	}
}

// event wakes the follower.
func (s *subscription) event(changed bool) {
	if changed {
		s.changed.Store(true)
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

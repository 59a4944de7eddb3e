package logstore

import (
	"sync"
	"time"
)

// syncer makes the log durable in the background: a while after the first
// unsynced byte, or at once when asked. Nothing of it runs while all is synced.
// The segment's descriptor belongs to the writer until it is retired, then to
// the syncer, which closes it.
type syncer struct {
	fs    fileSystem
	every time.Duration // < 0: never sync

	mu      sync.Mutex
	idle    sync.Cond // running became false
	timer   *time.Timer
	pending bool // the timer is set
	due     bool // it fired while running
	running bool
	closed  bool

	dir     string
	file    segmentFile
	end     Position // written
	durable Position // synced
	broken  bool     // something below end may never be durable: durable stays
	retired []retiredFile
	newName bool // the directory is to be synced
	failed  error
	gone    bool // file has no name any more
	lastOK  bool // the last round did all it had to
}

// retiredFile is a segment that gets no more frames.
type retiredFile struct {
	file segmentFile
	size int64 // cut to this, which gives the reserve back
	sync bool  // false: a sync has failed or would
}

func newSyncer(fs fileSystem, dir string, every time.Duration) *syncer {
	s := &syncer{fs: fs, dir: dir, every: every}
	s.idle.L = &s.mu
	return s
}

// wrote notes that the log reaches end.
func (s *syncer) wrote(end Position, urgent bool) {
	if s.every < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	if urgent {
		s.arm(0)
	} else if !s.pending {
		s.arm(s.every)
	}
}

func (s *syncer) arm(d time.Duration) {
	s.pending = true
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.run)
		return
	}
	s.timer.Reset(d)
}

// use makes file, which may be nil, the one that is written from now on.
func (s *syncer) use(file segmentFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.file, s.newName, s.failed, s.gone = file, true, nil, false
	s.arm(0)
}

// retire takes over a segment that gets no more frames.
func (s *syncer) retire(r retiredFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = append(s.retired, r)
	s.file, s.failed, s.gone = nil, nil, false
	s.broken = s.broken || !r.sync
	s.arm(0)
}

// run does what is due; the timer calls it.
func (s *syncer) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending, s.due = false, true
	if s.running || s.closed {
		return
	}
	s.running = true
	for s.due {
		s.due = false
		s.round()
	}
	s.running = false
	s.idle.Broadcast()
}

// round syncs once. The lock is held at call and return, not in between.
func (s *syncer) round() {
	file, end, retired, newName := s.file, s.end, s.retired, s.newName
	s.retired, s.newName = nil, false
	if s.failed != nil || s.every < 0 {
		file = nil // a failed sync is never repeated: the kernel has dropped the pages
	}
	s.mu.Unlock()

	ok := true
	for _, r := range retired {
		ok = s.finish(r) && ok
	}
	if newName && s.every >= 0 {
		// Failing leaves durable too high only if a power cut loses the name as well.
		s.fs.syncDir(s.dir)
	}
	err := error(nil)
	gone := false
	if file != nil {
		err = file.datasync()
		gone = file.deleted()
	}

	s.mu.Lock()
	s.broken, s.lastOK = s.broken || !ok, ok
	if file == nil || file != s.file {
		return
	}
	s.gone, s.failed = gone, err
	if err == nil && !s.broken {
		s.durable = end
	}
}

func (s *syncer) finish(r retiredFile) bool {
	defer r.file.Close()
	if !r.sync {
		return true // given up before: retire has noted it
	}
	r.file.Truncate(r.size) // only gives back disk space: failing is harmless
	return s.every < 0 || r.file.datasync() == nil
}

// state returns how far the log is durable, and what the writer has to act on:
// a failed sync of the file in use, or its disappearance.
func (s *syncer) state() (durable Position, failed error, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable, s.failed, s.gone
}

// close finishes all work. The last file must have been retired. Its result is
// whether that could be synced.
func (s *syncer) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	for s.running {
		s.idle.Wait()
	}
	s.closed = true
	s.round()
	return s.lastOK
}

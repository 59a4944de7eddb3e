package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	inDirectory = syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM | syscall.IN_DELETE | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF
	inMask      = syscall.IN_MODIFY | syscall.IN_CLOSE_WRITE | inDirectory | syscall.IN_ONLYDIR | syscall.IN_DONT_FOLLOW
	inLost      = syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF | syscall.IN_IGNORED | syscall.IN_UNMOUNT
)

// remoteFS are file systems where another machine may write, of which inotify
// tells nothing; the numbers are those of statfs(2).
var remoteFS = map[uint32]string{
	0x6969: "nfs", 0x517B: "smb", 0xFF534D42: "cifs", 0xFE534D42: "smb2", 0x65735546: "fuse",
	0x01021997: "9p", 0x5346414F: "afs", 0x00C36400: "ceph",
}

// notifier owns the inotify descriptor and the goroutine that reads it.
type notifier struct {
	file    *os.File
	pace    time.Duration
	private bool   // the only follower reads the events itself, into buf
	buf     []byte // of a private notifier
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	closed  bool
	watches map[int32]*watch
}

// watch is one directory with the followers in it. The kernel has one watch
// per directory and instance, so they share it.
type watch struct {
	wd   int32
	subs []*subscription
	lost atomic.Bool // the kernel has removed it, or the directory moved away
}

func newNotifier(pace time.Duration, private bool) *notifier {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	n := &notifier{
		file: os.NewFile(uintptr(fd), "inotify"), pace: pace, private: private,
		closing: make(chan struct{}), done: make(chan struct{}), watches: make(map[int32]*watch),
	}
	if private {
		close(n.done)
		n.buf = make([]byte, eventBytes)
		return n
	}
	go n.run()
	return n
}

func (n *notifier) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	close(n.closing)
	err := n.file.Close()
	<-n.done
	return err
}

func (n *notifier) add(dir string, s *subscription) *watch {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) == nil && remoteFS[uint32(st.Type)] != "" {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	wd, err := n.control(func(fd int) (int, error) { return syscall.InotifyAddWatch(fd, dir, inMask) })
	if err != nil {
		return nil
	}
	w := n.watches[int32(wd)]
	if w == nil {
		w = &watch{wd: int32(wd)}
		n.watches[w.wd] = w
	}
	w.subs = append(w.subs, s)
	return w
}

func (n *notifier) remove(w *watch, s *subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, other := range w.subs {
		if other == s {
			w.subs = append(w.subs[:i:i], w.subs[i+1:]...)
			break
		}
	}
	if len(w.subs) > 0 || n.watches[w.wd] != w {
		return
	}
	delete(n.watches, w.wd)
	n.control(func(fd int) (int, error) { return syscall.InotifyRmWatch(fd, uint32(w.wd)) })
}

func (n *notifier) control(call func(fd int) (int, error)) (result int, err error) {
	if n.closed {
		return 0, ErrClosed
	}
	raw, err := n.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	if cerr := raw.Control(func(fd uintptr) { result, err = call(int(fd)) }); cerr != nil {
		return 0, cerr
	}
	return result, err
}

// eventBytes is how much is read of what happened at a time.
const eventBytes = 4 << 10

func (n *notifier) isPrivate() bool { return n != nil && n.private }

// wait reads events until s is woken, d has passed (0: for ever) or ctx ends.
// It is called by the one follower of a private notifier.
func (n *notifier) wait(ctx context.Context, s *subscription, d time.Duration) error {
	deadline := time.Time{}
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	n.file.SetReadDeadline(deadline)
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		n.file.SetReadDeadline(time.Unix(1, 0))
		close(passed)
	})
	defer func() {
		if !stop() {
			<-passed
		}
	}()
	for {
		select {
		case <-s.wake:
			return nil
		default:
		}
		k, err := n.file.Read(n.buf)
		switch {
		case err == nil:
			n.dispatch(n.buf[:k])
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		default:
			return ErrClosed
		}
	}
}

// run reads events until the descriptor is closed.
func (n *notifier) run() {
	defer close(n.done)
	buf := make([]byte, eventBytes)
	for {
		k, err := n.file.Read(buf)
		if err != nil {
			return
		}
		n.dispatch(buf[:k])
		if n.pace > 0 {
			select {
			case <-time.After(n.pace):
			case <-n.closing:
			}
		}
	}
}

// dispatch hands out what one read returned. The layout is that of inotify(7).
func (n *notifier) dispatch(p []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(p) >= syscall.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(p))
		mask := binary.NativeEndian.Uint32(p[4:])
		end := syscall.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(p[12:]))
		n.event(wd, mask, p[syscall.SizeofInotifyEvent:end])
		p = p[end:]
	}
}

func (n *notifier) event(wd int32, mask uint32, name []byte) {
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		for _, w := range n.watches {
			w.wakeAll()
		}
		return
	}
	w := n.watches[wd]
	if w == nil {
		return
	}
	switch {
	case mask&inLost != 0:
		w.lost.Store(true)
		delete(n.watches, wd)
		w.wakeAll()
	case mask&inDirectory != 0:
		w.wakeAll()
	case mask&syscall.IN_CLOSE_WRITE != 0:
		w.closed(name)
	default:
		for _, s := range w.subs {
			s.event(false)
		}
	}
}

func (w *watch) wakeAll() {
	for _, s := range w.subs {
		s.event(true)
	}
}

// closed wakes those whose segment the writer has closed: it may have died.
func (w *watch) closed(name []byte) {
	name, _, _ = bytes.Cut(name, []byte{0})
	base, ok := parseName(string(name), SegmentSuffix)
	if !ok {
		return
	}
	for _, s := range w.subs {
		if s.current.Load() == uint64(base) {
			s.left.Store(true)
			s.event(true)
		}
	}
}

package pty

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	creack "github.com/creack/pty"
)

// Size is a terminal size, in cells and in pixels (0: not known).
type Size struct{ Cols, Rows, XPixel, YPixel uint16 }

// Master is the master side of a pseudo-terminal. Read, Write and SetSize may
// be called at the same time, each from one goroutine.
type Master struct {
	file *os.File
	conn syscall.RawConn
	name string
}

// Open opens a pseudo-terminal of the given size. The second result is the
// slave side, which the caller owns: as long as it is open the master does not
// report a hang-up, so that a program may close its streams and open /dev/tty
// again.
func Open(size Size) (*Master, *os.File, error) {
	ptmx, slave, err := creack.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	m, err := newMaster(ptmx, slave.Name())
	if err == nil {
		err = m.SetSize(size)
	}
	if err != nil {
		ptmx.Close()
		slave.Close()
		return nil, nil, err
	}
	return m, slave, nil
}

// newMaster takes over ptmx. The library's ioctls have made the descriptor
// blocking; the master is a duplicate that the runtime's poller knows, so that
// reads can have deadlines and no thread is pinned.
func newMaster(ptmx *os.File, name string) (*Master, error) {
	fd, err := duplicate(ptmx)
	if err != nil {
		return nil, fmt.Errorf("duplicate the terminal's master: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("make the terminal's master non-blocking: %w", err)
	}
	file := os.NewFile(uintptr(fd), "ptmx")
	conn, err := file.SyscallConn()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("reach the terminal's master: %w", err)
	}
	ptmx.Close()
	return &Master{file: file, conn: conn, name: name}, nil
}

func duplicate(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	var dupErr error
	err = conn.Control(func(old uintptr) { fd, dupErr = dupCloexec(int(old)) })
	return fd, errors.Join(err, dupErr)
}

// Name is the path of the slave side, as /dev/pts/7.
func (m *Master) Name() string { return m.name }

// Read waits until the program has printed something and then takes all there
// is, up to len(p): the kernel hands out about 4 KiB at a time, so one call may
// be many read(2). A short one is the last: there is hardly more to be had, and
// an echo should not wait for the proof. It returns io.EOF when every descriptor of the slave side is
// closed, and os.ErrDeadlineExceeded after the deadline.
func (m *Master) Read(p []byte) (int, error) {
	n := 0
	var readErr error
	err := m.conn.Read(func(fd uintptr) bool {
		for n < len(p) {
			got, err := syscall.Read(int(fd), p[n:])
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if errors.Is(err, syscall.EAGAIN) {
				return n > 0
			}
			if err != nil || got == 0 {
				readErr = masterError(err)
				return true
			}
			n += got
			if got < ShortRead {
				return true
			}
		}
		return true
	})
	if n > 0 {
		return n, nil // the error, if it lasts, comes again
	}
	if err != nil {
		return 0, err
	}
	return 0, readErr
}

// ShortRead is a number of bytes well below what one read(2) returns of a
// program that prints without a pause.
const ShortRead = 256

// masterError turns EIO, by which Linux says that the slave side is closed,
// and the end of file of other systems into io.EOF.
func masterError(err error) error {
	if err == nil || errors.Is(err, syscall.EIO) {
		return io.EOF
	}
	return fmt.Errorf("read the terminal: %w", err)
}

// Write types p at the program, waiting while its input queue is full.
func (m *Master) Write(p []byte) (int, error) { return m.file.Write(p) }

// TryWrite types as much of p as the program's input queue takes at once.
func (m *Master) TryWrite(p []byte) (int, error) {
	n := 0
	var writeErr error
	err := m.conn.Write(func(fd uintptr) bool {
		for n < len(p) {
			put, err := syscall.Write(int(fd), p[n:])
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				if !errors.Is(err, syscall.EAGAIN) {
					writeErr = fmt.Errorf("type at the terminal: %w", err)
				}
				return true
			}
			n += put
		}
		return true
	})
	return n, errors.Join(err, writeErr)
}

// SetReadDeadline bounds Read; the zero time removes the bound.
func (m *Master) SetReadDeadline(t time.Time) error { return m.file.SetReadDeadline(t) }

// SetWriteDeadline bounds Write; the zero time removes the bound.
func (m *Master) SetWriteDeadline(t time.Time) error { return m.file.SetWriteDeadline(t) }

// SetSize sets the size; the kernel sends SIGWINCH to the foreground process
// group when it differs from the one before.
func (m *Master) SetSize(s Size) error {
	var ioctlErr error
	err := m.conn.Control(func(fd uintptr) {
		ioctlErr = setWinsize(fd, s)
	})
	if err := errors.Join(err, ioctlErr); err != nil {
		return fmt.Errorf("set the terminal's size: %w", err)
	}
	return nil
}

// Foreground returns the terminal's foreground process group.
func (m *Master) Foreground() (int, error) {
	var pgid int
	var ioctlErr error
	err := m.conn.Control(func(fd uintptr) { pgid, ioctlErr = foregroundGroup(fd) })
	if err := errors.Join(err, ioctlErr); err != nil {
		return 0, fmt.Errorf("ask for the foreground process group: %w", err)
	}
	return pgid, nil
}

// Close hangs the terminal up.
func (m *Master) Close() error { return m.file.Close() }

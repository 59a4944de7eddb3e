package tty

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// Errors of [Terminal]; test with [errors.Is].
var (
	// ErrNotTerminal: one of the two descriptors is no terminal.
	ErrNotTerminal = errors.New("not a terminal")
	// ErrClosed: the Terminal was closed.
	ErrClosed = errors.New("terminal closed")
)

// Size of a terminal: cells, and pixels of the whole text area. Either may be
// 0 where the terminal does not tell.
type Size struct {
	Cols, Rows     int
	XPixel, YPixel int
}

// blockingPiece is the most that one write(2) is given, in bytes, where there
// is only the user's own, blocking descriptor: "writable" promises room for no
// more than a little.
const blockingPiece = 256

// Terminal is the pair of descriptors of the user's terminal.
//
// The descriptors stay the caller's. Their flags are shared with the shell
// that started us, so they are never changed; to be able to give up on a
// terminal that takes no bytes, the device is opened a second time, with flags
// of its own.
//
// All methods may be called from several goroutines. Reads exclude each other,
// and so do writes.
type Terminal struct {
	in, out     *os.File // kept so that the descriptors stay open
	inFD, outFD int
	// reader and writer are the device opened again, known to the runtime's
	// poller; nil where that is impossible and the user's descriptors are used.
	reader, writer *os.File

	found      unix.Termios
	inFlags    int
	outFlags   int
	readWaker  *waker
	writeWaker *waker

	readMu  sync.Mutex
	writeMu sync.Mutex

	mu     sync.Mutex // guards raw and closed
	raw    bool
	closed bool
}

// Open remembers the terminal settings and descriptor flags exactly as they
// are. It changes nothing. The files must stay open until Close.
func Open(in, out *os.File) (*Terminal, error) {
	t := &Terminal{in: in, out: out}
	var err error
	if t.inFD, err = terminalFD(in); err != nil {
		return nil, err
	}
	if t.outFD, err = terminalFD(out); err != nil {
		return nil, err
	}
	if err := t.remember(); err != nil {
		return nil, err
	}
	if t.readWaker, err = newWaker(); err != nil {
		return nil, err
	}
	if t.writeWaker, err = newWaker(); err != nil {
		t.readWaker.close()
		return nil, err
	}
	t.reopen()
	return t, nil
}

// terminalFD asks the file for its descriptor without [os.File.Fd], which
// would set it to blocking.
func terminalFD(f *os.File) (int, error) {
	if f == nil {
		return -1, ErrNotTerminal
	}
	fd, err := rawFD(f)
	if err != nil {
		return -1, err
	}
	if !term.IsTerminal(fd) {
		return -1, fmt.Errorf("%s: %w", f.Name(), ErrNotTerminal)
	}
	return fd, nil
}

func rawFD(f *os.File) (int, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("descriptor of %s: %w", f.Name(), err)
	}
	fd := -1
	if err := conn.Control(func(p uintptr) { fd = int(p) }); err != nil {
		return -1, fmt.Errorf("descriptor of %s: %w", f.Name(), err)
	}
	return fd, nil
}

func (t *Terminal) remember() error {
	found, err := getTermios(t.inFD)
	if err != nil {
		return fmt.Errorf("read terminal settings: %w", err)
	}
	t.found = *found
	if t.inFlags, err = unix.FcntlInt(uintptr(t.inFD), unix.F_GETFL, 0); err != nil {
		return fmt.Errorf("read descriptor flags: %w", err)
	}
	if t.outFlags, err = unix.FcntlInt(uintptr(t.outFD), unix.F_GETFL, 0); err != nil {
		return fmt.Errorf("read descriptor flags: %w", err)
	}
	return nil
}

// reopen opens the device again, with flags of our own. Where that is refused
// (after su the device belongs to somebody else) the user's descriptors are
// used as they are.
func (t *Terminal) reopen() {
	t.reader = openAgain(t.inFD, unix.O_RDONLY)
	t.writer = openAgain(t.outFD, unix.O_WRONLY)
}

func openAgain(fd, mode int) *os.File {
	path, err := devicePath(fd)
	if err != nil || !pollerTakesTerminals {
		return nil
	}
	again, err := ignoreEINTR(func() (int, error) {
		return unix.Open(path, mode|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(again), path)
	if f.SetDeadline(time.Time{}) != nil { // the poller does not take it
		f.Close()
		return nil
	}
	return f
}

// Raw puts the terminal into raw mode: every byte as it is, no echo, no
// signals, no output processing. What was typed ahead is kept.
func (t *Terminal) Raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return ErrClosed
	}
	raw := t.found
	raw.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP |
		unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	raw.Oflag &^= unix.OPOST
	raw.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	raw.Cflag &^= unix.CSIZE | unix.PARENB
	raw.Cflag |= unix.CS8
	raw.Cc[unix.VMIN] = 1
	raw.Cc[unix.VTIME] = 0
	if err := setTermios(t.inFD, &raw); err != nil {
		return fmt.Errorf("set raw mode: %w", err)
	}
	t.raw = true
	return nil
}

// Restore puts settings and descriptor flags back exactly as Open found them.
// It may be called any number of times, also when Raw never was.
//
// The settings change at once (TCSANOW): what was written has been processed
// already, waiting for it (TCSADRAIN) would hang on a stalled terminal, and
// flushing (TCSAFLUSH) would lose what was typed for the shell. Late answers
// are the business of [Terminal.Drain], before.
func (t *Terminal) Restore() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.restoreLocked()
}

func (t *Terminal) restoreLocked() error {
	var errs []error
	if t.raw {
		if err := setTermios(t.inFD, &t.found); err != nil {
			errs = append(errs, fmt.Errorf("restore terminal settings: %w", err))
		} else {
			t.raw = false
		}
	}
	errs = append(errs, restoreFlags(t.inFD, t.inFlags), restoreFlags(t.outFD, t.outFlags))
	return errors.Join(errs...)
}

// restoreFlags writes only when there is a difference: nothing here changes
// them, but the descriptors are shared with everything else in the process.
func restoreFlags(fd, want int) error {
	have, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return fmt.Errorf("read descriptor flags: %w", err)
	}
	if have == want {
		return nil
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, want); err != nil {
		return fmt.Errorf("restore descriptor flags: %w", err)
	}
	return nil
}

// Size asks the kernel. A terminal without a size is reported as 0x0.
func (t *Terminal) Size() (Size, error) {
	ws, err := unix.IoctlGetWinsize(t.outFD, unix.TIOCGWINSZ)
	if err != nil {
		return Size{}, fmt.Errorf("read terminal size: %w", err)
	}
	return Size{Cols: int(ws.Col), Rows: int(ws.Row), XPixel: int(ws.Xpixel), YPixel: int(ws.Ypixel)}, nil
}

// Read waits for input and reads once. When ctx ends it returns ctx.Err(), and
// bytes that come later stay in the terminal's queue for whoever reads next.
// A terminal that went away is [io.EOF].
func (t *Terminal) Read(ctx context.Context, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	t.readMu.Lock()
	defer t.readMu.Unlock()
	if t.reader != nil {
		return t.readPolled(ctx, p)
	}
	defer t.readWaker.watch(ctx)()
	for {
		if err := t.await(ctx, t.inFD, false, t.readWaker); err != nil {
			return 0, err
		}
		n, err := ignoreEINTR(func() (int, error) { return unix.Read(t.inFD, p) })
		switch {
		case err == unix.EAGAIN: // somebody else was faster
			continue
		case err == unix.EIO, err == nil && n == 0:
			return 0, io.EOF
		case err != nil:
			return 0, fmt.Errorf("read terminal: %w", err)
		}
		return n, nil
	}
}

func (t *Terminal) readPolled(ctx context.Context, p []byte) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	defer bound(ctx, t.reader.SetReadDeadline)()
	n, err := t.reader.Read(p)
	if n > 0 {
		return n, nil
	}
	return 0, t.polledError(ctx, "read", err)
}

// polledError says what an error of the poller's means here.
func (t *Terminal) polledError(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrClosed):
		return ErrClosed
	case what == "read" && (errors.Is(err, unix.EIO) || errors.Is(err, io.EOF)):
		return io.EOF
	}
	return fmt.Errorf("%s terminal: %w", what, err)
}

// bound makes a call on a file of ours end when ctx does, by a deadline in the
// past: then nothing is read or written any more. The function that it returns
// must be called before the next one.
func bound(ctx context.Context, setDeadline func(time.Time) error) func() {
	setDeadline(time.Time{})
	if ctx.Done() == nil {
		return func() {}
	}
	passed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		setDeadline(time.Unix(1, 0))
		close(passed)
	})
	return func() {
		if !stop() {
			<-passed
		}
	}
}

// Write writes all of p, however long the terminal takes.
func (t *Terminal) Write(p []byte) (int, error) {
	return t.WriteContext(context.Background(), p)
}

// WriteContext writes all of p, or gives up with ctx.Err() when ctx ends while
// the terminal takes no bytes. It returns how many bytes went out.
func (t *Terminal) WriteContext(ctx context.Context, p []byte) (int, error) {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	if t.writer != nil {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		defer bound(ctx, t.writer.SetWriteDeadline)()
		n, err := t.writer.Write(p)
		return n, t.polledError(ctx, "write", err)
	}
	defer t.writeWaker.watch(ctx)()
	done := 0
	for done < len(p) {
		if err := t.await(ctx, t.outFD, true, t.writeWaker); err != nil {
			return done, err
		}
		piece := p[done:min(done+blockingPiece, len(p))]
		n, err := ignoreEINTR(func() (int, error) { return unix.Write(t.outFD, piece) })
		done += max(n, 0)
		if err != nil && err != unix.EAGAIN {
			return done, fmt.Errorf("write terminal: %w", err)
		}
	}
	return done, nil
}

// await blocks until fd is ready. The end of ctx goes first, so that after it
// nothing is read or written any more.
func (t *Terminal) await(ctx context.Context, fd int, write bool, w *waker) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t.isClosed() {
			return ErrClosed
		}
		ready, woken, err := wait(fd, write, w.fd)
		if err != nil {
			return fmt.Errorf("wait for terminal: %w", err)
		}
		if woken {
			w.drain()
			continue
		}
		if ready {
			return ctx.Err()
		}
	}
}

// Drain reads until nothing has come for quiet, or ctx ends, and returns what
// it read. It is for the way out, still in raw mode: late answers, repeats and
// releases of the detach key must not reach the shell. What the user typed
// ahead in that moment is in the result too; a terminal has no way to put it
// back.
func (t *Terminal) Drain(ctx context.Context, quiet time.Duration) ([]byte, error) {
	var got []byte
	buf := make([]byte, 1024)
	for {
		once, cancel := context.WithTimeout(ctx, quiet)
		n, err := t.Read(once, buf)
		cancel()
		got = append(got, buf[:n]...)
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

// Resizes sends the size after every change, until ctx ends; then the channel
// is closed. Changes that nobody received are replaced by the latest. It is
// subscribed when Resizes returns: call it before Size to miss nothing.
func (t *Terminal) Resizes(ctx context.Context) <-chan Size {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGWINCH)
	sizes := make(chan Size, 1)
	go t.followSize(ctx, signals, sizes) // owns both channels
	return sizes
}

func (t *Terminal) followSize(ctx context.Context, signals chan os.Signal, sizes chan Size) {
	defer close(sizes)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		size, err := t.Size()
		if err != nil {
			continue // hung up; Read tells
		}
		select {
		case <-sizes: // not received in time: the newer one is the truth
		default:
		}
		sizes <- size // has room: this goroutine is the only sender
	}
}

// Close restores the terminal, ends running reads and writes with [ErrClosed]
// and frees what Open took. The caller's files stay open.
func (t *Terminal) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	err := t.restoreLocked()
	t.mu.Unlock()

	t.readWaker.wake()
	t.writeWaker.wake()
	for _, f := range []*os.File{t.reader, t.writer} {
		if f != nil {
			f.Close()
		}
	}
	t.readMu.Lock()
	defer t.readMu.Unlock()
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	t.readWaker.close()
	t.writeWaker.close()
	return err
}

func (t *Terminal) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// waker is a pipe that ends a wait. A byte too many is harmless: who is woken
// looks at its context again.
type waker struct {
	r, w *os.File
	fd   int // of r
}

func newWaker() (*waker, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make wake pipe: %w", err)
	}
	fd, err := rawFD(r)
	if err != nil {
		r.Close()
		w.Close()
		return nil, err
	}
	return &waker{r: r, w: w, fd: fd}, nil
}

// watch wakes when ctx ends. The returned function stops that.
func (w *waker) watch(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	stop := context.AfterFunc(ctx, w.wake)
	return func() { stop() }
}

func (w *waker) wake() { w.w.Write([]byte{0}) }

func (w *waker) drain() {
	var buf [64]byte
	ignoreEINTR(func() (int, error) { return unix.Read(w.fd, buf[:]) })
}

func (w *waker) close() {
	w.r.Close()
	w.w.Close()
}

func getTermios(fd int) (*unix.Termios, error) {
	for {
		t, err := unix.IoctlGetTermios(fd, ioctlGetTermios)
		if err != unix.EINTR {
			return t, err
		}
	}
}

func setTermios(fd int, t *unix.Termios) error {
	_, err := ignoreEINTR(func() (int, error) {
		return 0, unix.IoctlSetTermios(fd, ioctlSetTermios, t)
	})
	return err
}

func ignoreEINTR(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

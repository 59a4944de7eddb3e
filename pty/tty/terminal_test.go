package tty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// pair is a terminal (the tty side, as the client gets it) and its other end.
type pair struct {
	*Terminal
	master *os.File
	tty    *os.File
	fd     int // of tty
}

func newPair(t *testing.T) *pair {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close(); slave.Close() })
	fd, err := rawFD(slave)
	if err != nil {
		t.Fatal(err)
	}
	// As a shell hands it over: settings that are not the default, blocking.
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
	tio, err := getTermios(fd)
	if err != nil {
		t.Fatal(err)
	}
	tio.Iflag |= unix.IXOFF
	tio.Cc[unix.VINTR] = 7
	if err := setTermios(fd, tio); err != nil {
		t.Fatal(err)
	}
	term, err := Open(slave, slave)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { term.Close() })
	return &pair{Terminal: term, master: master, tty: slave, fd: fd}
}

type ttyState struct {
	termios unix.Termios
	flags   int
}

func (p *pair) state(t *testing.T) ttyState {
	t.Helper()
	tio, err := getTermios(p.fd)
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(uintptr(p.fd), unix.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ttyState{*tio, flags}
}

func TestOpenNotTerminal(t *testing.T) {
	p := newPair(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for _, f := range [][2]*os.File{{r, p.tty}, {p.tty, w}, {nil, p.tty}} {
		if _, err := Open(f[0], f[1]); !errors.Is(err, ErrNotTerminal) {
			t.Errorf("%v", err)
		}
	}
}

func TestRawRestore(t *testing.T) {
	p := newPair(t)
	before := p.state(t)
	if before.flags&unix.O_NONBLOCK != 0 {
		t.Fatal("the test's terminal is not as a shell's")
	}
	for range 3 {
		if err := p.Raw(); err != nil {
			t.Fatal(err)
		}
		now := p.state(t)
		if now.termios.Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 || now.termios.Oflag&unix.OPOST != 0 || now.termios.Iflag&unix.ICRNL != 0 {
			t.Error("not raw")
		}
		if now.flags != before.flags {
			t.Error("descriptor flags changed by Raw")
		}
		for range 2 {
			if err := p.Restore(); err != nil {
				t.Fatal(err)
			}
			if p.state(t) != before {
				t.Errorf("%+v, want %+v", p.state(t), before)
			}
		}
	}
	// Someone in the process made it non-blocking.
	if err := unix.SetNonblock(p.fd, true); err != nil {
		t.Fatal(err)
	}
	p.Raw()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if p.state(t) != before {
		t.Error("not restored by Close")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Raw(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestFoundNonblocking: the user's terminal was non-blocking when we came.
func TestFoundNonblocking(t *testing.T) {
	p := newPair(t)
	if err := unix.SetNonblock(p.fd, true); err != nil {
		t.Fatal(err)
	}
	term, err := Open(p.tty, p.tty)
	if err != nil {
		t.Fatal(err)
	}
	defer term.Close()
	before := p.state(t)
	if err := term.Raw(); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, io.LimitReader(p.master, 1<<20))
	if n, err := term.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
		t.Error(n, err)
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
	if p.state(t) != before {
		t.Error("not as found")
	}
}

func TestSize(t *testing.T) {
	p := newPair(t)
	for _, want := range []Size{{0, 0, 0, 0}, {132, 43, 1320, 860}} {
		err := pty.Setsize(p.master, &pty.Winsize{Cols: uint16(want.Cols), Rows: uint16(want.Rows), X: uint16(want.XPixel), Y: uint16(want.YPixel)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.Size(); got != want || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestReadWrite(t *testing.T) {
	p := newPair(t)
	if err := p.Raw(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	for _, want := range []string{"a", "\x1b[A", "\x03\x1c\r\n"} {
		p.master.Write([]byte(want))
		n, err := p.Read(t.Context(), buf)
		if string(buf[:n]) != want || err != nil {
			t.Errorf("%q, %v", buf[:n], err)
		}
	}
	want := bytes.Repeat([]byte("output\n"), 100_000)
	got := make(chan []byte)
	go func() {
		b := make([]byte, len(want))
		n, _ := io.ReadFull(p.master, b)
		got <- b[:n]
	}()
	if n, err := p.Write(want); n != len(want) || err != nil {
		t.Error(n, err)
	}
	if !bytes.Equal(<-got, want) {
		t.Error("output differs")
	}
}

// TestReadCancel: a byte that comes after the cancel is there for the next
// reader.
func TestReadCancel(t *testing.T) {
	p := newPair(t)
	if err := p.Raw(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := p.Read(ctx, buf)
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		p.master.Write([]byte("x"))
		if _, err := p.Read(ctx, buf); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if n, err := p.Read(t.Context(), buf); n != 1 || buf[0] != 'x' || err != nil {
			t.Fatal(n, err)
		}
	}
}

func TestReadHangup(t *testing.T) {
	p := newPair(t)
	p.master.Close()
	if _, err := p.Read(t.Context(), make([]byte, 10)); err != io.EOF {
		t.Error(err)
	}
	if _, err := p.Write([]byte("x")); err == nil {
		t.Error("written to nowhere")
	}
}

// TestWriteStalled: nobody reads the terminal, and yet the client gets away;
// also with the user's own descriptor, where it cannot be opened again.
func TestWriteStalled(t *testing.T) {
	for name, prepare := range map[string]func(p *pair){
		"own descriptor": func(*pair) {},
		"user's descriptor": func(p *pair) {
			p.writer = nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			prepare(p)
			if err := p.Raw(); err != nil {
				t.Fatal(err)
			}
			before := p.state(t)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			n, err := p.WriteContext(ctx, make([]byte, 1<<20))
			if !errors.Is(err, context.DeadlineExceeded) || n == 0 || n == 1<<20 {
				t.Error(n, err)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Error(d)
			}
			if p.state(t) != before {
				t.Error("state changed")
			}
			// Exactly n bytes went out, and it goes on after that.
			got := make(chan int)
			go func() {
				m, _ := io.ReadFull(p.master, make([]byte, n+5))
				got <- m
			}()
			if _, err := p.Write([]byte("after")); err != nil {
				t.Error(err)
			}
			if m := <-got; m != n+5 {
				t.Error(m, n)
			}
		})
	}
}

func TestCloseEndsRead(t *testing.T) {
	p := newPair(t)
	done := make(chan error)
	go func() {
		_, err := p.Read(context.Background(), make([]byte, 1))
		done <- err
	}()
	p.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := p.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestDrain(t *testing.T) {
	p := newPair(t)
	if err := p.Raw(); err != nil {
		t.Fatal(err)
	}
	p.master.Write([]byte("\x1b[92;5:3u\x1b[?62c"))
	got, err := p.Drain(t.Context(), 50*time.Millisecond)
	if string(got) != "\x1b[92;5:3u\x1b[?62c" || err != nil {
		t.Errorf("%q %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := p.Drain(ctx, time.Hour); len(got) > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%q %v", got, err)
	}
	p.master.Close()
	if _, err := p.Drain(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

func TestResizes(t *testing.T) {
	p := newPair(t)
	ctx, cancel := context.WithCancel(t.Context())
	sizes := p.Resizes(ctx)
	for cols := range uint16(100) {
		pty.Setsize(p.master, &pty.Winsize{Cols: cols + 1, Rows: 24})
		syscall.Kill(os.Getpid(), syscall.SIGWINCH)
	}
	deadline := time.After(10 * time.Second)
	for last := 0; last != 100; {
		select {
		case s := <-sizes:
			if s.Cols < last {
				t.Fatalf("%d after %d", s.Cols, last)
			}
			last = s.Cols
		case <-deadline:
			t.Fatal("the last size did not come")
		}
	}
	cancel()
	for range sizes { // closed in the end
	}
}

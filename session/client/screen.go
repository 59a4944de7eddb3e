package client

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"agentmux/pty/tty"
	"agentmux/session/wire"
)

// Screen is the user's terminal while a client uses it: raw, probed, with
// books about what is switched on. Begin and End are the two ends; between
// them an Attach uses it.
type Screen struct {
	terminal *tty.Terminal
	filter   *tty.Filter

	signals chan os.Signal
	release context.CancelFunc // ends the catching of signals

	writeMu sync.Mutex // one piece of output at a time
	cutOff  bool       // a piece was not written whole: the books are not right

	mu     sync.Mutex // guards prober
	prober *tty.Prober
	until  time.Time // late answers are waited for
	used   bool      // a snapshot was shown
	probed chan struct{}
	done   bool // probed is closed
	typed  []byte
}

// lateAnswers is how long after the probe answers of a slow terminal are
// still recognised as such.
const lateAnswers = 5 * time.Second

// answersWithin is how long after the probe the way out waits for them.
const answersWithin = time.Second

// OpenScreen prepares the terminal of the two files. It returns
// tty.ErrNotTerminal if there is none, and changes nothing yet.
func OpenScreen(in, out *os.File) (*Screen, error) {
	t, err := tty.Open(in, out)
	if err != nil {
		return nil, err
	}
	return &Screen{
		terminal: t, filter: tty.NewFilter(), prober: tty.NewProber(),
		probed: make(chan struct{}), signals: make(chan os.Signal, 4), release: func() {},
	}, nil
}

// SignalError is the cause of a context that a signal to this process ended.
type SignalError struct{ Signal syscall.Signal }

func (e SignalError) Error() string { return e.Signal.String() }

// Begin puts the terminal into raw mode and asks it what it is; the answers
// come later. Until End, signals that would kill this process end the context
// that Begin returns, with a SignalError as its cause: a terminal must not be
// left raw. The end of ctx itself does not.
func (s *Screen) Begin(ctx context.Context) (context.Context, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	signal.Notify(s.signals, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT)
	caught, release := context.WithCancel(context.Background())
	s.release = release
	go func() {
		select {
		case sig := <-s.signals:
			cancel(SignalError{sig.(syscall.Signal)})
		case <-caught.Done():
			cancel(nil)
		}
	}()
	if err := s.terminal.Raw(); err != nil {
		return ctx, err
	}
	s.until = time.Now().Add(lateAnswers)
	_, err := s.terminal.WriteContext(ctx, append(s.filter.Enter(), tty.ProbeSequence()...))
	return ctx, err
}

// AwaitProfile waits, at most for tty.ProbeTimeout, until the terminal has
// said what it is. What is typed meanwhile is kept.
func (s *Screen) AwaitProfile(ctx context.Context) wire.Profile {
	ctx, cancel := context.WithTimeout(ctx, tty.ProbeTimeout)
	defer cancel()
	buf := make([]byte, 4096)
	for !s.wasProbed() {
		n, err := s.terminal.Read(ctx, buf)
		if err != nil {
			break
		}
		rest := s.takeAnswers(buf[:n])
		s.mu.Lock()
		s.typed = append(s.typed, rest...)
		s.mu.Unlock()
	}
	return s.profile()
}

func (s *Screen) wasProbed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}

// takeAnswers takes the answers to the probe out of what was read and returns
// the rest, with what was typed before in front.
func (s *Screen) takeAnswers(data []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	typed := s.typed
	s.typed = nil
	if s.done && !s.prober.Outstanding() || time.Now().After(s.until) {
		return append(append(typed, s.prober.Flush()...), data...)
	}
	rest, done := s.prober.Feed(data)
	if done {
		s.finishProbe()
	}
	return append(typed, rest...)
}

func (s *Screen) flushAnswers() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prober.Flush()
}

// answersWait is how long the start of what may be an answer is held back.
func (s *Screen) answersWait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prober.Pending() {
		return tty.SequenceTimeout
	}
	return 0
}

func (s *Screen) finishProbe() {
	if !s.done {
		s.done = true
		close(s.probed)
	}
}

// whenProbed calls f, on a goroutine of its own, once the terminal has
// answered, unless ctx ends first.
func (s *Screen) whenProbed(ctx context.Context, f func()) {
	go func() {
		select {
		case <-s.probed:
			f()
		case <-ctx.Done():
		}
	}()
}

func (s *Screen) profile() wire.Profile {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.prober.Profile()
	return wire.Profile{
		Foreground: p.Foreground, Background: p.Background, CellWidth: p.CellWidth, CellHeight: p.CellHeight,
		KittyKeyboard: p.KittyKeyboard, Name: p.Name,
	}
}

// size is the terminal's size, zero if it has none.
func (s *Screen) size() tty.Size {
	z, err := s.terminal.Size()
	if err != nil {
		return tty.Size{}
	}
	return z
}

// Size is the terminal's size in cells, zero if it has none.
func (s *Screen) Size() (cols, rows int) {
	z := s.size()
	return z.Cols, z.Rows
}

// write writes a piece of output whole. When ctx ends meanwhile the terminal
// gets a little time to take the rest, since what was filtered is in the books
// as shown; a terminal that does not take it is noted as cut off.
func (s *Screen) write(ctx context.Context, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(leaveBudget, cancel)
		context.AfterFunc(bounded, func() { timer.Stop() })
	})
	defer stop()
	n, err := s.terminal.WriteContext(bounded, p)
	if n < len(p) {
		s.cutOff = true
	}
	return err
}

// scrollAway is what goes before the first snapshot: it moves what the shell
// has on the screen into the terminal's own scrollback, since the snapshot is
// painted over it.
func (s *Screen) scrollAway() []byte {
	if s.used {
		return nil
	}
	s.used = true
	rows := s.size().Rows
	if rows <= 0 {
		return nil
	}
	return append([]byte("\x1b[999;1H"), bytes.Repeat([]byte{'\n'}, rows)...)
}

// bell tells the user that something typed was not taken.
func (s *Screen) bell() {
	ctx, cancel := context.WithTimeout(context.Background(), leaveBudget)
	defer cancel()
	s.write(ctx, []byte{'\a'})
}

// swallowAnswers waits for the answers to the probe that a slow terminal still
// owes, lest the shell gets them, and reports whether it owed any. A terminal
// that has said nothing for answersWithin is one that never will.
func (s *Screen) swallowAnswers(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.prober.Outstanding() || time.Now().After(s.until) {
		return false
	}
	ctx, cancel := context.WithDeadline(ctx, s.until.Add(answersWithin-lateAnswers))
	defer cancel()
	buf := make([]byte, 1024)
	for s.prober.Outstanding() {
		n, err := s.terminal.Read(ctx, buf)
		if err != nil {
			break
		}
		s.prober.Feed(buf[:n])
	}
	return true
}

// End switches off what is on, swallows what the terminal still has to say to
// us, and leaves settings and flags as they were found. It may be called more
// than once.
func (s *Screen) End(drain bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveBudget)
	defer cancel()
	leave := s.filter.Leave()
	if s.cutOff {
		// End whatever was cut, and switch off all that may be on.
		leave = slices.Concat([]byte("\x18\x1b\\"), leave, tty.ResetSequence())
	}
	err := s.write(ctx, leave)
	if s.swallowAnswers(ctx) || drain {
		s.terminal.Drain(ctx, drainQuiet)
	}
	err = errors.Join(err, s.terminal.Restore(), s.terminal.Close())
	signal.Stop(s.signals)
	s.release()
	return err
}

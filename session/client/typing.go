package client

import (
	"context"
	"sync"
	"time"

	"agentmux/pty/shimapi"
)

// Bounds of typing.
const (
	// window is how many bytes may be on their way to the shim unacknowledged.
	window = 256 << 10
	// maxHeld is how many bytes of typing are held while they cannot be sent.
	maxHeld = 64 << 20
	// maxPaste is where a paste is cut in two groups: less than the shim takes.
	maxPaste = 4 << 20
	// retryTyping is the pause before input is sent again that the shim had no
	// room for, and between attempts to reach it.
	retryTyping = 50 * time.Millisecond
	// direct is how many bytes may be unacknowledged for a key to be sent at
	// once by whoever adds it: few enough that the socket takes them for sure,
	// even from a shim that is stopped.
	direct = 16 << 10
)

// typing carries input to the shim of one run: in order, once, across broken
// connections. Its own goroutine (run) connects and sends; a second one reads
// the answers of the connection.
type typing struct {
	bundle  shimapi.Bundle
	session [16]byte
	role    shimapi.Role
	// uncertain is called when it cannot be known whether input was typed.
	uncertain func()

	wake chan struct{} // capacity 1
	gone chan struct{} // closed when the shim has ended

	mu       sync.Mutex
	writer   shimapi.Writer
	sequence uint64
	frames   []keystroke     // not acknowledged, oldest first
	sent     int             // of frames, how many were sent on this connection
	inFlight int             // bytes of those
	held     int             // bytes of frames
	group    int             // bytes of the paste that is being added
	resize   *shimapi.Resize // to be sent
	paused   time.Time       // until then nothing is sent
	sending  bool            // run is in the middle of sending
	settled  chan struct{}   // closed, if there is one, when nothing is held any more
	conn     *shimapi.Conn
}

// keystroke is a frame of input and, unless it has no columns, the size that
// the session is to have before it is typed.
type keystroke struct {
	shimapi.Input
	size shimapi.Resize
}

// send sends the size with the input: the shim ignores a size that is no news.
func (k keystroke) send(conn *shimapi.Conn) error {
	if k.size.Cols == 0 {
		return conn.Send(k.Input)
	}
	return conn.Send(k.size, k.Input)
}

func newTyping(b shimapi.Bundle, session [16]byte, role shimapi.Role, uncertain func()) *typing {
	return &typing{
		bundle: b, session: session, role: role, uncertain: uncertain,
		wake: make(chan struct{}, 1), gone: make(chan struct{}), writer: shimapi.NewWriter(),
	}
}

// alive reports whether the shim is believed to live.
func (t *typing) alive() bool {
	select {
	case <-t.gone:
		return false
	default:
		return true
	}
}

// add queues input. more marks a piece of a paste that is not the last; size is
// that of the terminal at which it was typed, or without columns none. It
// returns false when so much is held already that the input was dropped.
func (t *typing) add(kind shimapi.Kind, data []byte, more bool, size shimapi.Resize) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held+len(data) > maxHeld && !(t.group > 0 && !more) {
		return false
	}
	t.group += len(data)
	flags := uint8(0)
	if more && t.group < maxPaste {
		flags = shimapi.FlagMore
	} else {
		t.group = 0
	}
	t.sequence++
	t.frames = append(t.frames, keystroke{
		Input: shimapi.Input{Writer: t.writer, Sequence: t.sequence, Kind: kind, Flags: flags, Data: data},
		size:  size,
	})
	t.held += len(data)
	if t.sendDirect() {
		return true
	}
	t.poke()
	return true
}

// idle reports that a connection is there and all that was added before the
// last n frames is on its way, in order. t.mu is held.
func (t *typing) idle(n int) bool {
	return t.conn != nil && !t.sending && t.resize == nil && t.paused.IsZero() && t.sent == len(t.frames)-n
}

// sendDirect sends the frame just added, sparing a key the way over the other
// goroutine. t.mu is held.
func (t *typing) sendDirect() bool {
	last := t.frames[len(t.frames)-1]
	if !t.idle(1) || t.inFlight+len(last.Data) > direct {
		return false
	}
	t.sent++
	t.inFlight += len(last.Data)
	return last.send(t.conn) == nil
}

// signal passes a signal on, if the shim can be reached at the moment.
func (t *typing) signal(s shimapi.Signal) {
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	if conn != nil {
		conn.Send(s)
	}
}

// setSize asks for a size; it goes out before input that is added later.
func (t *typing) setSize(r shimapi.Resize) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.idle(0) && t.inFlight <= direct && t.conn.Send(r) == nil {
		return
	}
	t.resize = &r
	t.poke()
}

func (t *typing) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run keeps a connection and sends until ctx ends or the shim has.
func (t *typing) run(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := shimapi.ConnectRun(ctx, t.bundle, t.session, t.role)
		if err == nil {
			t.serve(ctx, conn)
		}
		if locked, err := shimapi.Locked(t.bundle.Lock()); err == nil && !locked {
			close(t.gone)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryTyping):
		}
	}
}

// serve uses one connection until it ends.
func (t *typing) serve(ctx context.Context, conn *shimapi.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	t.mu.Lock()
	t.conn, t.sent, t.inFlight, t.sending = conn, 0, 0, true
	t.mu.Unlock()
	go func() {
		defer cancel()
		t.readAnswers(conn)
	}()
	for t.sendSome(conn) {
		select {
		case <-ctx.Done():
		case <-t.wake:
			continue
		case <-t.pause():
			continue
		}
		break
	}
	t.mu.Lock()
	t.conn = nil
	t.mu.Unlock()
}

// pause is a timer that runs while the shim has no room, else nil.
func (t *typing) pause() <-chan time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.paused.IsZero() {
		return nil
	}
	return time.After(time.Until(t.paused))
}

// sendSome sends what the window allows. It returns false when the connection
// has broken.
func (t *typing) sendSome(conn *shimapi.Conn) bool {
	for {
		t.mu.Lock()
		t.sending = false
		if time.Now().Before(t.paused) {
			t.mu.Unlock()
			return true
		}
		t.paused = time.Time{}
		resize := t.resize
		t.resize = nil
		// A group counts as a whole: the shim acknowledges it at its end.
		blocked := t.sent == len(t.frames) || t.inFlight >= window && !t.inGroup()
		var next keystroke
		if !blocked {
			next = t.frames[t.sent]
			t.sent++
			t.inFlight += len(next.Data)
		}
		t.sending = resize != nil || !blocked
		t.mu.Unlock()
		if resize != nil && conn.Send(*resize) != nil {
			return false
		}
		if blocked && resize == nil {
			return true
		}
		if blocked {
			continue
		}
		if next.send(conn) != nil {
			return false
		}
	}
}

// inGroup reports whether the last frame sent began or continued a group.
func (t *typing) inGroup() bool {
	return t.sent > 0 && t.frames[t.sent-1].Flags&shimapi.FlagMore != 0
}

func (t *typing) readAnswers(conn *shimapi.Conn) {
	for {
		m, err := conn.Next()
		if err != nil {
			return
		}
		if ack, ok := m.(shimapi.Ack); ok {
			t.answered(ack)
		}
	}
}

// answered takes note of an Ack. An acknowledgement covers all that came
// before it.
func (t *typing) answered(a shimapi.Ack) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.Writer != t.writer || len(t.frames) == 0 {
		return
	}
	switch a.Status {
	case shimapi.StatusAccepted, shimapi.StatusDuplicate:
		t.forget(a.Sequence)
	case shimapi.StatusUncertain:
		if first := t.frames[0].Sequence; a.Sequence == first && first > 1 {
			t.giveUp()
			return
		}
		t.rewind() // it followed one that was not taken
	case shimapi.StatusBusy:
		t.rewind()
	case shimapi.StatusReadOnly, shimapi.StatusEnded:
		t.forget(t.sequence)
	default:
		t.giveUp()
	}
	t.poke()
}

// forget drops the frames up to a sequence.
func (t *typing) forget(sequence uint64) {
	n := 0
	for n < len(t.frames) && t.frames[n].Sequence <= sequence {
		t.held -= len(t.frames[n].Data)
		if n < t.sent {
			t.inFlight -= len(t.frames[n].Data)
		}
		n++
	}
	t.frames = t.frames[n:]
	t.sent = max(0, t.sent-n)
	t.tellSettled()
}

// settle waits until all that was added has been taken by the shim, at most
// for d.
func (t *typing) settle(d time.Duration) {
	t.mu.Lock()
	t.settled = make(chan struct{})
	settled := t.settled
	t.tellSettled()
	t.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-settled:
	case <-t.gone:
	case <-timer.C:
	}
}

// tellSettled wakes who waits in settle. t.mu is held.
func (t *typing) tellSettled() {
	if t.settled != nil && len(t.frames) == 0 {
		close(t.settled)
		t.settled = nil
	}
}

// rewind sends again from the first frame that was not taken, after a pause.
func (t *typing) rewind() {
	t.sent, t.inFlight = 0, 0
	t.paused = time.Now().Add(retryTyping)
}

// giveUp drops what is held, since sending it could type something twice or
// with a part missing, and goes on under a new name.
func (t *typing) giveUp() {
	t.frames, t.sent, t.inFlight, t.held, t.group = nil, 0, 0, 0, 0
	t.writer, t.sequence = shimapi.NewWriter(), 0
	t.tellSettled()
	if t.uncertain != nil {
		go t.uncertain()
	}
}

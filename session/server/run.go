package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"

	"agentmux/logstore"
	"agentmux/logstore/seal"
	"agentmux/pty/shimapi"
	"agentmux/pty/vt"
	"agentmux/session"
	"agentmux/session/wire"
)

// Limits of a screen and of its keyframes.
const (
	historyLines = 10_000
	historyBytes = 8 << 20
	// keyframeEvery is how much log there is between two keyframes: what the
	// next server has to read before a screen is right again.
	keyframeEvery = 4 << 20
	// keyframeLines of scrollback go into a keyframe.
	keyframeLines = 2_000
	// answerWithin is how old a question may be to be answered. A later answer
	// would be typed at a program that no longer waits for it.
	answerWithin = time.Second
)

// run follows one live run: its log into a screen, its shim for its end.
type run struct {
	e       *entry
	session [16]byte
	cancel  context.CancelFunc
	caught  chan struct{} // closed when the screen has reached the live edge
	ended   chan struct{} // closed when the entry knows how the run ended
	done    sync.WaitGroup
	shim    *shimLink
	writer  shimapi.Writer // of answers to the program's questions
	focus   shimapi.Writer // of focus reports

	mu       sync.Mutex
	screen   *vt.Terminal
	position logstore.Position // the screen shows the log up to here
	keyed    logstore.Position // of the newest keyframe
	replies  []byte            // answers to the frame that is being written
	output   time.Time         // of the last output
	lost     uint64            // bytes, by the log's GAP frames
	waiters  map[*waiter]struct{}
	expected map[*expectation]struct{}
	away     attention
}

// expectation waits for the program to print anything at all or, with a
// position, for the screen to have reached that.
type expectation struct {
	at     logstore.Position
	done   chan struct{} // closed when it has come true
	cancel func()
}

// reachBudget is how long a screen may take to reach what a client has seen.
const reachBudget = time.Second

// reach waits until the screen has reached a position of the log. A screen that
// does not in time is given as it is.
func (r *run) reach(ctx context.Context, at logstore.Position) error {
	if at == 0 {
		return nil
	}
	e := r.expect(at)
	defer e.cancel()
	timer := time.NewTimer(reachBudget)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
	case <-r.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// expect waits for output from now on, or for a position. The caller cancels it.
func (r *run) expect(at logstore.Position) *expectation {
	e := &expectation{at: at, done: make(chan struct{})}
	e.cancel = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.expected, e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expected[e] = struct{}{}
	if at > 0 {
		r.fulfil(false)
	}
	return e
}

// fulfil ends the expectations that have come true. r.mu is held.
func (r *run) fulfil(printed bool) {
	for e := range r.expected {
		if e.at == 0 && printed || e.at > 0 && r.position >= e.at {
			close(e.done)
			delete(r.expected, e)
		}
	}
}

// waiter waits for a text to be shown.
type waiter struct {
	pattern *regexp.Regexp
	found   chan string // capacity 1
}

func startRun(e *entry) *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{
		e: e, session: e.id.Bytes(), cancel: cancel,
		caught: make(chan struct{}), ended: make(chan struct{}),
		waiters: make(map[*waiter]struct{}), expected: make(map[*expectation]struct{}),
	}
	r.writer, r.focus = fixedWriter("answers", r.session), fixedWriter("focus", r.session)
	r.screen = r.newScreen(session.DefaultSize.Cols, session.DefaultSize.Rows)
	r.shim = newShimLink(e.bundle, r.session)
	following := make(chan struct{})
	r.done.Go(func() { defer close(following); r.follow(ctx) })
	r.done.Go(func() { r.watch(ctx, following) })
	return r
}

// setWatched says whether a viewer is there that may type, and returns what
// there is to tell the first one.
func (r *run) setWatched(watched bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := ""
	if watched && !r.away.watched {
		told = r.away.take()
	}
	r.away.watched = watched
	return told
}

// fixedWriter is a writer that is the same for every server of the session, so
// that no two of them type the same thing.
func fixedWriter(purpose string, session [16]byte) shimapi.Writer {
	sum := sha256.Sum256(append([]byte("agentmux "+purpose), session[:]...))
	return shimapi.Writer(sum[:16])
}

// tellFocus tells a program that asked for focus reports (DECSET 1004) that its
// first viewer has come or its last one has left. Their own terminals report
// what happens in between. Its sequence is the time: it only grows.
func (r *run) tellFocus(has bool) {
	if !r.modes().Focus {
		return
	}
	report := "\x1b[O"
	if has {
		report = "\x1b[I"
	}
	in := shimapi.Input{
		Writer: r.focus, Sequence: uint64(time.Now().UnixNano()), Kind: shimapi.KindReply, Data: []byte(report),
	}
	go r.shim.send(in) // the caller holds a lock, and a shim that is stopped does not read
}

// stop ends the following, not the run.
func (r *run) stop() {
	r.cancel()
	r.done.Wait()
}

func (r *run) newScreen(cols, rows int) *vt.Terminal {
	return vt.New(cols, rows, vt.Options{
		HistoryLines: historyLines, HistoryBytes: historyBytes,
		Reply:     func(p []byte) { r.replies = append(r.replies, p...) },
		Event:     r.away.note,
		ScrollOff: r.scrolledOff,
	})
}

// watch waits for the end of the shim, lets the log be read to its end and
// tells the entry.
func (r *run) watch(ctx context.Context, following <-chan struct{}) {
	r.shim.keep(ctx)
	<-following
	if ctx.Err() != nil {
		return
	}
	r.e.setEnded()
	close(r.ended)
}

// follow feeds the screen until the log has ended or ctx has.
func (r *run) follow(ctx context.Context) {
	var once sync.Once
	reached := func() { once.Do(func() { close(r.caught) }) }
	defer reached()
	f, err := r.open()
	if err != nil {
		r.e.s.o.Log.Error("follow the log", "session", r.e.id, "err", err)
		return
	}
	defer f.Close()
	for {
		frame, err := f.TryNext()
		if errors.Is(err, logstore.ErrNotYet) {
			reached()
			r.quiet()
			frame, err = f.Next(ctx)
		}
		switch {
		case err == nil:
			r.feed(f, frame)
		case !logstore.IsHole(err):
			if ctx.Err() == nil && !errors.Is(err, logstore.ErrEnded) && !errors.Is(err, logstore.ErrLost) {
				r.e.s.o.Log.Error("follow the log", "session", r.e.id, "err", err)
			}
			return
		}
	}
}

// open begins at the newest keyframe, else at the beginning of the log.
func (r *run) open() (*logstore.Follower, error) {
	dir := r.e.dir.Log()
	first, end, err := logstore.Ends(dir)
	if err != nil {
		return nil, err
	}
	from := first
	if k, err := seal.NewestKeyframe(dir, r.session, end); err == nil && k.Position >= first {
		r.mu.Lock()
		r.screen = r.newScreen(k.Cols, k.Rows)
		r.screen.Restore(k.Snapshot)
		r.screen.Restore(k.Pending)
		r.position, r.keyed = k.Position, k.Position
		r.mu.Unlock()
		from = k.Position
	}
	return r.e.s.watcher.Follow(dir, from, r.shim.alive)
}

// feed shows one frame on the screen.
func (r *run) feed(f *logstore.Follower, frame logstore.Frame) {
	r.mu.Lock()
	switch frame.Type {
	case logstore.TypeOut:
		r.screen.Write(frame.Payload)
		r.output = f.Wall(frame)
	case logstore.TypeSize:
		if z, err := logstore.DecodeSize(frame.Payload); err == nil {
			r.screen.Resize(int(z.Cols), int(z.Rows))
		}
	case logstore.TypeGap:
		if g, err := logstore.DecodeGap(frame.Payload); err == nil {
			r.lost += g.Bytes
		}
	}
	r.position = frame.Next
	r.fulfil(frame.Type == logstore.TypeOut)
	r.search()
	replies := r.replies
	r.replies = nil
	due := r.position >= r.keyed+keyframeEvery
	r.mu.Unlock()
	if len(replies) > 0 {
		r.reply(f, frame, replies)
	}
	if due {
		r.writeKeyframe()
	}
}

// reply types the answers to the questions in a frame, if they are still
// waited for. The sequence is the frame's position, so that no other server
// answers the same question again.
func (r *run) reply(f *logstore.Follower, frame logstore.Frame, replies []byte) {
	age, ok := f.Age(frame)
	if !ok || age > answerWithin {
		return
	}
	// A server that has just started may have read the question before it has
	// reached the shim.
	r.shim.awaitUp(answerWithin - age)
	r.shim.send(shimapi.Input{
		Writer: r.writer, Sequence: uint64(frame.Next), Kind: shimapi.KindReply, Data: replies,
	})
}

// quiet is called at the live edge, before waiting.
func (r *run) quiet() {
	r.mu.Lock()
	due := r.position >= r.keyed+keyframeEvery/8
	r.mu.Unlock()
	if due {
		r.writeKeyframe()
	}
}

func (r *run) writeKeyframe() {
	r.mu.Lock()
	cols, rows := r.screen.Size()
	k := seal.Keyframe{
		Session: r.session, Position: r.position, Cols: cols, Rows: rows,
		Snapshot: r.screen.Snapshot(vt.SnapshotOptions{History: keyframeLines, Keyframe: true}), Pending: r.screen.Pending(),
	}
	r.keyed = r.position
	r.mu.Unlock()
	if err := seal.WriteKeyframe(r.e.dir.Log(), k); err != nil {
		r.e.s.o.Log.Warn("keyframe", "session", r.e.id, "err", err)
	}
}

// sync returns the screen as soon as it has reached the live edge, for a
// terminal of the given size, which is the session's own if it is zero.
func (r *run) sync(ctx context.Context, history int, size session.Size) (wire.Sync, error) {
	if err := r.await(ctx); err != nil {
		return wire.Sync{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	cols, rows := r.screen.Size()
	o := vt.SnapshotOptions{History: history}
	if size.Cols > 0 && size.Rows > 0 {
		size = size.Clamp()
		o.Cols, o.Rows = size.Cols, size.Rows
	}
	return wire.Sync{
		Snapshot: r.screen.Snapshot(o), Pending: r.screen.Pending(),
		Position: uint64(r.position), Size: session.Size{Cols: cols, Rows: rows},
	}, nil
}

func (r *run) await(ctx context.Context) error {
	select {
	case <-r.caught:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *run) capture(ctx context.Context, in wire.CaptureParams) (wire.CaptureResult, error) {
	if err := r.await(ctx); err != nil {
		return wire.CaptureResult{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := wire.CaptureResult{Title: r.screen.Title(), Alt: r.screen.AltScreen(), State: session.Running}
	out.Size.Cols, out.Size.Rows = r.screen.Size()
	c := r.screen.Cursor()
	out.CursorX, out.CursorY = c.X, c.Y
	lines := r.screen.Lines()
	if in.History > 0 {
		lines = append(r.screen.History(in.History), lines...)
	}
	for _, line := range lines {
		text := line.Text()
		if in.ANSI {
			text = line.ANSI()
		}
		out.Lines = append(out.Lines, strings.TrimRight(text, " "))
	}
	return out, nil
}

// wait waits for the end of the run, or for a text to be on the screen. It
// returns the line that matched, empty when the run ended first.
func (r *run) wait(ctx context.Context, pattern *regexp.Regexp) (string, error) {
	if pattern == nil {
		select {
		case <-r.ended:
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if err := r.await(ctx); err != nil {
		return "", err
	}
	w := &waiter{pattern: pattern, found: make(chan string, 1)}
	r.mu.Lock()
	r.waiters[w] = struct{}{}
	r.search()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.waiters, w)
		r.mu.Unlock()
	}()
	select {
	case line := <-w.found:
		return line, nil
	case <-r.ended:
		select {
		case line := <-w.found:
			return line, nil
		default:
			return "", nil
		}
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// search shows the screen to those who wait for a text. r.mu is held.
func (r *run) search() {
	if len(r.waiters) == 0 {
		return
	}
	lines := r.screen.Lines()
	for i := 0; i < len(lines); {
		text := lines[i].Text()
		for i++; i < len(lines) && lines[i-1].Wrapped; i++ {
			text += lines[i].Text()
		}
		r.match(text)
	}
}

// scrolledOff shows a line that leaves the screen to those who wait, since it
// may have come and gone within one frame. It is called from within
// screen.Write, so r.mu is held.
func (r *run) scrolledOff(line vt.Line) {
	if len(r.waiters) > 0 {
		r.match(line.Text())
	}
}

func (r *run) match(text string) {
	for w := range r.waiters {
		if w.pattern.MatchString(text) {
			select {
			case w.found <- strings.TrimRight(text, " "):
			default:
			}
		}
	}
}

// setProfile says what the terminal of the client that attached last is.
func (r *run) setProfile(p wire.Profile) {
	if p == (wire.Profile{}) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.screen.SetProfile(vt.Profile{
		Name: p.Name, Foreground: parseColor(p.Foreground), Background: parseColor(p.Background),
		CellWidth: p.CellWidth, CellHeight: p.CellHeight, KittyKeyboard: p.KittyKeyboard,
	})
}

func (r *run) tail() tail {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := tail{title: r.screen.Title(), logEnd: int64(r.position), lostBytes: max(r.lost, r.shim.lostBytes())}
	t.size.Cols, t.size.Rows = r.screen.Size()
	return t
}

func (r *run) lastOutput() *time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.output.IsZero() {
		return nil
	}
	at := r.output.UTC()
	return &at
}

func (r *run) logState() string { return r.shim.logState() }

func (r *run) modes() vt.Modes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.screen.Modes()
}

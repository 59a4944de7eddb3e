package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeShim takes input as a shim does and answers as a test wants.
type fakeShim struct {
	t        *testing.T
	bundle   shimapi.Bundle
	lock     *shimapi.Lock
	listener *net.UnixListener
	serving  sync.WaitGroup

	mu     sync.Mutex
	conn   *net.UnixConn
	typed  []byte                                     // in order, each once
	last   map[shimapi.Writer]uint64                  // as a shim remembers it
	group  []byte                                     // of an unfinished group
	sizes  []shimapi.Resize                           //
	answer func(shimapi.Input) (shimapi.Status, bool) // nil: as a shim; false: break the connection
	change chan struct{}
}

func newFakeShim(t *testing.T) *fakeShim {
	t.Helper()
	f := &fakeShim{
		t: t, bundle: shimapi.Bundle{Session: t.TempDir(), Run: 1},
		last: make(map[shimapi.Writer]uint64), change: make(chan struct{}, 1),
	}
	if err := os.MkdirAll(f.bundle.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.lock, err = shimapi.TryLock(f.bundle.Lock()); err != nil {
		t.Fatal(err)
	}
	l, path, err := shimapi.Listen(f.bundle.Dir(), shimapi.SocketName)
	if err != nil {
		t.Fatal(err)
	}
	f.listener = l
	self, err := proctree.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	start := shimapi.Start{Schema: shimapi.StartSchema, Run: 1, ShimPID: self.PID, ShimStart: self.Start, Socket: path}
	if err := f.bundle.WriteStart(start); err != nil {
		t.Fatal(err)
	}
	f.serving.Go(f.accept)
	t.Cleanup(f.end)
	return f
}

// end is the death of the shim.
func (f *fakeShim) end() {
	f.listener.Close()
	f.drop()
	f.serving.Wait()
	f.lock.Release()
}

// drop breaks the connection.
func (f *fakeShim) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

func (f *fakeShim) accept() {
	for {
		conn, err := f.listener.AcceptUnix()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conn, f.group = conn, nil
		f.mu.Unlock()
		f.serve(conn)
		conn.Close()
	}
}

func (f *fakeShim) serve(conn *net.UnixConn) {
	frames := shimapi.NewFrameReader(conn)
	for {
		typ, p, err := frames.Next()
		if err != nil {
			return
		}
		switch typ {
		case shimapi.TypeHello:
			conn.Write(shimapi.Welcome{Version: 1, Run: 1}.Append(nil))
		case shimapi.TypeResize:
			r, _ := shimapi.ParseResize(p)
			f.mu.Lock()
			f.sizes = append(f.sizes, r)
			f.mu.Unlock()
			f.changed()
		case shimapi.TypeInput:
			in, err := shimapi.ParseInput(p)
			if err != nil {
				f.t.Error(err)
				return
			}
			status, answered := f.take(in)
			if !answered {
				return
			}
			if status != noAnswer {
				conn.Write(shimapi.Ack{Writer: in.Writer, Sequence: in.Sequence, Status: status}.Append(nil))
			}
		}
	}
}

// noAnswer is for a frame within a group.
const noAnswer = shimapi.Status(255)

func (f *fakeShim) take(in shimapi.Input) (shimapi.Status, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.changed()
	if f.answer != nil {
		if status, ok := f.answer(in); !ok || status != shimapi.StatusAccepted {
			return status, ok
		}
	}
	last := f.last[in.Writer]
	switch {
	case in.Sequence <= last:
		return shimapi.StatusDuplicate, true
	case in.Sequence > last+1 && f.group == nil: // within a group none is checked here
		return shimapi.StatusUncertain, true
	}
	f.group = append(f.group, in.Data...)
	if in.Flags&shimapi.FlagMore != 0 {
		return noAnswer, true
	}
	f.typed = append(f.typed, f.group...)
	f.group, f.last[in.Writer] = nil, in.Sequence
	return shimapi.StatusAccepted, true
}

func (f *fakeShim) changed() {
	select {
	case f.change <- struct{}{}:
	default:
	}
}

// until waits until a condition on the shim holds.
func (f *fakeShim) until(what string, holds func() bool) {
	f.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		f.mu.Lock()
		ok := holds()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-f.change:
		case <-deadline:
			f.t.Fatalf("%s: not in time; typed %d bytes", what, len(f.typed))
		}
	}
}

// start runs a typing against the fake, until the test ends.
func (f *fakeShim) start(uncertain func()) *typing {
	ctx, cancel := context.WithCancel(context.Background())
	ty := newTyping(f.bundle, [16]byte{}, shimapi.RoleWriter, uncertain)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ty.run(ctx)
	}()
	f.t.Cleanup(func() {
		cancel()
		<-done
	})
	return ty
}

func (f *fakeShim) gets(want string) {
	f.t.Helper()
	f.until("typed", func() bool { return len(f.typed) >= len(want) })
	f.mu.Lock()
	defer f.mu.Unlock()
	if string(f.typed) != want {
		f.t.Errorf("typed %.80q (%d bytes), want %.80q (%d)", f.typed, len(f.typed), want, len(want))
	}
}

func TestKeysArriveInOrderAcrossBrokenConnections(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(nil)
	n := 0
	f.answer = func(in shimapi.Input) (shimapi.Status, bool) {
		n++
		return shimapi.StatusAccepted, n%7 != 0 // every seventh frame breaks the connection
	}
	var want bytes.Buffer
	for i := range 200 {
		key := fmt.Sprintf("<%d>", i)
		want.WriteString(key)
		ty.add(shimapi.KindKey, []byte(key), false, shimapi.Resize{})
	}
	f.gets(want.String())
	ty.settle(10 * time.Second)
	ty.mu.Lock()
	defer ty.mu.Unlock()
	if len(ty.frames) != 0 || ty.held != 0 || ty.inFlight != 0 {
		t.Errorf("%d frames, %d bytes held, %d in flight after all was taken", len(ty.frames), ty.held, ty.inFlight)
	}
}

// TestAKeyTakenBeforeTheLinkBrokeIsNotTypedAgain: the acknowledgement is lost,
// not the key.
func TestAKeyTakenBeforeTheLinkBrokeIsNotTypedAgain(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(nil)
	lost := false
	f.answer = func(in shimapi.Input) (shimapi.Status, bool) {
		if in.Sequence == 2 && !lost {
			lost = true
			f.last[in.Writer], f.typed = 2, append(f.typed, in.Data...) // taken
			return 0, false                                             // and the link breaks
		}
		return shimapi.StatusAccepted, true
	}
	for _, key := range []string{"a", "b", "c"} {
		ty.add(shimapi.KindKey, []byte(key), false, shimapi.Resize{})
	}
	f.gets("abc")
}

func TestAFullQueueIsTriedAgain(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(func() { t.Error("nothing is uncertain here") })
	refusals := 3
	f.answer = func(in shimapi.Input) (shimapi.Status, bool) {
		if in.Sequence >= 2 && refusals > 0 {
			refusals--
			return shimapi.StatusBusy, true
		}
		return shimapi.StatusAccepted, true
	}
	for _, key := range []string{"1", "2", "3", "4"} {
		ty.add(shimapi.KindKey, []byte(key), false, shimapi.Resize{})
	}
	f.gets("1234")
}

func TestUncertainInputIsDroppedAndTold(t *testing.T) {
	f := newFakeShim(t)
	told := make(chan struct{}, 8)
	ty := f.start(func() { told <- struct{}{} })
	ty.add(shimapi.KindKey, []byte("before"), false, shimapi.Resize{})
	f.gets("before")
	ty.settle(10 * time.Second)
	f.mu.Lock()
	clear(f.last) // the shim has forgotten the writer
	f.mu.Unlock()
	ty.add(shimapi.KindKey, []byte("lost"), false, shimapi.Resize{})
	<-told
	ty.add(shimapi.KindKey, []byte(" after"), false, shimapi.Resize{})
	f.gets("before after")
}

func TestAPasteGoesAsAGroup(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(nil)
	paste := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB, more than the window
	for i := 0; i < len(paste); i += 16 << 10 {
		if !ty.add(shimapi.KindPaste, paste[i:i+16<<10], i+16<<10 < len(paste), shimapi.Resize{}) {
			t.Fatal("not taken")
		}
	}
	ty.add(shimapi.KindKey, []byte("!"), false, shimapi.Resize{})
	f.gets(string(paste) + "!")
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.last) != 1 {
		t.Errorf("%d writers", len(f.last))
	}
}

func TestTypingIsHeldToABound(t *testing.T) {
	f := newFakeShim(t)
	f.answer = func(shimapi.Input) (shimapi.Status, bool) { return shimapi.StatusBusy, true }
	ty := f.start(nil)
	piece := make([]byte, 1<<20)
	taken := 0
	for ty.add(shimapi.KindKey, piece, false, shimapi.Resize{}) {
		if taken += len(piece); taken > 2*maxHeld {
			t.Fatal("no end to what is held")
		}
	}
	if taken < maxHeld/2 {
		t.Errorf("only %d bytes were held", taken)
	}
}

func TestASizeIsPassedOn(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(nil)
	ty.setSize(shimapi.Resize{Cols: 100, Rows: 30})
	f.until("a size", func() bool { return len(f.sizes) == 1 })
	ty.add(shimapi.KindKey, []byte("x"), false, shimapi.Resize{})
	f.gets("x")
	ty.settle(10 * time.Second)
	ty.setSize(shimapi.Resize{Cols: 90, Rows: 20})
	f.until("the next", func() bool { return len(f.sizes) == 2 && f.sizes[1].Cols == 90 })
}

func TestTheEndOfTheShimIsNoticed(t *testing.T) {
	f := newFakeShim(t)
	ty := f.start(nil)
	ty.add(shimapi.KindKey, []byte("x"), false, shimapi.Resize{})
	f.gets("x")
	f.end()
	select {
	case <-ty.gone:
	case <-time.After(20 * time.Second):
		t.Fatal("not noticed")
	}
	if ty.alive() {
		t.Error("still believed alive")
	}
}

func TestNewer(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"v1.2.4", "v1.2.3", true}, {"v1.10.0", "v1.9.9", true}, {"v1.2.3", "v1.2.3", false}, {"v1.2.3", "v1.2.4", false},
		{"dev", "v1.0.0", false}, {"v2.0.0", "dev", false}, {"v1.2", "v1.0.0", false}, {"v2.0.0-rc1", "v1.0.0", false}, {"", "", false},
	} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("newer(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestBroken(t *testing.T) {
	if !broken(fmt.Errorf("call: %w", errBroken)) || broken(errors.New("other")) || broken(nil) {
		t.Error("only a broken connection is a reason to ask again")
	}
}

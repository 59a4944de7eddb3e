package shim

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmux/logstore"
	"agentmux/pty"
	"agentmux/pty/shimapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keyboard is the input side of a shim on a real PTY, with a program on the
// other side that passes on what it reads.
type keyboard struct {
	*input
	t      *testing.T
	got    io.Reader // what the program has read
	dir    string
	groups map[shimapi.Writer]*group
}

// newKeyboard starts the goroutine that types. A program that is not to read
// is stopped before.
func newKeyboard(t *testing.T, reads bool) *keyboard {
	t.Helper()
	master, slave, err := pty.Open(pty.Size{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	raw := exec.Command("stty", "raw", "-echo")
	raw.Stdin = slave
	if err := raw.Run(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w, err := logstore.Create(dir, logstore.Options{Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &shim{master: master, slave: slave, log: logstore.NewAppender(w, logstore.AppenderOptions{})}
	s.launch.Spec.Cols, s.launch.Spec.Rows = 80, 24
	k := &keyboard{input: newInput(s), t: t, dir: dir, groups: make(map[shimapi.Writer]*group)}
	go k.run()
	if reads {
		k.got = slave
	}
	t.Cleanup(func() {
		k.stop()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s.log.Close(ctx, nil)
		slave.Close()
		master.Close()
	})
	return k
}

// says takes a frame and checks the answer; "" is none yet.
func (k *keyboard) says(f shimapi.Input, want shimapi.Status, answered bool) {
	k.t.Helper()
	got, ok := k.take(f, k.groups)
	if ok != answered || ok && got != want {
		k.t.Errorf("frame %d %q: status %d, answered %v; want %d, %v", f.Sequence, f.Data, got, ok, want, answered)
	}
}

// reads checks that the program gets exactly want, and then nothing that was
// typed before mark.
func (k *keyboard) reads(want string) {
	k.t.Helper()
	const mark = "<mark>"
	k.says(shimapi.Input{Writer: shimapi.NewWriter(), Sequence: 1, Kind: shimapi.KindKey, Data: []byte(mark)}, shimapi.StatusAccepted, true)
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.HasSuffix(got, []byte(mark)) {
		n, err := k.got.Read(buf)
		if err != nil {
			k.t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	if string(got) != want+mark {
		k.t.Errorf("the program read %q, want %q", got, want+mark)
	}
}

func key(w shimapi.Writer, sequence uint64, data string) shimapi.Input {
	return shimapi.Input{Writer: w, Sequence: sequence, Kind: shimapi.KindKey, Data: []byte(data)}
}

func part(w shimapi.Writer, sequence uint64, data string, more bool) shimapi.Input {
	f := shimapi.Input{Writer: w, Sequence: sequence, Kind: shimapi.KindPaste, Data: []byte(data)}
	if more {
		f.Flags = shimapi.FlagMore
	}
	return f
}

func TestInputArrivesOnce(t *testing.T) {
	k := newKeyboard(t, true)
	a, b := shimapi.NewWriter(), shimapi.NewWriter()
	k.says(key(a, 1, "a"), shimapi.StatusAccepted, true)
	k.says(key(a, 1, "a"), shimapi.StatusDuplicate, true)
	k.says(key(b, 2, "lost its first"), shimapi.StatusUncertain, true)
	k.says(key(b, 1, "b"), shimapi.StatusAccepted, true)
	k.says(key(a, 2, "c"), shimapi.StatusAccepted, true)
	k.says(key(a, 4, "a hole before it"), shimapi.StatusUncertain, true)
	k.says(key(a, 3, ""), shimapi.StatusAccepted, true)
	k.says(key(a, 2, "c"), shimapi.StatusDuplicate, true)
	k.says(key(a, 0, "no sequence"), shimapi.StatusBad, true)
	k.says(shimapi.Input{Writer: a, Sequence: 4, Kind: 9, Data: []byte("no kind")}, shimapi.StatusBad, true)
	k.reads("abc")
}

// TestAnswersHavePositions: an answer's sequence is the position of its
// question, and a question is answered once by however many servers.
func TestAnswersHavePositions(t *testing.T) {
	k := newKeyboard(t, true)
	w := shimapi.NewWriter()
	reply := func(position uint64, data string) shimapi.Input {
		return shimapi.Input{Writer: w, Sequence: position, Kind: shimapi.KindReply, Data: []byte(data)}
	}
	k.says(reply(500, "A"), shimapi.StatusAccepted, true)
	k.says(reply(500, "A"), shimapi.StatusDuplicate, true)
	k.says(reply(400, "late"), shimapi.StatusDuplicate, true)
	k.says(reply(900, "B"), shimapi.StatusAccepted, true)
	k.reads("AB")
}

func TestAGroupIsOnePiece(t *testing.T) {
	k := newKeyboard(t, true)
	a, b := shimapi.NewWriter(), shimapi.NewWriter()
	k.says(part(a, 1, "[", true), 0, false)
	k.says(key(b, 1, "x"), shimapi.StatusAccepted, true)
	k.says(part(a, 2, "paste", true), 0, false)
	k.says(key(b, 2, "y"), shimapi.StatusAccepted, true)
	k.says(part(a, 3, "]", false), shimapi.StatusAccepted, true)
	k.says(part(a, 3, "]", false), shimapi.StatusDuplicate, true)
	k.reads("xy[paste]")
}

// TestAGroupWithoutAnEndIsDropped, and its frames can be sent again, since none
// of them was acknowledged.
func TestAGroupWithoutAnEndIsDropped(t *testing.T) {
	k := newKeyboard(t, true)
	w := shimapi.NewWriter()
	k.says(part(w, 1, "half a ", true), 0, false)
	k.dropAll(k.groups)
	if k.grouped != 0 || len(k.groups) != 0 {
		t.Errorf("%d bytes of dropped groups are still counted", k.grouped)
	}
	k.says(part(w, 2, "paste", false), shimapi.StatusUncertain, true)
	k.says(part(w, 1, "whole ", true), 0, false)
	k.says(part(w, 3, "a hole", false), shimapi.StatusUncertain, true)
	k.says(part(w, 1, "whole ", true), 0, false)
	k.says(part(w, 2, "paste", false), shimapi.StatusAccepted, true)
	k.reads("whole paste")
}

func TestAGroupIsBounded(t *testing.T) {
	k := newKeyboard(t, false)
	w := shimapi.NewWriter()
	piece := string(make([]byte, shimapi.MaxInput))
	sequence := uint64(1)
	for ; sequence <= shimapi.MaxGroup/shimapi.MaxInput; sequence++ {
		k.says(part(w, sequence, piece, true), 0, false)
	}
	k.says(part(w, sequence, "one too many", true), shimapi.StatusTooLarge, true)
	if k.grouped != 0 {
		t.Errorf("%d bytes are still held", k.grouped)
	}
}

func TestAFullQueueRefuses(t *testing.T) {
	k := newKeyboard(t, false)
	w := shimapi.NewWriter()
	piece := string(make([]byte, 1<<20))
	accepted, sequence := 0, uint64(1)
	for ; ; sequence++ {
		status, _ := k.take(key(w, sequence, piece), k.groups)
		if status == shimapi.StatusBusy {
			break
		}
		if accepted++; accepted > 16 {
			t.Fatal("no end to what is taken")
		}
	}
	queued, _ := k.state()
	if queued > maxQueued+1<<20 {
		t.Errorf("%d bytes wait", queued)
	}
	// What was refused was not taken: it is no duplicate when it comes again.
	k.says(key(w, sequence, piece), shimapi.StatusBusy, true)
}

func TestWritersAreForgottenOldestFirst(t *testing.T) {
	k := newKeyboard(t, true)
	old, keeps := shimapi.NewWriter(), shimapi.NewWriter()
	k.take(key(old, 1, ""), k.groups)
	k.take(key(keeps, 1, ""), k.groups)
	for i := range maxWriters {
		k.take(key(shimapi.NewWriter(), 1, ""), k.groups)
		k.take(key(keeps, uint64(i+2), ""), k.groups)
	}
	k.says(key(old, 2, "forgotten"), shimapi.StatusUncertain, true)
	k.says(key(keeps, maxWriters+1, ""), shimapi.StatusDuplicate, true)
}

func TestSizeKeepsItsPlaceInTheInput(t *testing.T) {
	k := newKeyboard(t, true)
	k.resize(shimapi.Resize{Cols: 100, Rows: 30, Client: 7})
	k.reads("")
	k.resize(shimapi.Resize{Cols: 100, Rows: 30, Client: 7})
	k.resize(shimapi.Resize{}) // no size at all
	k.reads("")
	if _, size := k.state(); size != (pty.Size{Cols: 100, Rows: 30}) {
		t.Errorf("size %v", size)
	}
	if got := k.loggedSizes(); len(got) != 1 || got[0].Cols != 100 || got[0].Client != 7 {
		t.Errorf("logged %+v: the same size again is no news", got)
	}
	k.resize(shimapi.Resize{Cols: 100, Rows: 30, Client: 8})
	k.reads("")
	if got := k.loggedSizes(); len(got) != 2 || got[1].Client != 8 {
		t.Errorf("logged %+v: whose size it is has changed", got)
	}
}

// TestSizeReachesAProgramThatDoesNotRead: it waits for the input before it,
// but not for ever.
func TestSizeReachesAProgramThatDoesNotRead(t *testing.T) {
	k := newKeyboard(t, false)
	k.take(key(shimapi.NewWriter(), 1, string(make([]byte, 1<<20))), k.groups)
	for cols := uint16(81); cols <= 90; cols++ {
		k.resize(shimapi.Resize{Cols: cols, Rows: 24})
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, size := k.state(); size.Cols == 90 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the size never arrived")
		}
		time.Sleep(time.Millisecond)
	}
	if got := k.loggedSizes(); len(got) != 1 {
		t.Errorf("ten sizes that waited were logged as %d", len(got))
	}
}

func (k *keyboard) loggedSizes() (sizes []logstore.Size) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := k.s.log.Flush(ctx); err != nil {
		k.t.Fatal(err)
	}
	f, err := logstore.Open(k.dir, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	for {
		frame, err := f.TryNext()
		if err != nil {
			return sizes
		}
		if frame.Type == logstore.TypeSize {
			z, err := logstore.DecodeSize(frame.Payload)
			if err != nil {
				k.t.Fatal(err)
			}
			sizes = append(sizes, z)
		}
	}
}

func TestLookup(t *testing.T) {
	env := []string{"TERM=a", "TERMINFO=x", "TERM=b"}
	if got := lookup(env, "TERM"); got != "b" {
		t.Errorf("got %q: the last one counts", got)
	}
	if got := lookup(env, "NONE"); got != "" {
		t.Errorf("got %q", got)
	}
}

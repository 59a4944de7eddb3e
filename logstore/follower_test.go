package logstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// modes are the ways a follower can be woken.
func modes(t *testing.T, f func(t *testing.T, w *Watcher)) {
	t.Run("inotify", func(t *testing.T) { f(t, newWatcher(t)) })
	t.Run("polling", func(t *testing.T) {
		w := newWatcher(t)
		if w.notify != nil {
			w.notify.close()
			w.notify = nil
		}
		f(t, w)
	})
}

func follow(t testing.TB, w *Watcher, dir string, from Position, alive func() bool) *Follower {
	t.Helper()
	f, err := w.Follow(dir, from, alive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func yes() bool { return true }

func TestFollow(t *testing.T) {
	modes(t, func(t *testing.T, w *Watcher) {
		dir := filepath.Join(t.TempDir(), "log") // comes later
		f := follow(t, w, dir, 0, yes)
		if _, err := f.TryNext(); err != ErrNotYet {
			t.Fatalf("%v", err)
		}
		got := make(chan string)
		go func() {
			defer close(got)
			for {
				fr, err := f.Next(context.Background())
				if err != nil {
					got <- err.Error()
					return
				}
				if fr.Type == TypeOut {
					got <- string(fr.Payload)
				}
			}
		}()
		wr := create(t, dir, segmentBytes(500))
		for i := range 40 {
			s := fmt.Sprint(i, strings.Repeat(".", 40))
			write(t, wr, TypeOut, s)
			if g := <-got; g != s {
				t.Fatalf("got %q, want %q", g, s)
			}
		}
		closeWriter(t, wr, EndExit)
		if g := <-got; g != ErrEnded.Error() {
			t.Fatalf("got %q", g)
		}
		for range got {
		}
		// Another run goes on, and so does the follower.
		wr = create(t, dir, run(2))
		write(t, wr, TypeOut, "again")
		for {
			fr, err := f.Next(withTimeout(t))
			if err != nil {
				t.Fatal(err)
			}
			if fr.Type == TypeOut {
				if string(fr.Payload) != "again" || fr.Run != 2 {
					t.Fatalf("%+v", fr)
				}
				break
			}
		}
	})
}

func TestFollowerStops(t *testing.T) {
	w := newWatcher(t)
	dir := t.TempDir()
	create(t, dir)
	f := follow(t, w, dir, 0, yes)
	if _, err := f.Next(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := f.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	done := make(chan error)
	go func() { _, err := f.Next(context.Background()); done <- err }()
	w.Close()
	if err := <-done; err != ErrClosed {
		t.Fatalf("%v", err)
	}
	f.Close()
	if _, err := f.TryNext(); err != ErrClosed {
		t.Fatalf("%v", err)
	}
	if _, err := w.Follow(dir, 0, nil); err != ErrClosed {
		t.Fatalf("%v", err)
	}
}

// TestWriterDies: a waiting follower learns it, with EXIT and without.
func TestWriterDies(t *testing.T) {
	modes(t, func(t *testing.T, w *Watcher) {
		for _, exit := range []bool{false, true} {
			dir := t.TempDir()
			var alive atomic.Bool
			alive.Store(true)
			wr := create(t, dir)
			write(t, wr, TypeOut, "x")
			if exit {
				write(t, wr, TypeExit, string(EncodeExit(Exit{})))
			}
			end := wr.End()
			for _, from := range []Position{0, end} { // read, and from the end on
				alive.Store(true)
				f := follow(t, w, dir, from, alive.Load)
				for f.Position() != end {
					if _, err := f.Next(withTimeout(t)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := f.TryNext(); err != ErrNotYet {
					t.Fatalf("%v", err)
				}
				done := make(chan error)
				go func() { _, err := f.Next(context.Background()); done <- err }()
				alive.Store(false)
				wr.release()
				if from != 0 { // the file is closed already: another event of the directory will do
					os.WriteFile(filepath.Join(dir, "event"), nil, 0o600)
				}
				want := ErrLost
				if exit {
					want = ErrEnded
				}
				if err := <-done; err != want {
					t.Fatalf("exit %v from %d: %v", exit, from, err)
				}
			}
		}
	})
}

// TestTornTailWaits: less than a frame is "not yet" while the writer lives,
// also when it is cut off and something else comes instead.
func TestTornTailWaits(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	write(t, w, TypeOut, "a")
	f := follow(t, newWatcher(t), dir, 0, yes)
	drainLive(t, f)
	path := segmentPaths(t, dir)[0]
	for n := 1; n < 60; n++ {
		info, _ := os.Stat(path)
		raw, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		fake := make([]byte, n)
		putFrameHeader(append(fake, make([]byte, 20)...)[:20], TypeOut, 0, 5, 100)
		h := make([]byte, FrameHeaderSize)
		putFrameHeader(h, TypeOut, 0, 5, 100)
		finishFrame(h, w.End(), w.seg.salt)
		copy(fake, h)
		raw.Write(fake)
		if n%2 == 0 {
			f.looked = time.Time{} // the thorough look as well
		}
		if _, err := f.TryNext(); err != ErrNotYet {
			t.Fatalf("%d bytes: %v", n, err)
		}
		raw.Truncate(info.Size())
		raw.Close()
		s := fmt.Sprint("after ", n)
		write(t, w, TypeOut, s)
		if fr, err := f.TryNext(); err != nil || string(fr.Payload) != s {
			t.Fatalf("%d bytes: %q %v", n, fr.Payload, err)
		}
	}
}

func drainLive(t *testing.T, f *Follower) {
	t.Helper()
	for {
		_, err := f.TryNext()
		if err == ErrNotYet {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRace has followers and readers against the writer over many small segments.
func TestRace(t *testing.T) {
	modes(t, func(t *testing.T, watcher *Watcher) {
		dir := t.TempDir()
		var alive atomic.Bool
		alive.Store(true)
		w := create(t, dir, segmentBytes(3000), syncing(time.Millisecond))
		a := NewAppender(w, AppenderOptions{})
		const count = 3000
		var wg sync.WaitGroup
		for range 4 {
			f := follow(t, watcher, dir, 0, alive.Load)
			wg.Go(func() { checkFollower(t, f, count) })
		}
		wg.Go(func() { // readers at rest that start anywhere
			for alive.Load() {
				f, err := Open(dir, 0)
				if err != nil {
					t.Error(err)
					return
				}
				last, n := Position(0), uint64(0)
				for {
					fr, err := f.TryNext()
					if err != nil {
						if err != ErrLost && err != ErrEnded {
							t.Errorf("reader at %d: %v", last, err)
						}
						break
					}
					if fr.Pos < last {
						t.Errorf("frame at %d behind %d", fr.Pos, last)
					}
					last = fr.Next
					if fr.Type == TypeMark {
						n++
					}
				}
				f.Close()
				Ends(dir)
			}
		})
		for i := range count {
			a.Add(TypeMark, fmt.Append(nil, i))
			if i%16 == 0 {
				a.Flush(withTimeout(t))
			}
		}
		closeAppender(t, a, EncodeExit(Exit{}))
		alive.Store(false)
		wg.Wait()
	})
}

func checkFollower(t *testing.T, f *Follower, count int) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	n := 0
	for {
		fr, err := f.Next(ctx)
		if err != nil {
			if err != ErrEnded || n != count {
				t.Errorf("after %d marks: %v", n, err)
			}
			return
		}
		if fr.Type != TypeMark {
			continue
		}
		if string(fr.Payload) != fmt.Sprint(n) {
			t.Errorf("mark %s, want %d", fr.Payload, n)
			return
		}
		n++
	}
}

// TestDeletedUnderFollower removes segments while a follower lags behind.
func TestDeletedUnderFollower(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, segmentBytes(2000))
	f := follow(t, newWatcher(t), dir, 0, yes)
	for i := range 100 {
		write(t, w, TypeOut, fmt.Sprint(i, strings.Repeat("x", 90)))
	}
	if _, err := f.TryNext(); err != nil { // has the first segment open
		t.Fatal(err)
	}
	paths := segmentPaths(t, dir)
	for _, p := range paths[:4] {
		os.Remove(p)
	}
	to, _ := parseName(filepath.Base(paths[4]), SegmentSuffix)
	from, _ := parseName(filepath.Base(paths[1]), SegmentSuffix)
	told, n := 0, 0
	for {
		fr, err := f.TryNext()
		var trimmed *TrimmedError
		if errors.As(err, &trimmed) {
			told++
			if *trimmed != (TrimmedError{from, to}) {
				t.Fatalf("%v, want %d to %d", err, from, to)
			}
			continue
		}
		if err == ErrNotYet {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if fr.Type == TypeOut {
			n++
		}
	}
	if told != 1 || n < 50 {
		t.Fatalf("told %d times, %d frames", told, n)
	}
	closeWriter(t, w, EndExit)
}

func TestDirectoryReplacedUnderFollower(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := create(t, dir, syncing(time.Millisecond))
	write(t, w, TypeOut, "before")
	f := follow(t, newWatcher(t), dir, 0, yes)
	drainLive(t, f)
	os.RemoveAll(dir)
	write(t, w, TypeMeta, "{}")
	waitFor(t, func() bool { _, _, gone := w.sync.state(); return gone })
	write(t, w, TypeOut, "after")
	ctx := withTimeout(t)
	for {
		fr, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if fr.Type == TypeOut {
			if string(fr.Payload) != "after" {
				t.Fatalf("%q", fr.Payload)
			}
			return
		}
	}
}

// TestIdleFollowerSleeps: with inotify nothing is asked and no timer runs.
func TestIdleFollowerSleeps(t *testing.T) {
	w := newWatcher(t)
	if w.notify == nil {
		t.Log("no inotify here")
		return
	}
	dir := t.TempDir()
	wr := create(t, dir)
	var asked atomic.Int64
	f := follow(t, w, dir, 0, func() bool { asked.Add(1); return true })
	drainLive(t, f)
	for range 3 { // the events of starting
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		f.Next(ctx)
		cancel()
		write(t, wr, TypeOut, "x")
		if _, err := f.Next(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
	}
	drainLive(t, f)
	if d := f.patience(); d != 0 {
		t.Errorf("it waits for %v only", d)
	}
	if n := asked.Load(); n > 6 {
		t.Errorf("asked %d times", n)
	}
	if len(f.seg.buf) > smallBuffer {
		t.Errorf("holds %d bytes", len(f.seg.buf))
	}
}

func TestManyFollowersOneInstance(t *testing.T) {
	w := newWatcher(t)
	var writers []*Writer
	var followers []*Follower
	for range 20 {
		dir := t.TempDir()
		writers = append(writers, create(t, dir))
		for range 3 {
			followers = append(followers, follow(t, w, dir, 0, yes))
		}
	}
	for i, wr := range writers {
		write(t, wr, TypeMark, fmt.Sprint(i))
	}
	for i, f := range followers {
		for {
			fr, err := f.Next(withTimeout(t))
			if err != nil {
				t.Fatal(err)
			}
			if fr.Type == TypeMark {
				if string(fr.Payload) != fmt.Sprint(i/3) {
					t.Fatalf("follower %d got %q", i, fr.Payload)
				}
				break
			}
		}
		f.Close()
	}
}

// TestKillWriter kills real writers at random points. Each leaves whole frames
// only, without a hole, and the next run goes on.
func TestKillWriter(t *testing.T) {
	dir := t.TempDir()
	const runs = 12
	torn := 0
	for r := 1; r <= runs; r++ {
		killed(t, dir, uint16(r))
		if endTorn(t, dir) {
			torn++
		}
	}
	next, lastRun := uint64(0), uint16(0)
	for _, e := range readAll(t, dir, 0) {
		if e.err != nil {
			if e.err != ErrLost {
				t.Fatalf("%v", e.err)
			}
			continue
		}
		if e.Run != lastRun {
			if e.Run != lastRun+1 {
				t.Fatalf("run %d after %d", e.Run, lastRun)
			}
			next, lastRun = 0, e.Run
		}
		if e.Type != TypeOut {
			continue
		}
		if !slices.Equal(e.Payload, pattern(e.Run, next)) {
			t.Fatalf("frame %d of run %d differs", next, e.Run)
		}
		next++
	}
	if lastRun != runs {
		t.Fatalf("%d runs", lastRun)
	}
	t.Logf("%d of %d torn", torn, runs)
}

func endTorn(t *testing.T, dir string) bool {
	t.Helper()
	paths := segmentPaths(t, dir)
	path := paths[len(paths)-1]
	_, end, err := Ends(dir)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	base, _ := parseName(filepath.Base(path), SegmentSuffix)
	return base+Position(info.Size()) != end
}

// killed runs a writer process for a random while and a follower beside it.
func killed(t *testing.T, dir string, run uint16) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOGSTORE_TEST_WRITER="+dir, fmt.Sprint("LOGSTORE_TEST_RUN=", run))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		t.Fatalf("writer: %q %v", line, err)
	}
	var alive atomic.Bool
	alive.Store(true)
	w := newWatcher(t)
	_, end, err := Ends(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := follow(t, w, dir, end, alive.Load)
	until := end + Position(rand.IntN(3<<20))
	ctx := withTimeout(t)
	for f.Position() < until {
		if _, err := f.Next(ctx); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Process.Signal(syscall.SIGKILL)
	io.Copy(io.Discard, stdout)
	cmd.Wait()
	alive.Store(false)
	for {
		_, err := f.Next(ctx)
		if err == nil {
			continue
		}
		if err != ErrLost {
			t.Fatalf("follower of the killed: %v", err)
		}
		break
	}
	w.Close()
}

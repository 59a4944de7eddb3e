package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// accounting sums what the log says of the output.
type accounting struct {
	out, lost, reads uint64
	gaps             int
	text             string
}

func account(t testing.TB, dir string) (a accounting, last error) {
	t.Helper()
	events := readAll(t, dir, 0)
	var b strings.Builder
	for _, e := range events {
		if e.err != nil {
			continue
		}
		switch e.Type {
		case TypeOut:
			a.out += uint64(len(e.Payload))
			b.Write(e.Payload)
		case TypeGap:
			g, err := DecodeGap(e.Payload)
			if err != nil {
				t.Fatal(err)
			}
			a.lost += g.Bytes
			a.reads += g.Reads
			a.gaps++
			if g.Bytes > 0 && (g.First == 0 || g.Last < g.First || e.Time < g.First) {
				t.Errorf("times of %+v at %d", g, e.Time)
			}
			b.WriteString("<gap>")
		}
	}
	if n := holes(events); n != 0 {
		t.Errorf("%d holes", n)
	}
	a.text = b.String()
	return a, lastErr(events)
}

func closeAppender(t testing.TB, a *Appender, exit []byte) {
	t.Helper()
	if err := a.Close(withTimeout(t), exit); err != nil {
		t.Fatal(err)
	}
}

func TestAppender(t *testing.T) {
	dir := t.TempDir()
	a := NewAppender(create(t, dir, segmentBytes(50000)), AppenderOptions{})
	if err := a.Add(TypeMeta, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 5000 {
		s := fmt.Sprintf("%d,", i)
		if i%100 == 0 {
			s += strings.Repeat("x", 3*i)
		}
		want.WriteString(s)
		p := []byte(s)
		a.Out(p)
		clear(p) // it must have been copied
	}
	a.Out(make([]byte, 200000))
	want.Write(make([]byte, 200000))
	if err := a.Flush(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	if s := a.Status(); s.Stalled || s.LostBytes != 0 || s.End == 0 {
		t.Errorf("%+v", s)
	}
	if got, err := account(t, dir); got.text != want.String() || err != ErrLost {
		t.Fatalf("flushed: %d bytes of %d, %v", len(got.text), want.Len(), err)
	}
	closeAppender(t, a, EncodeExit(Exit{Code: 1}))
	if got, err := account(t, dir); got.text != want.String() || err != ErrEnded {
		t.Fatalf("closed: %d bytes of %d, %v", len(got.text), want.Len(), err)
	}
	a.Out([]byte("late"))
	if err := a.Add(TypeMark, nil); err != ErrClosed {
		t.Errorf("%v", err)
	}
	if err := a.Close(context.Background(), nil); err != ErrClosed {
		t.Errorf("%v", err)
	}
}

func TestControlFramesKeepTheirPlace(t *testing.T) {
	dir := t.TempDir()
	a := NewAppender(create(t, dir), AppenderOptions{})
	var want []string
	for i := range 300 {
		out, mark := fmt.Sprint("out", i), fmt.Sprint("mark", i)
		a.Out([]byte(out))
		a.Add(TypeMark, []byte(mark))
		want = append(want, out, mark)
	}
	closeAppender(t, a, nil)
	var got []string
	for _, e := range readAll(t, dir, 0) {
		if e.Type == TypeOut || e.Type == TypeMark {
			got = append(got, string(e.Payload))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
}

// TestStalls lets the disk fail in every way while output goes on.
func TestStalls(t *testing.T) {
	for name, fail := range map[string]func(fs *faultFS){
		"full, reserve tells": func(fs *faultFS) { fs.reserveErr = syscall.ENOSPC; fs.write = failWith(syscall.ENOSPC) },
		"full, short write":   func(fs *faultFS) { fs.write = shortWrite(syscall.ENOSPC) },
		"no reserve, statfs":  func(fs *faultFS) { fs.reserveErr = syscall.ENOTSUP; fs.write = failWith(syscall.ENOSPC) },
		"quota":               func(fs *faultFS) { fs.write = shortWrite(syscall.EDQUOT) },
		"EIO":                 func(fs *faultFS) { fs.write = failWith(syscall.EIO) },
		"EIO, and no new one": func(fs *faultFS) { fs.write = failWith(syscall.EIO); fs.createErr = syscall.EIO },
		"read-only":           func(fs *faultFS) { fs.write = failWith(syscall.EROFS) },
		"size limit":          func(fs *faultFS) { fs.write = shortWrite(syscall.EFBIG) },
		"EBADF":               func(fs *faultFS) { fs.write = failWith(syscall.EBADF) },
	} {
		t.Run(name, func(t *testing.T) { testStall(t, fail) })
	}
}

func failWith(errno syscall.Errno) func(*faultFile, []byte) (int, error) {
	return func(*faultFile, []byte) (int, error) { return 0, errno }
}

func shortWrite(errno syscall.Errno) func(*faultFile, []byte) (int, error) {
	return func(f *faultFile, p []byte) (int, error) {
		n, _ := f.segmentFile.Write(p[:len(p)/2])
		return n, errno
	}
}

func testStall(t *testing.T, fail func(fs *faultFS)) {
	fs := &faultFS{}
	dir := t.TempDir()
	var mu sync.Mutex
	var told []bool
	a := NewAppender(create(t, dir, files(fs), segmentBytes(40000)), AppenderOptions{QueueBytes: 100000, RetryEvery: time.Millisecond,
		OnStatus: func(s Status) { mu.Lock(); told = append(told, s.Stalled); mu.Unlock() }})
	sent, marks := uint64(0), 0
	out := func(n int) {
		for range n {
			a.Out([]byte(strings.Repeat("o", 333)))
			sent += 333
		}
	}
	out(100)
	for round := range 3 {
		if err := a.Flush(withTimeout(t)); err != nil {
			t.Fatal(err)
		}
		fs.set(func() { fail(fs) })
		out(1)
		waitFor(t, func() bool { return a.Status().Stalled })
		var stall *StallError
		if err := a.Flush(context.Background()); !errors.As(err, &stall) {
			t.Errorf("flush while stalled: %v", err)
		}
		out(1000)
		a.Add(TypeMark, fmt.Append(nil, marks))
		marks++
		out(50)
		fs.set(func() { fs.write, fs.reserveErr, fs.createErr = nil, nil, nil })
		waitFor(t, func() bool { return !a.Status().Stalled })
		out(30 * round)
	}
	s := a.Status()
	closeAppender(t, a, EncodeExit(Exit{}))
	got, err := account(t, dir)
	if err != ErrEnded {
		t.Errorf("%v", err)
	}
	if got.out+got.lost != sent || got.lost == 0 || got.lost != s.LostBytes || got.reads != s.LostReads || got.reads*333 != got.lost {
		t.Errorf("out %d + lost %d = %d, sent %d; status %+v, gap reads %d", got.out, got.lost, got.out+got.lost, sent, s, got.reads)
	}
	if n := len(outputs(readAll(t, dir, 0), TypeMark)); n != marks {
		t.Errorf("%d marks of %d", n, marks)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) < 6 || !told[0] || told[len(told)-1] {
		t.Errorf("told %v", told)
	}
}

// TestStuckWrite lets a write hang: Out must go on, and the gap be in its place.
func TestStuckWrite(t *testing.T) {
	for _, fails := range []bool{false, true} {
		fs := &faultFS{}
		dir := t.TempDir()
		a := NewAppender(create(t, dir, files(fs)), AppenderOptions{QueueBytes: 100000, RetryEvery: time.Millisecond, StuckAfter: 10 * time.Millisecond})
		hang, entered := make(chan struct{}), make(chan struct{}, 1)
		fs.set(func() {
			fs.write = func(f *faultFile, p []byte) (int, error) {
				select {
				case entered <- struct{}{}:
				default:
				}
				<-hang
				if fails {
					return 0, syscall.EIO
				}
				return f.segmentFile.Write(p)
			}
		})
		sent := uint64(0)
		out := func(s string) { a.Out([]byte(s)); sent += uint64(len(s)) }
		out("first")
		<-entered
		for range 1000 {
			out(strings.Repeat("o", 500))
		}
		out("last")
		s := a.Status()
		if !s.Stalled || s.Cause != CauseStuck {
			t.Fatalf("%+v", s)
		}
		fs.set(func() { fs.write = nil })
		close(hang)
		waitFor(t, func() bool { return !a.Status().Stalled })
		closeAppender(t, a, nil)
		got, err := account(t, dir)
		if err != ErrEnded || got.out+got.lost != sent || got.lost == 0 || got.gaps != 1 {
			t.Fatalf("%+v, sent %d, %v", got, sent, err)
		}
		if !strings.HasPrefix(got.text, "first<gap>o") || !strings.HasSuffix(got.text, "last") {
			t.Fatalf("%.40s", got.text)
		}
	}
}

// TestBackPressure: while the disk is merely slow nothing is lost.
func TestBackPressure(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	a := NewAppender(create(t, dir, files(fs)), AppenderOptions{QueueBytes: 50000})
	slow := time.NewTicker(time.Millisecond)
	defer slow.Stop()
	fs.set(func() {
		fs.write = func(f *faultFile, p []byte) (int, error) { <-slow.C; return f.segmentFile.Write(p) }
	})
	for range 2000 {
		a.Out(make([]byte, 1000))
	}
	closeAppender(t, a, nil)
	if got, err := account(t, dir); err != ErrEnded || got.out != 2000000 || got.gaps != 0 {
		t.Fatalf("%d %d %v", got.out, got.gaps, err)
	}
}

// TestCloseOnFullDisk: EXIT and END use the reserve, after a GAP.
func TestCloseOnFullDisk(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	a := NewAppender(create(t, dir, files(fs)), AppenderOptions{RetryEvery: time.Millisecond})
	a.Out([]byte("in"))
	if err := a.Flush(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	fs.set(func() { fs.reserveErr = syscall.ENOSPC })
	for range 1000 {
		a.Out(make([]byte, 1000))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.Close(ctx, EncodeExit(Exit{Code: 4})); err != nil {
		t.Fatal(err)
	}
	got, err := account(t, dir)
	if err != ErrEnded || got.out+got.lost != 1000002 || got.lost == 0 {
		t.Fatalf("out %d lost %d %v", got.out, got.lost, err)
	}
	if n := len(outputs(readAll(t, dir, 0), TypeExit)); n != 1 {
		t.Fatalf("%d EXIT", n)
	}
}

func TestCloseWithoutAnyDisk(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	a := NewAppender(create(t, dir, files(fs)), AppenderOptions{RetryEvery: time.Millisecond})
	a.Out([]byte("in"))
	if err := a.Flush(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	fs.set(func() { fs.write = failWith(syscall.EIO); fs.createErr = syscall.EIO })
	a.Out([]byte("out"))
	err := a.Close(context.Background(), EncodeExit(Exit{}))
	var stall *StallError
	if !errors.As(err, &stall) || stall.Cause != CauseIO {
		t.Fatalf("%v", err)
	}
	if _, err := account(t, dir); err != ErrLost {
		t.Fatalf("%v", err)
	}
}

func TestCloseWhileStuck(t *testing.T) {
	fs := &faultFS{}
	a := NewAppender(create(t, t.TempDir(), files(fs)), AppenderOptions{})
	hang := make(chan struct{})
	fs.set(func() {
		fs.write = func(f *faultFile, p []byte) (int, error) { <-hang; return f.segmentFile.Write(p) }
	})
	a.Out([]byte("x"))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := a.Close(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	close(hang)
	<-a.stopped
}

func TestFileSizeLimit(t *testing.T) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	a := NewAppender(create(t, dir), AppenderOptions{RetryEvery: time.Millisecond})
	limit := syscall.Rlimit{Cur: 300000, Max: old.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		a.Out(make([]byte, 1000))
	}
	err := a.Close(withTimeout(t), EncodeExit(Exit{}))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := account(t, dir)
	if err != ErrEnded || got.out+got.lost != 1000000 {
		t.Fatalf("out %d lost %d %v", got.out, got.lost, err)
	}
	for _, p := range segmentPaths(t, dir) {
		if info, _ := os.Stat(p); info.Size() > 300000 {
			t.Errorf("%s has %d bytes", p, info.Size())
		}
	}
}

// fullDisk is a disk of a few MiB that others fill up. Its injected twin,
// which needs no privilege, is TestStalls and TestCloseOnFullDisk.
func fullDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := mountTmpfs(dir, 4<<20); err != nil {
		t.Skipf("a small tmpfs needs privileges (%v); TestStalls and TestCloseOnFullDisk inject the same", err)
	}
	t.Cleanup(func() { unmount(dir) })
	return dir
}

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return // no room for even a name
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for {
			if n, _ := f.Write(make([]byte, size)); n < size {
				break
			}
		}
	}
}

func TestRealFullDisk(t *testing.T) {
	disk := fullDisk(t)
	dir := filepath.Join(disk, "log")
	a := NewAppender(create(t, dir, segmentBytes(200000)), AppenderOptions{QueueBytes: 300000, RetryEvery: time.Millisecond})
	sent := uint64(0)
	out := func(n int) {
		for range n {
			a.Out(make([]byte, 777))
			sent += 777
		}
	}
	out(300)
	filler := filepath.Join(disk, "filler")
	for range 3 {
		fill(t, filler)
		for !a.Status().Stalled {
			out(1)
		}
		out(1000)
		os.Remove(filler)
		waitFor(t, func() bool { return !a.Status().Stalled })
		out(100)
	}
	if err := a.Flush(withTimeout(t)); err != nil {
		t.Fatal(err)
	}
	fill(t, filler)
	for !a.Status().Stalled {
		out(1)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fill(t, filler)
	if err := a.Close(ctx, EncodeExit(Exit{})); err != nil {
		t.Fatal(err)
	}
	got, err := account(t, dir)
	if err != ErrEnded || got.out+got.lost != sent || got.lost == 0 {
		t.Fatalf("out %d + lost %d, sent %d, %v", got.out, got.lost, sent, err)
	}
	t.Logf("out %d, lost %d in %d gaps", got.out, got.lost, got.gaps)
}

func TestOutAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Log("not counted under the race detector")
		return
	}
	a := NewAppender(create(t, t.TempDir(), syncing(time.Hour)), AppenderOptions{})
	p := make([]byte, 100)
	for range 5000 {
		a.Out(p)
	}
	a.Flush(withTimeout(t))
	if n := testing.AllocsPerRun(5000, func() { a.Out(p) }); n != 0 {
		t.Errorf("%v allocations per Out", n)
	}
	n := testing.AllocsPerRun(5000, func() {
		end := a.w.End()
		a.Out(p)
		for a.w.End() == end { // Flush would make a channel
			runtime.Gosched()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per written Out", n)
	}
	closeAppender(t, a, nil)
}

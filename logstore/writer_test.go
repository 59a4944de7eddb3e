package logstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestWriteAndRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "log")
	w := create(t, dir)
	write(t, w, TypeMeta, `{"argv":["x"]}`)
	write(t, w, TypeOut, "hello")
	write(t, w, TypeOut, strings.Repeat("x", MaxPayload+5))
	write(t, w, TypeExit, string(EncodeExit(Exit{Code: 3})))
	closeWriter(t, w, EndExit)

	events := readAll(t, dir, 0)
	var types []Type
	for _, e := range events[:len(events)-1] {
		if e.err != nil {
			t.Fatal(e.err)
		}
		types = append(types, e.Type)
	}
	want := []Type{TypeClock, TypeMeta, TypeOut, TypeOut, TypeOut, TypeExit, TypeEnd}
	if !slices.Equal(types, want) {
		t.Fatalf("frames %v, want %v", types, want)
	}
	if lastErr(events) != ErrEnded {
		t.Fatalf("the log ends with %v", lastErr(events))
	}
	if got := strings.Join(outputs(events, TypeOut), ""); got != "hello"+strings.Repeat("x", MaxPayload+5) {
		t.Fatalf("output differs: %d bytes", len(got))
	}
	for i := 1; i < len(events)-1; i++ {
		if events[i].Pos != events[i-1].Next || events[i].Time < events[i-1].Time {
			t.Fatalf("frame %d does not follow the one before: %+v, %+v", i, events[i-1].Frame, events[i].Frame)
		}
	}
	assertModes(t, dir)
}

func assertModes(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v %v", info.Mode(), err)
	}
	for _, p := range segmentPaths(t, dir) {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
}

func TestRollKeepsTheChain(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir, segmentBytes(2000))
	var want []string
	for i := range 500 {
		s := fmt.Sprintf("%d:%s", i, strings.Repeat("y", i%97))
		want = append(want, s)
		write(t, w, TypeOut, s)
	}
	end := w.End()
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	if !slices.Equal(outputs(events, TypeOut), want) || lastErr(events) != ErrEnded {
		t.Fatalf("output differs, or %v", lastErr(events))
	}
	if n := len(segmentPaths(t, dir)); n < 10 {
		t.Fatalf("%d segments", n)
	}
	_, got, err := Ends(dir)
	if err != nil || got != end+FrameHeaderSize+endBytes {
		t.Fatalf("end %d %v, want %d", got, err, end+FrameHeaderSize+endBytes)
	}
	// From every frame on, the rest comes.
	for i, e := range events[:len(events)-1] {
		rest := readAll(t, dir, e.Pos)
		if len(rest) != len(events)-i || rest[0].Pos != e.Pos {
			t.Fatalf("from frame %d at %d: %d events, want %d (%v)", i, e.Pos, len(rest), len(events)-i, rest[0])
		}
	}
}

func TestRunsContinue(t *testing.T) {
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, clock(&c))
	write(t, w, TypeOut, "one")
	closeWriter(t, w, EndExit)
	c.us.Add(5e6)
	w = create(t, dir, run(2), clock(&c))
	write(t, w, TypeOut, "two")
	w.release() // killed
	w = create(t, dir, run(3), clock(&c))
	write(t, w, TypeOut, "three")
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	if got := outputs(events, TypeOut); !slices.Equal(got, []string{"one", "two", "three"}) || holes(events) != 0 {
		t.Fatalf("got %q", got)
	}
	var times []int64
	var runs []uint16
	for _, e := range events {
		if e.err == nil && e.Type == TypeOut {
			times, runs = append(times, e.Time), append(runs, e.Run)
		}
	}
	if !slices.Equal(runs, []uint16{1, 2, 3}) {
		t.Errorf("runs %v", runs)
	}
	if d := times[1] - times[0]; d < 5e6 || d > 6e6 || times[2] < times[1] {
		t.Errorf("times %v", times)
	}
	list, err := Segments(dir)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v %v", list, err)
	}
	for i, flags := range []uint16{HeaderFirstOfRun, HeaderFirstOfRun, HeaderFirstOfRun | HeaderUnclean} {
		if list[i].Header.Flags != flags {
			t.Errorf("segment %d has flags %d, want %d", i, list[i].Header.Flags, flags)
		}
	}
}

// TestShortWrites lets a write stop after every length: nothing of it may stay.
func TestShortWrites(t *testing.T) {
	for _, keepReserve := range []bool{true, false} {
		for n := range 70 {
			fs := &faultFS{}
			if !keepReserve {
				fs.reserveErr = syscall.ENOTSUP
			}
			dir := t.TempDir()
			w := create(t, dir, files(fs))
			write(t, w, TypeOut, "before")
			end := w.End()
			fs.set(func() {
				fs.write = func(f *faultFile, p []byte) (int, error) {
					k, _ := f.segmentFile.Write(p[:min(n, len(p)-1)])
					return k, syscall.ENOSPC
				}
			})
			var b Batch
			b.Add(TypeOut, 0, 0, []byte("first"))
			b.Add(TypeSize, 0, 0, EncodeSize(Size{Cols: 80, Rows: 24}))
			var stall *StallError
			if err := w.Write(&b); !errors.As(err, &stall) || stall.Cause != CauseNoSpace || stall.Errno != syscall.ENOSPC {
				t.Fatalf("short write of %d: %v", n, err)
			}
			if w.End() != end {
				t.Fatalf("end moved from %d to %d", end, w.End())
			}
			if info, _ := os.Stat(segmentPaths(t, dir)[0]); info.Size() != int64(end) {
				t.Fatalf("file has %d bytes, want %d", info.Size(), end)
			}
			fs.set(func() { fs.write = nil })
			if err := w.Write(&b); err != nil {
				t.Fatal(err)
			}
			closeWriter(t, w, EndAsked)
			if got := outputs(readAll(t, dir, 0), TypeOut); !slices.Equal(got, []string{"before", "first"}) {
				t.Fatalf("got %q", got)
			}
		}
	}
}

func TestTruncateFails(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	w := create(t, dir, files(fs))
	write(t, w, TypeOut, "before")
	fs.set(func() {
		fs.truncErr = syscall.EIO
		fs.write = func(f *faultFile, p []byte) (int, error) {
			k, _ := f.segmentFile.Write(p[:10])
			return k, syscall.EIO
		}
	})
	var b Batch
	b.Add(TypeOut, 0, 0, []byte("after"))
	if err := w.Write(&b); err == nil {
		t.Fatal("no error")
	}
	fs.set(func() { fs.write = nil })
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
	fs.set(func() { fs.truncErr = nil })
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	if got := outputs(events, TypeOut); !slices.Equal(got, []string{"before", "after"}) || holes(events) != 0 {
		t.Fatalf("got %q, %d holes", got, holes(events))
	}
	if n := len(segmentPaths(t, dir)); n != 2 {
		t.Fatalf("%d segments", n)
	}
}

func TestSyncFails(t *testing.T) {
	fs := &faultFS{syncErr: syscall.EIO}
	dir := t.TempDir()
	w := create(t, dir, files(fs), syncing(time.Millisecond))
	write(t, w, TypeMeta, "{}")
	waitFor(t, func() bool { _, failed, _ := w.sync.state(); return failed != nil })
	syncs := fs.syncs.Load()
	fs.set(func() { fs.syncErr = nil })
	if fs.syncs.Load() != syncs {
		t.Error("a failed sync was repeated")
	}
	write(t, w, TypeOut, "later")
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	gaps := outputs(events, TypeGap)
	if len(gaps) != 1 {
		t.Fatalf("%d gaps", len(gaps))
	}
	if g, _ := DecodeGap([]byte(gaps[0])); g.Cause != CauseIO || g.Bytes != 0 {
		t.Errorf("gap %+v", g)
	}
	if n := len(segmentPaths(t, dir)); n != 2 || holes(events) != 0 {
		t.Fatalf("%d segments, %d holes", n, holes(events))
	}
}

func TestSyncInTheBackground(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	w := create(t, dir, files(fs), syncing(20*time.Millisecond))
	write(t, w, TypeOut, "x")
	end := w.End()
	waitFor(t, func() bool { d, _, _ := w.sync.state(); return d == end })
	w.sync.mu.Lock()
	if w.sync.pending || w.sync.due {
		t.Error("a timer runs though all is synced")
	}
	w.sync.mu.Unlock()
	write(t, w, TypeOut, "y")
	closeWriter(t, w, EndAsked)
	durable := outputs(readAll(t, dir, 0), TypeDurable)
	if len(durable) != 1 {
		t.Fatalf("%d DURABLE frames", len(durable))
	}
	if p, _ := DecodeDurable([]byte(durable[0])); p != end {
		t.Fatalf("durable to %d, want %d", p, end)
	}
}

func TestDirectoryDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := create(t, dir, syncing(time.Millisecond))
	write(t, w, TypeOut, "gone")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	write(t, w, TypeMeta, "{}")
	waitFor(t, func() bool { _, _, gone := w.sync.state(); return gone })
	end := w.End()
	write(t, w, TypeOut, "back")
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	var trimmed *TrimmedError
	if !errors.As(events[0].err, &trimmed) || *trimmed != (TrimmedError{0, end}) {
		t.Fatalf("%v", events[0].err)
	}
	if got := outputs(events, TypeOut); !slices.Equal(got, []string{"back"}) {
		t.Fatalf("got %q", got)
	}
}

func TestRollOnFullDiskKeepsTheOldSegment(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	w := create(t, dir, files(fs), segmentBytes(1000))
	fs.set(func() { fs.createErr = syscall.ENOSPC })
	for range 30 {
		write(t, w, TypeOut, strings.Repeat("z", 100))
	}
	if n := len(segmentPaths(t, dir)); n != 1 {
		t.Fatalf("%d segments", n)
	}
	closeWriter(t, w, EndAsked)
	if got := outputs(readAll(t, dir, 0), TypeOut); len(got) != 30 {
		t.Fatalf("%d frames", len(got))
	}
}

func TestPublishFails(t *testing.T) {
	fs := &faultFS{}
	dir := t.TempDir()
	w := create(t, dir, files(fs), segmentBytes(1000))
	write(t, w, TypeOut, strings.Repeat("a", 900))
	fs.set(func() { fs.publishErr = syscall.EIO })
	var b Batch
	b.Add(TypeOut, 0, 0, []byte(strings.Repeat("b", 900)))
	if err := w.Write(&b); err == nil {
		t.Fatal("no error")
	}
	fs.set(func() { fs.publishErr = nil })
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
	closeWriter(t, w, EndAsked)
	events := readAll(t, dir, 0)
	if got := outputs(events, TypeOut); len(got) != 2 || holes(events) != 0 || lastErr(events) != ErrEnded {
		t.Fatalf("%d frames, %v", len(got), lastErr(events))
	}
}

func TestClockFrames(t *testing.T) {
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, clock(&c))
	write(t, w, TypeOut, "a")
	c.wall.Add(10e6) // the wall clock was set
	write(t, w, TypeOut, "b")
	c.us.Add(61e6) // a minute later
	write(t, w, TypeOut, "c")
	closeWriter(t, w, EndAsked)
	if n := len(outputs(readAll(t, dir, 0), TypeClock)); n != 3 {
		t.Fatalf("%d CLOCK frames", n)
	}
	f, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.clock = c.read
	for {
		fr, err := f.TryNext()
		if err != nil {
			break
		}
		if string(fr.Payload) != "b" {
			continue
		}
		now := c.read()
		age, ok := f.Age(fr)
		if !ok || age < 61*time.Second || age > 62*time.Second {
			t.Errorf("age %v %v", age, ok)
		}
		if d := time.Unix(0, now.Wall).Sub(f.Wall(fr)); d < 61*time.Second || d > 62*time.Second {
			t.Errorf("wall %v before now", d)
		}
		f.clock = func() Clock { return Clock{BootID: [16]byte{8}} }
		if _, ok := f.Age(fr); ok {
			t.Error("an age across boots")
		}
		f.clock = c.read
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, clock(&c))
	c.us.Add(10e6)
	write(t, w, TypeOut, "a")
	c.us.Add(-9e6)
	write(t, w, TypeOut, "b")
	closeWriter(t, w, EndAsked)
	last := int64(0)
	for _, e := range readAll(t, dir, 0) {
		if e.err == nil && e.Time < last {
			t.Fatalf("time went back from %d to %d", last, e.Time)
		}
		last = e.Time
	}
}

func TestSegmentAge(t *testing.T) {
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, clock(&c))
	write(t, w, TypeOut, "a")
	c.us.Add(25 * 3600 * 1e6)
	write(t, w, TypeOut, "b")
	closeWriter(t, w, EndAsked)
	if n := len(segmentPaths(t, dir)); n != 2 {
		t.Fatalf("%d segments", n)
	}
}

func TestQueries(t *testing.T) {
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, clock(&c), segmentBytes(1000))
	write(t, w, TypeSize, string(EncodeSize(Size{Cols: 80, Rows: 24})))
	write(t, w, TypeSize, string(EncodeSize(Size{Cols: 120, Rows: 40, Client: 7})))
	walls := map[int]int64{}
	for i := range 100 {
		c.us.Add(1e6)
		walls[i] = c.read().Wall
		write(t, w, TypeOut, fmt.Sprint(i, " ", strings.Repeat("q", 50)))
	}
	closeWriter(t, w, EndAsked)
	size, ok, err := LastSize(dir)
	if err != nil || !ok || size != (Size{Cols: 120, Rows: 40, Client: 7}) {
		t.Fatalf("size %+v %v %v", size, ok, err)
	}
	for i, wall := range walls {
		pos, err := SeekTime(dir, time.Unix(0, wall))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range readAll(t, dir, pos) {
			if e.err == nil && e.Type == TypeOut {
				if !bytes.HasPrefix(e.Payload, fmt.Append(nil, i, " ")) {
					t.Fatalf("at the time of %d: %q", i, e.Payload)
				}
				break
			}
		}
	}
	first, end, err := Ends(dir)
	if err != nil || first != 0 || end == 0 {
		t.Fatalf("%d %d %v", first, end, err)
	}
	if pos, err := SeekTime(dir, time.Unix(0, c.read().Wall)); err != nil || pos != end {
		t.Fatalf("in the future: %d %v, want %d", pos, err, end)
	}
	if n, err := LogBytes(dir); err != nil || n != int64(end) {
		t.Fatalf("%d bytes %v, want %d", n, err, end)
	}
}

func TestCreateRefusesForeignLog(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	closeWriter(t, w, EndAsked)
	if _, err := Create(dir, Options{Session: [16]byte{1}, Run: 2}); !errors.Is(err, ErrNotOurs) {
		t.Fatalf("%v", err)
	}
}

func TestCreateOnFullDisk(t *testing.T) {
	fs := &faultFS{createErr: syscall.ENOSPC}
	_, err := Create(t.TempDir(), Options{Session: testSession, files: fs})
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno != syscall.ENOSPC {
		t.Fatalf("%v", err)
	}
}

func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("waited in vain")
		}
	}
}

// TestRunBehindSealed: no position is used twice when only sealed segments are left.
func TestRunBehindSealed(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	write(t, w, TypeOut, "sealed")
	closeWriter(t, w, EndExit)
	raw := segmentPaths(t, dir)[0]
	data, err := os.ReadFile(raw)
	if err != nil {
		t.Fatal(err)
	}
	sealed := append([]byte("\x50\x2a\x4d\x18\x4c\x00\x00\x00"), data[:HeaderSize]...)
	sealed = binary.LittleEndian.AppendUint64(sealed, uint64(len(data)))
	path := strings.TrimSuffix(raw, SegmentSuffix) + SealedSuffix
	if err := os.WriteFile(path, sealed, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(raw); err != nil {
		t.Fatal(err)
	}
	w = create(t, dir, run(2))
	if w.seg.base != Position(len(data)) {
		t.Fatalf("base %d, want %d", w.seg.base, len(data))
	}
	if err := os.WriteFile(path, sealed[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	os.Remove(segmentPaths(t, dir)[0])
	if _, err := Create(dir, Options{Session: testSession, Run: 3}); err == nil {
		t.Fatal("went on behind a sealed segment that can't be read")
	}
}

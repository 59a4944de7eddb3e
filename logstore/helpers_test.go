package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var testSession = [16]byte{'t', 'e', 's', 't', 1, 2, 3}

func writerProcess(dir string) {
	var run uint16
	fmt.Sscan(os.Getenv("LOGSTORE_TEST_RUN"), &run)
	w, err := Create(dir, Options{Session: testSession, Run: run, SegmentBytes: 1 << 20})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ready")
	for i := uint64(0); ; i++ {
		var b Batch
		b.Add(TypeOut, 0, 0, pattern(run, i))
		if err := w.Write(&b); err != nil {
			os.Exit(1)
		}
	}
}

// pattern is the i-th output of a run in the kill test; lengths vary up to 64 KiB.
func pattern(run uint16, i uint64) []byte {
	n := 16 + int(i*7919%65000)
	if i%3 == 0 {
		n = 64
	}
	p := make([]byte, n)
	copy(p, fmt.Sprintf("%05d %09d", run, i))
	for k := 15; k < n; k++ {
		p[k] = byte(k + int(i))
	}
	return p
}

// fakeClock is a clock that the test moves. The zero value stands at 1 s.
type fakeClock struct {
	us   atomic.Int64
	wall atomic.Int64 // us, added to the boot time
}

func (c *fakeClock) read() Clock {
	boot := c.us.Add(1) + 1e6
	return Clock{Wall: (boot+c.wall.Load())*1000 + 1.7e18, Boot: uint64(boot), Mono: uint64(boot), BootID: [16]byte{9}}
}

// faultFS is the disk with faults.
type faultFS struct {
	diskFS
	mu         sync.Mutex
	write      func(f *faultFile, p []byte) (int, error) // nil: write
	reserveErr error
	syncErr    error
	truncErr   error
	createErr  error
	publishErr error
	freeBytes  int64 // 0: ask the disk
	syncs      atomic.Int64
	creates    atomic.Int64
}

type faultFile struct {
	segmentFile
	fs   *faultFS
	path string
}

func (f *faultFS) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *faultFS) create(path string) (segmentFile, error) {
	f.mu.Lock()
	err := f.createErr
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f.creates.Add(1)
	file, err := f.diskFS.create(path)
	if err != nil {
		return nil, err
	}
	return &faultFile{segmentFile: file, fs: f, path: path}, nil
}

func (f *faultFS) publish(temp, path string) error {
	f.mu.Lock()
	err := f.publishErr
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.diskFS.publish(temp, path)
}

func (f *faultFS) free(path string) (int64, error) {
	f.mu.Lock()
	n := f.freeBytes
	f.mu.Unlock()
	if n != 0 {
		return n, nil
	}
	return f.diskFS.free(path)
}

func (f *faultFile) Write(p []byte) (int, error) {
	f.fs.mu.Lock()
	write := f.fs.write
	f.fs.mu.Unlock()
	if write == nil {
		return f.segmentFile.Write(p)
	}
	return write(f, p)
}

func (f *faultFile) Truncate(n int64) error {
	f.fs.mu.Lock()
	err := f.fs.truncErr
	f.fs.mu.Unlock()
	if err != nil {
		return err
	}
	return f.segmentFile.Truncate(n)
}

func (f *faultFile) reserve(offset, n int64) error {
	f.fs.mu.Lock()
	err := f.fs.reserveErr
	f.fs.mu.Unlock()
	if err != nil {
		return err
	}
	return f.segmentFile.reserve(offset, n)
}

func (f *faultFile) datasync() error {
	f.fs.syncs.Add(1)
	f.fs.mu.Lock()
	err := f.fs.syncErr
	f.fs.mu.Unlock()
	return err
}

func create(t testing.TB, dir string, change ...func(*Options)) *Writer {
	t.Helper()
	o := Options{Session: testSession, Run: 1, SyncEvery: -1}
	for _, f := range change {
		f(&o)
	}
	w, err := Create(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.release)
	return w
}

func run(n uint16) func(*Options)            { return func(o *Options) { o.Run = n } }
func segmentBytes(n int64) func(*Options)    { return func(o *Options) { o.SegmentBytes = n } }
func files(f fileSystem) func(*Options)      { return func(o *Options) { o.files = f } }
func clock(c *fakeClock) func(*Options)      { return func(o *Options) { o.Clock = c.read } }
func syncing(d time.Duration) func(*Options) { return func(o *Options) { o.SyncEvery = d } }

func write(t testing.TB, w *Writer, typ Type, payload string) {
	t.Helper()
	var b Batch
	b.Add(typ, 0, 0, []byte(payload))
	if err := w.Write(&b); err != nil {
		t.Fatal(err)
	}
}

func closeWriter(t testing.TB, w *Writer, r EndReason) {
	t.Helper()
	if err := w.Close(r); err != nil {
		t.Fatal(err)
	}
}

// event is what a reader gave: a frame or an error.
type event struct {
	Frame
	err error
}

// readAll reads the log at rest to its end.
func readAll(t testing.TB, dir string, from Position) []event {
	t.Helper()
	f, err := Open(dir, from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return drain(f, 1<<20)
}

func drain(f *Follower, limit int) []event {
	var events []event
	for range limit {
		fr, err := f.TryNext()
		fr.Payload = append([]byte(nil), fr.Payload...)
		events = append(events, event{fr, err})
		if err == nil {
			continue
		}
		var damage *DamageError
		var trimmed *TrimmedError
		if !errors.As(err, &damage) && !errors.As(err, &trimmed) {
			return events
		}
	}
	panic("the reader does not end")
}

// outputs are the payloads of the frames of one type.
func outputs(events []event, typ Type) (list []string) {
	for _, e := range events {
		if e.err == nil && e.Type == typ {
			list = append(list, string(e.Payload))
		}
	}
	return list
}

func lastErr(events []event) error { return events[len(events)-1].err }

func holes(events []event) (n int) {
	for _, e := range events {
		var damage *DamageError
		if errors.As(e.err, &damage) {
			n++
		}
	}
	return n
}

func newWatcher(t testing.TB) *Watcher {
	t.Helper()
	w, err := NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func segmentPaths(t testing.TB, dir string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func withTimeout(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

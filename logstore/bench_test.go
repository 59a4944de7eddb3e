package logstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The benchmarks measure ours and the plain thing in turns in one run and
// report the ratio; the machine's own speed is of no interest.

const rounds = 7

// ratio runs ours and theirs in turns and reports the median of ours/theirs,
// both as speeds.
func ratio(b *testing.B, name string, ours, theirs func() time.Duration) {
	b.Helper()
	var list []float64
	for range rounds {
		t := theirs()
		o := ours()
		list = append(list, t.Seconds()/o.Seconds())
	}
	slices.Sort(list)
	b.ReportMetric(list[len(list)/2], name)
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func rawFile(b *testing.B) *os.File {
	f, err := os.OpenFile(filepath.Join(b.TempDir(), "raw"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

const benchBytes = 32 << 20

// rawWrites writes benchBytes in pieces, into a new file each 16 MiB as the log does.
func rawWrites(b *testing.B, piece int) func() time.Duration {
	p := make([]byte, piece)
	return func() time.Duration {
		f := rawFile(b)
		defer os.Remove(f.Name())
		return timed(func() {
			for n := 0; n < benchBytes; n += piece {
				if _, err := f.Write(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func logWrites(b *testing.B, piece int, syncEvery time.Duration) func() time.Duration {
	p := make([]byte, piece)
	return func() time.Duration {
		dir := b.TempDir()
		defer os.RemoveAll(dir)
		w := create(b, dir, syncing(syncEvery))
		var batch Batch
		d := timed(func() {
			for n := 0; n < benchBytes; n += piece {
				batch.Reset()
				batch.Add(TypeOut, 0, 0, p)
				if err := w.Write(&batch); err != nil {
					b.Fatal(err)
				}
			}
		})
		w.Close(EndAsked)
		return d
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, piece := range []int{128, 1 << 10, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprint(piece), func(b *testing.B) {
			for range b.N {
				ratio(b, "x-raw-write", logWrites(b, piece, -1), rawWrites(b, piece))
			}
		})
	}
	b.Run("4096/sync", func(b *testing.B) {
		for range b.N {
			ratio(b, "x-no-sync", logWrites(b, 4<<10, time.Second), logWrites(b, 4<<10, -1))
		}
	})
}

// BenchmarkAppender pushes 4 KiB reads through the queue, against copying the
// same to a file by 4 KiB reads and writes, as a program does that copies a terminal.
func BenchmarkAppender(b *testing.B) {
	p := make([]byte, 4<<10)
	ours := func() time.Duration {
		dir := b.TempDir()
		defer os.RemoveAll(dir)
		a := NewAppender(create(b, dir, syncing(time.Second)), AppenderOptions{})
		d := timed(func() {
			for n := 0; n < benchBytes; n += len(p) {
				a.Out(p)
			}
			a.Flush(context.Background())
		})
		a.Close(context.Background(), nil)
		return d
	}
	for range b.N {
		ratio(b, "x-raw-write", ours, rawWrites(b, len(p)))
	}
}

// BenchmarkRead reads, parses and sums a log, against io.Copy of its files
// through a pipe (cat log | cat > /dev/null).
func BenchmarkRead(b *testing.B) {
	const size = 256 << 20
	dir := b.TempDir()
	w := create(b, dir)
	var batch Batch
	p := make([]byte, 1500)
	for w.End() < size {
		batch.Reset()
		for range 20 {
			batch.Add(TypeOut, 0, 0, p)
		}
		if err := w.Write(&batch); err != nil {
			b.Fatal(err)
		}
	}
	w.Close(EndExit)
	parse := func() time.Duration {
		return timed(func() {
			f, err := Open(dir, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			for {
				if _, err := f.TryNext(); err == ErrEnded {
					return
				} else if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.seg"))
	pipe := func() time.Duration {
		return timed(func() {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			go func() {
				buf := make([]byte, 128<<10)
				for _, path := range paths {
					f, err := os.Open(path)
					if err != nil {
						b.Error(err)
						break
					}
					io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{f}, buf)
					f.Close()
				}
				w.Close()
			}()
			io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 128<<10))
			r.Close()
		})
	}
	read := func() time.Duration {
		return timed(func() {
			buf := make([]byte, 256<<10)
			for _, path := range paths {
				f, err := os.Open(path)
				if err != nil {
					b.Fatal(err)
				}
				io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
				f.Close()
			}
		})
	}
	for range b.N {
		ratio(b, "x-pipe", parse, pipe)
		ratio(b, "x-plain-read", parse, read)
		b.ReportMetric(size/parse().Seconds()/1e6, "MB/s-parsed")
	}
}

// BenchmarkFollow measures from before the append to the frame parsed, against
// the same bytes pushed over a Unix socket.
func BenchmarkFollow(b *testing.B) {
	const count = 3000
	for range b.N {
		ours, push := followLatency(b, count), pushLatency(b, count)
		for i, q := range []float64{0.5, 0.99} {
			o, p := quantile(ours, q), quantile(push, q)
			name := []string{"p50", "p99"}[i]
			b.ReportMetric(float64(o.Nanoseconds())/1e3, name+"-us")
			b.ReportMetric(float64(o)/float64(p), name+"-x-push")
		}
	}
}

func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(float64(len(d)-1)*q)]
}

// paced calls send count times, about 0.7 ms apart.
func paced(count int, send func(now int64)) {
	tick := time.NewTicker(700 * time.Microsecond)
	defer tick.Stop()
	for range count {
		<-tick.C
		send(time.Now().UnixNano())
	}
}

func followLatency(b *testing.B, count int) (list []time.Duration) {
	dir := b.TempDir()
	w := create(b, dir)
	f := follow(b, newWatcher(b), dir, 0, yes)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for len(list) < count {
			fr, err := f.Next(context.Background())
			if err != nil {
				b.Error(err)
				return
			}
			if fr.Type == TypeOut {
				list = append(list, time.Duration(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(fr.Payload))))
			}
		}
	}()
	var batch Batch
	paced(count, func(now int64) {
		var p [64]byte
		binary.LittleEndian.PutUint64(p[:], uint64(now))
		batch.Reset()
		batch.Add(TypeOut, 0, 0, p[:])
		if err := w.Write(&batch); err != nil {
			b.Error(err)
		}
	})
	<-done
	return list
}

func pushLatency(b *testing.B, count int) (list []time.Duration) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		b.Fatal(err)
	}
	conn := func(fd int) net.Conn {
		file := os.NewFile(uintptr(fd), "socket")
		defer file.Close()
		c, err := net.FileConn(file)
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	from, to := conn(fds[0]), conn(fds[1])
	defer from.Close()
	defer to.Close()
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		var p [64]byte
		for len(list) < count && !stop.Load() {
			if _, err := io.ReadFull(to, p[:]); err != nil {
				b.Error(err)
				return
			}
			list = append(list, time.Duration(time.Now().UnixNano()-int64(binary.LittleEndian.Uint64(p[:]))))
		}
	}()
	paced(count, func(now int64) {
		var p [64]byte
		binary.LittleEndian.PutUint64(p[:], uint64(now))
		if _, err := from.Write(p[:]); err != nil {
			b.Error(err)
		}
	})
	<-done
	return list
}

// BenchmarkCreate opens a log whose newest segment is full and torn.
func BenchmarkCreate(b *testing.B) {
	dir := b.TempDir()
	w := create(b, dir)
	var batch Batch
	for w.End() < 15<<20 {
		batch.Reset()
		batch.Add(TypeOut, 0, 0, make([]byte, 500))
		w.Write(&batch)
	}
	w.release()
	for b.Loop() {
		if _, err := recoverTail(dir, testSession); err != nil {
			b.Fatal(err)
		}
	}
}

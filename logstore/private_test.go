package logstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// TestPrivateWatcher: the follower that waits for the kernel itself sees each
// frame, ends with its context and with the watcher, and sleeps in between.
func TestPrivateWatcher(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, Options{Session: [16]byte{1}, Run: 1, SegmentBytes: 4 << 10, SyncEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := NewPrivateWatcher()
	if err != nil {
		t.Fatal(err)
	}
	f, err := watcher.Follow(dir, 0, func() bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const frames = 2000
	var writing sync.WaitGroup
	writing.Go(func() {
		var b Batch
		for i := range frames {
			b.Reset()
			b.Add(TypeOut, 0, 0, []byte{byte(i), byte(i >> 8)})
			if err := w.Write(&b); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ctx := withTimeout(t)
	for seen := 0; seen < frames; {
		fr, err := f.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if fr.Type != TypeOut {
			continue
		}
		if got := int(fr.Payload[0]) | int(fr.Payload[1])<<8; got != seen {
			t.Fatalf("frame %d in place of %d", got, seen)
		}
		seen++
	}

	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := f.Next(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("at the end of the context: %v", err)
	}
	ended := make(chan error)
	go func() {
		_, err := f.Next(ctx)
		ended <- err
	}()
	watcher.Close()
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	writing.Wait()
	w.Close(EndAsked)
}

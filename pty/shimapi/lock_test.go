package shimapi

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLockTellsWhoLives(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if locked, err := Locked(path); locked || err != nil {
		t.Errorf("a file that does not exist: %v, %v", locked, err)
	}
	lock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if locked, err := Locked(path); !locked || err != nil {
		t.Errorf("held: %v, %v", locked, err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second holder: %v", err)
	}
	waited := make(chan *Lock)
	go func() {
		l, err := WaitLock(path)
		if err != nil {
			t.Error(err)
		}
		waited <- l
	}()
	lock.Release()
	next := <-waited
	if locked, _ := Locked(path); !locked {
		t.Error("not held by who waited")
	}
	next.Release()
	if locked, _ := Locked(path); locked {
		t.Error("held by nobody")
	}
}

// TestProbesDoNotStopATaker: a probe holds a shared lock for a moment, and who
// takes the lock in that moment must not conclude that it is held.
func TestProbesDoNotStopATaker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	stop := make(chan struct{})
	var probes sync.WaitGroup
	for range 4 {
		probes.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					Locked(path)
				}
			}
		})
	}
	for range 500 {
		lock, err := TryLock(path)
		if err != nil {
			t.Error(err)
			break
		}
		lock.Release()
	}
	close(stop)
	probes.Wait()
}

func TestLockIsNoSymlink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); err == nil {
		t.Error("a symlink was followed")
	}
}

func TestNoteStartBacksOff(t *testing.T) {
	lock, err := TryLock(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	now := time.Now()
	want := []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond}
	for i, w := range want {
		if got := lock.NoteStart(now); got != w {
			t.Errorf("start %d waits %v, want %v", i, got, w)
		}
	}
	for range 40 {
		lock.NoteStart(now)
	}
	if got := lock.NoteStart(now); got != maxBackoff {
		t.Errorf("after many: %v", got)
	}
	if got := lock.NoteStart(now.Add(maxBackoff + quickDeath + time.Second)); got != 0 {
		t.Errorf("after an hour: %v", got)
	}
	lock.File().WriteAt([]byte("nonsense"), 0)
	if got := lock.NoteStart(now.Add(2 * time.Hour)); got != 0 {
		t.Errorf("with nonsense in the file: %v", got)
	}
}

func TestSocketsWorkAtAnyLengthOfPath(t *testing.T) {
	for _, n := range []int{60, 100, 107, 108, 150, 300} {
		dir := t.TempDir()
		for len(dir) < n {
			dir = filepath.Join(dir, strings.Repeat("d", min(100, max(1, n-len(dir)-1))))
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l, path, err := Listen(dir, "sock")
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes: mode %v, %v", n, info.Mode(), err)
		}
		c, err := Dial(context.Background(), path)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
		} else {
			c.Close()
		}
		l.Close()
	}
}

func TestListenReplacesOnlySockets(t *testing.T) {
	dir := t.TempDir()
	l, path, err := Listen(dir, "sock")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("a closed listener removed its socket: %v", err)
	}
	if l, _, err = Listen(dir, "sock"); err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	l.Close()
	os.Remove(path)
	for name, put := range map[string]func() error{
		"file":    func() error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"folder":  func() error { return os.Mkdir(path, 0o700) },
		"symlink": func() error { return os.Symlink("/dev/null", path) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Listen(dir, "sock"); err == nil {
			t.Errorf("a %s was replaced", name)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("a %s was removed", name)
		}
		os.Remove(path)
	}
	if _, err := Dial(context.Background(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("dial of nothing: %v", err)
	}
}

func TestPeerUID(t *testing.T) {
	l, path, err := Listen(t.TempDir(), "sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan *net.UnixConn)
	go func() {
		c, err := l.AcceptUnix()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer := <-accepted
	defer peer.Close()
	if uid, err := PeerUID(peer); err != nil || uid != os.Geteuid() {
		t.Errorf("uid %d, %v", uid, err)
	}
}

func TestBundleFiles(t *testing.T) {
	b := Bundle{Session: t.TempDir(), Run: 3}
	if err := os.MkdirAll(b.Dir(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ReadStart(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no start: %v", err)
	}
	if err := b.WriteStart(Start{Schema: StartSchema, Run: 3, ShimPID: 7}); err != nil {
		t.Fatal(err)
	}
	if s, err := b.ReadStart(); err != nil || s.ShimPID != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := b.WriteStart(Start{Schema: StartSchema + 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ReadStart(); !errors.Is(err, ErrNewer) {
		t.Errorf("a later schema: %v", err)
	}
	// exit.json is written into a preallocated file; zeros at its end are none of it.
	data, _ := json.Marshal(ExitRecord{Schema: ExitSchema, Code: 4})
	if err := os.WriteFile(b.File(ExitName), append(data, make([]byte, 100)...), 0o600); err != nil {
		t.Fatal(err)
	}
	if e, err := b.ReadExit(); err != nil || e.Code != 4 {
		t.Errorf("%+v, %v", e, err)
	}
	os.Remove(b.File(ExitName))
	if err := os.Symlink("/etc/passwd", b.File(ExitName)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.ReadExit(); err == nil {
		t.Error("a symlink was followed")
	}
}

func TestLaunchKeepsAnyBytes(t *testing.T) {
	in := Launch{Argv: Bytes([]string{"sh", "\xff\x01\x80", ""}), Env: Bytes([]string{"A=\xfe"})}
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Launch
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if got := Texts(out.Argv); len(got) != 3 || got[1] != "\xff\x01\x80" || string(out.Env[0]) != "A=\xfe" {
		t.Errorf("%q %q", got, out.Env)
	}
}

package seal

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"agentmux/logstore"
)

func sample() Keyframe {
	return Keyframe{
		Session: [16]byte{1, 2, 15: 3}, Position: 0x1122334455667788, Cols: 120, Rows: 40,
		Snapshot: []byte("\x1b[2Jscreen"), Pending: []byte("\x1b[3"),
	}
}

// TestGoldenKeyframe: the layout of the package comment, byte by byte. Files of
// older servers are read by newer ones, so a change needs a new version.
func TestGoldenKeyframe(t *testing.T) {
	const want = "89414d4b0d0a1a0a" + "0100" + "7800" + "2800" + "0000" +
		"01020000000000000000000000000003" + "8877665544332211" + "0a000000" + "03000000" + "a835b3dd" +
		"1b5b324a73637265656e" + "1b5b33"
	if got := hex.EncodeToString(encode(sample())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNewestKeyframe(t *testing.T) {
	dir := t.TempDir()
	k := sample()
	if _, err := NewestKeyframe(dir, k.Session, 1<<62); !errors.Is(err, ErrNoKeyframe) {
		t.Errorf("without any: %v", err)
	}
	for _, position := range []logstore.Position{100, 300, 200} {
		k.Position = position
		if err := WriteKeyframe(dir, k); err != nil {
			t.Fatal(err)
		}
	}
	for at, want := range map[logstore.Position]logstore.Position{1000: 300, 300: 300, 299: 200} {
		got, err := NewestKeyframe(dir, k.Session, at)
		if err != nil || got.Position != want || !bytes.Equal(got.Snapshot, k.Snapshot) || !bytes.Equal(got.Pending, k.Pending) || got.Cols != 120 {
			t.Errorf("at %d: %+v, %v, want position %d", at, got, err, want)
		}
	}
	if _, err := NewestKeyframe(dir, k.Session, 150); !errors.Is(err, ErrNoKeyframe) {
		t.Errorf("only the newest two stay: %v", err)
	}
	if _, err := NewestKeyframe(dir, [16]byte{9}, 1000); !errors.Is(err, ErrNoKeyframe) {
		t.Errorf("of another session: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.tmp")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// TestDamagedKeyframes: cut or changed anywhere, a keyframe is as good as none,
// and the one before it serves.
func TestDamagedKeyframes(t *testing.T) {
	dir := t.TempDir()
	k := sample()
	k.Position = 100
	if err := WriteKeyframe(dir, k); err != nil {
		t.Fatal(err)
	}
	k.Position = 200
	if err := WriteKeyframe(dir, k); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "00000000000000c8.key")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, at int, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := NewestKeyframe(dir, k.Session, 1000); err != nil || got.Position != 100 {
			t.Errorf("%s at %d: position %d, %v", what, at, got.Position, err)
		}
	}
	for n := range whole {
		check("cut", n, whole[:n])
		flipped := bytes.Clone(whole)
		flipped[n] ^= 0x40
		check("flipped", n, flipped)
	}
	check("longer", len(whole), append(bytes.Clone(whole), 0))
	os.Remove(path)
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if got, err := NewestKeyframe(dir, k.Session, 1000); err != nil || got.Position != 100 {
		t.Errorf("a symlink: %d, %v", got.Position, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(sample()))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := decode(data, sample().Session)
		if err == nil && !bytes.Equal(encode(k), data) && data[14] == 0 && data[15] == 0 {
			t.Errorf("%x was taken for %+v", data, k)
		}
	})
}

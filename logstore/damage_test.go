package logstore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// smallLog makes a log of a few segments and returns its files.
func smallLog(t testing.TB, limit int64, closeIt bool) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	var c fakeClock
	w := create(t, dir, segmentBytes(limit), clock(&c))
	write(t, w, TypeMeta, `{"argv":["x"]}`)
	write(t, w, TypeSize, string(EncodeSize(Size{Cols: 80, Rows: 24})))
	for i := range 12 {
		write(t, w, TypeOut, fmt.Sprintf("line %d %s\r\n", i, strings.Repeat("ab\xfb", i*2)))
	}
	if closeIt {
		write(t, w, TypeExit, string(EncodeExit(Exit{})))
		closeWriter(t, w, EndExit)
	} else {
		w.release()
	}
	files := map[string][]byte{}
	for _, p := range segmentPaths(t, dir) {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(p)] = data
	}
	return files
}

func writeFiles(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func sortedNames(files map[string][]byte) []string {
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func frames(events []event) (list []event) {
	for _, e := range events {
		if e.err == nil {
			list = append(list, e)
		}
	}
	return list
}

func sameFrame(a, b event) bool {
	return a.Pos == b.Pos && a.Next == b.Next && a.Type == b.Type && a.Time == b.Time && bytes.Equal(a.Payload, b.Payload)
}

// assertSubset fails if got has a frame that want has not.
func assertSubset(t *testing.T, what string, got, want []event) {
	t.Helper()
	i := 0
	for _, g := range got {
		for i < len(want) && !sameFrame(g, want[i]) {
			i++
		}
		if i == len(want) {
			t.Fatalf("%s: invented frame %+v", what, g.Frame)
		}
		i++
	}
}

// TestTruncateEverywhere cuts the last segment at every byte: always the frames
// that are whole, never damage, and a new run goes on.
func TestTruncateEverywhere(t *testing.T) {
	files := smallLog(t, 700, true)
	names := sortedNames(files)
	last := names[len(names)-1]
	base, _ := parseName(last, SegmentSuffix)
	dir := t.TempDir()
	writeFiles(t, dir, files)
	whole := readAll(t, dir, 0)
	exit := slices.IndexFunc(whole, func(e event) bool { return e.err == nil && e.Type == TypeExit })
	for cut := range files[last] {
		writeFiles(t, dir, map[string][]byte{last: files[last][:cut]})
		end := base + Position(cut)
		want := slices.IndexFunc(whole, func(e event) bool { return e.Next > end || e.err != nil })
		got := readAll(t, dir, 0)
		if len(got) != want+1 || holes(got) != 0 {
			t.Fatalf("cut at %d: %d events, want %d, %d holes", cut, len(got), want+1, holes(got))
		}
		assertSubset(t, fmt.Sprint("cut at ", cut), frames(got), whole)
		wantErr := ErrLost
		if want > exit {
			wantErr = ErrEnded
		}
		if lastErr(got) != wantErr {
			t.Fatalf("cut at %d: %v, want %v", cut, lastErr(got), wantErr)
		}
		nextRun(t, dir, fmt.Sprint("cut at ", cut), frames(got))
	}
}

// nextRun lets a new run write a frame and reads all once more.
func nextRun(t *testing.T, dir, what string, before []event) {
	t.Helper()
	old := segmentPaths(t, dir)
	w, err := Create(dir, Options{Session: testSession, Run: 2, SyncEvery: -1})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	write(t, w, TypeOut, "next run")
	closeWriter(t, w, EndExit)
	got := readAll(t, dir, 0)
	all := frames(got)
	if len(all) != len(before)+3 || string(all[len(all)-2].Payload) != "next run" || lastErr(got) != ErrEnded {
		t.Fatalf("%s: next run: %d frames, want %d, %v", what, len(all), len(before)+3, got[len(before):])
	}
	for _, p := range segmentPaths(t, dir) {
		if !slices.Contains(old, p) {
			os.Remove(p)
		}
	}
}

// TestFlipEverywhere flips bits of every byte: one frame is lost, one hole
// told, nothing invented, nothing else missing.
func TestFlipEverywhere(t *testing.T) {
	for _, closeIt := range []bool{true, false} {
		files := smallLog(t, 700, closeIt)
		names := sortedNames(files)
		dir := t.TempDir()
		writeFiles(t, dir, files)
		whole := readAll(t, dir, 0)
		total := len(frames(whole))
		for k, name := range names {
			base, _ := parseName(name, SegmentSuffix)
			for i := range files[name] {
				for _, bit := range []byte{1, 0x80, 0xFF} {
					bad := bytes.Clone(files[name])
					bad[i] ^= bit
					writeFiles(t, dir, map[string][]byte{name: bad})
					got := readAll(t, dir, 0)
					what := fmt.Sprintf("flip %x in byte %d of segment %d", bit, i, k)
					assertSubset(t, what, frames(got), whole)
					lastSegment := k == len(names)-1
					lost := total - len(frames(got))
					pos := base + Position(i)
					hit := whole[slices.IndexFunc(whole, func(e event) bool { return e.Pos <= pos && pos < e.Next || e.err != nil })]
					switch {
					case i < len(magic) && lastSegment:
						if lastErr(got) != ErrNotOurs {
							t.Fatalf("%s: %v", what, lastErr(got))
						}
						continue
					case i < HeaderSize:
						if holes(got) != 1 {
							t.Fatalf("%s: %d holes", what, holes(got))
						}
					case lastSegment && hit.Next == whole[len(whole)-2].Next && i-int(hit.Pos-base) >= 4 && i-int(hit.Pos-base) < 7:
						// A length that is too long looks like a torn tail, or the frame is bad.
						if lost != 1 || holes(got) > 1 {
							t.Fatalf("%s: %d lost, %d holes", what, lost, holes(got))
						}
					default:
						if lost != 1 || holes(got) != 1 {
							t.Fatalf("%s: %d lost, %d holes: %v", what, lost, holes(got), got)
						}
						assertHole(t, what, got, hit.Frame)
					}
					if closeIt != (lastErr(got) == ErrEnded) && !(lastSegment && (i < HeaderSize || hit.Type == TypeExit || hit.Type == TypeEnd)) {
						t.Fatalf("%s: %v", what, lastErr(got))
					}
					if bit == 1 {
						nextRun(t, dir, what, frames(got))
					}
				}
			}
			writeFiles(t, dir, files)
		}
	}
}

func assertHole(t *testing.T, what string, got []event, hit Frame) {
	t.Helper()
	for _, e := range got {
		var d *DamageError
		if errors.As(e.err, &d) && (d.From != hit.Pos || d.To < hit.Next || d.To > hit.Next+HeaderSize) {
			t.Fatalf("%s: hole from %d to %d, the frame is %d to %d", what, d.From, d.To, hit.Pos, hit.Next)
		}
	}
}

// TestZeroedPages blanks out pages of a larger log.
func TestZeroedPages(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	for i := range 2000 {
		write(t, w, TypeOut, fmt.Sprint(i, strings.Repeat("-", 480)))
	}
	closeWriter(t, w, EndExit)
	path := segmentPaths(t, dir)[0]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := frames(readAll(t, dir, 0))
	for page := 4096; page < len(data)-8192; page += 40960 {
		clear(data[page : page+4096])
	}
	pages := (len(data) - 8192 - 4096 + 40959) / 40960
	os.WriteFile(path, data, 0o600)
	got := readAll(t, dir, 0)
	assertSubset(t, "zeroed", frames(got), whole)
	if holes(got) != pages || len(whole)-len(frames(got)) > 10*pages || lastErr(got) != ErrEnded {
		t.Fatalf("%d holes, want %d; %d frames lost; %v", holes(got), pages, len(whole)-len(frames(got)), lastErr(got))
	}
}

// TestLogInsideItself prints a log into itself, whole and in parts: what lies
// inside is never taken for frames, not even behind damage.
func TestLogInsideItself(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	for i := range 30 {
		write(t, w, TypeOut, fmt.Sprint("inner ", i))
	}
	path := segmentPaths(t, dir)[0]
	inner, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	start := w.End()
	write(t, w, TypeOut, string(inner))
	write(t, w, TypeOut, string(inner[HeaderSize:]))
	foreign := smallLog(t, 1<<20, true)
	for _, data := range foreign {
		write(t, w, TypeOut, string(data))
	}
	closeWriter(t, w, EndExit)
	whole := frames(readAll(t, dir, 0))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Whatever is destroyed in front of them, the inner frames stay payload.
	for i := int(start); i < len(data)-100; i += 7 {
		bad := bytes.Clone(data)
		bad[i] ^= 0x55
		writeFiles(t, dir, map[string][]byte{filepath.Base(path): bad})
		got := readAll(t, dir, 0)
		assertSubset(t, fmt.Sprint("flip at ", i), frames(got), whole)
		if holes(got) != 1 || len(frames(got)) != len(whole)-1 {
			t.Fatalf("flip at %d: %d holes, %d frames of %d", i, holes(got), len(frames(got)), len(whole))
		}
	}
}

func TestVersionsAndForeignFiles(t *testing.T) {
	h := Header{Major: 2, Run: 1, Session: testSession, Salt: 1}
	dir := t.TempDir()
	writeFiles(t, dir, map[string][]byte{SegmentName(0): h.AppendTo(nil)})
	var version *VersionError
	if events := readAll(t, dir, 0); len(events) != 1 || !errors.As(lastErr(events), &version) || version.Major != 2 {
		t.Errorf("newer major: %v", events)
	}
	if _, err := Create(dir, Options{Session: testSession}); !errors.As(err, &version) {
		t.Errorf("writing behind a newer major: %v", err)
	}
	writeFiles(t, dir, map[string][]byte{SegmentName(0): []byte("#!/bin/sh\necho this is no segment, but long enough to be one of them\n")})
	if events := readAll(t, dir, 0); len(events) != 1 || lastErr(events) != ErrNotOurs {
		t.Errorf("foreign file: %v", events)
	}
	if events := readAll(t, t.TempDir(), 0); len(events) != 1 || lastErr(events) != ErrLost {
		t.Errorf("empty directory: %v", events)
	}
}

func TestSymlinkIsNotFollowed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	w := create(t, other)
	closeWriter(t, w, EndExit)
	if err := os.Symlink(segmentPaths(t, other)[0], filepath.Join(dir, SegmentName(0))); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.TryNext(); err == nil || errors.Is(err, ErrEnded) {
		t.Fatalf("%v", err)
	}
}

func TestUnknownTypes(t *testing.T) {
	dir := t.TempDir()
	w := create(t, dir)
	write(t, w, TypeOut, "a")
	write(t, w, Type(200), "from the future")
	write(t, w, TypeOut, "b")
	pos := w.End()
	write(t, w, Type(99), "critical")
	write(t, w, TypeOut, "c")
	closeWriter(t, w, EndExit)
	f, err := Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events := drain(f, 10)
	if got := outputs(events, TypeOut); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q", got)
	}
	for range 2 {
		var version *VersionError
		if _, err := f.TryNext(); !errors.As(err, &version) || version.Type != 99 || version.Pos != pos || f.Position() != pos {
			t.Fatalf("%v at %d", err, f.Position())
		}
	}
}

func TestTrimmed(t *testing.T) {
	files := smallLog(t, 300, true)
	names := sortedNames(files)
	dir := t.TempDir()
	writeFiles(t, dir, files)
	whole := readAll(t, dir, 0)
	for i := range names[:len(names)-1] {
		for j := i + 1; j < len(names); j++ {
			clearDir(t, dir)
			writeFiles(t, dir, files)
			for _, n := range names[i:j] {
				os.Remove(filepath.Join(dir, n))
			}
			from, _ := parseName(names[i], SegmentSuffix)
			to, _ := parseName(names[j], SegmentSuffix)
			got := readAll(t, dir, 0)
			assertSubset(t, "trimmed", frames(got), whole)
			n := 0
			for _, e := range got {
				var trimmed *TrimmedError
				if errors.As(e.err, &trimmed) {
					n++
					if *trimmed != (TrimmedError{from, to}) {
						t.Fatalf("without %d to %d: %v, want %d to %d", i, j, trimmed, from, to)
					}
				}
			}
			if n != 1 || holes(got) != 0 || lastErr(got) != ErrEnded {
				t.Fatalf("without %d to %d: told %d times, %v", i, j, n, lastErr(got))
			}
		}
	}
}

func clearDir(t *testing.T, dir string) {
	t.Helper()
	for _, p := range segmentPaths(t, dir) {
		if err := os.Remove(p); err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzFollower reads arbitrary segments: it ends, and every frame is well-formed.
func FuzzFollower(f *testing.F) {
	for _, data := range smallLog(f, 1<<20, true) {
		f.Add(data, []byte{}, uint64(0))
		f.Add(data[:len(data)-7], data, uint64(100))
	}
	f.Add(goldenSegment(), []byte("x"), uint64(goldenBase))
	f.Fuzz(func(t *testing.T, one, two []byte, from uint64) {
		dir := t.TempDir()
		files := map[string][]byte{SegmentName(0): one}
		if len(two) > 0 {
			files[SegmentName(Position(len(one)))] = two
		}
		writeFiles(t, dir, files)
		fo, err := Open(dir, Position(from))
		if err != nil {
			t.Fatal(err)
		}
		defer fo.Close()
		pos := Position(0)
		for _, e := range drain(fo, len(one)+len(two)+10) {
			if e.err != nil {
				continue
			}
			if e.Pos < pos || e.Next != e.Pos+FrameHeaderSize+Position(len(e.Payload)) || !e.Type.known() {
				t.Fatalf("frame %+v behind %d", e.Frame, pos)
			}
			pos = e.Next
		}
		Ends(dir)
		LastSize(dir)
	})
}

package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// SegmentInfo describes one segment file.
type SegmentInfo struct {
	Path   string
	Base   Position
	Size   int64 // of the file, bytes
	Sealed bool
	Header Header // zero if it can't be read, or if Sealed
}

// listBases returns the base positions of the raw segments in dir, ascending.
func listBases(dir string) ([]Position, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	bases := make([]Position, 0, len(names))
	for _, name := range names {
		if base, ok := parseName(name, SegmentSuffix); ok {
			bases = append(bases, base)
		}
	}
	slices.Sort(bases)
	return bases, nil
}

// Segments lists the segments in dir, raw and sealed, by position.
func Segments(dir string) ([]SegmentInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var list []SegmentInfo
	for _, e := range entries {
		info, ok := segmentInfo(dir, e)
		if ok {
			list = append(list, info)
		}
	}
	slices.SortFunc(list, func(a, b SegmentInfo) int { return cmp.Compare(a.Base, b.Base) })
	return list, nil
}

func segmentInfo(dir string, e os.DirEntry) (SegmentInfo, bool) {
	s := SegmentInfo{Path: filepath.Join(dir, e.Name())}
	base, raw := parseName(e.Name(), SegmentSuffix)
	if !raw {
		base, s.Sealed = parseName(e.Name(), SealedSuffix)
	}
	if !raw && !s.Sealed {
		return s, false
	}
	info, err := e.Info()
	if err != nil || !info.Mode().IsRegular() {
		return s, false // deleted meanwhile, or no file
	}
	s.Base, s.Size = base, info.Size()
	if raw {
		s.Header, _ = readHeader(s.Path)
	}
	return s, true
}

func readHeader(path string) (Header, error) {
	f, err := openRead(path)
	if err != nil {
		return Header{}, err
	}
	defer f.Close()
	var p [HeaderSize]byte
	n, err := pread(f, p[:], 0)
	if err != nil {
		return Header{}, err
	}
	return ParseHeader(p[:n])
}

// LogBytes is the size of all files of the log in dir, derived ones included.
func LogBytes(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("size of log: %w", err)
	}
	var sum int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum, nil
}

// tail is what a new writer must know of the log so far.
type tail struct {
	end     Position
	unclean bool // there is something, and it has no proper end
	time    int64
	clock   Clock // at clockAt
	clockAt int64
}

// sessionTime is the session time at c: since boot if that is the same, else
// by the wall clock, and never earlier than the log's last frame.
func (t *tail) sessionTime(c Clock) int64 {
	passed := int64(0)
	switch {
	case t.clockAt == 0:
		return max(t.time, 1)
	case t.clock.BootID != [16]byte{} && t.clock.BootID == c.BootID:
		passed = int64(c.Boot - t.clock.Boot)
	default:
		passed = (c.Wall - t.clock.Wall) / 1000
	}
	return max(t.time, t.clockAt+passed, 1)
}

// recoverTail finds the end of the log in dir. It changes nothing.
func recoverTail(dir string, session [16]byte) (tail, error) {
	bases, err := listBases(dir)
	if err != nil {
		return tail{}, err
	}
	var t tail
	for i := len(bases) - 1; i >= 0; i-- {
		path := filepath.Join(dir, SegmentName(bases[i]))
		found, err := t.walk(path, bases[i], session)
		if err != nil {
			return tail{}, fmt.Errorf("segment %s: %w", SegmentName(bases[i]), err)
		}
		if found {
			break
		}
	}
	return t, t.addSealed(dir)
}

// addSealed moves the end behind sealed segments whose raw form is gone. One
// that can't be read is an error: without it a position could be used twice.
func (t *tail) addSealed(dir string) error {
	list, err := Segments(dir)
	if err != nil {
		return err
	}
	for _, s := range list {
		if !s.Sealed || s.Base < t.end {
			continue
		}
		n, err := sealedLength(s.Path)
		if err != nil {
			return fmt.Errorf("sealed segment %s: %w", filepath.Base(s.Path), err)
		}
		t.end = max(t.end, s.Base+n)
	}
	return nil
}

// sealedLength is the length of the raw segment that was sealed: a u64 behind
// the segment header, which is in a zstd skippable frame (8 bytes) at the start.
func sealedLength(path string) (Position, error) {
	f, err := openRead(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const lead = 8
	var p [lead + HeaderSize + 8]byte
	if _, err := f.ReadAt(p[:], 0); err != nil {
		return 0, fmt.Errorf("read its head: %w", err)
	}
	if _, err := ParseHeader(p[lead : lead+HeaderSize]); err != nil {
		return 0, err
	}
	return Position(binary.LittleEndian.Uint64(p[lead+HeaderSize:])), nil
}

// walk notes where the segment at path ends. It tells whether the search is
// over; it isn't at a segment whose header is missing or damaged: then only
// its length counts.
func (t *tail) walk(path string, base Position, session [16]byte) (bool, error) {
	s, err := openSegment(path, new(largeBuffers))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // removed just now
	case errors.Is(err, errHeaderShort), errors.Is(err, errHeaderDamage):
		return false, t.unreadable(path, base)
	case err != nil:
		return false, err
	}
	defer s.close()
	if s.head.Session != session {
		return false, ErrNotOurs
	}
	end, clean, last, err := s.findEnd()
	if err != nil {
		return false, err
	}
	t.unclean = t.unclean || !clean
	t.end = max(t.end, end)
	t.time = max(t.time, last, s.head.Time)
	t.clock, t.clockAt = s.clock, s.clockAt
	return true, nil
}

func (t *tail) unreadable(path string, base Position) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	t.end = max(t.end, base+Position(max(info.Size(), HeaderSize)))
	t.unclean = true
	return nil
}

// findEnd walks the segment from its start and returns the end of its good
// part: behind a torn frame's start there is nothing, but damaged bytes count,
// so that no position is ever used twice.
func (s *segmentReader) findEnd() (end Position, clean bool, last int64, err error) {
	s.seek(s.head.Base + HeaderSize)
	var fr Frame
	for {
		v := s.next(&fr)
		if v == frameGood {
			clean, last = fr.Type == TypeEnd, fr.Time
			continue
		}
		v, err = s.judge()
		if err != nil {
			return 0, false, 0, err
		}
		if v == frameGood {
			continue
		}
		if v == framePartial && s.buffered() == 0 {
			return s.pos, clean, last, nil
		}
		clean = false
		torn := s.pos
		fileEnd, found, err := s.resync()
		if err != nil {
			return 0, false, 0, err
		}
		if found {
			continue
		}
		if v == framePartial {
			return torn, false, last, nil
		}
		return fileEnd, false, last, nil
	}
}

// Ends returns the first position that is there and the end of the last good
// frame. With no log both are zero.
func Ends(dir string) (first, end Position, err error) {
	bases, err := listBases(dir)
	if err != nil || len(bases) == 0 {
		return 0, 0, err
	}
	for i := len(bases) - 1; i >= 0; i-- {
		s, err := openSegment(filepath.Join(dir, SegmentName(bases[i])), new(largeBuffers))
		if errors.Is(err, errHeaderShort) || errors.Is(err, errHeaderDamage) || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, fmt.Errorf("end of log: %w", err)
		}
		end, _, _, err := s.findEnd()
		s.close()
		if err != nil {
			return 0, 0, fmt.Errorf("end of log: %w", err)
		}
		return bases[0], end, nil
	}
	return bases[0], bases[len(bases)-1], nil
}

// LastSize returns the last SIZE in the log; false if there is none. It reads
// segments from the newest backwards until it meets one.
func LastSize(dir string) (Size, bool, error) {
	bases, err := listBases(dir)
	if err != nil {
		return Size{}, false, fmt.Errorf("last size: %w", err)
	}
	for i := len(bases) - 1; i >= 0; i-- {
		size, ok, err := lastSizeIn(filepath.Join(dir, SegmentName(bases[i])))
		if err != nil || ok {
			return size, ok, err
		}
	}
	return Size{}, false, nil
}

func lastSizeIn(path string) (size Size, found bool, err error) {
	s, err := openSegment(path, new(largeBuffers))
	if errors.Is(err, errHeaderShort) || errors.Is(err, errHeaderDamage) || errors.Is(err, fs.ErrNotExist) {
		return Size{}, false, nil
	}
	if err != nil {
		return Size{}, false, fmt.Errorf("last size: %w", err)
	}
	defer s.close()
	err = s.each(func(fr *Frame) bool {
		if fr.Type != TypeSize {
			return true
		}
		if v, err := DecodeSize(fr.Payload); err == nil {
			size, found = v, true
		}
		return true
	})
	return size, found, err
}

// each calls f with every good frame of the segment until it returns false.
func (s *segmentReader) each(f func(fr *Frame) bool) error {
	var fr Frame
	for {
		if s.next(&fr) == frameGood {
			if !f(&fr) {
				return nil
			}
			continue
		}
		v, err := s.judge()
		if err != nil {
			return err
		}
		if v == frameGood {
			continue
		}
		if s.buffered() == 0 {
			return nil
		}
		if _, found, err := s.resync(); err != nil || !found {
			return err
		}
	}
}

// SeekTime returns the position of the first frame written at wall or later,
// or the end of the log if there is none.
func SeekTime(dir string, wall time.Time) (Position, error) {
	list, err := Segments(dir)
	if err != nil {
		return 0, err
	}
	list = slices.DeleteFunc(list, func(s SegmentInfo) bool { return s.Header.Major == 0 })
	at := wall.UnixNano()
	start := 0
	for i, s := range list {
		if s.Header.Wall <= at {
			start = i
		}
	}
	for _, info := range list[start:] {
		pos, ok, err := seekIn(info.Path, at)
		if err != nil || ok {
			return pos, err
		}
	}
	_, end, err := Ends(dir)
	return end, err
}

func seekIn(path string, wall int64) (pos Position, found bool, err error) {
	s, err := openSegment(path, new(largeBuffers))
	if err != nil {
		return 0, false, fmt.Errorf("seek time: %w", err)
	}
	defer s.close()
	err = s.each(func(fr *Frame) bool {
		if s.wall(fr.Time) < wall {
			return true
		}
		pos, found = fr.Pos, true
		return false
	})
	return pos, found, err
}

// wall is the wall time, in nanoseconds since 1970, of session time at.
func (s *segmentReader) wall(at int64) int64 {
	if !s.clocked {
		return s.head.Wall + (at-s.head.Time)*1000
	}
	return s.clock.Wall + (at-s.clockAt)*1000
}

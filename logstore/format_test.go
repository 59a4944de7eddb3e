package logstore

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenFrames has one frame of every type.
func goldenFrames() []Frame {
	return []Frame{
		{Type: TypeOut, Payload: []byte("hello \xff\x1b[m")},
		{Type: TypeIn, Payload: []byte{1, 0, 0, 0, 5, 0, 0, 0}},
		{Type: TypeSize, Payload: EncodeSize(Size{Cols: 120, Rows: 40, XPixel: 1200, YPixel: 800, Client: 7})},
		{Type: TypeMeta, Payload: []byte(`{"argv":["claude"]}`)},
		{Type: TypeExit, Payload: EncodeExit(Exit{Kind: ExitSignal, Core: true, Code: 11, Wall: 1700000000123456789, Rusage: []byte(`{"maxrss":1}`)})},
		{Type: TypeGap, Payload: EncodeGap(Gap{Cause: CauseNoSpace, Errno: 28, Bytes: 1 << 40, Reads: 99, First: 1000, Last: 2000})},
		{Type: TypeEnd, Payload: EncodeEnd(End{Next: 0x123456789A, Reason: EndExit})},
		{Type: TypeClock, Payload: EncodeClock(Clock{Wall: 1700000000123456789, Boot: 1e12, Mono: 9e11, BootID: [16]byte{1, 2, 3, 15: 16}})},
		{Type: TypeMark, Payload: []byte(`{"note":"x"}`)},
		{Type: TypeDurable, Payload: []byte{0, 1, 2, 3, 4, 0, 0, 0}},
		{Type: TypeKey, Payload: []byte("reserved")},
	}
}

const (
	goldenBase = Position(0x1_2345_6789)
	goldenSalt = 0xCAFEF00D
)

func goldenHeader() Header {
	h := Header{Major: 1, Minor: 0, Flags: HeaderFirstOfRun | HeaderUnclean, Run: 0x0203, Base: goldenBase, Wall: 1700000000123456789, Time: 0x0405060708, Salt: goldenSalt}
	for i := range h.Session {
		h.Session[i] = byte(0xA0 + i)
	}
	return h
}

// goldenSegment is a segment with the golden frames.
func goldenSegment() []byte {
	h := goldenHeader()
	p := h.AppendTo(nil)
	for i, f := range goldenFrames() {
		start := len(p)
		p = append(p, make([]byte, FrameHeaderSize)...)
		p = append(p, f.Payload...)
		putFrameHeader(p[start:], f.Type, uint8(i&1), h.Time+int64(i)<<33, len(f.Payload))
		finishFrame(p[start:], h.Base+Position(start), h.Salt)
	}
	return p
}

func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "segment-1.0.hex")
	segment := goldenSegment()
	if *update {
		if err := os.WriteFile(path, []byte(hexLines(segment)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if hexLines(segment) != string(text) {
		t.Fatalf("the format has changed: readers of the old one exist. Got\n%s", hexLines(segment))
	}
	h, err := ParseHeader(segment)
	if err != nil || h != goldenHeader() {
		t.Fatalf("header %+v %v", h, err)
	}
	pos, rest := h.Base+HeaderSize, segment[HeaderSize:]
	for i, want := range goldenFrames() {
		n, v := checkFrame(rest, pos, h.Salt)
		if v != frameGood || frameType(rest) != want.Type || !bytes.Equal(rest[FrameHeaderSize:n], want.Payload) ||
			frameTime(rest) != h.Time+int64(i)<<33 || rest[9] != uint8(i&1) {
			t.Fatalf("frame %d: verdict %d, %x", i, v, rest[:n])
		}
		rest, pos = rest[n:], pos+Position(n)
	}
}

// hexLines is the header on its first line, then a frame a line.
func hexLines(segment []byte) string {
	var b strings.Builder
	fmt.Fprintln(&b, hex.EncodeToString(segment[:HeaderSize]))
	for p := segment[HeaderSize:]; len(p) > 0; p = p[frameLength(p):] {
		fmt.Fprintln(&b, hex.EncodeToString(p[:frameLength(p)]))
	}
	return b.String()
}

// TestFrozen fails when a number of the format changes: they are in files that exist.
func TestFrozen(t *testing.T) {
	got := []int{int(TypeOut), int(TypeIn), int(TypeSize), int(TypeMeta), int(TypeExit), int(TypeGap), int(TypeEnd), int(TypeClock), int(TypeMark), int(TypeDurable), int(TypeKey),
		HeaderSize, FrameHeaderSize, MaxPayload, int(HeaderFirstOfRun), int(HeaderUnclean), int(FlagOwn), Major, Minor,
		int(ExitCode), int(ExitSignal), int(ExitUnknown), int(EndSize), int(EndAge), int(EndExit), int(EndAsked),
		int(CauseNoSpace), int(CauseQuota), int(CauseIO), int(CauseReadOnly), int(CauseFileSize), int(CauseOther), int(CauseStuck)}
	want := []int{1, 2, 3, 4, 5, 6, 7, 128, 129, 130, 131, 64, 20, 1048576, 1, 2, 1, 1, 0, 0, 1, 2, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("numbers on disk have changed:\n%v\n%v", got, want)
	}
}

// TestDocTable compares the package comment with the constants.
func TestDocTable(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[Type]string{}
	for _, m := range regexp.MustCompile(`(?m)^//\t *(\d+)  ([A-Z]+) `).FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.Atoi(m[1])
		found[Type(n)] = m[2]
	}
	if !reflect.DeepEqual(found, typeNames) {
		t.Errorf("types in doc.go: %v", found)
	}
	for _, want := range []string{
		strings.ToUpper(strings.TrimSpace(fmt.Sprintf("% x", magic))),
		fmt.Sprintf("payload length, at most %d", MaxPayload),
		fmt.Sprintf("    60    4  crc(0, bytes 0..%d)", HeaderSize-5),
		fmt.Sprintf("crc(salt, bytes 4..%d and the payload)", FrameHeaderSize-1),
		fmt.Sprintf("1  %X", frameMarker),
		fmt.Sprintf("major = %d;", Major), fmt.Sprintf("minor = %d;", Minor),
		fmt.Sprintf("flags: %d first segment of a run, %d the one before", HeaderFirstOfRun, HeaderUnclean),
		fmt.Sprintf("kind (%d code, %d signal, %d unknown)", ExitCode, ExitSignal, ExitUnknown),
		fmt.Sprintf("reason (%d size, %d age, %d exit, %d asked)", EndSize, EndAge, EndExit, EndAsked),
		fmt.Sprintf("%d no space,\n// %d quota, %d I/O error, %d read-only, %d file size limit, %d other, %d stuck", CauseNoSpace, CauseQuota, CauseIO, CauseReadOnly, CauseFileSize, CauseOther, CauseStuck),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("doc.go does not say %q", want)
		}
	}
}

func TestPayloads(t *testing.T) {
	size := Size{1, 2, 3, 4, 5}
	if got, err := DecodeSize(EncodeSize(size)); err != nil || got != size {
		t.Error(got, err)
	}
	exit := Exit{Kind: ExitSignal, Core: true, Code: 9, Wall: -5, Rusage: []byte("{}")}
	if got, err := DecodeExit(EncodeExit(exit)); err != nil || !reflect.DeepEqual(got, exit) {
		t.Error(got, err)
	}
	gap := Gap{CauseQuota, 1, 2, 3, 4, 5}
	if got, err := DecodeGap(EncodeGap(gap)); err != nil || got != gap {
		t.Error(got, err)
	}
	end := End{7, EndAge}
	if got, err := DecodeEnd(EncodeEnd(end)); err != nil || got != end {
		t.Error(got, err)
	}
	c := Clock{-1, 2, 3, [16]byte{4}}
	if got, err := DecodeClock(EncodeClock(c)); err != nil || got != c {
		t.Error(got, err)
	}
	for name, decode := range map[string]func([]byte) error{
		"size": func(p []byte) error { _, err := DecodeSize(p); return err }, "exit": func(p []byte) error { _, err := DecodeExit(p); return err },
		"gap": func(p []byte) error { _, err := DecodeGap(p); return err }, "end": func(p []byte) error { _, err := DecodeEnd(p); return err },
		"clock": func(p []byte) error { _, err := DecodeClock(p); return err }, "durable": func(p []byte) error { _, err := DecodeDurable(p); return err },
	} {
		for n := range 7 {
			if decode(make([]byte, n)) == nil {
				t.Errorf("%s of %d bytes accepted", name, n)
			}
		}
	}
}

func TestHeaderErrors(t *testing.T) {
	h := goldenHeader()
	good := h.AppendTo(nil)
	for n := range HeaderSize {
		if _, err := ParseHeader(good[:n]); !errors.Is(err, errHeaderShort) {
			t.Errorf("%d bytes: %v", n, err)
		}
		bad := bytes.Clone(good)
		bad[n] ^= 4
		_, err := ParseHeader(bad)
		want := errHeaderDamage
		if n < len(magic) {
			want = ErrNotOurs
		}
		if !errors.Is(err, want) {
			t.Errorf("flip in %d: %v", n, err)
		}
	}
	h.Major = 2
	var version *VersionError
	if _, err := ParseHeader(h.AppendTo(nil)); !errors.As(err, &version) || version.Major != 2 {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	if got := SegmentName(0xABC); got != "0000000000000abc.seg" {
		t.Error(got)
	}
	for _, bad := range []string{"", ".seg", "abc.seg", "0000000000000ABC.seg", "0000000000000abc.sgz", "000000000000+abc.seg", "0000000000000abc.seg.tmp"} {
		if _, ok := parseName(bad, SegmentSuffix); ok {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzHeader(f *testing.F) {
	h := goldenHeader()
	f.Add(h.AppendTo(nil))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := ParseHeader(p)
		if err == nil && !bytes.Equal(h.AppendTo(nil), p[:HeaderSize]) {
			t.Fatalf("%x does not come back", p[:HeaderSize])
		}
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(goldenSegment()[HeaderSize:], uint64(goldenBase+HeaderSize), uint32(goldenSalt))
	f.Add([]byte{}, uint64(0), uint32(1))
	f.Fuzz(func(t *testing.T, p []byte, pos uint64, salt uint32) {
		n, v := checkFrame(p, Position(pos), salt)
		if v == frameGood && (n > len(p) || n < FrameHeaderSize) {
			t.Fatalf("a good frame of %d in %d bytes", n, len(p))
		}
		i, v := findFrame(p, 0, Position(pos), salt)
		if v != frameBad && i+FrameHeaderSize > len(p) {
			t.Fatalf("found at %d of %d", i, len(p))
		}
		if v == frameGood {
			if _, v := checkFrame(p[i:], Position(pos)+Position(i), salt); v != frameGood {
				t.Fatal("found what is none")
			}
		}
	})
}

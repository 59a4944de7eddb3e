package shimapi

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

// The numbers below are on the wire of every shim ever released, and a shim
// lives as long as its agent. If this test fails, the change is wrong and not
// the test: give a new thing a new number.
func TestFrozenNumbers(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"ProtocolVersion", ProtocolVersion, 1},
		{"TypeHello", int(TypeHello), 1}, {"TypeInput", int(TypeInput), 2}, {"TypeResize", int(TypeResize), 3},
		{"TypeSignal", int(TypeSignal), 4}, {"TypeStat", int(TypeStat), 5},
		{"TypeWelcome", int(TypeWelcome), 129}, {"TypeAck", int(TypeAck), 130}, {"TypeExit", int(TypeExit), 131},
		{"RoleControl", int(RoleControl), 0}, {"RoleWriter", int(RoleWriter), 1},
		{"RoleReadOnly", int(RoleReadOnly), 2}, {"RoleServer", int(RoleServer), 3},
		{"KindKey", int(KindKey), 1}, {"KindPaste", int(KindPaste), 2}, {"KindSend", int(KindSend), 3}, {"KindReply", int(KindReply), 4},
		{"FlagMore", FlagMore, 1},
		{"StatusAccepted", int(StatusAccepted), 0}, {"StatusDuplicate", int(StatusDuplicate), 1},
		{"StatusBusy", int(StatusBusy), 2}, {"StatusUncertain", int(StatusUncertain), 3},
		{"StatusReadOnly", int(StatusReadOnly), 4}, {"StatusTooLarge", int(StatusTooLarge), 5},
		{"StatusEnded", int(StatusEnded), 6}, {"StatusLeftover", int(StatusLeftover), 7}, {"StatusBad", int(StatusBad), 8},
		{"OpSignal", int(OpSignal), 1}, {"OpEnd", int(OpEnd), 2}, {"OpRearm", int(OpRearm), 3},
		{"TargetForeground", int(TargetForeground), 1}, {"TargetAgent", int(TargetAgent), 2}, {"TargetTree", int(TargetTree), 3},
		{"WelcomeStalled", WelcomeStalled, 1}, {"WelcomeExited", WelcomeExited, 2},
		{"ExitCode", ExitCode, 0}, {"ExitSignal", ExitSignal, 1}, {"ExitFailed", ExitFailed, 2},
		{"MaxInput", MaxInput, 1 << 20}, {"MaxGroup", MaxGroup, 16 << 20},
		{"LaunchFD", LaunchFD, 3}, {"ReadyFD", ReadyFD, 4}, {"ServerLockFD", ServerLockFD, 3}, {"ServerReadyFD", ServerReadyFD, 4},
		{"SpecSchema", SpecSchema, 1}, {"StartSchema", StartSchema, 1}, {"ExitSchema", ExitSchema, 1}, {"ServerSchema", ServerSchema, 1},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, and was released as %d", c.name, c.got, c.want)
		}
	}
}

// samples are one message of each type, with a value in every field.
func samples() []any {
	writer := Writer{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	return []any{
		Hello{Min: 1, Max: 2, Role: RoleWriter, Run: 3, Session: [16]byte{0xaa, 15: 0xbb}},
		Input{Writer: writer, Sequence: 0x0102030405060708, Kind: KindPaste, Flags: FlagMore, Data: []byte("hi\x1b")},
		Resize{Cols: 120, Rows: 40, XPixel: 1200, YPixel: 800, Client: 0xdeadbeef},
		Signal{ID: 7, Operation: OpEnd, Target: TargetTree, Signal: 15, Grace: 5000},
		Welcome{
			Version: 1, Flags: WelcomeStalled, StallCause: 1, Run: 2, ShimPID: 3, AgentPID: 4, LogEnd: 5, LostBytes: 6,
			Queued: 7, Cols: 8, Rows: 9, Output: 10,
		},
		Ack{Writer: writer, Sequence: 9, Status: StatusUncertain},
		Exit{Kind: ExitSignal, Core: 1, Code: 9, Wall: 1234567890123456789},
	}
}

// TestGoldenFrames compares the bytes of each message with those that were
// released. The file is not to be written anew: see TestFrozenNumbers.
func TestGoldenFrames(t *testing.T) {
	want, err := os.ReadFile("testdata/frames.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range samples() {
		name := strings.TrimPrefix(reflect.TypeOf(m).String(), "shimapi.")
		got.WriteString(name + " " + hex.EncodeToString(m.(appender).Append(nil)) + "\n")
	}
	got.WriteString("Stat " + hex.EncodeToString(statMessage{}.Append(nil)) + "\n")
	if got.String() != string(want) {
		t.Errorf("frames differ from the released ones:\n%s\nwant\n%s", got.String(), want)
	}
}

func TestRoundTrip(t *testing.T) {
	var stream []byte
	for _, m := range samples() {
		stream = m.(appender).Append(stream)
	}
	stream = AppendFrame(stream, 77, []byte("of a later version"))
	r := NewFrameReader(iotestOneByte{bytes.NewReader(stream)})
	for _, want := range samples() {
		typ, p, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got, err := parse(typ, append(bytes.Clone(p), "a later field"...)[:len(p)])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if _, isInput := want.(Input); !isInput {
			if got, err := parse(typ, append(bytes.Clone(p), "a later field"...)); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("with a later field: %+v, %v", got, err)
			}
		}
		for n := range p {
			if _, err := parse(typ, p[:n]); typ != TypeInput && !errors.Is(err, ErrProtocol) {
				t.Errorf("type %d cut to %d bytes: %v", typ, n, err)
			}
		}
	}
	if typ, p, err := r.Next(); typ != 77 || string(p) != "of a later version" || err != nil {
		t.Errorf("unknown type: %d %q %v", typ, p, err)
	}
	if _, _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// iotestOneByte hands out one byte a read, the worst that a socket may do.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func parse(t Type, p []byte) (any, error) {
	switch t {
	case TypeHello:
		return ParseHello(p)
	case TypeInput:
		return ParseInput(p)
	case TypeResize:
		return ParseResize(p)
	case TypeSignal:
		return ParseSignal(p)
	case TypeWelcome:
		return ParseWelcome(p)
	case TypeAck:
		return ParseAck(p)
	case TypeExit:
		return ParseExit(p)
	}
	return nil, nil
}

func TestReaderRefusesGiants(t *testing.T) {
	header := []byte{0xff, 0xff, 0xff, 0xff, byte(TypeInput)}
	if _, _, err := NewFrameReader(bytes.NewReader(header)).Next(); !errors.Is(err, ErrProtocol) {
		t.Errorf("4 GiB: %v", err)
	}
	// A length alone must not make the reader allocate what it claims.
	claim := AppendFrame(nil, TypeInput, make([]byte, MaxInput))[:frameHeader+10]
	r := NewFrameReader(bytes.NewReader(claim))
	if _, _, err := r.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("torn frame: %v", err)
	}
	if cap(r.buf) > 128<<10 {
		t.Errorf("%d bytes were allocated for 10 that came", cap(r.buf))
	}
}

func FuzzFrames(f *testing.F) {
	for _, m := range samples() {
		f.Add(m.(appender).Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewFrameReader(bytes.NewReader(data))
		for {
			typ, p, err := r.Next()
			if err != nil {
				return
			}
			m, err := parse(typ, p)
			if err != nil || m == nil {
				continue
			}
			again := m.(appender).Append(nil)
			if _, isInput := m.(Input); isInput && !bytes.Equal(again[frameHeader:], p) {
				t.Errorf("%x becomes %x", p, again[frameHeader:])
			}
		}
	})
}

func TestSignalNames(t *testing.T) {
	for _, text := range []string{"KILL", "kill", "SIGKILL", "9", "sig9"} {
		if sig, err := ParseSignalName(text); err != nil || sig != 9 || SignalName(sig) != "SIGKILL" {
			t.Errorf("%q is %v, %v", text, sig, err)
		}
	}
	for _, text := range []string{"", "x", "0", "65", "-1", "9x", "KILL "} {
		if sig, err := ParseSignalName(text); err == nil {
			t.Errorf("%q was taken for %v", text, sig)
		}
	}
	if SignalName(44) != "SIG44" {
		t.Errorf("44 is %s", SignalName(44))
	}
}

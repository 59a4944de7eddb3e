package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"agentmux/session"
)

// What is compared here crosses the wire between programs of different ages.
// A failure means that the change is wrong, not the test.
func TestFrozen(t *testing.T) {
	if TypeHello != 1 || TypeRequest != 2 || TypeResponse != 3 || TypeNotice != 4 {
		t.Error("an envelope type has changed its number")
	}
	if string(preamble) != "\x00AMXC\r\n\x1a" {
		t.Error("the preamble has changed")
	}
	if MethodList != "list" || MethodKill != "kill" || MethodDetach != "detach" || MethodVersion != "version" || NoticeDetach != "detach" {
		t.Error("a frozen method has changed its name")
	}
	want := "invalid-name invalid-id not-found exists ambiguous not-running running refused busy timeout version no-server command"
	var got []string
	for _, c := range codes {
		got = append(got, c.code)
	}
	if !strings.HasPrefix(strings.Join(got, " "), want) {
		t.Errorf("error codes are %q: they are append-only", got)
	}
}

// golden are messages of the frozen methods, and of the others as they are.
func golden() map[string]any {
	at := time.Unix(1700000000, 5).UTC()
	info := Info{
		ID: "0f0e0d0c-0b0a-4908-8706-050403020100", Name: "n", State: session.Exited, Agent: "claude", Command: []string{"claude"},
		Dir: "/d", Host: "h", AgentPID: 1, ShimPID: 2, Run: 3, Created: at, Started: at, Ended: &at,
		Exit: &session.Exit{Code: 3, Signal: "SIGTERM"}, Evidence: "e", Attached: 1, Size: session.Size{Cols: 80, Rows: 24},
		Title: "t", LogBytes: 4, LogState: "ok", LostBytes: 5, Survivors: []Process{{PID: 6, Argv: []string{"x"}}},
	}
	return map[string]any{
		"hello":         Hello{Min: 1, Max: 1, Version: "v1.0.0", PID: 9, Features: []string{"f"}},
		"request":       Request{ID: 1, Method: "list", Params: []byte{0x80}},
		"response":      Response{ID: 1, Error: &Error{Code: "not-found", Message: "m", Hint: "h", Exit: 3}, Result: []byte{0x80}},
		"notice":        Notice{Kind: "detach", Reason: "r"},
		"list":          ListParams{All: true},
		"list result":   ListResult{Sessions: []Info{info}},
		"kill":          KillParams{Target: Target{Name: "n", Exact: true}, Signal: 15, Grace: time.Second},
		"kill result":   KillResult{Session: info},
		"detach":        Target{Name: "n"},
		"detach result": DetachResult{Count: 2},
		"version":       VersionResult{Version: "v1", PID: 1, Socket: "/s", Started: at, Live: 2},
	}
}

var goldenOrder = []string{
	"hello", "request", "response", "notice", "list", "list result", "kill", "kill result", "detach", "detach result", "version",
}

func TestGoldenMessages(t *testing.T) {
	want, err := os.ReadFile("testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range goldenOrder {
		data, err := Encode(golden()[name])
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(name + ": " + hex.EncodeToString(data) + "\n")
	}
	if got.String() != string(want) {
		t.Errorf("messages differ from the released ones:\n%s", got.String())
	}
}

func TestFieldsOfALaterVersionAreIgnored(t *testing.T) {
	data, err := Encode(map[string]any{"name": "n", "later": []int{1}, "exact": true})
	if err != nil {
		t.Fatal(err)
	}
	var target Target
	if err := Decode(data, &target); err != nil || target != (Target{"n", true}) {
		t.Errorf("%+v, %v", target, err)
	}
	if err := Decode(nil, &target); err != nil {
		t.Errorf("no parameters: %v", err)
	}
	if err := Decode([]byte{0xc1}, &target); !errors.Is(err, ErrProtocol) {
		t.Errorf("nonsense: %v", err)
	}
}

// pair connects two Conns, with noise before what a says.
func pair(t *testing.T, noise string) (a, b *Conn) {
	t.Helper()
	x, y := net.Pipe()
	t.Cleanup(func() { x.Close(); y.Close() })
	if noise != "" {
		x = noisy{x, bytes.NewBufferString(noise)}
	}
	return NewConn(x), NewConn(y)
}

// noisy writes something before the first write, as a login shell does.
type noisy struct {
	net.Conn
	before *bytes.Buffer
}

func (n noisy) Write(p []byte) (int, error) {
	if n.before.Len() > 0 {
		if _, err := n.Conn.Write(n.before.Next(n.before.Len())); err != nil {
			return 0, err
		}
	}
	return n.Conn.Write(p)
}

func greetBoth(a, b *Conn) (Hello, Hello, error) {
	type result struct {
		h   Hello
		err error
	}
	c := make(chan result)
	go func() {
		h, err := a.Greet(Hello{Version: "a", PID: 1})
		c <- result{h, err}
	}()
	// net.Pipe is synchronous: read first on this side.
	done := make(chan result)
	go func() {
		h, err := greetReadFirst(b)
		done <- result{h, err}
	}()
	fromA, fromB := <-done, <-c
	return fromA.h, fromB.h, errors.Join(fromA.err, fromB.err)
}

func greetReadFirst(c *Conn) (Hello, error) {
	if err := c.skipNoise(); err != nil {
		return Hello{}, err
	}
	_, payload, err := c.Receive()
	if err != nil {
		return Hello{}, err
	}
	var h Hello
	if err := Decode(payload, &h); err != nil {
		return h, err
	}
	return h, c.send(preamble, TypeHello, Hello{Min: MinVersion, Max: MaxVersion, Version: "b"})
}

func TestGreet(t *testing.T) {
	for name, noise := range map[string]string{
		"clean": "", "banner": "Welcome to host\r\nLast login: today\r\n", "almost": "\x00AMX\x00\x00AMXC\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t, noise)
			fromA, fromB, err := greetBoth(a, b)
			if err != nil || fromA.Version != "a" || fromB.Version != "b" || fromA.Min != MinVersion || fromA.Max != MaxVersion {
				t.Errorf("%+v %+v %v", fromA, fromB, err)
			}
		})
	}
}

func TestGreetRefusesOthers(t *testing.T) {
	for name, c := range map[string]struct {
		says []byte
		want error
	}{
		"another program": {bytes.Repeat([]byte("SSH-2.0-x\r\n"), maxNoise/10), ErrProtocol},
		"silence":         {nil, io.EOF},
		"newer":           {hello(Hello{Min: MaxVersion + 1, Max: MaxVersion + 9, Version: "v9"}), session.ErrVersion},
		"giant":           {append(bytes.Clone(preamble), 0xff, 0xff, 0xff, 0xff, 1), ErrProtocol},
		"torn":            {hello(Hello{Min: 1, Max: 1})[:12], io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			conn := NewConn(struct {
				io.Reader
				io.Writer
			}{bytes.NewReader(c.says), io.Discard})
			if _, err := conn.Greet(Hello{}); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func hello(h Hello) []byte {
	var buf bytes.Buffer
	c := NewConn(struct {
		io.Reader
		io.Writer
	}{&buf, &buf})
	c.send(preamble, TypeHello, h)
	return buf.Bytes()
}

func TestErrorsKeepTheirMeaning(t *testing.T) {
	for _, c := range codes {
		e := FromError(errors.Join(errors.New("while doing something"), c.err))
		if e.Code != c.code || !errors.Is(e, c.err) {
			t.Errorf("%v becomes %+v", c.err, e)
		}
		for _, other := range codes {
			if other.err != c.err && errors.Is(e, other.err) {
				t.Errorf("%s is taken for %v", c.code, other.err)
			}
		}
	}
	inner := &Error{Code: "command", Message: "m", Hint: "h", Exit: 127}
	if e := FromError(errors.Join(inner)); e.Code != "command" || e.Hint != "h" || e.Exit != 127 {
		t.Errorf("%+v", e)
	}
	if e := FromError(errors.New("x")); e.Code != CodeFailed || errors.Is(e, session.ErrNotFound) {
		t.Errorf("%+v", e)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(hello(Hello{Min: 1, Max: 1})[len(preamble):])
	f.Fuzz(func(t *testing.T, data []byte) {
		c := NewConn(struct {
			io.Reader
			io.Writer
		}{bytes.NewReader(data), io.Discard})
		for {
			_, payload, err := c.Receive()
			if err != nil {
				return
			}
			var req Request
			var info AttachParams
			Decode(payload, &req)
			Decode(payload, &info)
		}
	})
}

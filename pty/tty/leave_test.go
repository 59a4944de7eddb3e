package tty

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

func modesOn(t *testing.T) []byte {
	t.Helper()
	out, err := exec.Command("sh", "testdata/modes_on.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(out, []byte("MODES ON")) {
		t.Fatalf("%q", out)
	}
	return out
}

// user returns a terminal in which the user has a keyboard level of his own.
func user(global bool) *screen {
	s := newScreen()
	s.global = global
	s.feed([]byte("\x1b[>1u"))
	return s
}

// checkUser fails unless s is as user made it.
func checkUser(t *testing.T, what string, s *screen) {
	t.Helper()
	if len(s.stack[0]) != 1 || s.flags != [2]int{1, 0} || len(s.stack[1]) != 0 {
		t.Errorf("%s: user's keyboard level: %v %v", what, s.stack, s.flags)
	}
	s.stack[0], s.flags[0] = nil, 0
	if bad := s.leftOn(); bad != "" {
		t.Errorf("%s: left on: %s", what, bad)
	}
	if s.title != "shell" {
		t.Errorf("%s: title %q", what, s.title)
	}
}

// TestLeave cuts the stream that switches everything on at every byte.
func TestLeave(t *testing.T) {
	data := modesOn(t)
	for _, global := range []bool{false, true} {
		for i := range len(data) + 1 {
			f, s := NewFilter(), user(global)
			s.feed(f.Enter())
			s.feed(f.Filter(nil, data[:i]))
			leave := f.Leave()
			s.feed(leave)
			checkUser(t, string(data[:i]), s)
			if bytes.Contains(leave, []byte("\x1bc")) || bytes.Contains(leave, []byte("3J")) {
				t.Fatalf("%q", leave)
			}
			if again := f.Leave(); len(again) > 0 {
				t.Fatalf("second Leave: %q", again)
			}
		}
	}
}

// TestLeaveWhileAttached: the program's modes are on until then, and come on
// again after a second attach.
func TestLeaveWhileAttached(t *testing.T) {
	data := modesOn(t)
	s := user(false)
	for range 2 {
		f := NewFilter()
		s.feed(f.Enter())
		s.feed(f.Filter(nil, data))
		if s.flags[1] != 7 || !s.modes["?1003"] || !s.keypad || s.style != 5 || s.modes["?25"] || !s.alt || s.modes["?2048"] {
			t.Errorf("while attached: %+v", s)
		}
		s.feed(f.Leave())
		checkUser(t, "after detach", s)
		s.feed([]byte("\x1b[<1u\x1b[>1u"))
	}
}

func TestLeaveIsExact(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"text", "hello", "\x1b[9999;1H\r\n"},
		{"mouse", "\x1b[?1000h\x1b[?1006h", "\x1b[?1000l\x1b[?1006l"},
		{"mouse, off again", "\x1b[?1000h\x1b[?1006h\x1b[?1000;1006l", ""},
		{"cursor hidden, bar", "\x1b[5 q\x1b[?25l", "\x1b[?25h\x1b[0 q"},
		{"keys", "\x1b[?1h\x1b=", "\x1b[?1l\x1b>"},
		{"kitty", "\x1b[>1u\x1b[>5u\x1b[=7;1u", "\x1b[<2u"},
		{"kitty on the alternate screen, left", "\x1b[?1049h\x1b[>1u\x1b[?1049l", "\x1b[?1049h\x1b[<1u\x1b[?1049l\x1b[9999;1H\r\n"},
		{"modifyOtherKeys", "\x1b[>4;2m", "\x1b[>4m"},
		{"wheel on", "\x1b[?1007h", "\x1b[?1007l\x1b[?1007r"},
		{"wheel off", "\x1b[?1007l", "\x1b[?1007r"},
		{"alternate screen only", "\x1b[?1049hfull screen", "\x1b[?1049l"},
		{"region of the alternate screen", "\x1b[?1049h\x1b[3;10r\x1b[?6h", "\x1b[?6l\x1b[r\x1b[?1049l"},
		{"region of the main screen", "\x1b[3;10r\x1b[?6h\x1b[?1049h", "\x1b[?6l\x1b[r\x1b[?1049l\x1b[?6l\x1b[r\x1b[9999;1H\r\n"},
		{"other alternate screens", "\x1b[?47h\x1b[?1047h", "\x1b[?47l\x1b[?1047l"},
		{"wrap and insert", "\x1b[?7l\x1b[4h", "\x1b[?7h\x1b[4l"},
		{"attributes", "\x1b[1m\x1b[0m\x1b[31m", "\x1b[m"},
		{"attributes, reset", "\x1b[1m\x1b[m", ""},
		{"saved attributes", "\x1b[?1049h\x1b[1m\x1b7\x1b[m\x1b8", "\x1b[?1049l\x1b[m"},
		{"progress", "\x1b]9;4;3;0\x1b\\", "\x1b]9;4;0;0\x1b\\"},
		{"progress, done", "\x1b]9;4;3;0\x1b\\\x1b]9;4;0;0\x1b\\", ""},
		{"link", "\x1b]8;;u\a", "\x1b]8;;\x1b\\"},
		{"colours", "\x1b]4;1;red\a\x1b]10;red;blue\a\x1b]12;red\a\x1b]112\a", "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\"},
		{"colours by name", "\x1b]21;cursor=red\a", "\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\"},
		{"title, not entered", "\x1b]2;x\a", "\x1b]0;\x1b\\"},
		{"restored modes", "\x1b[?1000;1006r", "\x1b[?1000l\x1b[?1006l"},
		{"string begun", "\x1b]0;abc", ""},
		{"long string begun", "\x1bPq" + strings.Repeat("~", maxHold), "\x1b\\"},
		{"half a character", "\x1b[1m\xe2\x82", "\x1b[m"},
		{"half a sequence", "\x1b[1m\x1b[3", "\x1b[m"},
		{"printer", "\x1b[5i", "\x1b[4i\x1b[?4i"},
		{"latin", "\x1b%@", "\x1b%G"},
	} {
		f := NewFilter()
		f.Filter(nil, []byte(tt.in))
		if got := string(f.Leave()); got != tt.want {
			t.Errorf("%s:\n got %q\nwant %q", tt.name, got, tt.want)
		}
		if got := f.Leave(); len(got) > 0 {
			t.Errorf("%s: second Leave %q", tt.name, got)
		}
	}
}

func TestEnter(t *testing.T) {
	f := NewFilter()
	if got := string(f.Enter()); got != "\x1b[22;0t" {
		t.Errorf("%q", got)
	}
	if got := f.Enter(); len(got) > 0 {
		t.Errorf("pushed twice: %q", got)
	}
	f.Filter(nil, []byte("\x1b[22;0t\x1b]0;x\a"))
	if got := f.Neutral(); len(got) > 0 {
		t.Errorf("titles stay: %q", got)
	}
	if got := string(f.Leave()); got != "\x1b[23;0t\x1b[23;0t" {
		t.Errorf("%q", got)
	}
}

func TestNeutral(t *testing.T) {
	f := NewFilter()
	f.Filter(nil, []byte("\x1b[?2004h\x1bPq"+strings.Repeat("~", maxHold)))
	if got := string(f.Neutral()); got != "\x1b\\\x1b[?2004l" {
		t.Errorf("%q", got)
	}
	if got := string(f.Filter(nil, []byte("x"))); got != "x" {
		t.Errorf("%q", got)
	}
}

// TestLeaveRandom: whatever is sent, in whatever order, Leave cleans up.
func TestLeaveRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 20000 {
		data := randomStream(rng)
		f, s := NewFilter(), user(rng.IntN(2) == 0)
		s.feed(f.Enter())
		out := f.Filter(nil, data)
		s.feed(out)
		s.feed(f.Leave())
		checkUser(t, string(data), s)
		if t.Failed() {
			t.Fatalf("stream %q\noutput %q", data, out)
		}
	}
}

func TestResetSequence(t *testing.T) {
	b := ResetSequence()
	if bytes.Contains(b, []byte("\x1bc")) || bytes.Contains(b, []byte("J")) {
		t.Errorf("%q", b)
	}
	data := modesOn(t)
	for _, global := range []bool{false, true} {
		for i := range len(data) + 1 {
			s := newScreen()
			s.global = global
			s.feed(data[:i])
			s.feed(b)
			s.titles = nil // what the shell does with a title is its own affair
			if bad := s.leftOn(); bad != "" {
				t.Fatalf("%q leaves %s", data[:i], bad)
			}
		}
	}
}

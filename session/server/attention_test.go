package server

import (
	"strings"
	"testing"

	"agentmux/pty/vt"
)

func TestAttention(t *testing.T) {
	var a attention
	screen := vt.New(80, 24, vt.Options{Event: a.note})
	if got := a.take(); got != "" {
		t.Errorf("nothing happened: %q", got)
	}
	screen.Write([]byte("\a\a\x1b]777;notify;Claude;needs you\a"))
	screen.Write([]byte("\x1b]7501;state=blocked:app=codex:kind=permission\x1b\\"))
	if got, want := a.take(), "it waits for you: permission; it said: Claude needs you; 2 bell(s)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := a.take(); got != "" {
		t.Errorf("told twice: %q", got)
	}
	a.watched = true
	screen.Write([]byte("\a"))
	a.watched = false
	if got := a.take(); got != "" {
		t.Errorf("a viewer heard it: %q", got)
	}
	screen.Write([]byte("\x1b]7501;state=blocked:app=codex:kind=permission\x1b\\\x1b]7501;state=working:app=codex\x1b\\"))
	if got := a.take(); got != "" {
		t.Errorf("it waits no more: %q", got)
	}
	screen.Write([]byte("\x1b]9;" + strings.Repeat("x", 5000) + "\a"))
	if got := a.take(); len(got) > 200 {
		t.Errorf("%d bytes of a program's words", len(got))
	}
}

func TestParseColor(t *testing.T) {
	for text, want := range map[string]vt.Color{
		"rgb:ff/80/00": vt.RGB(255, 128, 0), "rgb:ffff/8080/0000": vt.RGB(255, 128, 0), "rgb:f/0/f": vt.RGB(255, 0, 255),
		"": 0, "rgb:": 0, "rgb:1/2": 0, "rgb:12345/1/1": 0, "rgb:g/0/0": 0, "#ff0000": 0, "rgb:-1/0/0": 0,
	} {
		if got := parseColor(text); got != want {
			t.Errorf("parseColor(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestEncodeKey(t *testing.T) {
	for name, want := range map[string]string{
		"enter": "\r", "Up": "\x1b[A", "ctrl-c": "\x03", "CTRL-\\": "\x1c", "ctrl-space": "\x00", "ctrl-?": "\x7f", "^a": "\x01",
		"alt-x": "\x1bx", "alt-enter": "\x1b\r", "f5": "\x1b[15~", "x": "x", "中": "中", "alt-up": "\x1b\x1b[A", "-": "-",
	} {
		if got, err := encodeKey(name, vt.Modes{}); err != nil || got != want {
			t.Errorf("encodeKey(%q) = %q, %v, want %q", name, got, err, want)
		}
	}
	if got, _ := encodeKey("up", vt.Modes{AppCursor: true}); got != "\x1bOA" {
		t.Errorf("up in application mode: %q", got)
	}
	for _, bad := range []string{"", "nokey", "ctrl-", "ctrl-é", "ctrl-ab", "alt-"} {
		if got, err := encodeKey(bad, vt.Modes{}); err == nil {
			t.Errorf("encodeKey(%q) = %q", bad, got)
		}
	}
}

package tty

import (
	"errors"
	"fmt"
	"strings"
)

// DefaultDetachKeys is the detach key where none is configured.
const DefaultDetachKeys = `ctrl-\`

// maxDetachKeys bounds a sequence; docker has no bound, nobody needs more.
const maxDetachKeys = 8

// ErrDetachKeys is what every error of [ParseDetachKeys] is.
var ErrDetachKeys = errors.New("bad detach keys")

// DetachKeys is a parsed setting: one key, a sequence of keys, or none. The
// zero value is none.
type DetachKeys struct {
	keys []detachKey
}

// detachKey is one key of the setting.
type detachKey struct {
	char byte // as typed without Ctrl; letters of Ctrl keys in lower case
	ctrl bool
	raw  byte // what a terminal without a keyboard protocol sends
}

// ParseDetachKeys reads docker's syntax: keys separated by commas, each a
// single character or ctrl- and one of a-z @ \ ] ^ _. "none" switches the
// detach key off.
func ParseDetachKeys(s string) (DetachKeys, error) {
	switch s {
	case "none":
		return DetachKeys{}, nil
	case "":
		return DetachKeys{}, fmt.Errorf(`%w: empty; write "none" to have no detach key`, ErrDetachKeys)
	}
	names := strings.Split(s, ",")
	if len(names) > maxDetachKeys {
		return DetachKeys{}, fmt.Errorf("%w: %q has more than %d keys", ErrDetachKeys, s, maxDetachKeys)
	}
	var d DetachKeys
	for _, name := range names {
		key, err := parseDetachKey(name)
		if err != nil {
			return DetachKeys{}, fmt.Errorf("%w: %q: %w", ErrDetachKeys, s, err)
		}
		d.keys = append(d.keys, key)
	}
	return d, nil
}

func parseDetachKey(name string) (detachKey, error) {
	switch {
	case name == "":
		return detachKey{}, errors.New("a key between commas is missing (a comma itself cannot be one)")
	case len(name) == 1 && name[0] > ' ' && name[0] < del:
		return detachKey{char: name[0], raw: name[0]}, nil
	case len(name) < 5 || !strings.EqualFold(name[:5], "ctrl-"):
		return detachKey{}, fmt.Errorf(`%q is neither a single character nor ctrl- and a character, like ctrl-b or ctrl-\`, name)
	}
	char := name[5:]
	if char == `\\` { // as it is written in quotes
		char = `\`
	}
	if len(char) != 1 {
		return detachKey{}, fmt.Errorf("%q: after ctrl- comes one character", name)
	}
	c := char[0]
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	if c == '[' {
		return detachKey{}, errors.New("ctrl-[ is the Escape key, with which arrow and function keys begin")
	}
	if (c < 'a' || c > 'z') && !strings.ContainsRune(`@\]^_`, rune(c)) {
		return detachKey{}, fmt.Errorf(`%q: with ctrl- go a-z and @ \ ] ^ _`, name)
	}
	return detachKey{char: c, ctrl: true, raw: c & 0x1f}, nil
}

// Enabled reports whether there is a detach key at all.
func (d DetachKeys) Enabled() bool { return len(d.keys) > 0 }

// String is the setting as [ParseDetachKeys] reads it.
func (d DetachKeys) String() string {
	if !d.Enabled() {
		return "none"
	}
	names := make([]string, len(d.keys))
	for i, k := range d.keys {
		names[i] = k.String()
	}
	return strings.Join(names, ",")
}

func (k detachKey) String() string {
	if k.ctrl {
		return "ctrl-" + string(rune(k.char))
	}
	return string(rune(k.char))
}

// Modifier bits of CSI u and modifyOtherKeys, after 1 was taken away.
const (
	modShift = 1
	modCtrl  = 4
	modLocks = 64 | 128 // Caps Lock and Num Lock are states, not keys held
)

// Event types of the kitty keyboard protocol.
const (
	eventPress   = 1
	eventRepeat  = 2
	eventRelease = 3
)

// press is one key event in whatever form it came. Absent values are -1.
type press struct {
	raw                       int // the byte, when it came as one
	code, shifted, base, text int
	mods                      int
	event                     int
}

func rawPress(b byte) press { return press{raw: int(b), code: -1, event: eventPress} }

// otherPress is a key that cannot be a detach key.
func otherPress() press { return press{raw: -1, code: -1, event: eventPress} }

// csiPress reads a key report: kitty's CSI u, xterm's modifyOtherKeys
// CSI 27 ; mods ; code ~, or a function key, of which only the event counts.
func csiPress(c csi) press {
	k := otherPress()
	if c.private != 0 || len(c.inter) > 0 {
		return k
	}
	p, ok := parseParams(c.params)
	if !ok {
		return k
	}
	k.event = p.sub(1, 1, eventPress)
	k.mods = max(p.at(1, 1)-1, 0) &^ modLocks
	k.shifted, k.base, k.text = -1, -1, -1
	switch {
	case c.final == 'u' && p.n > 0:
		k.code, k.shifted, k.base = p.at(0, -1), p.sub(0, 1, -1), p.sub(0, 2, -1)
		k.text = p.at(2, -1)
	case c.final == '~' && p.n == 3 && p.at(0, 0) == 27:
		k.code = p.at(2, -1)
	}
	return k
}

// isModifier: keys that do nothing by themselves (kitty keyboard, functional
// key definitions: Caps Lock .. Num Lock, and left Shift .. ISO level 5 shift).
func (e press) isModifier() bool {
	return e.code >= 57358 && e.code <= 57360 || e.code >= 57441 && e.code <= 57454
}

// passive events do not end a sequence of detach keys.
func (e press) passive() bool { return e.event == eventRelease || e.isModifier() }

func (e press) is(k detachKey) bool {
	switch {
	case e.raw >= 0:
		return e.raw == int(k.raw)
	case e.code < 0:
		return false
	case k.ctrl:
		return e.isCtrl(k)
	}
	return e.isPlain(int(k.char))
}

func (e press) isCtrl(k detachKey) bool {
	char := int(k.char)
	switch e.mods {
	case modCtrl:
		// On a Cyrillic layout the key is only known by its place (base).
		return lower(e.code) == char || e.code > del && e.base == char ||
			char == '@' && e.code == ' '
	case modCtrl | modShift: // Ctrl-_ is Ctrl-Shift-minus
		return e.shifted == char && (char == '@' || char == '^' || char == '_')
	}
	return false
}

func (e press) isPlain(char int) bool {
	switch e.mods {
	case 0:
		return e.code == char
	case modShift:
		return e.shifted == char || e.text == char ||
			e.shifted < 0 && (e.code == char || lower(e.code) != char && lower(e.code) == lower(char))
	}
	return false
}

func lower(c int) int {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

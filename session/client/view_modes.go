package client

import (
	"strconv"

	"agentmux/pty/vt"
)

// modes are those of the program that the terminal has to have as well: what it
// looks like, and, for a client that may type, what its keys send.
//
// The mouse is left off where its reports look like keys (all encodings but
// those of CSI): they could be neither kept back nor told from typing.
func (v *view) modes() vt.Modes {
	m := v.screen.Modes()
	if v.passive {
		return vt.Modes{ReverseVideo: m.ReverseVideo}
	}
	out := vt.Modes{
		ReverseVideo: m.ReverseVideo, AppCursor: m.AppCursor, AppKeypad: m.AppKeypad,
		BracketedPaste: m.BracketedPaste, Focus: m.Focus, ColorScheme: m.ColorScheme,
		KeyboardFlags: m.KeyboardFlags, ModifyOtherKeys: m.ModifyOtherKeys,
	}
	switch m.MouseEncoding {
	case 1006, 1015, 1016:
		out.Mouse, out.MouseEncoding = m.Mouse, m.MouseEncoding
	}
	return out
}

// wheel is what mode 1007 shall be. On an alternate screen, where views are
// drawn, many terminals make arrow keys of the wheel; to a program that is on
// its main screen those would be typing. Else it is the program's or the
// user's to say ('r': as the user has it; xterm, XTRESTORE).
func (v *view) wheel() byte {
	switch {
	case v.passive:
		return 0
	case !v.screen.AltScreen():
		return 'l'
	case v.screen.Modes().AltScroll:
		return 'h'
	}
	return 'r'
}

// appendTold appends modes and titles that are not as the terminal was told.
func (v *view) appendTold(dst []byte) []byte {
	was, want := v.told.modes, v.modes()
	if was != want {
		dst = appendModes(dst, was, want)
		dst = appendMouse(dst, was, want)
		dst = appendKeyboard(dst, was, want)
		v.told.modes = want
	}
	if w := v.wheel(); w != v.told.wheel {
		if w != 'r' || v.told.wheel != 0 { // the filter has saved the user's
			dst = append(append(dst, "\x1b[?1007"...), w)
		}
		v.told.wheel = w
	}
	if s := v.screen.IconTitle(); s != v.told.icon {
		dst = append(append(append(dst, "\x1b]1;"...), s...), "\x1b\\"...)
		v.told.icon = s
	}
	if s := v.screen.Title(); s != v.told.title {
		dst = append(append(append(dst, "\x1b]2;"...), s...), "\x1b\\"...)
		v.told.title = s
	}
	return dst
}

func appendModes(dst []byte, was, want vt.Modes) []byte {
	for _, m := range [...]struct {
		number    int
		was, want bool
	}{
		{5, was.ReverseVideo, want.ReverseVideo},
		{1, was.AppCursor, want.AppCursor},
		{1004, was.Focus, want.Focus},
		{2004, was.BracketedPaste, want.BracketedPaste},
		{2031, was.ColorScheme, want.ColorScheme},
	} {
		if m.was != m.want {
			dst = appendMode(dst, m.number, m.want)
		}
	}
	if was.AppKeypad != want.AppKeypad {
		dst = append(dst, "\x1b"+keypad(want.AppKeypad)...)
	}
	return dst
}

func keypad(application bool) string {
	if application {
		return "="
	}
	return ">"
}

// appendMouse changes what the mouse reports, and how.
func appendMouse(dst []byte, was, want vt.Modes) []byte {
	if was.Mouse != 0 && was.Mouse != want.Mouse {
		dst = appendMode(dst, was.Mouse, false)
	}
	if was.MouseEncoding != want.MouseEncoding {
		if was.MouseEncoding != 0 {
			dst = appendMode(dst, was.MouseEncoding, false)
		}
		if want.MouseEncoding != 0 {
			dst = appendMode(dst, want.MouseEncoding, true)
		}
	}
	if want.Mouse != 0 && was.Mouse != want.Mouse {
		dst = appendMode(dst, want.Mouse, true)
	}
	return dst
}

// appendKeyboard sets the flags of kitty's keyboard protocol, for which the
// filter pushes a level of ours, and xterm's modifyOtherKeys.
func appendKeyboard(dst []byte, was, want vt.Modes) []byte {
	if was.KeyboardFlags != want.KeyboardFlags {
		dst = append(dst, "\x1b[="...)
		dst = strconv.AppendInt(dst, int64(want.KeyboardFlags), 10)
		dst = append(dst, ";1u"...)
	}
	if was.ModifyOtherKeys != want.ModifyOtherKeys {
		dst = append(dst, "\x1b[>4"...)
		if want.ModifyOtherKeys != 0 {
			dst = append(dst, ';', '0'+byte(want.ModifyOtherKeys))
		}
		dst = append(dst, 'm')
	}
	return dst
}

// appendMode is DECSET or DECRST.
func appendMode(dst []byte, number int, on bool) []byte {
	dst = append(dst, "\x1b[?"...)
	dst = strconv.AppendInt(dst, int64(number), 10)
	if on {
		return append(dst, 'h')
	}
	return append(dst, 'l')
}

// appendShape is DECSCUSR. A block that does not blink is what a program gets
// that never asked for a shape: there it is the user's own.
func appendShape(dst []byte, c vt.Cursor) []byte {
	n := 2 + 2*int(c.Shape) // steady
	if c.Blink {
		n--
	}
	if c.Shape == vt.CursorBlock && !c.Blink {
		n = 0
	}
	return append(dst, "\x1b["+strconv.Itoa(n)+" q"...)
}

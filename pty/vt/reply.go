package vt

import (
	"encoding/hex"
	"strconv"
	"strings"
)

// Profile is what is known of the terminal that shows this one, or showed it
// last. The zero value knows nothing: what depends on it is not answered.
type Profile struct {
	Name, Version string // of the terminal, as it answered XTVERSION; informative

	// Foreground, Background and Cursor are RGB colours, zero when unknown;
	// Palette likewise, by index.
	Foreground, Background, Cursor Color
	Palette                        [16]Color

	CellWidth, CellHeight int  // pixels, 0: unknown
	KittyKeyboard         bool // speaks the kitty keyboard protocol
}

// SetProfile says what the answers that depend on the user's terminal shall be.
func (t *Terminal) SetProfile(p Profile) { t.prof = p }

// What we are: a VT220 with colour (DA1), of the kind and version (DA2) that
// programs expect of an xterm-compatible terminal.
const (
	primaryDA   = "\x1b[?62;22c"
	secondaryDA = "\x1b[>1;10;0c"
	tertiaryDA  = "\x1bP!|00000000\x1b\\"
	versionName = "\x1bP>|agentmux\x1b\\"
)

func (t *Terminal) reply(s string) {
	if t.opt.Reply != nil {
		t.opt.Reply([]byte(s))
	}
}

// concat puts strings and decimal numbers together.
func concat(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		switch v := p.(type) {
		case string:
			b.WriteString(v)
		case int:
			b.WriteString(strconv.Itoa(v))
		}
	}
	return b.String()
}

// question answers the control sequences that only ask. Unknown ones are
// ignored.
func (t *Terminal) question(k uint32) {
	p := &t.ps.p
	n := p.get(0, 0)
	switch k {
	case key('>', 0, 'c'):
		if n == 0 {
			t.reply(secondaryDA)
		}
	case key('=', 0, 'c'):
		if n == 0 {
			t.reply(tertiaryDA)
		}
	case key('>', 0, 'q'):
		if n == 0 {
			t.reply(versionName)
		}
	case key('?', 0, 'n'):
		t.statusReport(n, true)
	case key('?', '$', 'p'):
		t.reply(concat("\x1b[?", n, ";", t.modeReport(n, true), "$y"))
	case key(0, '$', 'p'):
		t.reply(concat("\x1b[", n, ";", t.modeReport(n, false), "$y"))
	case key('?', 0, 'u'):
		if t.prof.KittyKeyboard {
			t.reply(concat("\x1b[?", int(t.scr.kbd.flags()), "u"))
		}
	case key('?', 0, 'm'):
		if n == 4 { // XTQMODKEYS
			t.reply(concat("\x1b[>4;", int(t.modifyKeys), "m"))
		}
	}
}

// statusReport is DSR (ECMA-48 8.3.35), its DEC forms, and contour's 996.
func (t *Terminal) statusReport(n int, private bool) {
	prefix := "\x1b["
	if private {
		prefix += "?"
	}
	switch {
	case n == 5 && !private:
		t.reply("\x1b[0n")
	case n == 6:
		y := t.y
		if t.modes.has(modeOrigin) {
			y -= t.top
		}
		tail := "R"
		if private { // DECXCPR adds the page
			tail = ";1R"
		}
		t.reply(concat(prefix, y+1, ";", t.x+1, tail))
	case n == 996 && private:
		t.schemeReport()
	}
}

// schemeReport says 1 for a dark and 2 for a light background.
func (t *Terminal) schemeReport() {
	r, g, b, ok := t.dynamicColor(dynBackground).RGB()
	if !ok {
		return
	}
	// Rec. 601 luma, the middle of the range between dark and light.
	if int(r)*299+int(g)*587+int(b)*114 < 128*1000 {
		t.reply("\x1b[?997;1n")
		return
	}
	t.reply("\x1b[?997;2n")
}

// sizeReport is XTWINOPS 14, 16 and 18.
func (t *Terminal) sizeReport(op int) {
	w, h := t.prof.CellWidth, t.prof.CellHeight
	known := w > 0 && h > 0
	switch {
	case op == 18:
		t.reply(concat("\x1b[8;", t.rows, ";", t.cols, "t"))
	case op == 14 && known:
		t.reply(concat("\x1b[4;", h*t.rows, ";", w*t.cols, "t"))
	case op == 16 && known:
		t.reply(concat("\x1b[6;", h, ";", w, "t"))
	}
}

// paletteColor is what OSC 4 asks for: the program's own setting, else the
// profile's.
func (t *Terminal) paletteColor(i uint8) Color {
	if c, ok := t.osc.palette[i]; ok {
		return c
	}
	if int(i) < len(t.prof.Palette) {
		return t.prof.Palette[i]
	}
	return xtermColor(i)
}

// xtermColor is the colour cube and grey ramp that terminals share.
func xtermColor(i uint8) Color {
	if i >= 232 {
		v := 8 + 10*(i-232)
		return RGB(v, v, v)
	}
	level := func(n uint8) uint8 {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	i -= 16
	return RGB(level(i/36), level(i/6%6), level(i%6))
}

func (t *Terminal) dynamicColor(i int) Color {
	if c := t.osc.dynamic[i]; c != 0 {
		return c
	}
	return [numDynamic]Color{t.prof.Foreground, t.prof.Background, t.prof.Cursor}[i]
}

func (t *Terminal) replyColor(what string, c Color, byBEL bool) {
	if _, _, _, ok := c.RGB(); !ok {
		return
	}
	end := "\x1b\\"
	if byBEL {
		end = "\a"
	}
	t.reply(concat("\x1b]", what, ";", colorSpec(c), end))
}

// colorSpec writes c as rgb:rrrr/gggg/bbbb, the form that xterm answers with.
func colorSpec(c Color) string {
	r, g, b, _ := c.RGB()
	s := make([]byte, 0, 18)
	s = append(s, "rgb:"...)
	for i, v := range [3]uint8{r, g, b} {
		if i > 0 {
			s = append(s, '/')
		}
		h := hex.AppendEncode(nil, []byte{v})
		s = append(append(s, h...), h...)
	}
	return string(s)
}

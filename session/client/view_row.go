package client

import (
	"strconv"
	"unicode/utf8"

	"agentmux/pty/vt"
)

// rowWriter draws a part of a row: from its column from on, width columns. The
// pen is the default one before and after.
type rowWriter struct {
	b           []byte
	from, width int

	at    int // column of the terminal where the next character goes
	pen   vt.Style
	link  string
	joins bool // the last character may join the next one
}

// line draws the row's characters. Blank ones in the default style at its end
// are not drawn: at tells where they begin.
func (w *rowWriter) line(line vt.Line) {
	for c := range line.Cells() {
		x0, x1 := c.X-w.from, c.X+c.Width-w.from
		if x1 <= 0 {
			continue
		}
		if x0 >= w.width {
			break
		}
		w.style(c.Style)
		w.setLink(c.Link)
		if x0 < 0 || x1 > w.width || c.Text == "" { // half a character is blank
			w.text(max(x0, 0), " ")
			w.at = max(x0, 0) + 1
			continue
		}
		w.text(x0, c.Text)
		w.at = x1
	}
	w.style(vt.Style{})
	w.setLink("")
}

// text writes a character. Where the terminal could make one of it and the
// character before, or may take another width than ours for that, it is told
// the column.
func (w *rowWriter) text(x int, s string) {
	joins := !alone(s)
	if joins || w.joins {
		w.column(x)
	}
	w.joins = joins
	w.b = append(w.b, s...)
}

// column moves the cursor to a column, from 0 (ECMA-48, CHA).
func (w *rowWriter) column(x int) {
	w.b = append(w.b, "\x1b["...)
	w.b = strconv.AppendInt(w.b, int64(x+1), 10)
	w.b = append(w.b, 'G')
}

// alone reports that a character is of those on whose width terminals agree
// and that join no other: the scripts in which long texts come. It may err on
// the other side.
func alone(s string) bool {
	r, n := utf8.DecodeRuneInString(s)
	if n != len(s) {
		return false
	}
	switch {
	case r < 0x300:
		return r != 0xad // soft hyphen
	case r >= 0x302a && r <= 0x302f, r == 0x3099, r == 0x309a: // combining
		return false
	}
	return r >= 0x370 && r < 0x483 || // Greek, Cyrillic
		r >= 0x2190 && r < 0x25a0 || // arrows, mathematics, boxes, blocks
		r >= 0x2e80 && r < 0xa4d0 || r >= 0xac00 && r < 0xd7a4 || // CJK, syllables of Hangul
		r >= 0xff01 && r < 0xff61
}

// setLink opens the hyperlink to a target, or closes it (OSC 8).
func (w *rowWriter) setLink(target string) {
	if target == w.link {
		return
	}
	w.link = target
	w.b = append(w.b, "\x1b]8;;"...)
	w.b = append(w.b, target...)
	w.b = append(w.b, "\x1b\\"...)
}

// style sets the pen (ECMA-48, SGR), each time from the default one.
func (w *rowWriter) style(s vt.Style) {
	s.Attrs &^= vt.Protected // not to be seen
	if s == w.pen {
		return
	}
	w.pen = s
	if s == (vt.Style{}) {
		w.b = append(w.b, "\x1b[m"...)
		return
	}
	w.b = append(w.b, "\x1b[0"...)
	w.attributes(s)
	w.color(30, s.FG)
	w.color(40, s.BG)
	w.underlineColor(s.UnderlineColor)
	w.b = append(w.b, 'm')
}

func (w *rowWriter) parameter(n int) {
	w.b = append(w.b, ';')
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *rowWriter) attributes(s vt.Style) {
	for _, a := range [...]struct {
		attr vt.Attr
		code int
	}{
		{vt.Bold, 1}, {vt.Dim, 2}, {vt.Italic, 3}, {vt.Blink, 5},
		{vt.Inverse, 7}, {vt.Hidden, 8}, {vt.Strike, 9}, {vt.Overline, 53},
	} {
		if s.Attrs&a.attr != 0 {
			w.parameter(a.code)
		}
	}
	switch s.Underline {
	case vt.UnderlineNone:
	case vt.UnderlineSingle:
		w.parameter(4)
	default:
		w.parameter(4)
		w.b = append(w.b, ':', '0'+byte(s.Underline))
	}
}

// color appends a colour for the foreground (base 30) or background (base 40).
func (w *rowWriter) color(base int, c vt.Color) {
	if r, g, b, ok := c.RGB(); ok {
		w.parameter(base + 8)
		for _, n := range [...]int{2, int(r), int(g), int(b)} {
			w.parameter(n)
		}
		return
	}
	i, ok := c.Palette()
	switch {
	case !ok:
	case i < 8:
		w.parameter(base + int(i))
	case i < 16:
		w.parameter(base + 60 + int(i) - 8)
	default:
		w.parameter(base + 8)
		w.parameter(5)
		w.parameter(int(i))
	}
}

// underlineColor uses colons: a terminal that does not know 58 would take the
// rest of the form with semicolons for attributes.
func (w *rowWriter) underlineColor(c vt.Color) {
	if r, g, b, ok := c.RGB(); ok {
		w.parameter(58)
		for _, n := range [...]int{2, int(r), int(g), int(b)} {
			w.b = append(w.b, ':')
			w.b = strconv.AppendInt(w.b, int64(n), 10)
		}
		return
	}
	if i, ok := c.Palette(); ok {
		w.parameter(58)
		w.b = append(w.b, ":5:"...)
		w.b = strconv.AppendInt(w.b, int64(i), 10)
	}
}

package vt

import "strconv"

// Color is a colour as the program named it: the zero value is the terminal's
// default, others are a palette index or an RGB triple.
type Color uint32

const (
	colorPalette Color = 1 << 24
	colorRGB     Color = 2 << 24
)

// Palette returns the palette colour i (0..255).
func Palette(i uint8) Color { return colorPalette | Color(i) }

// RGB returns a direct colour.
func RGB(r, g, b uint8) Color {
	return colorRGB | Color(r)<<16 | Color(g)<<8 | Color(b)
}

// IsDefault reports whether c is the terminal's default colour.
func (c Color) IsDefault() bool { return c == 0 }

// Palette returns the palette index of c; ok is false for other kinds.
func (c Color) Palette() (i uint8, ok bool) { return uint8(c), c>>24 == 1 }

// RGB returns the components of c; ok is false for other kinds.
func (c Color) RGB() (r, g, b uint8, ok bool) {
	return uint8(c >> 16), uint8(c >> 8), uint8(c), c>>24 == 2
}

// Attr is a set of character attributes.
type Attr uint16

// The attributes of ECMA-48 SGR and of DECSCA (Protected).
const (
	Bold Attr = 1 << iota
	Dim
	Italic
	Blink
	Inverse
	Hidden
	Strike
	Overline
	Protected
)

// sgrAttrs are the attributes that SGR 0 switches off.
const sgrAttrs = Protected - 1

// Underline is the kind of underline, numbered as in SGR 4:n (kitty).
type Underline uint8

// The underline kinds.
const (
	UnderlineNone Underline = iota
	UnderlineSingle
	UnderlineDouble
	UnderlineCurly
	UnderlineDotted
	UnderlineDashed
)

// Style is how a cell is drawn. Styles are comparable.
type Style struct {
	FG, BG         Color
	UnderlineColor Color
	link           uint32 // index into the tables' links, 0: none
	Attrs          Attr
	Underline      Underline
}

// sgr applies the parameters of SGR (ECMA-48 8.3.117, xterm, kitty) to s.
func (s *Style) sgr(p *params) {
	if p.n == 0 {
		s.resetSGR()
		return
	}
	for i := 0; i < p.n; {
		i = s.sgrOne(p, i)
	}
}

func (s *Style) resetSGR() {
	*s = Style{link: s.link, Attrs: s.Attrs &^ sgrAttrs}
}

// sgrOne applies the attribute at i and returns the index of the next one.
func (s *Style) sgrOne(p *params, i int) int {
	next := p.group(i)
	v := p.v[i]
	switch {
	case v >= 30 && v <= 37:
		s.FG = Palette(uint8(v - 30))
	case v >= 40 && v <= 47:
		s.BG = Palette(uint8(v - 40))
	case v >= 90 && v <= 97:
		s.FG = Palette(uint8(v - 90 + 8))
	case v >= 100 && v <= 107:
		s.BG = Palette(uint8(v - 100 + 8))
	case v == 38 || v == 48 || v == 58:
		return s.sgrColor(p, i, next)
	case v == 4:
		s.sgrUnderline(p, i, next)
	default:
		s.sgrSimple(v)
	}
	return next
}

func (s *Style) sgrUnderline(p *params, i, next int) {
	if next == i+1 {
		s.Underline = UnderlineSingle
		return
	}
	if k := p.v[i+1]; k <= int32(UnderlineDashed) {
		s.Underline = Underline(k)
	}
}

func (s *Style) sgrSimple(v int32) {
	switch v {
	case 0:
		s.resetSGR()
	case 1:
		s.Attrs |= Bold
	case 2:
		s.Attrs |= Dim
	case 3:
		s.Attrs |= Italic
	case 5, 6:
		s.Attrs |= Blink
	case 7:
		s.Attrs |= Inverse
	case 8:
		s.Attrs |= Hidden
	case 9:
		s.Attrs |= Strike
	case 21:
		s.Underline = UnderlineDouble
	case 22:
		s.Attrs &^= Bold | Dim
	case 23:
		s.Attrs &^= Italic
	case 24:
		s.Underline = UnderlineNone
	case 25:
		s.Attrs &^= Blink
	case 27:
		s.Attrs &^= Inverse
	case 28:
		s.Attrs &^= Hidden
	case 29:
		s.Attrs &^= Strike
	case 39:
		s.FG = 0
	case 49:
		s.BG = 0
	case 53:
		s.Attrs |= Overline
	case 55:
		s.Attrs &^= Overline
	case 59:
		s.UnderlineColor = 0
	}
}

// sgrColor reads 38, 48 and 58 in the colon form (ITU-T T.416) and in the
// semicolon form that xterm made common.
func (s *Style) sgrColor(p *params, i, next int) int {
	target := &s.FG
	switch p.v[i] {
	case 48:
		target = &s.BG
	case 58:
		target = &s.UnderlineColor
	}
	if next > i+1 {
		if c, ok := colonColor(p.v[i+1 : next]); ok {
			*target = c
		}
		return next
	}
	rest := p.v[next:p.n]
	if len(rest) >= 2 && rest[0] == 5 {
		if rest[1] <= 255 {
			*target = Palette(uint8(rest[1]))
		}
		return next + 2
	}
	if len(rest) >= 4 && rest[0] == 2 {
		if c, ok := rgbOf(rest[1], rest[2], rest[3]); ok {
			*target = c
		}
		return next + 4
	}
	if len(rest) > 0 && (rest[0] == 2 || rest[0] == 5) {
		return p.n
	}
	return next
}

// colonColor reads what follows 38: 5:n, 2:r:g:b or 2:colourspace:r:g:b.
func colonColor(v []int32) (Color, bool) {
	switch {
	case len(v) >= 2 && v[0] == 5 && v[1] <= 255:
		return Palette(uint8(v[1])), true
	case len(v) == 4 && v[0] == 2:
		return rgbOf(v[1], v[2], v[3])
	case len(v) >= 5 && v[0] == 2:
		return rgbOf(v[2], v[3], v[4])
	}
	return 0, false
}

func rgbOf(r, g, b int32) (Color, bool) {
	if r > 255 || g > 255 || b > 255 {
		return 0, false
	}
	return RGB(uint8(r), uint8(g), uint8(b)), true
}

// appendSGR appends the SGR that changes the pen from style a to style b, links
// and protection apart. Nothing is appended when they are equal.
func appendSGR(dst []byte, a, b Style) []byte {
	a.link, b.link = 0, 0
	a.Attrs &= sgrAttrs
	b.Attrs &= sgrAttrs
	if a == b {
		return dst
	}
	if b == (Style{}) {
		return append(dst, "\x1b[m"...)
	}
	dst = append(dst, "\x1b["...)
	start := len(dst)
	if needsReset(a, b) {
		dst = append(dst, '0', ';')
		a = Style{}
	}
	dst = appendAttrs(dst, b.Attrs&^a.Attrs)
	if b.Underline != a.Underline {
		dst = appendUnderline(dst, b.Underline)
	}
	if b.FG != a.FG {
		dst = appendColor(dst, 30, b.FG)
	}
	if b.BG != a.BG {
		dst = appendColor(dst, 40, b.BG)
	}
	if b.UnderlineColor != a.UnderlineColor {
		dst = appendUnderlineColor(dst, b.UnderlineColor)
	}
	if len(dst) > start && dst[len(dst)-1] == ';' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, 'm')
}

// needsReset reports whether b lacks something that a has. Colours that go
// back to the default count too: old terminals know 39 and 49 but not 59.
func needsReset(a, b Style) bool {
	return a.Attrs&^b.Attrs != 0 ||
		a.Underline != UnderlineNone && b.Underline == UnderlineNone ||
		a.FG != 0 && b.FG == 0 || a.BG != 0 && b.BG == 0 ||
		a.UnderlineColor != 0 && b.UnderlineColor == 0
}

func appendAttrs(dst []byte, a Attr) []byte {
	const codes = "\x01\x02\x03\x05\x07\x08\x09\x35"
	for i := range len(codes) {
		if a&(1<<i) != 0 {
			dst = strconv.AppendUint(dst, uint64(codes[i]), 10)
			dst = append(dst, ';')
		}
	}
	return dst
}

func appendUnderline(dst []byte, u Underline) []byte {
	if u == UnderlineSingle {
		return append(dst, '4', ';')
	}
	return append(dst, '4', ':', '0'+byte(u), ';')
}

// appendColor appends c for the foreground (base 30) or background (base 40).
func appendColor(dst []byte, base uint64, c Color) []byte {
	if i, ok := c.Palette(); ok {
		switch {
		case i < 8:
			dst = strconv.AppendUint(dst, base+uint64(i), 10)
		case i < 16:
			dst = strconv.AppendUint(dst, base+60+uint64(i)-8, 10)
		default:
			dst = strconv.AppendUint(dst, base+8, 10)
			dst = append(dst, ";5;"...)
			dst = strconv.AppendUint(dst, uint64(i), 10)
		}
		return append(dst, ';')
	}
	r, g, b, _ := c.RGB()
	dst = strconv.AppendUint(dst, base+8, 10)
	dst = append(dst, ";2"...)
	for _, v := range [3]uint8{r, g, b} {
		dst = append(dst, ';')
		dst = strconv.AppendUint(dst, uint64(v), 10)
	}
	return append(dst, ';')
}

// appendUnderlineColor uses the colon form: a terminal that does not know 58
// would take the parameters of the semicolon form for attributes.
func appendUnderlineColor(dst []byte, c Color) []byte {
	if i, ok := c.Palette(); ok {
		dst = append(dst, "58:5:"...)
		dst = strconv.AppendUint(dst, uint64(i), 10)
		return append(dst, ';')
	}
	r, g, b, _ := c.RGB()
	dst = append(dst, "58:2:"...)
	for _, v := range [3]uint8{r, g, b} {
		dst = append(dst, ':')
		dst = strconv.AppendUint(dst, uint64(v), 10)
	}
	return append(dst, ';')
}

package vt

import (
	"bytes"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Charset designations that we translate (ECMA-35, DEC).
const (
	setASCII byte = 'B'
	setUK    byte = 'A'
	setDEC   byte = '0' // DEC Special Graphics
)

// charsets are the four graphic sets and which of them is shifted in.
type charsets struct {
	g  [4]byte
	gl uint8
}

func defaultCharsets() charsets {
	return charsets{g: [4]byte{setASCII, setASCII, setASCII, setASCII}}
}

// decGraphics translates 0x5F..0x7E of DEC Special Graphics (VT100 manual, table 3-9).
const decGraphics = "\u00a0◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·"

func translate(set, b byte) rune {
	switch {
	case set == setUK && b == '#':
		return '£'
	case set == setDEC && b >= 0x5f && b <= 0x7e:
		i := int(b - 0x5f)
		for _, r := range decGraphics {
			if i == 0 {
				return r
			}
			i--
		}
	}
	return rune(b)
}

// syncPen interns the pen. It must be called before penID or eraseID is used.
func (t *Terminal) syncPen() {
	if !t.penDirty {
		return
	}
	t.penDirty = false
	t.penID = t.tab.style(t.pen)
	t.eraseID = 0
	if t.pen.BG != 0 {
		t.eraseID = t.tab.style(Style{BG: t.pen.BG})
	}
	if t.tab.full() {
		t.collect()
	}
}

// erase style: only the background colour goes along (BCE, xterm).
func (t *Terminal) blankStyle() uint32 {
	t.syncPen()
	return t.eraseID
}

// collect frees the table entries that no cell uses any more.
func (t *Terminal) collect() {
	m := t.tab.newMarks()
	for _, s := range [2]*screen{&t.main, &t.alt} {
		for p := range s.used {
			m.cells(s.cells[p*s.cols : p*s.cols+int(s.used[p])])
		}
		m.links[s.saved.pen.link] = true
	}
	m.styles[t.penID] = true
	m.styles[t.eraseID] = true
	m.links[t.pen.link] = true
	t.tab.sweep(m, (len(t.main.cells)+len(t.alt.cells))/2)
}

// printASCII prints bytes 0x20..0x7E.
func (t *Terminal) printASCII(p []byte) {
	if t.single != 0 || t.sets.g[t.sets.gl] != setASCII {
		t.printTranslated(p)
		return
	}
	t.syncPen()
	for len(p) > 0 {
		t.unpend()
		n := min(len(p), t.cols-t.x)
		t.putASCII(p[:n])
		p = p[n:]
	}
	t.joinable, t.complex = true, false
}

// putASCII puts p at the cursor, where there is room for it.
func (t *Terminal) putASCII(p []byte) {
	s, x, n := t.scr, t.x, len(p)
	if t.modes.has(modeInsert) {
		s.insertCells(t.y, x, n, 0)
	}
	ph := s.phys(t.y)
	row := s.cells[ph*s.cols : (ph+1)*s.cols]
	if row[x].isTail() {
		s.split(ph, x)
	}
	if x+n < s.cols && row[x+n].isTail() {
		s.split(ph, x+n)
	}
	st := t.penID
	dst := row[x : x+n]
	for i, b := range p[:len(dst)] {
		dst[i] = cell{uint32(b), st}
	}
	if int(s.used[ph]) < x+n {
		s.used[ph] = uint16(x + n)
	}
	s.flags[ph] &^= rowTold
	if x+n == s.cols {
		s.flags[ph] &^= rowWrapped
	}
	t.advance(x + n)
	t.lastX, t.lastY = x+n-1, t.y
}

// advance moves the cursor to column x after printing; past the last column
// that is the pending wrap (DEC STD 070, "last column flag").
func (t *Terminal) advance(x int) {
	t.x = x
	if x >= t.cols {
		t.x = t.cols - 1
		t.pending = true
	}
}

// unpend does the wrap that the last character left to the next one.
func (t *Terminal) unpend() {
	if !t.pending {
		return
	}
	t.pending = false
	if t.modes.has(modeAutowrap) {
		t.wrap()
	}
}

// wrap continues the line on the next row.
func (t *Terminal) wrap() {
	y := t.y
	t.x = 0
	if y != t.bot && y == t.rows-1 {
		return // below the region there is no next row
	}
	last := t.scr.row(y)[t.cols-1]
	t.scr.setWrapped(y, true)
	t.index()
	if t.y != y || y == 0 || y == t.top {
		return
	}
	// The row moved up; scrolling took it for one cut off from what follows.
	t.scr.setWrapped(y-1, true)
	t.scr.row(y - 1)[t.cols-1] = last
}

func (t *Terminal) printTranslated(p []byte) {
	for _, b := range p {
		set := t.sets.g[t.sets.gl]
		shifted := t.single != 0
		if shifted {
			set = t.sets.g[t.single]
			t.single = 0
		}
		t.print(translate(set, b))
		if shifted {
			t.joinable = false // printed by other rules than the next one
		}
	}
}

// Rune classes for the quick way in print.
const (
	classComplex = iota // may combine with its neighbours: ask the tables
	classNarrow
	classWide
)

// classify tells characters that never combine (grapheme break "Other") and
// are common apart from those that need the Unicode tables.
func classify(r rune) int {
	switch {
	case r >= 0x20 && r < 0x7f, r == noRoom:
		return classNarrow
	case r >= 0xa1 && r < 0x300:
		if r == 0xa9 || r == 0xad || r == 0xae {
			return classComplex
		}
		return classNarrow
	case r >= 0x4e00 && r <= 0x9fff, r >= 0x3400 && r <= 0x4dbf, r >= 0x30a1 && r <= 0x30ff, r >= 0x3041 && r <= 0x3096:
		return classWide
	case r >= 0x2500 && r <= 0x25a9, r >= 0x2800 && r <= 0x28ff, r >= 0x2010 && r <= 0x2027, r >= 0x388 && r < 0x483 && r != 0x38b && r != 0x38d && r != 0x3a2:
		return classNarrow
	}
	return classComplex
}

// print puts one character on the screen or joins it to the one before.
func (t *Terminal) print(r rune) {
	t.single = 0
	class := classify(r)
	if class == classWide && t.cols == 1 {
		r, class = noRoom, classNarrow
	}
	if class != classComplex && !(t.joinable && t.complex) {
		t.put(cell{ch: uint32(r)}, class)
		t.complex = false
		return
	}
	t.printComplex(r, class)
}

func (t *Terminal) printComplex(r rune, class int) {
	if r >= 0x80 && r < 0xa0 {
		return // C1 controls in UTF-8: nobody means them
	}
	if t.joinable && t.join(r) {
		return
	}
	w := displaywidth.Rune(r)
	if w == 0 {
		t.attach(r)
		return
	}
	if w == 2 && t.cols == 1 {
		r, w, class = noRoom, 1, classNarrow
	}
	t.put(cell{ch: uint32(r)}, w)
	t.complex = class == classComplex
}

// join adds r to the cluster that was printed just before when UAX #29 allows
// no break between them. It looks at the cell itself, so it does not matter
// how the input was cut.
func (t *Terminal) join(r rune) bool {
	s := t.scr
	row := s.row(t.lastY)
	c := row[t.lastX]
	buf := t.tab.appendText(t.cluster[:0], c)
	old := len(buf)
	buf = appendRune(buf, r)
	t.cluster = buf
	switch quickBreak(c, buf[:old], r) {
	case mustBreak:
		return false
	case mayJoin:
		if !t.together(buf) {
			return false
		}
	}
	if len(buf) > maxCluster || old == 0 {
		return true // swallowed
	}
	if t.combine(t.lastX, t.lastY, buf) {
		t.complex = true
	}
	return true
}

const (
	mayJoin = iota // the tables must tell
	mustJoin
	mustBreak
)

// quickBreak decides the common cases of emoji and combining marks after the
// cell c with text prev, without the tables: GB9 (Extend and ZWJ join what is
// one character) and GB11 (an emoji joins only after ZWJ).
func quickBreak(c cell, prev []byte, r rune) int {
	tone := r >= 0x1f3fb && r <= 0x1f3ff
	if tone || r == 0x200d || r == 0xfe0f || r >= 0x300 && r < 0x370 {
		if c.ch&chCluster == 0 {
			return mustJoin
		}
		return mayJoin
	}
	if r < 0x1f300 || r > 0x1faff {
		return mayJoin
	}
	// Prepend characters begin with other bytes, so GB9b does not apply.
	b := prev[0]
	simple := b < utf8.RuneSelf || b >= 0xe2 && b <= 0xef || b == 0xf0 && prev[1] == 0x9f
	if simple && !bytes.HasSuffix(prev, []byte("\u200d")) {
		return mustBreak
	}
	return mayJoin
}

// together reports whether p is one grapheme cluster.
func (t *Terminal) together(p []byte) bool { return t.firstCluster(p) == len(p) }

// firstCluster is the length of the first grapheme cluster of p.
func (t *Terminal) firstCluster(p []byte) int {
	if t.seg == nil {
		t.seg = graphemes.FromBytes(p)
	}
	t.seg.SetText(p)
	t.seg.Next()
	return len(t.seg.Value())
}

// attach adds a zero-width character to the cell before the cursor although
// something came in between; without such a cell it is dropped.
func (t *Terminal) attach(r rune) {
	x := t.x - 1
	if t.pending {
		x = t.x
	}
	if x < 0 {
		return
	}
	row := t.scr.row(t.y)
	if row[x].isTail() {
		x--
	}
	if row[x].blank() {
		return
	}
	buf := appendRune(t.tab.appendText(t.cluster[:0], row[x]), r)
	t.cluster = buf
	if len(buf) > maxCluster {
		return
	}
	joinable := t.joinable
	t.combine(x, t.y, buf)
	t.joinable = joinable
}

// combine makes buf the text of the cell at x, y. A cluster may become wide by
// what is added (VS16, flags), never narrow; without room for that nothing is
// added and it reports false.
func (t *Terminal) combine(x, y int, buf []byte) bool {
	s := t.scr
	row := s.row(y)
	wider := !row[x].isWide() && displaywidth.Bytes(buf) == 2
	if wider && !t.canWiden(x, y) {
		return false
	}
	id := t.tab.cluster(buf)
	row[x].ch = id | chCluster | row[x].ch&kindMask
	s.touch(y, x+1)
	if wider {
		t.widen(x, y)
	}
	if len(t.tab.clusterIdx) >= t.tab.limitCl {
		t.syncPen()
		t.collect()
	}
	return true
}

// canWiden reports whether there is room for a second column.
func (t *Terminal) canWiden(x, y int) bool {
	return x+1 < t.cols || t.cols > 1 && t.modes.has(modeAutowrap) && t.y == y && t.pending
}

// widen makes the narrow cell at x, y wide. In the last column it moves to the
// next row, as if it had been wide from the start.
func (t *Terminal) widen(x, y int) {
	s := t.scr
	row := s.row(y)
	c := row[x]
	if x+1 < t.cols {
		if t.modes.has(modeInsert) {
			s.insertCells(y, x+1, 1, 0)
		}
		s.split(s.phys(y), x+2)
		row[x].ch |= kindWide
		row[x+1] = cell{ch: kindTail, st: c.st}
		s.touch(y, x+2)
		if x+2 == t.cols {
			s.setWrapped(y, false)
		}
		if t.y == y && t.x == x+1 {
			t.advance(x + 2)
		}
		return
	}
	row[x] = cell{kindFiller, c.st}
	t.pending = false
	t.putWrapped(c)
}

func (t *Terminal) putWrapped(c cell) {
	t.wrap()
	s := t.scr
	row := s.row(t.y)
	s.split(s.phys(t.y), 2)
	row[0] = cell{c.ch | kindWide, c.st}
	row[1] = cell{kindTail, c.st}
	s.touch(t.y, 2)
	if t.cols == 2 {
		s.setWrapped(t.y, false)
	}
	t.lastX, t.lastY = 0, t.y
	t.advance(2)
}

// put prints a character of w columns at the cursor.
func (t *Terminal) put(c cell, w int) {
	t.syncPen()
	t.unpend()
	c.st = t.penID
	if w == 2 && t.x == t.cols-1 && !t.fitWide() {
		t.joinable = false
		return
	}
	s, x := t.scr, t.x
	if t.modes.has(modeInsert) {
		s.insertCells(t.y, x, w, 0)
	}
	ph := s.phys(t.y)
	row := s.cells[ph*s.cols : (ph+1)*s.cols]
	s.split(ph, x)
	s.split(ph, x+w)
	row[x] = c
	if w == 2 {
		row[x].ch |= kindWide
		row[x+1] = cell{kindTail, c.st}
	}
	if int(s.used[ph]) < x+w {
		s.used[ph] = uint16(x + w)
	}
	s.flags[ph] &^= rowTold
	if x+w == s.cols {
		s.flags[ph] &^= rowWrapped
	}
	t.lastX, t.lastY = x, t.y
	t.joinable = true
	t.advance(x + w)
}

// fitWide makes room for a wide character that would begin in the last column
// by wrapping. Without autowrap there is none: the character is dropped.
func (t *Terminal) fitWide() bool {
	if !t.modes.has(modeAutowrap) {
		return false
	}
	s := t.scr
	row := s.row(t.y)
	s.split(s.phys(t.y), t.x)
	row[t.x] = cell{kindFiller, t.penID}
	s.touch(t.y, t.cols)
	t.wrap()
	return true
}

// repeat prints the character that was printed last n more times (REP, ECMA-48 8.3.103).
func (t *Terminal) repeat(n int) {
	if !t.joinable {
		return
	}
	c := t.scr.row(t.lastY)[t.lastX]
	w := 1
	if c.isWide() {
		w = 2
	}
	if c.blank() {
		return
	}
	c.ch &^= kindMask
	for range min(n, t.cols*t.rows) {
		t.put(c, w)
	}
}

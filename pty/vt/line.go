package vt

import (
	"iter"
	"unicode/utf8"
)

func appendRune(p []byte, r rune) []byte { return utf8.AppendRune(p, r) }

// Line is one row of cells. Lines from Lines and History are copies that stay
// as they are; a Line given to a callback is valid during the call only.
type Line struct {
	tab   *tables
	cells []cell

	// Wrapped: the row was filled and its text continues on the next row.
	Wrapped bool
}

// Cell is one character of a Line.
type Cell struct {
	X     int    // column
	Width int    // columns, 1 or 2
	Text  string // one grapheme cluster; " " for a space, "" where nothing was written
	Style Style
	Link  string // target of the hyperlink, "" for none
}

// Cells iterates over the characters of the line. Blank cells in the default
// style at its end are left out.
func (l Line) Cells() iter.Seq[Cell] {
	return func(yield func(Cell) bool) {
		var buf [maxCluster]byte
		for x, c := range l.cells {
			if c.isTail() {
				continue
			}
			v := Cell{X: x, Width: 1, Style: l.tab.styles[c.st]}
			if c.isWide() {
				v.Width = 2
			}
			if !c.blank() {
				v.Text = string(l.tab.appendText(buf[:0], c))
			}
			v.Link = l.tab.links[v.Style.link].uri
			v.Style.link = 0
			if !yield(v) {
				return
			}
		}
	}
}

// Width returns the number of columns up to the last one in use.
func (l Line) Width() int { return len(l.cells) }

// Text returns the text of the line. Cells that were never written are spaces
// inside and are left out at the end; written spaces are kept.
func (l Line) Text() string { return string(l.AppendText(nil)) }

// AppendText appends Text to dst.
func (l Line) AppendText(dst []byte) []byte {
	for _, c := range l.cells[:l.textEnd()] {
		if c.kind() != kindFiller {
			dst = l.tab.appendText(dst, c)
		}
	}
	return dst
}

// textEnd is the number of cells up to the last one with text.
func (l Line) textEnd() int {
	n := len(l.cells)
	for n > 0 && l.cells[n-1].blank() {
		n--
	}
	return n
}

// ANSI returns the line with its styles as SGR sequences and nothing else that
// a terminal would act on: no links, no control characters. It begins in the
// default style and ends in it.
func (l Line) ANSI() string { return string(l.AppendANSI(nil)) }

// AppendANSI appends ANSI to dst.
func (l Line) AppendANSI(dst []byte) []byte {
	pen, st := Style{}, uint32(0)
	for _, c := range l.cells {
		if c.kind() == kindFiller {
			continue
		}
		if c.st != st {
			st = c.st
			next := l.tab.styles[st]
			dst = appendSGR(dst, pen, next)
			pen = next
		}
		dst = l.tab.appendText(dst, c)
	}
	return appendSGR(dst, pen, Style{})
}

// Lines returns the rows of the active screen, top first.
func (t *Terminal) Lines() []Line {
	c := newCopier(&t.tab)
	lines := make([]Line, t.rows)
	for y := range lines {
		lines[y] = Line{tab: c.dst, cells: c.copy(t.scr.row(y)[:t.scr.rowUsed(y)]), Wrapped: t.scr.wrapped(y)}
	}
	return lines
}

// copier moves cells to tables of their own, so that copies outlive a collection.
type copier struct {
	src, dst *tables
	styles   map[uint32]uint32
	clusters map[uint32]uint32
}

func newCopier(src *tables) *copier {
	dst := &tables{styles: []Style{{}}, links: []link{{}}}
	return &copier{src: src, dst: dst, styles: map[uint32]uint32{0: 0}, clusters: map[uint32]uint32{}}
}

func (c *copier) copy(row []cell) []cell {
	for len(row) > 0 && row[len(row)-1] == (cell{}) {
		row = row[:len(row)-1]
	}
	out := make([]cell, len(row))
	for i, v := range row {
		v.st = c.style(v.st)
		if v.ch&chCluster != 0 {
			v.ch = c.cluster(v.ch&chMask) | v.ch&^chMask
		}
		out[i] = v
	}
	return out
}

func (c *copier) style(id uint32) uint32 {
	if n, ok := c.styles[id]; ok {
		return n
	}
	s := c.src.styles[id]
	if s.link != 0 {
		c.dst.links = append(c.dst.links, c.src.links[s.link])
		s.link = uint32(len(c.dst.links) - 1)
	}
	n := uint32(len(c.dst.styles))
	c.dst.styles = append(c.dst.styles, s)
	c.styles[id] = n
	return n
}

func (c *copier) cluster(id uint32) uint32 {
	if n, ok := c.clusters[id]; ok {
		return n
	}
	n := uint32(len(c.dst.clusters))
	c.dst.clusters = append(c.dst.clusters, c.src.clusters[id])
	c.clusters[id] = n
	return n
}

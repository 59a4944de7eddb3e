package vt

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

func (b *tables) clone() tables {
	c := *b
	c.styles = slices.Clone(b.styles)
	c.styleIdx = slices.Clone(b.styleIdx)
	c.freeSt = slices.Clone(b.freeSt)
	c.clusters = slices.Clone(b.clusters)
	c.clusterIdx = maps.Clone(b.clusterIdx)
	c.freeCl = slices.Clone(b.freeCl)
	c.links = slices.Clone(b.links)
	c.linkIdx = maps.Clone(b.linkIdx)
	c.freeLn = slices.Clone(b.freeLn)
	return c
}

func (s *screen) clone() screen {
	c := *s
	c.cells = slices.Clone(s.cells)
	c.used = slices.Clone(s.used)
	c.flags = slices.Clone(s.flags)
	c.order = slices.Clone(s.order)
	return c
}

// clone shares the chunks: they are append-only and the copy appends elsewhere.
func (h *history) clone() history {
	c := *h
	c.refs = slices.Clone(h.refs)
	c.chunks = slices.Clone(h.chunks)
	for i, p := range c.chunks {
		c.chunks[i] = p[:len(p):len(p)]
	}
	c.rec, c.text = nil, nil
	return c
}

// sequence is the OSC 7501 that sets a.
func (a AgentState) sequence() string {
	if a.State == "" {
		return "\x1b]7501;state=clear\x1b\\"
	}
	var b strings.Builder
	b.WriteString("\x1b]7501;state=" + a.State)
	if a.App != "" {
		b.WriteString(":app=" + a.App)
	}
	if a.Kind != "" {
		b.WriteString(":kind=" + a.Kind)
	}
	if a.Msg != "" {
		b.WriteString(":msg=" + base64.StdEncoding.EncodeToString([]byte(a.Msg)))
	}
	b.WriteString("\x1b\\")
	return b.String()
}

// Equal reports whether both terminals are in the same state, history and
// everything that a keyframe carries included. An open synchronized update and
// the unfinished sequence in the parser (see Pending) do not count.
func (t *Terminal) Equal(o *Terminal) bool { return t.dump() == o.dump() }

// Hash returns a number that is the same for equal terminals.
func (t *Terminal) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(t.dump()))
	return h.Sum64()
}

// dump writes the whole state in a canonical text, for Equal and for people.
func (t *Terminal) dump() string {
	var b strings.Builder
	modes := t.modes
	modes.set(modeSync, false)
	fmt.Fprintf(&b, "size %dx%d alt %v cursor %d,%d pending %v join %v complex %v single %d\n",
		t.cols, t.rows, t.AltScreen(), t.x, t.y, t.pending, t.joinable, t.joinable && t.complex, t.single)
	fmt.Fprintf(&b, "pen %s sets %v region %d-%d tabs %v\n", t.tab.describe(t.pen), t.sets, t.top, t.bot, t.TabStops())
	fmt.Fprintf(&b, "modes %x mouse %d/%d keys %d style %d\n", modes, t.mouse, t.mouseEnc, t.modifyKeys, t.cursorStyle)
	fmt.Fprintf(&b, "osc %q %q %q %q %q %+v %d %d %v %v\n", t.osc.title, t.osc.icon, t.osc.titleStack, t.osc.iconStack,
		t.osc.cwd, t.osc.agent, t.osc.progState, t.osc.progValue, t.osc.palette, t.osc.dynamic)
	t.dumpScreen(&b, "main", &t.main)
	if t.AltScreen() {
		t.dumpScreen(&b, "alt", &t.alt)
	} else {
		fmt.Fprintf(&b, "alt kbd %v\n", t.alt.kbd)
	}
	rows, tab := t.historyRows(t.hist.n * maxSize)
	fmt.Fprintf(&b, "history %d\n", len(rows))
	for _, r := range rows {
		tab.dumpRow(&b, r.cells, r.flags&rowWrapped != 0)
	}
	return b.String()
}

func (t *Terminal) dumpScreen(b *strings.Builder, name string, s *screen) {
	v := &s.saved
	fmt.Fprintf(b, "%s saved %d,%d %v %v %s %v kbd %v\n", name, v.x, v.y, v.pending, v.origin, t.tab.describe(v.pen), v.sets, s.kbd)
	for y := range s.rows {
		t.tab.dumpRow(b, s.row(y)[:s.rowUsed(y)], s.wrapped(y))
	}
}

func (b *tables) describe(s Style) string {
	l := b.links[s.link]
	s.link = 0
	return fmt.Sprintf("%x/%x/%x/%x/%d/%q", s.FG, s.BG, s.UnderlineColor, s.Attrs, s.Underline, l)
}

func (b *tables) dumpRow(w *strings.Builder, row []cell, wrapped bool) {
	for len(row) > 0 && row[len(row)-1] == (cell{}) {
		row = row[:len(row)-1]
	}
	st := uint32(0)
	for _, c := range row {
		if c.st != st && !c.isTail() {
			st = c.st
			fmt.Fprintf(w, "{%s}", b.describe(b.styles[st]))
		}
		switch {
		case c.kind() == kindFiller:
			w.WriteString("<F>")
		case c.erased():
			w.WriteString("<_>")
		case c.isWide():
			w.WriteString("<W>")
			fallthrough
		default:
			w.Write(b.appendText(nil, c))
		}
	}
	fmt.Fprintf(w, " %v\n", wrapped)
}

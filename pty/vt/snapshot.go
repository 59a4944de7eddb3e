package vt

import "strconv"

// SnapshotOptions say for whom a snapshot is. The zero value is a snapshot of
// the screen in the terminal's own size, for a user's terminal.
type SnapshotOptions struct {
	// History is the number of rows of scrollback to put before the main
	// screen; they scroll off into the reader's own scrollback.
	History int

	// Cols and Rows are the size of the terminal that will read it, 0: our own.
	// The snapshot is that of this terminal after such a resize.
	Cols, Rows int

	// Keyframe makes a snapshot for another Terminal of this package. It
	// carries what a user's terminal shall not be told again (working
	// directory, agent state, progress), and it empties the keyboard and title
	// stacks and the palette first. Without it those are left as they are: a
	// user's terminal may hold levels of its own below ours.
	Keyframe bool
}

// Snapshot returns bytes that bring a terminal to the state of this one. They
// hold no question, bell, notification, clipboard write or prompt mark, leave no
// synchronized update open, and neither erase scrollback nor reset the terminal
// (RIS). The first thing done is to leave the alternate screen and clear the
// main one. The keyboard levels and titles of our stacks are pushed; whoever
// plays a snapshot into a user's terminal has to pop them in the end.
func (t *Terminal) Snapshot(o SnapshotOptions) []byte {
	cols, rows := t.cols, t.rows
	if o.Cols > 0 {
		cols = clampSize(o.Cols)
	}
	if o.Rows > 0 {
		rows = clampSize(o.Rows)
	}
	if cols != t.cols || rows != t.rows {
		t = t.clone()
		t.Resize(cols, rows)
	}
	s := snapshot{t: t, b: make([]byte, 0, 4096)}
	s.all(o)
	return s.b
}

// snapshot writes a snapshot and knows the reader's pen on the way.
type snapshot struct {
	t    *Terminal
	b    []byte
	pen  Style
	link link

	last    []byte // text of the character written last, up to lastEnd in b
	lastEnd int
	simple  bool // it never joins
}

func (s *snapshot) str(v string) { s.b = append(s.b, v...) }

func (s *snapshot) csi(final string, p ...int) {
	s.str("\x1b[")
	for i, v := range p {
		if i > 0 {
			s.b = append(s.b, ';')
		}
		s.b = strconv.AppendInt(s.b, int64(v), 10)
	}
	s.str(final)
}

func (s *snapshot) all(o SnapshotOptions) {
	t := s.t
	s.begin()
	if o.Keyframe {
		s.str("\x1b[<99u\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]112\x1b\\")
		for range titleDepth {
			s.str("\x1b[23;0t")
		}
	}
	if t.alt.kbd != (keyStack{}) && !t.AltScreen() || o.Keyframe {
		s.str("\x1b[?47h")
		if o.Keyframe {
			s.str("\x1b[<99u")
		}
		s.keyboard(&t.alt.kbd)
		s.str("\x1b[?47l\x1b[H\x1b[2J")
	}
	s.tabs()
	early := !t.AltScreen() || t.main.saved.pending
	if early {
		s.savedFirst(&t.main)
	}
	s.history(o.History)
	s.keyboard(&t.main.kbd)
	if t.AltScreen() {
		if !t.main.saved.origin {
			s.region() // some keep a region for each screen
		}
		if early {
			s.style(Style{}, link{})
			s.str("\x1b[?1047h")
		} else {
			s.saved(&t.main.saved, "\x1b[?1049h")
		}
		s.str("\x1b[r\x1b[H\x1b[2J")
		s.savedFirst(&t.alt)
		s.rows(screenRows(&t.alt), &t.tab, 0)
		if !o.Keyframe {
			s.keyboard(&t.alt.kbd)
		}
	}
	s.osc(o)
	s.modes()
	s.end()
}

// begin resets what a used terminal may have on, and clears the main screen.
func (s *snapshot) begin() {
	s.str("\x1b[?2026h\x1b[?1049l\x1b[m\x1b]8;;\x1b\\\x1b[0\"q" +
		"\x1b(B\x1b)B\x1b*B\x1b+B\x0f\x1b[r\x1b[4;20l\x1b>" +
		"\x1b[?1;5;6;9;12;45;66;1000;1002;1003;1004;1005;1006;1015;1016;2004;2031;2048l\x1b[?7h" +
		"\x1b[H\x1b[J")
}

func (s *snapshot) tabs() {
	s.str("\x1b[3g")
	at := 0
	for x := range s.t.cols {
		if !s.t.tabs.at(x) {
			continue
		}
		if x > at {
			s.csi("C", x-at)
		}
		at = x
		s.str("\x1bH")
	}
	s.str("\r")
}

func (s *snapshot) keyboard(k *keyStack) {
	s.str("\x1b[=")
	s.b = strconv.AppendUint(s.b, uint64(k.level[0]), 10)
	s.str(";1u")
	for _, f := range k.level[1 : k.n+1] {
		s.str("\x1b[>")
		s.b = strconv.AppendUint(s.b, uint64(f), 10)
		s.str("u")
	}
}

// history writes n rows of history and the main screen below them.
func (s *snapshot) history(n int) {
	rows := screenRows(&s.t.main)
	if n <= 0 || s.t.hist.n == 0 {
		s.rows(rows, &s.t.tab, 0)
		return
	}
	hist, b := s.t.historyRows(n)
	for i := range rows { // one set of tables for both
		rows[i].cells = reintern(b, &s.t.tab, rows[i].cells)
	}
	for len(rows) < s.t.rows {
		rows = append(rows, bufRow{})
	}
	s.rows(append(hist, rows...), b, len(hist))
}

// reintern moves cells from one set of tables to another.
func reintern(dst, src *tables, row []cell) []cell {
	out := make([]cell, len(row))
	for i, c := range row {
		st := src.styles[c.st]
		if st.link != 0 {
			st.link = dst.linkID(src.links[st.link])
		}
		c.st = dst.style(st)
		if c.ch&chCluster != 0 {
			c.ch = c.ch&^chMask | dst.cluster([]byte(src.clusters[c.ch&chMask]))
		}
		out[i] = c
	}
	return out
}

// screenRows returns the rows up to the last one that is not blank.
func screenRows(sc *screen) []bufRow {
	n := sc.rows
	for n > 0 && sc.rowUsed(n-1) == 0 && (n == 1 || !sc.wrapped(n-2)) {
		n--
	}
	rows := make([]bufRow, n)
	for y := range rows {
		rows[y] = bufRow{sc.row(y)[:sc.rowUsed(y)], sc.flags[sc.phys(y)]}
	}
	return rows
}

// rows writes rows from the top left corner of a blank screen; the first scroll
// of them leave at the top.
func (s *snapshot) rows(rows []bufRow, b *tables, scroll int) {
	for i, r := range rows {
		s.row(r.cells, b)
		if i == len(rows)-1 {
			return
		}
		if r.flags&rowWrapped != 0 {
			s.wrapInto(r.cells, rows[i+1].cells, b)
			continue
		}
		if s.pen.BG != 0 { // rows that scroll in take the pen's background
			s.style(Style{}, link{})
		}
		s.str("\r\n")
	}
}

// row writes one row; the cursor is in its first column and the row blank.
func (s *snapshot) row(cells []cell, b *tables) {
	at := 0
	for x := 0; x < len(cells); {
		c := cells[x]
		if !c.erased() {
			if !c.isTail() && c.kind() != kindFiller {
				s.move(&at, x)
				s.setCell(c, b)
				s.text(c, b)
				at++
				if c.isWide() {
					at++
				}
			}
			x++
			continue
		}
		n := x + 1
		for n < len(cells) && cells[n] == c {
			n++
		}
		if c.st != 0 {
			s.move(&at, x)
			s.setCell(c, b)
			s.eraseRun(n-x, n == s.t.cols)
		}
		x = n
	}
}

// text writes the text of c; where it would join the character before, which
// it did not when it was printed, something neutral comes in between.
func (s *snapshot) text(c cell, b *tables) {
	prev := s.last
	start := len(s.b)
	s.b = b.appendText(s.b, c)
	adjacent := s.lastEnd == start
	s.last, s.lastEnd = s.b[start:], len(s.b)
	simple := c.ch&chCluster == 0 && classify(rune(c.ch&chMask)) != classComplex
	if !adjacent || len(prev) == 0 || simple && s.simple {
		s.simple = simple
		return
	}
	s.simple = simple
	both := s.b[start-len(prev):]
	if s.t.firstCluster(both) == len(prev) {
		return
	}
	own := string(s.last)
	s.b = append(s.b[:start], "\x1b(B"...)
	start = len(s.b)
	s.b = append(s.b, own...)
	s.last, s.lastEnd = s.b[start:], len(s.b)
}

func (s *snapshot) eraseRun(n int, toEnd bool) {
	if toEnd {
		s.str("\x1b[K")
		return
	}
	s.csi("X", n)
}

// move brings the cursor of a row from column *at to x.
func (s *snapshot) move(at *int, x int) {
	switch n := x - *at; {
	case n == 1:
		s.str("\x1b[C")
	case n > 1:
		s.csi("C", n)
	}
	*at = x
}

// wrapInto leaves row, which was just written, by an automatic wrap, so that
// the reader knows that next continues it. What had to be printed for that is
// erased by ECH: xterm.js takes EL in the first column for the end of the line.
func (s *snapshot) wrapInto(row, next []cell, b *tables) {
	filler := len(row) == s.t.cols && row[len(row)-1].kind() == kindFiller
	var first cell
	if len(next) > 0 {
		first = next[0]
	}
	plain := !first.erased() && b.styles[first.st].BG == 0
	if plain && !filler {
		return // pending wrap: the next character does it
	}
	if !filler {
		s.style(Style{}, link{})
		s.str(" \r\x1b[X")
		return
	}
	last := row[len(row)-1]
	s.moveToLast(row)
	if plain && first.isWide() && last.st == first.st {
		return
	}
	s.setCell(last, b)
	s.str("\u3000\r")
	s.style(Style{}, link{})
	s.csi("X", s.t.cols)
}

// moveToLast moves from the end of what row wrote to the last column.
func (s *snapshot) moveToLast(row []cell) {
	at := len(row) - 1
	for at > 0 && row[at-1].erased() {
		at--
	}
	s.move(&at, len(row)-1)
}

// setCell sets the pen to the style of c.
func (s *snapshot) setCell(c cell, b *tables) {
	st := b.styles[c.st]
	s.style(st, b.links[st.link])
}

// style sets the reader's pen.
func (s *snapshot) style(st Style, l link) {
	st.link = 0
	if l != s.link {
		s.str("\x1b]8;")
		if l.id != "" {
			s.str("id=")
			s.str(l.id)
		}
		s.str(";")
		s.str(l.uri)
		s.str("\x1b\\")
		s.link = l
	}
	if st == s.pen {
		return
	}
	s.b = appendSGR(s.b, s.pen, st)
	if (st.Attrs^s.pen.Attrs)&Protected != 0 {
		if st.Attrs&Protected != 0 {
			s.str("\x1b[1\"q")
		} else {
			s.str("\x1b[0\"q")
		}
	}
	s.pen = st
}

func (s *snapshot) setPen(st Style) { s.style(st, s.t.tab.links[st.link]) }

func (s *snapshot) region() {
	if t := s.t; t.top != 0 || t.bot != t.rows-1 {
		s.csi("r", t.top+1, t.bot+1)
	}
}

// saved sets the reader's cursor to v, lets save keep it, and undoes what it
// set. v must not be one with a pending wrap.
func (s *snapshot) saved(v *savedCursor, save string) {
	if v.origin {
		s.str("\x1b[r\x1b[?6h")
	}
	s.csi("H", v.y+1, v.x+1)
	s.charsets(&v.sets)
	s.setPen(v.pen)
	s.str(save)
	s.unsave(v)
}

// unsave undoes what saving v has set.
func (s *snapshot) unsave(v *savedCursor) {
	if v.origin {
		s.str("\x1b[?6l")
	}
	if v.sets != defaultCharsets() {
		s.str("\x1b(B\x1b)B\x1b*B\x1b+B\x0f")
	}
	s.style(Style{}, link{})
}

// savedFirst sets the saved cursor of sc on a blank screen, that is before its
// rows are written: a pending wrap needs a character in the last column.
func (s *snapshot) savedFirst(sc *screen) {
	v := &sc.saved
	if !v.pending {
		s.saved(v, "\x1b7")
		s.str("\x1b[H")
		return
	}
	s.csi("H", v.y+1, s.t.cols)
	s.str("-")
	if v.origin {
		s.str("\x1b[?6h")
		s.csi("H", v.y+1, s.t.cols)
		s.str("-")
	}
	s.charsets(&v.sets)
	s.setPen(v.pen)
	s.str("\x1b7")
	s.unsave(v)
	s.csi("H", v.y+1, 1)
	s.str("\x1b[K\x1b[H")
}

// pendCell writes the last cell of row y again, which leaves a pending wrap.
func (s *snapshot) pendCell(sc *screen, y, top int) {
	row := sc.row(y)
	x := s.t.cols - 1
	if row[x].isTail() {
		x--
	}
	s.csi("H", y-top+1, x+1)
	s.setCell(row[x], &s.t.tab)
	s.b = s.t.tab.appendText(s.b, row[x])
}

func (s *snapshot) charsets(c *charsets) {
	for i, g := range c.g {
		if g != setASCII {
			s.b = append(s.b, esc, '('+byte(i), g)
		}
	}
	switch c.gl {
	case 1:
		s.b = append(s.b, 0x0e)
	case 2:
		s.str("\x1bn")
	case 3:
		s.str("\x1bo")
	}
}

// osc writes titles, palette and what only a keyframe holds.
func (s *snapshot) osc(o SnapshotOptions) {
	t := &s.t.osc
	for _, v := range t.iconStack {
		s.str("\x1b]1;" + v + "\x1b\\\x1b[22;1t")
	}
	for _, v := range t.titleStack {
		s.str("\x1b]2;" + v + "\x1b\\\x1b[22;2t")
	}
	if t.icon != "" || o.Keyframe || len(t.iconStack) > 0 {
		s.str("\x1b]1;" + t.icon + "\x1b\\")
	}
	if t.title != "" || o.Keyframe || len(t.titleStack) > 0 {
		s.str("\x1b]2;" + t.title + "\x1b\\")
	}
	for i := range 256 {
		if c, ok := t.palette[uint8(i)]; ok {
			s.str("\x1b]4;" + strconv.Itoa(i) + ";" + colorSpec(c) + "\x1b\\")
		}
	}
	for i, c := range t.dynamic {
		if c != 0 {
			s.str("\x1b]" + strconv.Itoa(10+i) + ";" + colorSpec(c) + "\x1b\\")
		}
	}
	if o.Keyframe {
		s.private()
	}
}

func (s *snapshot) private() {
	t := &s.t.osc
	s.str("\x1b]7;" + t.cwd + "\x1b\\")
	s.str("\x1b]9;4;" + strconv.Itoa(int(t.progState)) + ";" + strconv.Itoa(int(t.progValue)) + "\x1b\\")
	s.str(t.agent.sequence())
}

// tells reports whether mode id has to be written after the reset at the start.
func (s *snapshot) tells(id modeID) bool {
	switch id {
	case modeSync:
		return false
	case modeAltScroll:
		return s.t.modes.has(altScrollTouched)
	}
	return s.t.modes.has(id) != defaultModes().has(id)
}

// modes writes what the reset at the start did not already give.
func (s *snapshot) modes() {
	t := s.t
	s.region()
	for id, d := range modeDefs() {
		if !s.tells(modeID(id)) {
			continue
		}
		final := "l"
		if t.modes.has(modeID(id)) {
			final = "h"
		}
		if modeID(id) == modeAppKeypad { // known to more terminals than mode 66
			s.str("\x1b=")
			continue
		}
		if d.private {
			final = strconv.Itoa(d.number) + final
			s.str("\x1b[?" + final)
			continue
		}
		s.csi(final, d.number)
	}
	if t.modes.has(modeCursorVisible) {
		s.str("\x1b[?25h")
	}
	for _, m := range [2]uint16{t.mouse, t.mouseEnc} {
		if m != 0 {
			s.str("\x1b[?" + strconv.Itoa(int(m)) + "h")
		}
	}
	if t.modifyKeys == 0 {
		s.str("\x1b[>4m") // back to the reader's own default
	} else {
		s.str("\x1b[>4;" + strconv.Itoa(int(t.modifyKeys)) + "m")
	}
	s.csi(" q", int(t.cursorStyle))
	if t.modes.has(modeCursorBlink) { // DECSCUSR resets it in some terminals
		s.str("\x1b[?12h")
	}
}

// end places the cursor, with the state that only printing can make: a pending
// wrap, and the last character to which the next one may be joined.
func (s *snapshot) end() {
	t := s.t
	top := 0
	if t.modes.has(modeOrigin) {
		top = t.top
	}
	s.csi("H", t.y-top+1, t.x+1)
	if t.pending && !t.joinable {
		s.pendCell(t.scr, t.y, top)
		s.str("\x1b(B") // any sequence, so that nothing joins
	}
	s.charsets(&t.sets)
	s.setPen(t.pen)
	s.str("\x1b[?2026l")
	if t.joinable {
		s.lastCell(top)
	}
	switch t.single {
	case 2:
		s.str("\x1bN")
	case 3:
		s.str("\x1bO")
	}
}

func (s *snapshot) lastCell(top int) {
	t := s.t
	c := t.scr.row(t.lastY)[t.lastX]
	s.csi("H", t.lastY-top+1, t.lastX+1)
	if t.modes.has(modeInsert) {
		w := 1
		if c.isWide() {
			w = 2
		}
		s.csi("P", w)
	}
	s.b = t.tab.appendText(s.b, c)
}

// clone returns a copy without callbacks whose changes do not touch t.
func (t *Terminal) clone() *Terminal {
	c := *t
	c.opt = Options{}
	c.seg, c.cluster = nil, nil
	c.tab = t.tab.clone()
	c.main, c.alt = t.main.clone(), t.alt.clone()
	c.scr = &c.main
	if t.AltScreen() {
		c.scr = &c.alt
	}
	c.hist = t.hist.clone()
	return &c
}

package vt

// tabStops is a bit for each column.
type tabStops [(maxSize + 63) / 64]uint64

func (s *tabStops) reset() {
	*s = tabStops{}
	for x := 8; x < maxSize; x += 8 {
		s.set(x)
	}
}

func (s *tabStops) set(x int)     { s[x/64] |= 1 << (x % 64) }
func (s *tabStops) unset(x int)   { s[x/64] &^= 1 << (x % 64) }
func (s *tabStops) at(x int) bool { return s[x/64]&(1<<(x%64)) != 0 }

// tabForward moves the cursor n tab stops on, at most to the last column (HT, CHT).
func (t *Terminal) tabForward(n int) {
	for ; n > 0 && t.x < t.cols-1; n-- {
		t.x++
		for t.x < t.cols-1 && !t.tabs.at(t.x) {
			t.x++
		}
	}
}

// backTab moves the cursor n tab stops back (CBT).
func (t *Terminal) backTab(n int) {
	for ; n > 0 && t.x > 0; n-- {
		t.x--
		for t.x > 0 && !t.tabs.at(t.x) {
			t.x--
		}
	}
}

// moveTo puts the cursor at column x and row y, clamped to the screen.
func (t *Terminal) moveTo(x, y int) {
	t.x = max(0, min(x, t.cols-1))
	t.y = max(0, min(y, t.rows-1))
	t.pending = false
}

// moveAbs is moveTo for parameters that origin mode counts from the region.
func (t *Terminal) moveAbs(x, y int) {
	if !t.modes.has(modeOrigin) {
		t.moveTo(x, y)
		return
	}
	t.moveTo(x, min(y+t.top, t.bot))
}

// up moves the cursor up; it stops at the top margin unless it is above it.
func (t *Terminal) up(n int) {
	limit := 0
	if t.y >= t.top {
		limit = t.top
	}
	t.moveTo(t.x, max(t.y-n, limit))
}

func (t *Terminal) down(n int) {
	limit := t.rows - 1
	if t.y <= t.bot {
		limit = t.bot
	}
	t.moveTo(t.x, min(t.y+n, limit))
}

// index moves the cursor one row down, scrolling at the bottom margin (IND).
func (t *Terminal) index() {
	if t.y == t.bot {
		t.scrollUp(1)
		return
	}
	if t.y < t.rows-1 {
		t.y++
	}
}

// reverseIndex moves the cursor one row up, scrolling at the top margin (RI).
func (t *Terminal) reverseIndex() {
	if t.y == t.top {
		t.scrollDown(1)
		return
	}
	if t.y > 0 {
		t.y--
	}
}

// scrollUp scrolls the region; rows that leave the top of the main screen go
// to history.
func (t *Terminal) scrollUp(n int) {
	n = min(n, t.bot-t.top+1)
	st := t.blankStyle()
	if t.top == 0 && t.scr == &t.main {
		for y := range n {
			t.pushRow(y)
		}
	}
	t.scr.rotate(t.top, t.bot, n, st)
}

func (t *Terminal) scrollDown(n int) {
	t.scr.rotate(t.top, t.bot, -min(n, t.bot-t.top+1), t.blankStyle())
}

// pushRow hands row y of the main screen to ScrollOff and to history.
func (t *Terminal) pushRow(y int) {
	s := &t.main
	p := s.phys(y)
	row := s.cells[p*s.cols : p*s.cols+int(s.used[p])]
	t.pushCells(row, s.flags[p])
}

func (t *Terminal) pushCells(row []cell, flags uint8) {
	for len(row) > 0 && row[len(row)-1] == (cell{}) {
		row = row[:len(row)-1]
	}
	wrapped := flags&rowWrapped != 0
	if t.opt.ScrollOff != nil && flags&rowTold == 0 {
		t.opt.ScrollOff(Line{tab: &t.tab, cells: row, Wrapped: wrapped})
	}
	t.hist.push(&t.tab, row, wrapped)
}

// insertLines is IL: it works inside the region only.
func (t *Terminal) insertLines(n int) { t.moveLines(-n) }

// deleteLines is DL; its lines do not go to history.
func (t *Terminal) deleteLines(n int) { t.moveLines(n) }

func (t *Terminal) moveLines(n int) {
	if t.y < t.top || t.y > t.bot {
		return
	}
	h := t.bot - t.y + 1
	t.scr.rotate(t.y, t.bot, max(-h, min(n, h)), t.blankStyle())
	t.x, t.pending = 0, false
}

// eraseDisplay is ED.
func (t *Terminal) eraseDisplay(kind int) {
	st := t.blankStyle()
	switch kind {
	case 0:
		if t.x == 0 {
			t.endContinuation()
		}
		t.scr.erase(t.y, t.x, t.cols, st)
		for y := t.y + 1; y < t.rows; y++ {
			t.scr.clearRow(y, st)
		}
	case 1:
		for y := range t.y {
			t.scr.clearRow(y, st)
		}
		t.scr.erase(t.y, 0, t.x+1, st)
	case 2:
		t.scr.clearAll(st)
	case 3: // xterm: the saved lines
		t.hist.clear()
	}
}

// eraseLine is EL.
func (t *Terminal) eraseLine(kind int) {
	st := t.blankStyle()
	if kind == 2 || kind == 0 && t.x == 0 {
		t.endContinuation()
	}
	switch kind {
	case 0:
		t.scr.erase(t.y, t.x, t.cols, st)
	case 1:
		t.scr.erase(t.y, 0, t.x+1, st)
	case 2:
		t.scr.erase(t.y, 0, t.cols, st)
	}
}

// endContinuation is for a row that is about to be erased whole: the text of the
// row above does not go on in what is written there next. An empty row stays
// what it is (tmux; to xterm.js it makes no difference), since shells erase the
// row that they have just wrapped into.
func (t *Terminal) endContinuation() {
	if t.y > 0 && t.scr.rowUsed(t.y) > 0 {
		t.scr.setWrapped(t.y-1, false)
	}
}

// selectiveErase blanks the unprotected cells of DECSED and DECSEL.
func (t *Terminal) selectiveErase(kind int, display bool) {
	y0, y1 := t.y, t.y
	x0, x1 := 0, t.cols
	if kind == 0 {
		x0 = t.x
	}
	if kind == 1 {
		x1 = t.x + 1
	}
	if display && kind != 0 {
		y0 = 0
	}
	if display && kind != 1 {
		y1 = t.rows - 1
	}
	st := t.blankStyle()
	for y := y0; y <= y1; y++ {
		a, b := 0, t.cols
		if y == t.y {
			a, b = x0, x1
		}
		t.eraseUnprotected(y, a, b, st)
	}
}

func (t *Terminal) eraseUnprotected(y, a, b int, st uint32) {
	row := t.scr.row(y)
	for x := a; x < b; x++ {
		if t.tab.styles[row[x].st].Attrs&Protected == 0 {
			t.scr.erase(y, x, x+1, st)
		}
	}
}

// align is DECALN: the screen full of E, margins reset, cursor home.
func (t *Terminal) align() {
	t.top, t.bot = 0, t.rows-1
	t.modes.set(modeOrigin, false)
	for y := range t.rows {
		t.scr.clearRow(y, 0)
		fill(t.scr.row(y), cell{ch: 'E'})
		t.scr.touch(y, t.cols)
	}
	t.moveTo(0, 0)
}

// saveCursor is DECSC.
func (t *Terminal) saveCursor() {
	t.scr.saved = savedCursor{t.x, t.y, t.pending, t.modes.has(modeOrigin), t.pen, t.sets}
}

// restoreCursor is DECRC.
func (t *Terminal) restoreCursor() {
	s := &t.scr.saved
	t.modes.set(modeOrigin, s.origin)
	t.moveTo(s.x, s.y)
	if s.origin {
		t.y = max(t.top, min(t.y, t.bot))
	}
	t.pending = s.pending && t.x == t.cols-1 && !t.scr.row(t.y)[t.x].blank()
	if t.pending {
		t.scr.setWrapped(t.y, false) // not yet: the next character decides
	}
	t.pen, t.penDirty = s.pen, true
	t.sets, t.single = s.sets, 0
}

// switchScreen shows the alternate or the main screen. What the alternate one
// held is gone when it is left.
func (t *Terminal) switchScreen(alt bool) {
	if alt == t.AltScreen() {
		return
	}
	if !alt {
		t.alt.clearAll(0)
		t.alt.saved = defaultSaved()
		t.scr = &t.main
		return
	}
	if t.alt.cells == nil {
		kbd := t.alt.kbd
		t.alt.alloc(t.cols, t.rows)
		t.alt.kbd = kbd
		t.alt.saved = defaultSaved()
	}
	t.scr = &t.alt
	t.alt.clearAll(t.blankStyle())
}

// reset is RIS (ESC c): the power-up state, but for what lies beside the screen.
// History is kept: what scrolled off is past, and ED 3 exists for it.
func (t *Terminal) reset() {
	o := t.osc
	t.main.clearAll(0)
	t.powerUp()
	t.osc.title, t.osc.icon, t.osc.cwd, t.osc.agent = o.title, o.icon, o.cwd, o.agent
	t.osc.progState, t.osc.progValue = o.progState, o.progValue
}

// softReset is DECSTR (VT510).
func (t *Terminal) softReset() {
	t.modes.set(modeInsert, false)
	t.modes.set(modeOrigin, false)
	t.modes.set(modeAppCursor, false)
	t.modes.set(modeAppKeypad, false)
	t.modes.set(modeAutowrap, true)
	t.modes.set(modeReverseWrap, false)
	t.modes.set(modeCursorVisible, true)
	t.top, t.bot = 0, t.rows-1
	t.pen, t.penDirty = Style{}, true
	t.sets, t.single = defaultCharsets(), 0
	t.scr.saved = defaultSaved()
	t.pending = false
}

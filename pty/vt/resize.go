package vt

import "slices"

// maxJoin bounds how many history rows are taken back to re-wrap the line that
// reaches from history into the screen; a longer line is cut there.
const maxJoin = 4096

// Resize changes the size of the screen, clamped to 1..1000. Lines of the main
// screen are wrapped anew when the width changes; the alternate screen is cut or
// extended. The region becomes the whole screen. Like xterm, rows below the
// cursor go first when there is too little room, then rows move to history;
// what grows again at the bottom comes back from there.
func (t *Terminal) Resize(cols, rows int) {
	cols, rows = clampSize(cols), clampSize(rows)
	if cols == t.cols && rows == t.rows {
		return
	}
	t.syncPen()
	for x := t.cols; x < cols; x++ { // new columns get default stops
		t.tabs.unset(x)
		if x%8 == 0 {
			t.tabs.set(x)
		}
	}
	cur := point{t.x, t.y, t.pending}
	saved := point{t.main.saved.x, t.main.saved.y, t.main.saved.pending}
	if t.AltScreen() {
		t.resizeMain(cols, rows, &saved, nil)
		t.resizeAlt(cols, rows, &cur)
	} else {
		t.resizeMain(cols, rows, &cur, &saved)
		t.alt = screen{kbd: t.alt.kbd}
	}
	t.main.saved.x, t.main.saved.y, t.main.saved.pending = saved.x, saved.y, saved.pending
	t.cols, t.rows = cols, rows
	t.top, t.bot = 0, rows-1
	t.x, t.y, t.pending = cur.x, cur.y, cur.pending
	t.joinable = false
	t.settle()
	if t.tab.full() {
		t.collect()
	}
}

// point is a cursor position that a resize carries along.
type point struct {
	x, y    int
	pending bool
}

// offset is the column counted beyond a pending wrap.
func (p *point) offset() int {
	if p.pending {
		return p.x + 1
	}
	return p.x
}

func (p *point) clamp(cols, rows int) {
	if p.pending && p.x < cols-1 { // there is room after it now
		p.x, p.pending = p.x+1, false
	}
	if p.x >= cols {
		p.x, p.pending = cols-1, false
	}
	p.y = max(0, min(p.y, rows-1))
}

// bufRow is a row while it is between two screens.
type bufRow struct {
	cells []cell
	flags uint8
}

// resizeAlt cuts or extends the alternate screen; rows leave at the top only as
// far as the cursor needs it.
func (t *Terminal) resizeAlt(cols, rows int, cur *point) {
	old := t.alt
	shift := max(0, cur.y-(rows-1))
	var buf []bufRow
	for y := shift; y < min(old.rows, shift+rows); y++ {
		r := bufRow{old.row(y)[:old.rowUsed(y)], old.flags[old.phys(y)]}
		if cols != old.cols { // cut, not wrapped
			r = bufRow{cells: cutRow(dropFiller(r.cells), cols)}
		}
		buf = append(buf, r)
	}
	if n := len(buf); n > 0 {
		buf[n-1].flags &^= rowWrapped
	}
	t.alt.alloc(cols, rows)
	t.alt.load(buf)
	cur.y -= shift
	if cur.pending {
		cur.x, cur.pending = cur.x+1, false
	}
	cur.clamp(cols, rows)
	sv := &t.alt.saved
	p := point{sv.x, sv.y, sv.pending}
	p.y -= shift
	p.pending = false
	p.clamp(cols, rows)
	sv.x, sv.y, sv.pending = p.x, p.y, p.pending
}

// cutRow shortens row to cols columns without leaving half a character.
func cutRow(row []cell, cols int) []cell {
	if len(row) <= cols {
		return row
	}
	if row[cols].isTail() {
		row[cols-1].ch = ' '
	}
	return row[:cols]
}

// load fills a fresh screen with the rows of buf.
func (s *screen) load(buf []bufRow) {
	for y, r := range buf {
		copy(s.row(y), r.cells)
		p := s.phys(y)
		s.used[p] = uint16(len(r.cells))
		s.flags[p] = r.flags
		s.setWrapped(y, r.flags&rowWrapped != 0)
		s.trim(y)
	}
}

// resizeMain re-wraps and fits the main screen. cur decides what stays in view;
// other, if any, is carried along.
func (t *Terminal) resizeMain(cols, rows int, cur, other *point) {
	s := &t.main
	n := t.mainContent(cur.y)
	buf := make([]bufRow, 0, n)
	for y := range n {
		buf = append(buf, bufRow{s.row(y)[:s.rowUsed(y)], s.flags[s.phys(y)]})
	}
	points := []*point{cur}
	if other != nil {
		points = append(points, other)
	}
	if cols != s.cols {
		buf = t.reflow(buf, cols, points)
	}
	oldRows := s.rows
	blank := oldRows - n
	buf = append(buf, make([]bufRow, blank)...)
	if cols != s.cols {
		buf = t.fit(buf, cols, oldRows, true, points)
	}
	buf = t.fit(buf, cols, rows, cur.y == oldRows-1, points)
	if len(buf) > 0 {
		buf[len(buf)-1].flags &^= rowWrapped
	}
	saved, kbd := s.saved, s.kbd
	t.main.alloc(cols, rows)
	t.main.saved, t.main.kbd = saved, kbd
	t.main.load(buf)
	for _, p := range points {
		p.clamp(cols, rows)
	}
}

// mainContent is the number of rows up to the last one with content, the row of
// the cursor included.
func (t *Terminal) mainContent(cursor int) int {
	s := &t.main
	n := s.rows
	for n > cursor+1 && s.rowUsed(n-1) == 0 {
		n--
	}
	return n
}

// fit makes buf exactly rows long, or shorter if there is nothing more. With
// pull missing rows are taken from the end of history.
func (t *Terminal) fit(buf []bufRow, cols, rows int, pull bool, points []*point) []bufRow {
	if excess := len(buf) - rows; excess > 0 {
		below := max(0, len(buf)-1-points[0].y)
		buf = buf[:len(buf)-min(excess, below)]
	}
	if excess := len(buf) - rows; excess > 0 {
		for _, r := range buf[:excess] {
			t.pushCells(r.cells, r.flags)
		}
		movePoints(points, -excess)
		return buf[excess:]
	}
	if missing := rows - len(buf); pull && missing > 0 {
		got := t.pull(cols, missing)
		movePoints(points, len(got))
		buf = append(got, buf...)
	}
	return buf
}

func movePoints(points []*point, dy int) {
	for _, p := range points {
		p.y = max(0, p.y+dy)
	}
}

// pull takes the newest n rows, wrapped to cols, out of history.
func (t *Terminal) pull(cols, n int) []bufRow {
	var rows []bufRow
	for len(rows) < n && t.hist.n > 0 {
		line, open := t.popLine()
		w := wrapLine(line, cols, open)
		for i := range w {
			w[i].flags |= rowTold
		}
		rows = append(w, rows...)
	}
	if extra := len(rows) - n; extra > 0 {
		for _, r := range rows[:extra] {
			t.hist.push(&t.tab, r.cells, r.flags&rowWrapped != 0)
		}
		rows = rows[extra:]
	}
	return rows
}

// open marks r as continued if its text reaches the last column.
func (r *bufRow) open(cols int) {
	n := len(r.cells)
	if n < cols {
		r.cells = dropFiller(r.cells)
		return
	}
	if r.cells[n-1].erased() {
		r.cells[n-1].ch = ' '
	}
	r.flags |= rowWrapped
}

// popLine takes the newest whole line out of history; open: it goes on after
// that, and a filler at its end is still there.
func (t *Terminal) popLine() (line []cell, open bool) {
	var parts [][]cell
	var next []cell
	for range maxJoin {
		rec, _ := t.hist.record(t.hist.n - 1)
		cells, wrapped := decode(&t.tab, rec, nil)
		if len(parts) == 0 && wrapped {
			open = true
		}
		t.hist.dropLast()
		if len(parts) > 0 {
			cells = unwrapped(cells, next)
		}
		next = cells
		parts = append(parts, cells)
		if !t.hist.lastWrapped() {
			break
		}
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), open
}

// unwrapped returns what row, whose line goes on in next, adds to the line: all
// but a filler that a wide character at the start of next made necessary.
func unwrapped(row, next []cell) []cell {
	n := len(row)
	if n == 0 || row[n-1].kind() != kindFiller {
		return row
	}
	if len(next) > 0 && next[0].isWide() {
		return row[:n-1]
	}
	row[n-1].ch = ' '
	return row
}

func dropFiller(row []cell) []cell {
	if n := len(row); n > 0 && row[n-1].kind() == kindFiller {
		return row[:n-1]
	}
	return row
}

// reflow wraps the rows of buf to cols, together with the beginning of their
// first line from history.
func (t *Terminal) reflow(buf []bufRow, cols int, points []*point) []bufRow {
	var out []bufRow
	old := make([]point, len(points))
	for i, p := range points {
		old[i] = *p
	}
	var line []cell
	var told toldPart
	told.reset()
	if len(buf) > 0 && t.hist.lastWrapped() {
		line, _ = t.popLine()
		line = unwrapped(line, buf[0].cells)
		told.add(0, len(line), true)
	}
	marks := make([]int, len(points)) // offset of a point in the line, -1: elsewhere
	for i := range marks {
		marks[i] = -1
	}
	width := t.cols
	for y, r := range buf {
		for i := range points {
			if old[i].y == y {
				marks[i] = len(line) + old[i].offset()
			}
		}
		start := len(line)
		cont := r.flags&rowWrapped != 0 && y < len(buf)-1
		if cont {
			line = append(line, unwrapped(padRow(r.cells, width), buf[y+1].cells)...)
			told.add(start, len(line), r.flags&rowTold != 0)
			continue
		}
		line = append(line, dropFiller(r.cells)...)
		told.add(start, len(line), r.flags&rowTold != 0)
		rows := wrapLine(line, cols, false)
		placePoints(points, marks, rows, len(out), cols, old)
		told.mark(rows)
		out = append(out, rows...)
		line = nil
		told.reset()
	}
	return out
}

// toldPart is the beginning of a line that ScrollOff was already told of.
type toldPart struct {
	cols int
	all  bool // nothing else was added
}

func (p *toldPart) reset() { *p = toldPart{all: true} }

// add says that columns start..end-1 of the line were told or not.
func (p *toldPart) add(start, end int, told bool) {
	if told && p.cols == start {
		p.cols = end
	}
	p.all = p.all && told
}

// mark flags the rows of the line that lie in the part that was told.
func (p *toldPart) mark(rows []bufRow) {
	end := 0
	for i := range rows {
		end += rowText(rows[i])
		if p.all || end > 0 && end <= p.cols {
			rows[i].flags |= rowTold
		}
	}
}

// padRow returns row with its full width.
func padRow(row []cell, width int) []cell {
	if len(row) >= width {
		return row
	}
	out := make([]cell, width)
	copy(out, row)
	return out
}

// placePoints puts the points whose marks are set on the rows of their line and
// clears the marks.
func placePoints(points []*point, marks []int, rows []bufRow, base, cols int, old []point) {
	for i, off := range marks {
		if off < 0 {
			continue
		}
		marks[i] = -1
		r := 0
		for r < len(rows)-1 && off >= rowText(rows[r]) {
			off -= rowText(rows[r])
			r++
		}
		p := points[i]
		p.y = base + r
		p.x = min(off, cols-1)
		p.pending = off == cols || old[i].pending && off > cols
	}
}

// rowText is the number of columns of r that belong to the line.
func rowText(r bufRow) int { return len(dropFiller(r.cells)) }

// wrapLine cuts line into rows of at most cols columns. Blanks after the last
// text are kept as far as they fit on its row; all of them if the line is open,
// which means that it goes on after what is given.
func wrapLine(line []cell, cols int, open bool) []bufRow {
	for !open && len(line) > 0 && line[len(line)-1] == (cell{}) {
		line = line[:len(line)-1]
	}
	if cols == 1 {
		line = narrowed(line)
	}
	text := len(line)
	for !open && text > 0 && line[text-1].blank() {
		text--
	}
	var rows []bufRow
	for {
		if text <= cols {
			r := bufRow{cells: cutRow(line, cols)}
			if open {
				r.open(cols)
			}
			return append(rows, r)
		}
		end := cols
		row := line[:end:end]
		if line[end].isTail() {
			end--
			row = append(line[:end:end], cell{kindFiller, line[end].st})
		}
		if last := &row[len(row)-1]; last.erased() {
			last.ch = ' ' // a row that continues ends in a written cell
		}
		rows = append(rows, bufRow{row, rowWrapped})
		line = line[end:]
		text -= end
	}
}

// narrowed replaces wide characters, for which one column has no room.
func narrowed(line []cell) []cell {
	out := make([]cell, 0, len(line))
	for _, c := range line {
		if c.isTail() {
			continue
		}
		if c.isWide() {
			c.ch = noRoom
		}
		out = append(out, c)
	}
	return out
}

// noRoom stands for a wide character on a screen of one column.
const noRoom = 0xfffd

// History returns the newest n rows of history, oldest first, wrapped to the
// present width.
func (t *Terminal) History(n int) []Line {
	rows, b := t.historyRows(n)
	c := newCopier(b)
	lines := make([]Line, len(rows))
	for i, r := range rows {
		lines[i] = Line{tab: c.dst, cells: c.copy(r.cells), Wrapped: r.flags&rowWrapped != 0}
	}
	return lines
}

// HistoryLines returns how many rows are in history, as wrapped when they left
// the screen.
func (t *Terminal) HistoryLines() int { return t.hist.n }

// historyRows decodes the newest n rows into tables of their own.
func (t *Terminal) historyRows(n int) ([]bufRow, *tables) {
	b := &tables{}
	b.init()
	var lines [][]bufRow
	count := 0
	for i := t.hist.n - 1; i >= 0 && count < n; {
		first := i
		for first > 0 && i-first < maxJoin && t.recordWrapped(first-1) {
			first--
		}
		rows := t.historyLine(b, first, i)
		count += len(rows)
		lines = append(lines, rows)
		i = first - 1
	}
	slices.Reverse(lines)
	all := slices.Concat(lines...)
	return all[max(0, len(all)-n):], b
}

func (t *Terminal) recordWrapped(i int) bool {
	rec, _ := t.hist.record(i)
	return rec[0]&rowWrapped != 0
}

// historyLine decodes records first..last, which are one line.
func (t *Terminal) historyLine(b *tables, first, last int) []bufRow {
	parts := make([][]cell, last-first+1)
	var next []cell
	for i := last; i >= first; i-- {
		rec, _ := t.hist.record(i)
		cells, _ := decode(b, rec, nil)
		if i < last {
			cells = unwrapped(cells, next)
		}
		next = cells
		parts[i-first] = cells
	}
	line := slices.Concat(parts...)
	return wrapLine(line, t.cols, t.recordWrapped(last))
}

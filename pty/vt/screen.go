package vt

// Row flags.
const (
	rowWrapped = 1 << iota // the text continues on the next row
	rowTold                // already reported by ScrollOff, came back by a resize
)

// screen is one buffer. Its rows lie in one slab; order is the permutation that
// puts them on the screen, read as a ring from base, so that scrolling moves no
// cell. Cells from used on are zero.
type screen struct {
	cols, rows int
	cells      []cell
	used       []uint16
	flags      []uint8
	order      []uint16
	base       int

	saved savedCursor
	kbd   keyStack
}

// savedCursor is what DECSC keeps.
type savedCursor struct {
	x, y    int
	pending bool
	origin  bool
	pen     Style
	sets    charsets
}

func (s *screen) alloc(cols, rows int) {
	s.cols, s.rows, s.base = cols, rows, 0
	s.cells = make([]cell, cols*rows)
	s.used = make([]uint16, rows)
	s.flags = make([]uint8, rows)
	s.order = make([]uint16, rows)
	for i := range s.order {
		s.order[i] = uint16(i)
	}
}

func (s *screen) slot(y int) int {
	y += s.base
	if y >= s.rows {
		y -= s.rows
	}
	return y
}

// phys returns where row y lies in the slab.
func (s *screen) phys(y int) int { return int(s.order[s.slot(y)]) }

func (s *screen) row(y int) []cell {
	i := s.phys(y) * s.cols
	return s.cells[i : i+s.cols : i+s.cols]
}

func (s *screen) rowUsed(y int) int { return int(s.used[s.phys(y)]) }

func (s *screen) wrapped(y int) bool { return s.flags[s.phys(y)]&rowWrapped != 0 }

func (s *screen) setWrapped(y int, on bool) {
	p := s.phys(y)
	if on {
		s.flags[p] |= rowWrapped
		return
	}
	s.flags[p] &^= rowWrapped
	s.unfill(s.cells[p*s.cols : (p+1)*s.cols])
}

// clearRow makes row y blank in style st.
func (s *screen) clearRow(y int, st uint32) { s.clearPhys(s.phys(y), st) }

func (s *screen) clearPhys(p int, st uint32) {
	row := s.cells[p*s.cols : (p+1)*s.cols]
	s.flags[p] = 0
	if st == 0 {
		clear(row[:s.used[p]])
		s.used[p] = 0
		return
	}
	fill(row, cell{st: st})
	s.used[p] = uint16(s.cols)
}

func (s *screen) clearAll(st uint32) {
	for p := range s.rows {
		s.clearPhys(p, st)
	}
}

func fill(row []cell, c cell) {
	for i := range row {
		row[i] = c
	}
}

// touch records that the cells of row y before x may be in use.
func (s *screen) touch(y, x int) {
	p := s.phys(y)
	s.flags[p] &^= rowTold
	if int(s.used[p]) < x {
		s.used[p] = uint16(x)
	}
}

// split makes spaces of both halves of a wide cell in row p of the slab whose
// right half is at x, before something is put at x or taken away up to x.
func (s *screen) split(p, x int) {
	if x <= 0 || x >= s.cols || !s.cells[p*s.cols+x].isTail() {
		return
	}
	s.cells[p*s.cols+x-1].ch = ' '
	s.cells[p*s.cols+x].ch = ' '
}

// erase blanks columns x0..x1-1 of row y in style st.
func (s *screen) erase(y, x0, x1 int, st uint32) {
	if x1 > s.cols {
		x1 = s.cols
	}
	if x0 >= x1 {
		return
	}
	p := s.phys(y)
	row := s.cells[p*s.cols : (p+1)*s.cols]
	s.split(p, x0)
	s.split(p, x1)
	s.flags[p] &^= rowTold
	if x1 == s.cols {
		s.flags[p] &^= rowWrapped
	}
	used := int(s.used[p])
	if st != 0 {
		fill(row[x0:x1], cell{st: st})
		s.used[p] = uint16(max(used, x1))
		return
	}
	if x0 < used {
		clear(row[x0:min(x1, used)])
	}
	if x1 >= used && x0 < used {
		s.used[p] = uint16(x0)
	}
}

// insertCells shifts the cells from x on n columns to the right (ICH, IRM).
func (s *screen) insertCells(y, x, n int, st uint32) {
	n = min(n, s.cols-x)
	row, p := s.row(y), s.phys(y)
	s.split(p, x)
	s.split(p, s.cols-n)
	s.unfill(row)
	copy(row[x+n:], row[x:s.cols-n])
	fill(row[x:x+n], cell{st: st})
	s.touch(y, s.cols)
	s.setWrapped(y, false)
	s.trim(y)
}

// deleteCells shifts the cells right of x n columns to the left (DCH).
func (s *screen) deleteCells(y, x, n int, st uint32) {
	n = min(n, s.cols-x)
	row, p := s.row(y), s.phys(y)
	s.split(p, x)
	s.split(p, x+n)
	s.unfill(row)
	copy(row[x:], row[x+n:])
	fill(row[s.cols-n:], cell{st: st})
	s.touch(y, s.cols)
	s.setWrapped(y, false)
	s.trim(y)
}

// unfill turns the filler of the last column into a space.
func (s *screen) unfill(row []cell) {
	if last := &row[s.cols-1]; last.kind() == kindFiller {
		last.ch = ' '
	}
}

// trim lowers used to the last cell that is not zero.
func (s *screen) trim(y int) {
	p := s.phys(y)
	row := s.cells[p*s.cols : (p+1)*s.cols]
	n := int(s.used[p])
	for n > 0 && row[n-1] == (cell{}) {
		n--
	}
	s.used[p] = uint16(n)
}

// rotate moves rows top..bot up by n (down for a negative n); the rows that
// leave at one end come back blank in style st at the other.
func (s *screen) rotate(top, bot, n int, st uint32) {
	h := bot - top + 1
	if n >= h || n <= -h {
		s.unwrapEdges(top, bot)
		for y := top; y <= bot; y++ {
			s.clearRow(y, st)
		}
		return
	}
	s.unwrapEdges(top, bot)
	if n < 0 {
		s.setWrapped(bot+n, false)
	}
	if h == s.rows {
		s.base = ((s.base+n)%s.rows + s.rows) % s.rows
	} else {
		s.rotateOrder(top, h, n)
	}
	if n > 0 {
		for y := bot - n + 1; y <= bot; y++ {
			s.clearRow(y, st)
		}
		return
	}
	for y := top; y < top-n; y++ {
		s.clearRow(y, st)
	}
}

// unwrapEdges cuts lines that reach over the borders of a moving block.
func (s *screen) unwrapEdges(top, bot int) {
	if top > 0 {
		s.setWrapped(top-1, false)
	}
	s.setWrapped(bot, false)
}

func (s *screen) rotateOrder(top, h, n int) {
	if n == 1 {
		first := s.order[s.slot(top)]
		for y := top; y < top+h-1; y++ {
			s.order[s.slot(y)] = s.order[s.slot(y+1)]
		}
		s.order[s.slot(top+h-1)] = first
		return
	}
	n = (n + h) % h
	s.reverse(top, top+n-1)
	s.reverse(top+n, top+h-1)
	s.reverse(top, top+h-1)
}

func (s *screen) reverse(a, b int) {
	for ; a < b; a, b = a+1, b-1 {
		i, j := s.slot(a), s.slot(b)
		s.order[i], s.order[j] = s.order[j], s.order[i]
	}
}

package vt

// execute does a C0 control (ECMA-48, 8.3 and 8.2.1).
func (t *Terminal) execute(b byte) {
	t.joinable = false
	switch b {
	case bel:
		t.emit(Event{Kind: EventBell})
	case '\b':
		t.backspace()
	case '\t':
		t.tabForward(1)
	case '\n', '\v', '\f':
		t.lineFeed()
	case '\r':
		t.x, t.pending = 0, false
	case 0x0e: // SO, LS1
		t.sets.gl = 1
	case 0x0f: // SI, LS0
		t.sets.gl = 0
	}
	t.settle()
}

// settle makes a pending wrap one that a snapshot can express, whatever was
// erased or moved since the character was printed: its row does not go on yet,
// and there is a written cell, if only a space, in the last column.
func (t *Terminal) settle() {
	if !t.pending {
		return
	}
	t.scr.setWrapped(t.y, false)
	last := &t.scr.row(t.y)[t.cols-1]
	if last.blank() {
		last.ch = ' '
		t.scr.touch(t.y, t.cols)
	}
}

func (t *Terminal) lineFeed() {
	if t.modes.has(modeNewline) {
		t.x = 0
	}
	t.pending = false
	t.index()
}

// backspace moves one column back; with reverse wrap (mode 45) on over the
// start of a row that continues the one before.
func (t *Terminal) backspace() {
	if t.pending {
		t.pending = false
		if t.reverseWrap() {
			return
		}
	}
	if t.x > 0 {
		t.x--
		return
	}
	if t.reverseWrap() && t.y > t.top && t.scr.wrapped(t.y-1) {
		t.y--
		t.x = t.cols - 1
		t.scr.setWrapped(t.y, false)
	}
}

func (t *Terminal) reverseWrap() bool {
	return t.modes.has(modeReverseWrap) && t.modes.has(modeAutowrap)
}

// escDispatch does the sequences ESC Fe, Fs, Fp and the designations.
func (t *Terminal) escDispatch(b byte) {
	t.joinable = false
	s := &t.ps
	if s.many || s.ninter > 1 {
		return
	}
	if s.ninter == 1 {
		t.escInter(s.inter[0], b)
		return
	}
	switch b {
	case '7':
		t.saveCursor()
	case '8':
		t.restoreCursor()
	case '=':
		t.setPrivateBit(66, true)
	case '>':
		t.setPrivateBit(66, false)
	case 'D':
		t.pending = false
		t.index()
	case 'E':
		t.x, t.pending = 0, false
		t.index()
	case 'H':
		t.tabs.set(t.x)
	case 'M':
		t.pending = false
		t.reverseIndex()
	case 'N':
		t.single = 2
	case 'O':
		t.single = 3
	case 'Z':
		t.reply(primaryDA)
	case 'c':
		t.reset()
	case 'n':
		t.sets.gl = 2
	case 'o':
		t.sets.gl = 3
	}
	t.settle()
}

// escInter does ESC I F: designations of 94-character sets (ECMA-35) and DECALN.
func (t *Terminal) escInter(inter, b byte) {
	switch inter {
	case '(', ')', '*', '+':
		t.sets.g[inter-'('] = b
	case '#':
		if b == '8' {
			t.align()
		}
	}
}

// key packs what identifies a control sequence: prefix, intermediate, final.
func key(prefix, inter, final byte) uint32 {
	return uint32(prefix)<<16 | uint32(inter)<<8 | uint32(final)
}

// csiDispatch does the control sequence that ends in final.
func (t *Terminal) csiDispatch(final byte) {
	s := &t.ps
	joinable := t.joinable
	t.joinable = false
	if s.many || s.ninter > 1 {
		return
	}
	inter := byte(0)
	if s.ninter == 1 {
		inter = s.inter[0]
	}
	if s.prefix == 0 && inter == 0 {
		if final == 'm' {
			t.pen.sgr(&s.p)
			t.penDirty = true
			return
		}
		if final == 'b' {
			t.joinable = joinable
			t.repeat(s.p.get(0, 1))
			return
		}
		if !t.cursorMotion(final) {
			t.csiPlain(final)
		}
	} else {
		// Mode changes leave the last character joinable, so that a snapshot can
		// close its synchronized update and put the last character last.
		t.joinable = joinable && s.prefix == '?' && (final == 'h' || final == 'l')
		t.csiPrivate(key(s.prefix, inter, final))
	}
	t.settle()
}

// cursorMotion does the sequences that only move the cursor (ECMA-48).
func (t *Terminal) cursorMotion(final byte) bool {
	p := &t.ps.p
	n := p.get(0, 1)
	switch final {
	case 'A':
		t.up(n)
	case 'B', 'e':
		t.down(n)
	case 'C', 'a':
		t.moveTo(t.x+n, t.y)
	case 'D':
		t.cursorBack(n)
	case 'E':
		t.down(n)
		t.x = 0
	case 'F':
		t.up(n)
		t.x = 0
	case 'G', '`':
		t.moveTo(n-1, t.y)
	case 'H', 'f':
		t.moveAbs(p.get(1, 1)-1, n-1)
	case 'I':
		t.tabForward(n)
	case 'Z':
		t.backTab(n)
		t.pending = false
	case 'd':
		t.moveAbs(t.x, n-1)
	default:
		return false
	}
	return true
}

func (t *Terminal) cursorBack(n int) {
	t.moveTo(t.x-n, t.y)
}

func (t *Terminal) csiPlain(final byte) {
	p := &t.ps.p
	n := p.get(0, 1)
	switch final {
	case '@':
		t.scr.insertCells(t.y, t.x, n, t.blankStyle())
		t.pending = false
	case 'J':
		t.eraseDisplay(p.get(0, 0))
	case 'K':
		t.eraseLine(p.get(0, 0))
	case 'L':
		t.insertLines(n)
	case 'M':
		t.deleteLines(n)
	case 'P':
		t.scr.deleteCells(t.y, t.x, n, t.blankStyle())
		t.pending = false
	case 'S':
		t.scrollUp(n)
	case 'T':
		if p.n <= 1 { // more: highlight mouse tracking (xterm)
			t.scrollDown(n)
		}
	case 'X':
		t.scr.erase(t.y, t.x, t.x+min(n, t.cols), t.blankStyle())
		t.pending = false
	case 'c':
		if p.get(0, 0) == 0 {
			t.reply(primaryDA)
		}
	case 'g':
		t.clearTabs(p.get(0, 0))
	case 'h':
		t.setModes(false, true)
	case 'l':
		t.setModes(false, false)
	case 'n':
		t.statusReport(p.get(0, 0), false)
	case 'r':
		t.setRegion(p.get(0, 1), p.get(1, t.rows))
	case 's':
		t.saveCursor()
	case 't':
		t.windowOp(p)
	case 'u':
		t.restoreCursor()
	}
}

// csiPrivate does the sequences with a prefix or an intermediate.
func (t *Terminal) csiPrivate(k uint32) {
	p := &t.ps.p
	switch k {
	case key('?', 0, 'h'):
		t.setModes(true, true)
	case key('?', 0, 'l'):
		t.setModes(true, false)
	case key('?', 0, 'J'):
		t.selectiveErase(p.get(0, 0), true)
	case key('?', 0, 'K'):
		t.selectiveErase(p.get(0, 0), false)
	case key('?', 0, 'W'):
		if p.get(0, 0) == 5 {
			t.tabs.reset() // DECST8C
		}
	case key(0, '!', 'p'):
		t.softReset()
	case key(0, '"', 'q'):
		t.protect(p.get(0, 0))
	case key(0, ' ', 'q'):
		t.setCursorStyle(p.get(0, 0))
	case key('>', 0, 'm'):
		t.setModifyKeys(p)
	case key('>', 0, 'n'):
		if p.get(0, 0) == 4 {
			t.modifyKeys = 0
		}
	case key('>', 0, 'u'):
		t.scr.kbd.push(uint8(p.get(0, 0)))
	case key('<', 0, 'u'):
		t.scr.kbd.pop(p.get(0, 1))
	case key('=', 0, 'u'):
		t.scr.kbd.set(uint8(p.get(0, 0)), p.get(1, 1))
	default:
		t.question(k)
	}
}

func (t *Terminal) clearTabs(kind int) {
	switch kind {
	case 0:
		t.tabs.unset(t.x)
	case 3:
		t.tabs = tabStops{}
	}
}

// setRegion is DECSTBM; an impossible region is ignored.
func (t *Terminal) setRegion(top, bot int) {
	bot = min(bot, t.rows)
	if top >= bot {
		return
	}
	t.top, t.bot = top-1, bot-1
	t.moveAbs(0, 0)
}

// protect is DECSCA.
func (t *Terminal) protect(n int) {
	t.pen.Attrs &^= Protected
	if n == 1 {
		t.pen.Attrs |= Protected
	}
	t.penDirty = true
}

// setCursorStyle is DECSCUSR.
func (t *Terminal) setCursorStyle(n int) {
	if n <= 6 {
		t.cursorStyle = uint8(n)
	}
}

// setModifyKeys is XTMODKEYS; of its resources only modifyOtherKeys is kept.
func (t *Terminal) setModifyKeys(p *params) {
	if p.n == 0 {
		t.modifyKeys = 0
		return
	}
	if p.v[0] == 4 {
		t.modifyKeys = uint8(min(p.get(1, 0), 3))
	}
}

// windowOp is XTWINOPS: the title stack and the size reports.
func (t *Terminal) windowOp(p *params) {
	which := p.get(1, 0)
	switch p.get(0, 0) {
	case 22:
		t.osc.pushTitle(which)
	case 23:
		t.popTitle(which)
	case 14, 16, 18:
		t.sizeReport(p.get(0, 0))
	}
}

package client

import (
	"bytes"
	"strconv"

	"agentmux/logstore"
	"agentmux/pty/vt"
	"agentmux/session"
	"agentmux/session/wire"
)

// view draws a session into a terminal of another size: from an emulator of
// its own instead of the program's bytes, which are meant for the session's
// size. The session's top left corner is the terminal's; what the terminal has
// more stays blank, what it has less is chosen by the cursor.
//
// It does no I/O and has no clock. It belongs to the goroutine that follows the
// log (attachment.output).
//
// All is drawn on the terminal's alternate screen, so that neither what is on
// the user's screen nor his scrollback is touched. Frames go through the
// tty.Filter like a program's output: its books know how to leave.
type view struct {
	screen  *vt.Terminal // of the session
	beside  beside
	passive bool              // nothing is typed here
	live    logstore.Position // side effects of what was before happened already

	cols, rows int // of the terminal
	x, y       int // of the session's cell in the top left corner
	printed    bool
	adrift     int // frames in which the cursor was out of sight
	entered    bool
	shown      []string // rows of the terminal as drawn
	told       told
	rowBuf     []byte
}

// driftFrames is how many frames a cursor may be out of sight before it is
// followed although the program goes on printing.
const driftFrames = 4

// unknown is a column where the cursor cannot have been put.
const unknown = -1

// told is what the terminal was told beside the rows.
type told struct {
	cursor      vt.Cursor
	modes       vt.Modes
	wheel       byte // how mode 1007 was set, 0: not yet
	title, icon string
}

// newView starts a view from a sync. cols and rows are the terminal's.
func newView(at wire.Sync, cols, rows int, passive bool) *view {
	// Rows that scrolled off come back when the session grows.
	history := vt.Options{HistoryLines: session.MaxRows, HistoryBytes: 256 << 10}
	v := &view{
		screen: vt.New(at.Size.Cols, at.Size.Rows, history), passive: passive,
		live: logstore.Position(at.Position),
		told: told{cursor: vt.Cursor{X: unknown, Visible: true}},
	}
	for _, p := range [][]byte{at.Snapshot, at.Pending} {
		v.screen.Restore(p)
		v.beside.write(p, false)
	}
	v.resize(cols, rows)
	return v
}

// output takes what the program has printed.
func (v *view) output(frame logstore.Frame) {
	v.printed = true
	v.screen.Write(frame.Payload)
	v.beside.write(frame.Payload, frame.Pos >= v.live)
}

// resize takes the size of the terminal. After a change all is drawn anew.
func (v *view) resize(cols, rows int) {
	v.cols, v.rows = cols, rows
	v.shown = nil
}

// sync is the session as it is now, for a terminal of its size.
func (v *view) sync(at logstore.Position) wire.Sync {
	cols, rows := v.screen.Size()
	return wire.Sync{
		Snapshot: v.screen.Snapshot(vt.SnapshotOptions{}), Pending: v.screen.Pending(),
		Position: uint64(at), Size: session.Size{Cols: cols, Rows: rows},
	}
}

// updating reports that the program is in the middle of a synchronized update.
func (v *view) updating() bool { return v.screen.Modes().Sync }

// full reports that so much is to be told that it must not become more.
func (v *view) full() bool { return len(v.beside.out) >= maxBeside }

// frame appends what brings the terminal from the last frame to what the
// session shows now: nothing if that is the same.
func (v *view) frame(dst []byte) []byte {
	v.scroll()
	dst = v.beside.take(dst)
	if !v.entered {
		// No wrap: where the terminal has another opinion on the width of a
		// character, a row must not push the others up.
		dst = append(dst, "\x1b[?1049h\x1b[?7l"...)
		v.entered = true
	}
	dst = v.appendTold(dst)
	rows := v.changedRows()
	cursor := v.cursor()
	if len(rows) == 0 {
		return v.appendCursor(dst, cursor)
	}
	dst = append(dst, "\x1b[?2026h"...)
	if v.told.cursor.Visible {
		dst = append(dst, "\x1b[?25l"...)
		v.told.cursor.Visible = false
	}
	v.told.cursor.X = unknown // the rows move it
	dst = append(dst, rows...)
	dst = v.appendCursor(dst, cursor)
	return append(dst, "\x1b[?2026l"...)
}

// drifting reports that the cursor is out of sight, so that another frame is
// wanted even if nothing happens.
func (v *view) drifting() bool { return v.adrift > 0 }

// scroll brings the cursor into sight, moving as little as possible. While a
// program draws, the cursor is all over the screen: what counts is where it
// rests, or where it is again and again.
func (v *view) scroll() {
	x, y := v.corner()
	moving := v.printed && v.shown != nil
	v.printed = false
	if x == v.x && y == v.y {
		v.adrift = 0
		return
	}
	if v.adrift++; moving && v.adrift < driftFrames {
		cols, rows := v.screen.Size()
		x, y = scrollTo(v.x, v.x, v.cols, cols), scrollTo(v.y, v.y, v.rows, rows)
	} else {
		v.adrift = 0
	}
	v.x, v.y = x, y
}

// corner is where the view has to begin to show the cursor. A program that
// hides the cursor and draws its own leaves it at the end of its output on the
// main screen: that much is shown from the top. Elsewhere a hidden cursor tells
// nothing.
func (v *view) corner() (x, y int) {
	cols, rows := v.screen.Size()
	c := v.screen.Cursor()
	switch {
	case c.Visible:
		return scrollTo(v.x, c.X, v.cols, cols), scrollTo(v.y, c.Y, v.rows, rows)
	case v.screen.AltScreen():
		return scrollTo(v.x, v.x, v.cols, cols), scrollTo(v.y, v.y, v.rows, rows)
	}
	return scrollTo(v.x, v.x, v.cols, cols), scrollTo(0, c.Y, v.rows, rows)
}

// scrollTo moves a window of room cells, which begins at the cell from, over
// size cells so that it holds the cell at.
func scrollTo(from, at, room, size int) int {
	from = min(from, at)
	from = max(from, at-room+1)
	return max(0, min(from, size-room))
}

// changedRows returns what draws the rows that are not as they were drawn, nil
// if there are none.
func (v *view) changedRows() []byte {
	var out []byte
	_, height := v.screen.Size()
	n := min(v.rows, session.MaxRows+1) // the frame is one row more than a session
	if v.shown == nil {
		out = append(out, "\x1b[H\x1b[2J"...)
		v.shown = make([]string, n)
	}
	lines := v.screen.Lines()
	for y := range v.shown {
		v.rowBuf = v.rowBuf[:0]
		switch at := v.y + y; {
		case at < height:
			v.rowBuf = v.appendLine(v.rowBuf, lines[at])
		case at == height:
			v.rowBuf = v.appendEdge(v.rowBuf)
		}
		if string(v.rowBuf) == v.shown[y] {
			continue
		}
		v.shown[y] = string(v.rowBuf)
		out = appendCUP(out, 0, y)
		out = append(out, v.rowBuf...)
		if len(v.rowBuf) == 0 {
			out = append(out, "\x1b[K"...)
		}
	}
	return out
}

// appendLine draws a row of the session and the edge right of it.
func (v *view) appendLine(dst []byte, line vt.Line) []byte {
	cols, _ := v.screen.Size()
	w := rowWriter{b: dst, from: v.x, width: min(v.cols, cols-v.x)}
	w.line(line)
	if w.at < v.cols {
		w.b = append(w.b, "\x1b[K"...)
	}
	if v.cols > cols {
		w.column(cols)
		w.b = append(w.b, "\x1b[2m│\x1b[m"...)
	}
	return w.b
}

// appendEdge draws the edge below the session.
func (v *view) appendEdge(dst []byte) []byte {
	cols, _ := v.screen.Size()
	dst = append(dst, "\x1b[2m"...)
	dst = append(dst, bytes.Repeat([]byte("─"), min(cols, v.cols))...)
	if v.cols > cols {
		dst = append(dst, "┘"...)
	}
	dst = append(dst, "\x1b[m"...)
	if v.cols > cols+1 {
		dst = append(dst, "\x1b[K"...)
	}
	return dst
}

// cursor is the session's cursor on the terminal, hidden if it is out of sight.
func (v *view) cursor() vt.Cursor {
	c := v.screen.Cursor()
	c.X, c.Y = c.X-v.x, c.Y-v.y
	c.PendingWrap = false
	c.Visible = c.Visible && c.X >= 0 && c.X < v.cols && c.Y >= 0 && c.Y < v.rows
	if !c.Visible {
		return vt.Cursor{} // where it is does not matter
	}
	return c
}

func (v *view) appendCursor(dst []byte, c vt.Cursor) []byte {
	was := &v.told.cursor
	if !c.Visible {
		if was.Visible {
			dst = append(dst, "\x1b[?25l"...)
		}
		was.Visible = false
		return dst
	}
	if c.Shape != was.Shape || c.Blink != was.Blink {
		dst = appendShape(dst, c)
	}
	if c.X != was.X || c.Y != was.Y {
		dst = appendCUP(dst, c.X, c.Y)
	}
	if !was.Visible {
		dst = append(dst, "\x1b[?25h"...)
	}
	*was = c
	return dst
}

// appendCUP moves the cursor to a cell, counted from 0 (ECMA-48, CUP).
func appendCUP(dst []byte, x, y int) []byte {
	dst = append(dst, "\x1b["...)
	dst = strconv.AppendInt(dst, int64(y+1), 10)
	dst = append(dst, ';')
	dst = strconv.AppendInt(dst, int64(x+1), 10)
	return append(dst, 'H')
}

package vt

import "github.com/clipperhouse/uax29/v2/graphemes"

// Limits of a screen's size.
const (
	minSize = 1
	maxSize = 1000
)

// Options are fixed for the life of a Terminal. The zero value keeps no
// history and tells nobody anything.
type Options struct {
	// HistoryLines and HistoryBytes cap the scrollback of the main screen. Both
	// must be positive for history to be kept; a byte is about a column.
	HistoryLines int
	HistoryBytes int

	// Reply gets the answer to a question of the program, whole, during Write
	// and in the order of the questions. p is valid during the call only.
	Reply func(p []byte)

	// Event gets what happens beside the screen, during Write.
	Event func(Event)

	// ScrollOff gets each row that leaves the top of the main screen for good,
	// also when no history is kept; during Write, and during Resize for rows
	// that no longer fit. A row that a resize brought back from history and
	// that leaves again unchanged is not told twice. The Line is valid during
	// the call only.
	ScrollOff func(Line)
}

// Terminal is the state of one terminal. The package comment says what it keeps
// and who may call it.
type Terminal struct {
	opt        Options
	prof       Profile
	cols, rows int

	tab  tables
	main screen
	alt  screen // allocated when first used
	scr  *screen
	hist history

	x, y    int
	pending bool
	pen     Style
	penID   uint32
	eraseID uint32
	// penDirty: penID and eraseID are not yet those of pen.
	penDirty bool

	sets   charsets
	single uint8 // SS2, SS3: the set for the next character, 0: none

	// joinable: the last thing that happened was printing the cell at lastX,
	// lastY, so the next character may join it and REP may repeat it.
	// complex: it may join more than combining marks.
	joinable     bool
	complex      bool
	lastX, lastY int
	cluster      []byte // scratch
	seg          *graphemes.Iterator[[]byte]

	top, bot    int // scroll region, inclusive
	tabs        tabStops
	modes       modeSet
	mouse       uint16 // 0, 9, 1000, 1002 or 1003
	mouseEnc    uint16 // 0, 1005, 1006, 1015 or 1016
	modifyKeys  uint8  // modifyOtherKeys
	cursorStyle uint8  // DECSCUSR parameter
	osc         oscState
	ps          parser
}

// New returns a terminal in its power-up state. Sizes are clamped to 1..1000.
func New(cols, rows int, o Options) *Terminal {
	t := &Terminal{opt: o, cols: clampSize(cols), rows: clampSize(rows)}
	t.hist.maxLines, t.hist.maxBytes = o.HistoryLines, o.HistoryBytes
	t.tab.init()
	t.main.alloc(t.cols, t.rows)
	t.powerUp()
	return t
}

func clampSize(n int) int { return max(minSize, min(n, maxSize)) }

// powerUp sets everything but the cells of the main screen to its initial state.
func (t *Terminal) powerUp() {
	t.scr = &t.main
	t.alt = screen{}
	t.x, t.y, t.pending = 0, 0, false
	t.pen, t.penDirty = Style{}, true
	t.sets, t.single = defaultCharsets(), 0
	t.main.saved = defaultSaved()
	t.alt.saved = defaultSaved()
	t.main.kbd, t.alt.kbd = keyStack{}, keyStack{}
	t.joinable = false
	t.top, t.bot = 0, t.rows-1
	t.tabs.reset()
	t.modes = defaultModes()
	t.mouse, t.mouseEnc = 0, 0
	t.modifyKeys, t.cursorStyle = 0, 0
	t.osc = oscState{}
}

func defaultSaved() savedCursor { return savedCursor{sets: defaultCharsets()} }

// Size returns the size of the screen in cells.
func (t *Terminal) Size() (cols, rows int) { return t.cols, t.rows }

// AltScreen reports whether the alternate screen is shown.
func (t *Terminal) AltScreen() bool { return t.scr == &t.alt }

// Title returns the window title (OSC 0, 2), without control characters.
func (t *Terminal) Title() string { return t.osc.title }

// IconTitle returns the icon title (OSC 0, 1), without control characters.
func (t *Terminal) IconTitle() string { return t.osc.icon }

// Cwd returns the working directory that the program told (OSC 7) as it told
// it, normally a file URL; empty when it never did.
func (t *Terminal) Cwd() string { return t.osc.cwd }

// AgentState returns what the program last said about itself by OSC 7501.
func (t *Terminal) AgentState() AgentState { return t.osc.agent }

// Progress returns the last progress report (OSC 9;4): state 0 none, 1 normal,
// 2 error, 3 busy, 4 paused, and the percentage.
func (t *Terminal) Progress() (state, percent int) {
	return int(t.osc.progState), int(t.osc.progValue)
}

// CursorShape is the form of the cursor.
type CursorShape uint8

// The cursor shapes of DECSCUSR (VT520, xterm).
const (
	CursorBlock CursorShape = iota
	CursorUnderline
	CursorBar
)

// Cursor is where and how the cursor is. X and Y count cells from 0.
// PendingWrap: a character was put in the last column and the next one wraps;
// X is the last column then.
type Cursor struct {
	X, Y        int
	PendingWrap bool
	Visible     bool
	Shape       CursorShape
	Blink       bool
}

// Cursor returns the cursor of the active screen.
func (t *Terminal) Cursor() Cursor {
	c := Cursor{X: t.x, Y: t.y, PendingWrap: t.pending, Visible: t.modes.has(modeCursorVisible)}
	switch t.cursorStyle {
	case 3, 4:
		c.Shape = CursorUnderline
	case 5, 6:
		c.Shape = CursorBar
	}
	c.Blink = t.cursorStyle%2 == 1 || t.cursorStyle == 0 && t.modes.has(modeCursorBlink)
	return c
}

// Region returns the first and the last row of the scroll region.
func (t *Terminal) Region() (top, bottom int) { return t.top, t.bot }

// TabStops returns the columns of the tab stops.
func (t *Terminal) TabStops() []int {
	var v []int
	for x := range t.cols {
		if t.tabs.at(x) {
			v = append(v, x)
		}
	}
	return v
}

package vt

// modeID numbers the modes that are one bit.
type modeID uint8

const (
	modeAppCursor modeID = iota
	modeReverseVideo
	modeOrigin
	modeAutowrap
	modeCursorBlink
	modeCursorVisible
	modeReverseWrap
	modeAppKeypad
	modeFocus
	modeAltScroll
	modePaste
	modeSync
	modeScheme
	modeInBand
	modeInsert
	modeNewline
	numModes
)

// altScrollTouched is kept beside the modes: the program has set or reset 1007.
// Terminals differ in its default, so a snapshot leaves it alone otherwise.
const altScrollTouched = numModes

// modeDef ties a mode to its number in DECSET (private) or SM.
type modeDef struct {
	number  int
	private bool
}

// modeDefs lists the one-bit modes in the order of their ids. Sources: DEC
// (1, 5, 6, 7, 25, 66), xterm (12, 45, 1004, 1007, 2004), contour (2026, 2031),
// in-band resize (2048), ECMA-48 (4, 20).
func modeDefs() [numModes]modeDef {
	return [numModes]modeDef{
		modeAppCursor:     {1, true},
		modeReverseVideo:  {5, true},
		modeOrigin:        {6, true},
		modeAutowrap:      {7, true},
		modeCursorBlink:   {12, true},
		modeCursorVisible: {25, true},
		modeReverseWrap:   {45, true},
		modeAppKeypad:     {66, true},
		modeFocus:         {1004, true},
		modeAltScroll:     {1007, true},
		modePaste:         {2004, true},
		modeSync:          {2026, true},
		modeScheme:        {2031, true},
		modeInBand:        {2048, true},
		modeInsert:        {4, false},
		modeNewline:       {20, false},
	}
}

type modeSet uint32

func defaultModes() modeSet {
	return 1<<modeAutowrap | 1<<modeCursorVisible
}

func (m modeSet) has(id modeID) bool { return m&(1<<id) != 0 }

func (m *modeSet) set(id modeID, on bool) {
	if on {
		*m |= 1 << id
		return
	}
	*m &^= 1 << id
}

func modeByNumber(n int, private bool) (modeID, bool) {
	for id, d := range modeDefs() {
		if d.number == n && d.private == private {
			return modeID(id), true
		}
	}
	return 0, false
}

// Modes are the modes that concern whoever sends input to the program or shows
// its screen.
type Modes struct {
	AppCursor      bool // DECCKM: arrow keys send SS3
	AppKeypad      bool // DECNKM, DECKPAM
	Origin         bool // DECOM
	Autowrap       bool // DECAWM
	ReverseWrap    bool // 45
	Insert         bool // IRM
	Newline        bool // LNM
	ReverseVideo   bool // DECSCNM
	BracketedPaste bool // 2004
	Focus          bool // 1004
	AltScroll      bool // 1007
	Sync           bool // 2026: a synchronized update is open
	ColorScheme    bool // 2031: wants to hear of theme changes
	InBandResize   bool // 2048
	Mouse          int  // 0 or the number of the mode: 9, 1000, 1002, 1003
	MouseEncoding  int  // 0 or the number of the mode: 1005, 1006, 1015, 1016
	// KeyboardFlags are the kitty keyboard flags in force on the active screen,
	// ModifyOtherKeys xterm's level (0, 1 or 2).
	KeyboardFlags   int
	ModifyOtherKeys int
}

// Modes returns the modes in force.
func (t *Terminal) Modes() Modes {
	m := t.modes
	return Modes{
		AppCursor:       m.has(modeAppCursor),
		AppKeypad:       m.has(modeAppKeypad),
		Origin:          m.has(modeOrigin),
		Autowrap:        m.has(modeAutowrap),
		ReverseWrap:     m.has(modeReverseWrap),
		Insert:          m.has(modeInsert),
		Newline:         m.has(modeNewline),
		ReverseVideo:    m.has(modeReverseVideo),
		BracketedPaste:  m.has(modePaste),
		Focus:           m.has(modeFocus),
		AltScroll:       m.has(modeAltScroll),
		Sync:            m.has(modeSync),
		ColorScheme:     m.has(modeScheme),
		InBandResize:    m.has(modeInBand),
		Mouse:           int(t.mouse),
		MouseEncoding:   int(t.mouseEnc),
		KeyboardFlags:   int(t.scr.kbd.flags()),
		ModifyOtherKeys: int(t.modifyKeys),
	}
}

// setModes is SM, RM, DECSET and DECRST.
func (t *Terminal) setModes(private, on bool) {
	p := &t.ps.p
	for i := range p.n {
		if private {
			t.setPrivate(int(p.v[i]), on)
			continue
		}
		if id, ok := modeByNumber(int(p.v[i]), false); ok {
			t.modes.set(id, on)
		}
	}
}

func (t *Terminal) setPrivate(n int, on bool) {
	switch n {
	case 6, 47, 1047, 1048, 1049:
		t.joinable = false
	}
	switch n {
	case 9, 1000, 1002, 1003:
		t.mouse = uint16(n)
		if !on {
			t.mouse = 0
		}
	case 1005, 1006, 1015, 1016:
		t.mouseEnc = uint16(n)
		if !on {
			t.mouseEnc = 0
		}
	case 47, 1047:
		t.switchScreen(on)
	case 1048:
		t.saveOrRestore(on)
	case 1049:
		t.altScreen1049(on)
	default:
		if !t.setPrivateBit(n, on) {
			return
		}
	}
	t.emit(Event{Kind: EventMode, Code: n, On: on})
}

func (t *Terminal) setPrivateBit(n int, on bool) bool {
	id, ok := modeByNumber(n, true)
	if !ok {
		return false
	}
	t.modes.set(id, on)
	switch id {
	case modeOrigin:
		t.moveAbs(0, 0)
	case modeAltScroll:
		t.modes.set(altScrollTouched, true)
	}
	return true
}

func (t *Terminal) saveOrRestore(save bool) {
	if save {
		t.saveCursor()
		return
	}
	t.restoreCursor()
}

// altScreen1049 saves the main screen's cursor on entering and restores it on
// leaving (xterm).
func (t *Terminal) altScreen1049(on bool) {
	if on && !t.AltScreen() {
		t.saveCursor()
	}
	t.switchScreen(on)
	if !on {
		t.restoreCursor()
	}
}

// Mode report values of DECRPM (VT510).
const (
	rpmUnknown = iota
	rpmSet
	rpmReset
	rpmAlwaysSet
)

// modeReport returns the DECRPM value for mode n.
func (t *Terminal) modeReport(n int, private bool) int {
	value := func(on bool) int {
		if on {
			return rpmSet
		}
		return rpmReset
	}
	if !private {
		if id, ok := modeByNumber(n, false); ok {
			return value(t.modes.has(id))
		}
		return rpmUnknown
	}
	switch n {
	case 9, 1000, 1002, 1003:
		return value(int(t.mouse) == n)
	case 1005, 1006, 1015, 1016:
		return value(int(t.mouseEnc) == n)
	case 47, 1047, 1049:
		return value(t.AltScreen())
	case 1048:
		return rpmSet
	case 2027: // grapheme clusters: we know nothing else
		return rpmAlwaysSet
	case 2048: // would make us send reports at each resize; not our part
		return rpmUnknown
	}
	if id, ok := modeByNumber(n, true); ok {
		return value(t.modes.has(id))
	}
	return rpmUnknown
}

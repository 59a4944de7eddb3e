package tty

import (
	"bytes"
	"strconv"
)

// beginString: the introducer of an OSC, DCS, APC, PM or SOS is held.
func (f *Filter) beginString(dst []byte, kind byte) []byte {
	dst = f.canonical(dst)
	f.state, f.kind, f.fate = inString, kind, undecided
	if len(f.hold) > maxCutOff { // its own beginning must have room
		dst = f.restart(dst)
		f.hold = append(f.hold, esc, kind)
	}
	f.body = len(f.hold)
	return dst
}

// inStringSpecial are the bytes that may end a string, or must not be in it.
var inStringSpecial = [256]bool{enq: true, bel: true, so: true, can: true, sub: true, esc: true, utf8C1: true}

func (f *Filter) string(dst, p []byte) ([]byte, []byte) {
	n := 0
	for n < len(p) && !inStringSpecial[p[n]] {
		n++
	}
	dst = f.content(dst, p[:n])
	if n == len(p) {
		return dst, nil
	}
	c := p[n]
	switch {
	case c == enq:
		// nothing
	case c == esc || c == utf8C1:
		f.state, f.lead = inStringEnd, c
	case c == so: // some strings are none to some terminals
		f.led.setShift()
		dst = f.content(dst, p[n:n+1])
	case c == bel && f.kind != ']': // ends only an OSC
		dst = f.content(dst, p[n:n+1])
	case c == bel:
		dst = f.endString(dst, "\a")
	default: // CAN and SUB: some terminals act on what came before them
		dst = f.endString(dst, string(rune(c)))
	}
	return dst, p[n+1:]
}

// stringEnd has lead and the byte after it.
func (f *Filter) stringEnd(dst, p []byte) ([]byte, []byte) {
	c := p[0]
	switch {
	case f.lead == esc && c == '\\':
		return f.endString(dst, st), p[1:]
	case f.lead == esc: // cut off by another sequence
		dst = f.endString(dst, "")
		f.hold = append(f.hold, esc)
		f.state = inEscape
		return dst, p
	case c == 0x9c:
		return f.endString(dst, st), p[1:]
	case c == 0x90 || c == 0x98 || c == 0x9b || c >= 0x9d && c <= 0x9f:
		dst = f.endString(dst, "")
		return f.c1(dst, c), p[1:]
	case c == 0x9a: // DECID, for terminals in which it ends the string
		f.state = inString
		return dst, p[1:]
	}
	f.state = inString
	return f.content(dst, []byte{utf8C1}), p
}

// content takes a piece of the body.
func (f *Filter) content(dst, b []byte) []byte {
	if f.fate == undecided {
		n := min(len(b), maxHold-len(f.hold))
		f.hold = append(f.hold, b[:n]...)
		b = b[n:]
		if len(b) == 0 {
			return dst
		}
		dst = f.decideLong(dst)
	}
	if f.fate == passing {
		dst = append(dst, b...)
	}
	return dst
}

// decideLong is for a string of which maxHold bytes are known.
func (f *Filter) decideLong(dst []byte) []byte {
	body := f.stringBody()
	f.fate = passing
	switch {
	case f.kind != ']':
		if f.asksString(body) != noQuestion {
			f.fate = dropping
		}
	case longOSC(body):
		f.noteHeld(body)
	default:
		f.fate = dropping
	}
	if f.fate == dropping {
		return f.remove(dst, f.hold)
	}
	dst = append(dst, f.hold...)
	f.open = false
	f.hold = f.hold[:0]
	return dst
}

// longOSC: whether an OSC that goes on after body can be no question. For
// colours that is not known before the end, so 4 KiB of them are too many.
func longOSC(body []byte) bool {
	number, rest := splitOSC(body)
	switch {
	case number == 52:
		_, data, ok := bytes.Cut(rest, []byte{';'})
		return ok && (len(data) == 0 || data[0] != '?')
	case number == 99 || number == 5522:
		meta, _, ok := bytes.Cut(rest, []byte{';'})
		return ok && !asksMeta(number, meta)
	case number == 4, number == 5, number >= 10 && number <= 19, number == 21, number == 7501:
		return false
	}
	return asksOSC(body) == noQuestion
}

// endString decides on a whole string. Without a terminator (another sequence
// cut it off) the terminal is left in it until that other one comes.
func (f *Filter) endString(dst []byte, terminator string) []byte {
	switch f.fate {
	case undecided:
		dst = f.whole(dst, terminator)
	case passing:
		dst = append(dst, terminator...)
		f.open = terminator == ""
	}
	f.ground0()
	return dst
}

func (f *Filter) whole(dst []byte, terminator string) []byte {
	body := f.stringBody()
	if f.kind == ']' && asksColour(body) {
		return f.colours(dst, body, terminator)
	}
	switch f.asksString(body) {
	case answered:
		return f.remove(dst, f.hold)
	case notAnswered:
		f.unanswered(append(bytes.Clone(f.hold[f.at:]), terminator...))
		return f.remove(dst, f.hold)
	}
	if f.kind == ']' {
		f.noteHeld(body)
	}
	dst = append(dst, f.hold...)
	dst = append(dst, terminator...)
	f.open = terminator == ""
	return dst
}

// stringBody is the held body without controls, which terminals ignore there.
func (f *Filter) stringBody() []byte {
	body := f.hold[f.body:]
	for _, c := range body {
		if c < 0x20 || c == del {
			return f.strip(body, 0x100)
		}
	}
	return body
}

// asksString knows the strings that make a terminal answer, and agent state,
// which is for the server only.
func (f *Filter) asksString(body []byte) question {
	switch f.kind {
	case ']':
		return asksOSC(body)
	case 'P':
		return asksDCS(body)
	case '_':
		return when(asksGraphics(body), answered)
	}
	return noQuestion
}

// asksDCS: DECRQSS is DCS $ q, XTGETTCAP is DCS + q.
func asksDCS(body []byte) question {
	i := 0
	for i < len(body) && (isDigit(body[i]) || body[i] == ';') {
		i++
	}
	rest := body[i:]
	return when(bytes.HasPrefix(rest, []byte("$q")) || bytes.HasPrefix(rest, []byte("+q")), answered)
}

// asksGraphics: APC G, keys separated by commas, the payload after ';'. a=q is
// the query action (kitty graphics protocol).
func asksGraphics(body []byte) bool {
	if len(body) == 0 || body[0] != 'G' {
		return false
	}
	keys, _, _ := bytes.Cut(body[1:], []byte{';'})
	for len(keys) > 0 {
		var key []byte
		key, keys, _ = bytes.Cut(keys, []byte{','})
		if string(bytes.TrimSpace(key)) == "a=q" {
			return true
		}
	}
	return false
}

// splitOSC returns the number of an OSC, or -1, and what comes after its ';'.
func splitOSC(body []byte) (int, []byte) {
	i := 0
	for i < len(body) && isDigit(body[i]) {
		i++
	}
	if i == 0 || i < len(body) && body[i] != ';' {
		return -1, nil
	}
	return firstParam(body[:i]), body[min(i+1, len(body)):]
}

// asksColour: OSC 4, 5 and 10..19 may set and ask in one.
func asksColour(body []byte) bool {
	number, rest := splitOSC(body)
	return (number == 4 || number == 5 || number >= 10 && number <= 19) && bytes.IndexByte(rest, '?') >= 0
}

func asksOSC(body []byte) question {
	number, rest := splitOSC(body)
	switch number {
	case -1:
		return noQuestion
	case 0, 1, 2, 7, 8, 9, 66, 133, 633, 777: // texts: a "?" in them is just that
		return noQuestion
	case 7501:
		return answered
	case 52:
		_, data, _ := bytes.Cut(rest, []byte{';'})
		return when(len(data) > 0 && data[0] == '?', answered)
	case 21: // kitty: key=? among others
		return when(bytes.Contains(rest, []byte("=?")), notAnswered)
	case 60, 61: // XTQALLOWED, XTQDISALLOWED
		return notAnswered
	case 99, 5522:
		meta, _, _ := bytes.Cut(rest, []byte{';'})
		return when(asksMeta(number, meta), notAnswered)
	case 1337:
		return asksITerm(rest)
	}
	return when(len(rest) > 0 && rest[0] == '?', notAnswered)
}

// asksMeta looks at the colon separated keys of kitty's notifications (99) and
// clipboard (5522).
func asksMeta(number int, meta []byte) bool {
	want := "p=?"
	if number == 5522 {
		want = "type=read"
	}
	for len(meta) > 0 {
		var key []byte
		key, meta, _ = bytes.Cut(meta, []byte{':'})
		if string(bytes.TrimSpace(key)) == want {
			return true
		}
	}
	return false
}

// asksITerm: iTerm2's reports, and its way to erase the scrollback.
func asksITerm(rest []byte) question {
	switch name, _, _ := bytes.Cut(rest, []byte{'='}); string(name) {
	case "ReportCellSize", "ReportVariable", "Capabilities":
		return notAnswered
	case "ClearScrollback":
		return answered
	}
	return noQuestion
}

// colours writes the sets of a colour string anew, each by itself, and leaves
// out the questions.
func (f *Filter) colours(dst, body []byte, terminator string) []byte {
	number, rest := splitOSC(body)
	if number == 5 || number > 12 {
		f.unanswered(append(bytes.Clone(f.hold[f.at:]), terminator...))
	}
	dst = f.remove(dst, f.hold)
	if terminator == "" {
		terminator = st
	}
	for i := 0; len(rest) > 0; i++ {
		var index, value []byte
		if number < 10 {
			index, rest, _ = bytes.Cut(rest, []byte{';'})
		}
		value, rest, _ = bytes.Cut(rest, []byte{';'})
		if len(value) == 0 || bytes.IndexByte(value, '?') >= 0 || bytes.IndexByte(index, '?') >= 0 {
			continue
		}
		dst = append(dst, esc, ']')
		set := len(dst)
		if number < 10 {
			dst = strconv.AppendInt(dst, int64(number), 10)
			dst = append(append(dst, ';'), index...)
		} else {
			dst = strconv.AppendInt(dst, int64(number+i), 10)
		}
		dst = append(append(dst, ';'), value...)
		f.noteOSC(dst[set:])
		dst = append(dst, terminator...)
	}
	return dst
}

// noteHeld is noteOSC for the held string, of which body is what is left
// without controls. Where there are any, terminals disagree on what it says, and
// nothing is taken as switched off.
func (f *Filter) noteHeld(body []byte) {
	raw := f.hold[f.body:]
	if len(raw) == len(body) {
		f.noteOSC(body)
		return
	}
	before := f.led
	f.noteOSC(body)
	f.noteOSC(raw)
	f.led.keepStrings(&before)
}

// noteOSC writes an OSC that passes into the books.
func (f *Filter) noteOSC(body []byte) {
	l := &f.led
	number, rest := splitOSC(body)
	switch {
	case number >= 0 && number <= 2:
		l.title = true
	case number == 4:
		l.palette = true
	case number == 5:
		l.special = true
	case number == 8: // params ; URI
		_, uri, _ := bytes.Cut(rest, []byte{';'})
		l.link = len(uri) > 0
	case number == 9 && bytes.HasPrefix(rest, []byte("4;")):
		l.progress = !bytes.HasPrefix(rest, []byte("4;0"))
	case number >= 10 && number <= 19:
		f.noteDynamic(number, rest)
	case number == 21:
		l.kittyColours = true
	case number == 22:
		l.pointer = len(rest) > 0 && string(rest) != "default"
	case number == 104 && len(rest) == 0:
		l.palette = false
	case number == 105 && len(rest) == 0:
		l.special = false
	case number >= 110 && number <= 119:
		l.dynamic &^= 1 << (number - 110)
	}
}

// noteDynamic: OSC 10 ; a ; b sets 10 and 11.
func (f *Filter) noteDynamic(number int, rest []byte) {
	for n := number; n <= 19; n++ {
		f.led.dynamic |= 1 << (n - 10)
		_, after, more := bytes.Cut(rest, []byte{';'})
		if !more {
			return
		}
		rest = after
	}
}

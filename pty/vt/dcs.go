package vt

import (
	"encoding/hex"
	"strings"
)

// dcsDispatch answers the device control strings that ask: DECRQSS (VT510) and
// XTGETTCAP (xterm). All others were swallowed.
func (t *Terminal) dcsDispatch() {
	s := &t.ps
	defer func() {
		if cap(s.str) > keepString {
			s.str = nil
		}
	}()
	if s.overflow {
		return
	}
	if s.header[0] == '$' {
		t.settingReport(string(s.str))
		return
	}
	t.capabilityReport(string(s.str))
}

// settingReport is DECRPSS; 1 means valid, as in xterm.
func (t *Terminal) settingReport(what string) {
	var v string
	switch what {
	case "m":
		v = t.penReport() + "m"
	case "r":
		v = concat(t.top+1, ";", t.bot+1, "r")
	case " q":
		v = concat(int(t.cursorStyle), " q")
	case `"q`:
		v = "0\"q"
		if t.pen.Attrs&Protected != 0 {
			v = "1\"q"
		}
	case `"p`:
		v = "62;1\"p"
	default:
		t.reply("\x1bP0$r\x1b\\")
		return
	}
	t.reply("\x1bP1$r" + v + "\x1b\\")
}

func (t *Terminal) penReport() string {
	sgr := string(appendSGR(nil, Style{}, t.pen))
	sgr = strings.TrimSuffix(strings.TrimPrefix(sgr, "\x1b["), "m")
	if sgr == "" {
		return "0"
	}
	return "0;" + sgr
}

// maxCapabilities bounds the names that one XTGETTCAP may ask for.
const maxCapabilities = 32

// capabilityReport answers each name by itself, as xterm does.
func (t *Terminal) capabilityReport(names string) {
	for i, h := range strings.Split(names, ";") {
		if i == maxCapabilities || len(h) > 64 {
			return
		}
		name, err := hex.DecodeString(h)
		if err != nil || len(name) == 0 {
			continue
		}
		v, ok := capability(string(name))
		if !ok {
			t.reply("\x1bP0+r" + h + "\x1b\\")
			continue
		}
		t.reply("\x1bP1+r" + h + "=" + strings.ToUpper(hex.EncodeToString([]byte(v))) + "\x1b\\")
	}
}

func capability(name string) (string, bool) {
	switch name {
	case "TN", "name":
		return "xterm-256color", true
	case "Co", "colors":
		return "256", true
	case "RGB":
		return "8", true
	}
	return "", false
}

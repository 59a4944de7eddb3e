package server

import (
	"strconv"
	"strings"

	"agentmux/pty/vt"
)

// parseColor reads a colour as terminals answer OSC 10 and 11: "rgb:" and one
// to four hexadecimal digits for each of red, green and blue (XParseColor(3)).
// The zero Color, not known, is returned for anything else.
func parseColor(text string) vt.Color {
	digits, ok := strings.CutPrefix(text, "rgb:")
	parts := strings.Split(digits, "/")
	if !ok || len(parts) != 3 {
		return vt.Color(0)
	}
	var rgb [3]uint8
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 16, 16)
		if err != nil || len(part) == 0 || len(part) > 4 {
			return vt.Color(0)
		}
		top := uint64(1)<<(4*len(part)) - 1
		rgb[i] = uint8(v * 255 / top)
	}
	return vt.RGB(rgb[0], rgb[1], rgb[2])
}

package vt

import "github.com/clipperhouse/displaywidth"

// StringWidth returns the number of columns that a text without control
// characters takes on a terminal, by the same tables as the screen.
func StringWidth(s string) int { return displaywidth.String(s) }

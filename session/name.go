package session

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxNameLength is the longest session name, in characters.
const MaxNameLength = 64

// CheckName reports why a name cannot be taken, as an error that wraps
// ErrInvalidName and shows the name escaped. Letters and digits of any script
// are allowed, and . _ - + @ after the first character: nothing that a shell,
// a path, the HOST:NAME form or a terminal gives a meaning of its own.
func CheckName(name string) error {
	if why := nameProblem(name); why != "" {
		return fmt.Errorf("%w %s: %s", ErrInvalidName, quoteName(name), why)
	}
	return nil
}

func nameProblem(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case !utf8.ValidString(name):
		return "it is not UTF-8"
	case utf8.RuneCountInString(name) > MaxNameLength:
		return fmt.Sprintf("it is longer than %d characters", MaxNameLength)
	case strings.HasPrefix(name, "-"):
		return "it begins with a dash, like an option"
	case strings.HasPrefix(name, "."):
		return "it begins with a dot"
	}
	if _, err := ParseID(name); err == nil {
		return "it has the form of a session id"
	}
	for i, r := range name {
		if !nameRune(r, i == 0) {
			return fmt.Sprintf("%q is not allowed in it (letters, digits and . _ - + @ are)", r)
		}
	}
	return ""
}

func nameRune(r rune, first bool) bool {
	if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
		return true
	}
	if first {
		return false
	}
	return unicode.IsMark(r) || strings.ContainsRune(".-+@", r)
}

// quoteName shows any bytes on one short line of printable characters.
func quoteName(name string) string {
	const limit = 80
	if len(name) > limit {
		return fmt.Sprintf("%+q… (%d bytes)", name[:limit], len(name))
	}
	return fmt.Sprintf("%+q", name)
}

// MakeName makes a name for a session that the user did not name: the base of
// its directory and the program, as "repo-claude", with "-2", "-3" … appended
// until taken says no.
func MakeName(dir, program string, taken func(string) bool) string {
	base := cleanName(filepath.Base(dir)) + "-" + cleanName(filepath.Base(program))
	base = strings.Trim(base, "-")
	if nameProblem(base) != "" {
		base = "session"
	}
	name := base
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// cleanName keeps what a name may hold and shortens it, leaving room for the
// other half and a number.
func cleanName(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n == 24 {
			break
		}
		if !utf8.ValidRune(r) || r == utf8.RuneError || !nameRune(r, n == 0) {
			if n == 0 {
				continue
			}
			r = '-'
		}
		b.WriteRune(r)
		n++
	}
	return strings.Trim(b.String(), "-.+@")
}

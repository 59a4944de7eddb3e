package session

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes any text safe for a terminal and for one line: what is not
// printable is shown as Go would escape it, so that nothing an agent, a
// repository or a file says can act on the reader's terminal.
func Printable(s string) string {
	if !strings.ContainsFunc(s, unsafeRune) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x` + strconv.FormatUint(uint64(s[0])|0x100, 16)[1:])
		} else if unsafeRune(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
		s = s[n:]
	}
	return b.String()
}

// unsafeRune reports what must not reach a terminal as it is: controls, and
// what changes the direction or the place of other text.
func unsafeRune(r rune) bool { return !unicode.IsPrint(r) }

// Quote shows a command line as a shell would read it, on one printable line.
func Quote(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = quoteWord(arg)
	}
	return strings.Join(words, " ")
}

func quoteWord(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("@%+=:,./_-", r)
	}
	if s != "" && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	if p := Printable(s); p == s && !strings.Contains(s, `\`) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return "$'" + strings.ReplaceAll(Printable(strings.ReplaceAll(s, `\`, `\\`)), "'", `\'`) + "'"
}

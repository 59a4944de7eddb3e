// Package tty is the user's own terminal as the attach client sees it.
//
// It has four parts, of which only the first does I/O:
//
//   - [Terminal]: raw mode and its exact restore, size, reads and writes that
//     can be given up.
//   - [Keys]: what the terminal sends, cut into keys, mouse and focus reports,
//     answers, pastes and the detach key.
//   - [Filter]: what may reach the terminal. Questions are taken out, because
//     the server is the only responder: an answer given by the user's terminal
//     would come too late, twice, or to the shell after detach. What a program
//     switches on is written down, so that [Filter.Leave] can switch off just
//     that.
//   - [Prober]: one batch of questions of our own at attach.
//
// The package never keeps a screen, never talks to the server, never puts
// O_NONBLOCK on a descriptor that the user's shell shares, and never erases
// the user's scrollback.
//
// Sources named in comments: "ctlseqs" is XTerm Control Sequences by Moy,
// Gildea and Dickey; "kitty keyboard" is the keyboard protocol at
// sw.kovidgoyal.net/kitty/keyboard-protocol; ECMA-48 is the fifth edition.
package tty

// Control characters of ECMA-48 and of ASCII that have a meaning here.
const (
	nul = 0x00
	enq = 0x05
	bel = 0x07
	so  = 0x0e
	si  = 0x0f
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
	// utf8C1 is the first byte of U+0080..U+009F, the C1 controls, in UTF-8.
	// xterm obeys them there; alone, 0x80..0x9f are pieces of characters.
	utf8C1 = 0xc2
)

const st = "\x1b\\"

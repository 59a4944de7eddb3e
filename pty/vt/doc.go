// Package vt is a terminal emulator without a terminal: bytes in, state out.
//
// A [Terminal] parses what a program writes to its terminal and keeps what a
// real terminal would show: both screen buffers, scrollback, cursor, pen,
// scroll region, tab stops, character sets, modes, keyboard protocol stacks,
// titles, palette, links. From that it can
//
//   - hand out the lines of the screen and of history ([Terminal.Lines],
//     [Terminal.History]),
//   - serialise itself into bytes that bring any other terminal to the same
//     state ([Terminal.Snapshot], [Terminal.Pending]),
//   - answer the questions that programs ask ([Options.Reply]),
//   - tell what happens beside the screen: bells, titles, notifications,
//     clipboard writes, prompt marks, agent state ([Options.Event]).
//
// It does no I/O, has no clock, starts no goroutine and keeps no global state.
// Input is hostile: any bytes are accepted, every table, string, counter and
// size is bounded, and no sequence costs more than a screen's worth of work.
//
// # Units
//
// Columns and rows count cells from 0; sizes are clamped to 1..1000. Strings of
// control sequences are counted in bytes. A cell holds one grapheme cluster
// (UAX #29) of at most 64 bytes and is one or two columns wide.
//
// # Goroutines
//
// A Terminal belongs to one goroutine at a time. Callbacks run on the goroutine
// that calls Write or Resize and must not call back into the Terminal, except
// for its accessors. Values that the accessors return are copies and may be used
// anywhere, unless their comment says otherwise.
//
// # Sources
//
// Comments name where a sequence is defined: ECMA-48 (5th edition), DEC STD 070
// and the VT510 manual (DEC), "XTerm Control Sequences" (xterm), the kitty
// protocol documents (kitty), and the contour and iTerm2 extension pages. Where
// these leave a choice the majority of xterm.js, tmux and ghostty decides, for
// those are what a snapshot is played into. Deliberate differences: SS2, SS3 and
// DECST8C work as DEC says, mouse encoding 1015 is kept although few have it,
// the line of the cursor is re-wrapped like any other when the width changes,
// and C1 controls in UTF-8 do nothing.
//
// # What it is not
//
// There is no DECLRMM (left and right margins), no rectangle operations, no
// XTSAVE, no in-band size report, and no picture is kept: sixel and kitty
// graphics are swallowed. Widths and cluster breaks come from displaywidth and
// uax29; where a reader has other tables a cell of such a character is off there.
package vt

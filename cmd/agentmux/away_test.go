//go:build linux

package main

import (
	"strings"
	"testing"
)

// TestOS03NoticedWhileAway: what rang while nobody was attached is told once, on
// one line, at the next attach, and rings no more.
func TestOS03NoticedWhileAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", "sh", "-c", `printf 'FIRST ROW\r\n'; printf '\a\033]777;notify;Agent;needs you\a'; printf READY; stty -echo; cat >/dev/null`)
	w.ok("wait", "--until", "text=READY", "a")

	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("while you were away: it said: Agent needs you; 1 bell(s)")
	tm.sees("FIRST ROW")
	if got := tm.text(); strings.Contains(got, "]777;") || strings.Contains(strings.ReplaceAll(got, "\x1b]0;", ""), "\a") {
		t.Errorf("it rang again: %q", got)
	}
	tm.typed("x")
	eventually(t, "a key takes the line away", func() bool { return !strings.Contains(tm.picture(), "while you were away") })
	eventually(t, "the screen is the session's", func() bool {
		return strings.HasPrefix(tm.picture(), w.screen("a")) && strings.Contains(tm.picture(), "cursor 5,1 visible true")
	})
	tm.detach()

	again := w.terminal(80, 24)
	again.attach("a")
	again.sees("FIRST ROW")
	again.settled()
	if strings.Contains(again.text(), "while you were away") {
		t.Error("told twice")
	}
	again.detach()
	again.clean()
}

// TestTQ13OnlyATerminalCanAnswer: a question that the server cannot answer goes
// to the terminal of the one who typed last, and to no other, and only its
// answer reaches the program.
func TestTQ13OnlyATerminalCanAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := w.startProbe("a", "-mirror")
	first, second := w.terminal(80, 24), w.terminal(80, 24)
	first.attach("a")
	second.attach("a")
	second.attached("a", 2)
	second.typed("x")
	first.sees("x")
	eventually(t, "the key arrives", func() bool { return string(readProbe(t, log).input) == "x" })

	const question, answer = "\x1b]19;?\a", "\x1b]19;rgb:11/22/33\x1b\\"
	w.ok("send", "a", question) // the program says it back
	second.expect(question)
	second.typed(answer)
	eventually(t, "the answer arrives", func() bool { return strings.Contains(string(readProbe(t, log).input), answer) })
	if strings.Contains(first.text(), question) {
		t.Error("the other terminal was asked too")
	}
	first.typed(answer)
	first.typed("y")
	eventually(t, "the key arrives", func() bool { return strings.HasSuffix(string(readProbe(t, log).input), "y") })
	if got := string(readProbe(t, log).input); strings.Count(got, answer) != 1 {
		t.Errorf("the program got %q", got)
	}
	first.detach()
	second.detach()
}

//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/term"

	"agentmux/pty/tty"
	"agentmux/pty/vt"
)

// Exactly one responder: the server's screen answers, so what reaches the
// user's terminal must hold no question.

// asked questions, with who answers them when the profile of the terminal is
// known.
const (
	byServer = iota
	byClient // handed out by Filter.Questions
	byNobody // removed, and no answer is the answer
)

var everyQuestion = []struct {
	ask string
	by  int
}{
	{"\x1b[c", byServer}, {"\x1b[0c", byServer}, {"\x1bZ", byServer}, {"\x1b[>c", byServer}, {"\x1b[>0c", byServer}, {"\x1b[=c", byServer},
	{"\x1b[5n", byServer}, {"\x1b[6n", byServer}, {"\x1b[?6n", byServer}, {"\x1b[?996n", byServer},
	{"\x1b[>q", byServer}, {"\x1b[>0q", byServer},
	{"\x1b[?2026$p", byServer}, {"\x1b[?1016$p", byServer}, {"\x1b[?9999$p", byServer}, {"\x1b[4$p", byServer}, {"\x1b[?2048$p", byServer},
	{"\x1b[?u", byServer}, {"\x1b[?4m", byServer},
	{"\x1b[14t", byServer}, {"\x1b[16t", byServer}, {"\x1b[18t", byServer},
	{"\x1b]4;1;?\a", byServer}, {"\x1b]4;1;?;2;?\x1b\\", byServer}, {"\x1b]10;?\a", byServer}, {"\x1b]11;?\x1b\\", byServer}, {"\x1b]12;?\a", byServer},
	{"\x1b]10;?;?;?\a", byServer}, {"\x1b]7501;?\a", byServer}, {"\x1b]7501;?\x1b\\", byServer},
	{"\x1bP$qm\x1b\\", byServer}, {"\x1bP$q q\x1b\\", byServer}, {"\x1bP$qr\x1b\\", byServer}, {"\x1bP$qzz\x1b\\", byServer},
	{"\x1bP+q544e\x1b\\", byServer}, {"\x1bP+q544e;436f\x1b\\", byServer},

	{"\x1b]5;1;?\a", byClient}, {"\x1b]13;?\a", byClient}, {"\x1b]17;?\a", byClient}, {"\x1b]21;foreground=?\x1b\\", byClient},
	{"\x1b]60\a", byClient}, {"\x1b]61;\a", byClient}, {"\x1b]99;i=1:p=?;\x1b\\", byClient}, {"\x1b]5522;type=read;\x1b\\", byClient},
	{"\x1b]1337;ReportCellSize\a", byClient}, {"\x1b]1337;Capabilities\a", byClient}, {"\x1b]22;?__current__\a", byClient},
	{"\x1b[?1;1;0S", byClient}, {"\x1b[?1g", byClient}, {"\x1b[1$w", byClient}, {"\x1b[> q", byClient},
	{"\x1b[\"v", byClient}, {"\x1b[&u", byClient},

	// Window places and titles: a program must not read those of the user's
	// window. Checksums of screen contents, likewise. The terminal's name in the
	// form of the VT100 (DECREQTPARM) is asked by nobody but vttest.
	{"\x1b[11t", byNobody}, {"\x1b[13t", byNobody}, {"\x1b[19t", byNobody}, {"\x1b[20t", byNobody}, {"\x1b[21t", byNobody},
	{"\x1b[1;1;1;1;1;1*y", byNobody}, {"\x1b[x", byNobody}, {"\x05", byNobody}, {"\x1b]52;c;?\a", byNobody},
	{"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\", byNobody}, {"\x1b[>4;?m", byNobody},
	{"\xc2\x9bc", byNobody}, {"\xc2\x9d11;?\a", byNobody}, // C1 controls do nothing to our screen
}

// answeringScreen is a terminal that answers all that ours can, as the one of
// a user would who has the same.
func answeringScreen(replies *[]string) *vt.Terminal {
	s := vt.New(80, 24, vt.Options{Reply: func(p []byte) { *replies = append(*replies, string(p)) }})
	s.SetProfile(vt.Profile{
		Name: "TestTerm", Foreground: vt.RGB(1, 2, 3), Background: vt.RGB(4, 5, 6), Cursor: vt.RGB(7, 8, 9),
		Palette:   [16]vt.Color{1: vt.RGB(1, 1, 1), 2: vt.RGB(2, 2, 2)},
		CellWidth: 9, CellHeight: 18, KittyKeyboard: true,
	})
	return s
}

// answersTo is what the server's screen says to a stream.
func answersTo(stream string) (replies []string) {
	answeringScreen(&replies).Write([]byte(stream))
	return replies
}

// filtered is what a user's terminal gets of a stream that came in pieces, and
// the questions that its client may pass on.
func filtered(pieces ...string) (string, [][]byte) {
	f := tty.NewFilter()
	var out []byte
	for _, p := range pieces {
		out = f.Filter(out, []byte(p))
	}
	return string(out), f.Questions()
}

func TestEveryQuestionHasOneResponder(t *testing.T) {
	for _, q := range everyQuestion {
		replies := answersTo("ab\r\n" + q.ask + "c")
		out, passed := filtered("ab\r\n" + q.ask + "c")
		if out != "ab\r\nc" {
			t.Errorf("%q reaches the terminal: %q", q.ask, out)
		}
		got := byNobody
		switch {
		case len(replies) > 0 && len(passed) > 0:
			t.Errorf("%q is answered %q, and passed on too", q.ask, replies)
		case len(replies) > 0:
			got = byServer
		case len(passed) > 0:
			got = byClient
		}
		if got != q.by {
			t.Errorf("%q: responder %d, want %d (answers %q, passed on %q)", q.ask, got, q.by, replies, passed)
		}
	}
}

// questionPieces are what the streams of the property test are made of:
// questions, the pieces that they and other sequences are made of, and what
// stands between.
func questionPieces() []string {
	pieces := []string{
		"\x1b", "[", "]", "P", "_", "^", "X", "\\", "\a", "\x1b\\", "\x18", "\x1a", "\x05", "\x0e", "\x0f", "\x00", "\x7f", "\n", "\r", "\b",
		"\xc2", "\x9b", "\x9d", "\x90", "\x9c", "\xc2\x9c", "\xc2\x9b", "\xc2\x9d", "\xc2\x90", "\xc2\x9a", "\x9a", "\xe2\x82", "\xff", "\u4e2d", "a", " ",
		"c", "n", "q", "u", "t", "p", "m", "x", "y", "Z", "$", "*", "+", "!", "\"", "'", "#", " q", "?", ">", "=", "<", ";", ":", ";;",
		"0", "1", "5", "6", "10", "11", "14", "16", "18", "996", "2026", "7501", "52", "65536", "99999999999999999999", "0006", "4;?",
		"\x1b[", "\x1b[?", "\x1b[>", "\x1b[=", "\x1b]", "\x1b]11;", "\x1b]4;1;", "\x1b]10;", "\x1b]7501;", "\x1bP", "\x1bP$q", "\x1bP+q", "\x1bP1$", "\x1b_G", "\x1b_",
		"\x1b[?1049h", "\x1b[?1049l", "\x1bc", "\x1b[!p", "\x1b7", "\x1b8", "\x1b[?6h", "\x1b[2;4r", "\x1b(0", "\x1b(B", "\x1b%@", "\x1b%G", "\x1b G", "\x1b F",
		"\x1b[?2h", "\x1b[?2048h", "\x1b]11;#123456\a", "\x1b]4;1;rgb:1/2/3;2;?\a", "\x1b]10;red;?\a", "\x1b]0;what?\a", "\x1b]8;;http://x/?\x1b\\", "\x1b]52;c;YQ==\a",
		strings.Repeat("1;", 40), strings.Repeat("x", 300), "\x1b]0;" + strings.Repeat("t", 5000),
	}
	for _, q := range everyQuestion {
		pieces = append(pieces, q.ask)
	}
	return pieces
}

// TestNoTerminalAnswersTwice: whatever a program prints, and however it is cut,
// a terminal that answers what ours answers gets no question of it.
func TestNoTerminalAnswersTwice(t *testing.T) {
	check := func(what string, pieces ...string) {
		t.Helper()
		out, _ := filtered(pieces...)
		if again := answersTo(out); len(again) > 0 {
			t.Fatalf("%s: %q\nbecomes %q,\nwhich is answered by %q", what, pieces, out, again)
		}
	}
	const before, behind = "x\x1b[31", "m\x1b]0;t"
	for _, q := range everyQuestion {
		for _, s := range []string{q.ask, before + q.ask, q.ask + behind, before + q.ask + behind + q.ask} {
			check("whole", s)
			check("in bytes", strings.Split(s, "")...)
			for i := range s {
				check("cut in two", s[:i], s[i:])
			}
		}
		// Controls within, and a sequence that was cut off before.
		for i := 1; i < len(q.ask); i++ {
			for _, c := range []string{"\x00", "\x05", "\n", "\x7f", "\x18", "\x1b", "\xc2", "\x1b[", "\x1b]0;"} {
				check("with a control", q.ask[:i]+c+q.ask[i:]+q.ask)
			}
		}
	}
	pieces := questionPieces()
	answered := 0
	streams := 20000
	if raceEnabled || testing.Short() {
		streams = 4000
	}
	for seed := range streams {
		r := rand.New(rand.NewPCG(uint64(seed), 21))
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		s := b.String()
		if len(answersTo(s)) > 0 {
			answered++
		}
		var cut []string
		for rest := s; rest != ""; {
			n := 1 + r.IntN(len(rest))
			cut, rest = append(cut, rest[:n]), rest[n:]
		}
		check(fmt.Sprintf("seed %d, whole", seed), s)
		check(fmt.Sprintf("seed %d, cut", seed), cut...)
		if r.IntN(8) == 0 {
			check(fmt.Sprintf("seed %d, in bytes", seed), strings.Split(s, "")...)
		}
	}
	if answered < streams/2 {
		t.Errorf("of %d streams only %d ask anything", streams, answered)
	}
}

// askerMain is a raw program that prints what it is told to and writes down
// what it reads, in the form of the probe:
//
//	@asker DIR
//
// It prints the contents of DIR/1, DIR/2 and so on when they appear, and then
// makes DIR/1.done.
func askerMain(args []string) int {
	f := flag.NewFlagSet("asker", flag.ExitOnError)
	f.Parse(args)
	dir := f.Arg(0)
	log := filepath.Join(dir, "log")
	term.MakeRaw(0)
	go func() {
		for n := 1; ; n++ {
			file := filepath.Join(dir, fmt.Sprint(n))
			for {
				if data, err := os.ReadFile(file); err == nil {
					os.Stdout.Write(data)
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			os.WriteFile(file+".done", nil, 0o600)
		}
	}()
	appendLine(log, "up")
	buf := make([]byte, 4096)
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			appendLine(log, "in %s", hex.EncodeToString(buf[:n]))
		}
		if err != nil {
			return forever()
		}
	}
}

// asker is a session with an askerMain in it.
type asker struct {
	w     *world
	name  string
	dir   string
	asked int
	want  string // all that the program was answered
}

func (w *world) asker(name string) *asker {
	w.t.Helper()
	a := &asker{w: w, name: name, dir: w.path("asker-" + name)}
	if err := os.Mkdir(a.dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	w.start(name, helper("asker", a.dir)...)
	w.probeUp(a.log())
	return a
}

func (a *asker) log() string { return filepath.Join(a.dir, "log") }

// print makes the program print a text, and waits until it has.
func (a *asker) print(text string) {
	a.w.t.Helper()
	a.asked++
	file := filepath.Join(a.dir, fmt.Sprint(a.asked))
	if err := os.WriteFile(file+".tmp", []byte(text), 0o600); err != nil {
		a.w.t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		a.w.t.Fatal(err)
	}
	eventually(a.w.t, "the program has printed it", func() bool {
		_, err := os.Stat(file + ".done")
		return err == nil
	})
}

// answers waits until the program got just these answers, since the last time.
func (a *asker) answers(want ...string) {
	a.w.t.Helper()
	a.want += strings.Join(want, "")
	a.w.received(a.log(), a.want)
}

// nothingMore asks one more question: answers come in order, so what was to be
// typed before is there when its answer is.
func (a *asker) nothingMore() {
	a.w.t.Helper()
	a.print("\x1b[24;80H\x1b[6n")
	a.answers("\x1b[24;80R")
}

// allQuestions are asked in one write, with the answers that are known without
// a terminal, and those that need to know one.
var allQuestions = []struct{ ask, answer, known string }{
	{"\x1b[c", "\x1b[?62;22c", ""},
	{"\x1b[>c", "\x1b[>1;10;0c", ""},
	{"\x1b[5n", "\x1b[0n", ""},
	{"\x1b[7;12H\x1b[6n", "\x1b[7;12R", ""},
	{"\x1b[>0q", "\x1bP>|agentmux\x1b\\", ""},
	{"\x1b[?2026$p", "\x1b[?2026;2$y", ""},
	{"\x1b[?u", "", "\x1b[?0u"},
	{"\x1b]11;?\x1b\\", "", "\x1b]11;rgb:1111/2222/3333\x1b\\"},
	{"\x1b]7501;?\a", "\x1b]7501;?\a", ""},
	{"\x1b[16t", "", "\x1b[6;18;9t"},
	{"wide \u4e2d\x1b[6n", "\x1b[7;19R", ""},
}

// everything is all questions as one text, and the answers.
func everything(known bool) (ask string, answers []string) {
	for _, q := range allQuestions {
		ask += q.ask
		if q.answer != "" {
			answers = append(answers, q.answer)
		} else if known {
			answers = append(answers, q.known)
		}
	}
	return ask, answers
}

// notAsked fails the test if a question has reached the terminal since the
// last mark.
func (tm *terminal) notAsked() {
	tm.t.Helper()
	tm.settled()
	if asked := newLedger().feed([]byte(tm.recent())); len(asked) > 0 {
		tm.t.Errorf("the terminal was asked %q", asked)
	}
}

// profileKnown waits until the server knows the terminal: it answers what only the
// terminal knows.
func (a *asker) profileKnown() {
	a.w.t.Helper()
	eventually(a.w.t, "the server knows the terminal", func() bool {
		before := len(readProbe(a.w.t, a.log()).input)
		a.print("\x1b[16t\x1b[5n")
		eventually(a.w.t, "an answer", func() bool { return bytes.HasSuffix(readProbe(a.w.t, a.log()).input[before:], []byte("\x1b[0n")) })
		got := readProbe(a.w.t, a.log()).input[before:]
		a.want += string(got)
		return string(got) == "\x1b[6;18;9t\x1b[0n"
	})
}

// Two, one and no terminals that would answer as well, coming and going: each
// question is answered once, in order, and with where the cursor is.
func TestTQOneResponder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.asker("q")
	once := func(known bool, watching ...*terminal) {
		t.Helper()
		for _, tm := range watching {
			tm.settled()
			tm.mark()
		}
		ask, answers := everything(known)
		a.print(ask)
		a.answers(answers...)
		for _, q := range allQuestions { // each by itself
			a.print("\x1b[7;12H" + q.ask)
			want := q.answer
			if want == "" && known {
				want = q.known
			}
			if strings.HasPrefix(q.ask, "wide") {
				want = "\x1b[7;19R"
			}
			a.answers(want)
		}
		a.nothingMore()
		for _, tm := range watching {
			tm.sees("wide")
			tm.notAsked()
		}
	}
	once(false)

	one := w.terminal(80, 24).answering(10 * time.Millisecond)
	one.attach("q")
	a.profileKnown()
	once(true, one)
	two := w.terminal(80, 24).answering(0)
	two.attach("q")
	once(true, one, two)
	for _, tm := range []*terminal{one, two} {
		tm.detach()
		tm.clean()
	}
	once(true)
	one.attach("q")
	once(true, one)
	one.detach()
	one.clean()
	a.nothingMore()
	stays(t, 300*time.Millisecond, "nothing is typed that was not asked for", func() bool {
		return string(readProbe(t, a.log()).input) == a.want
	})
}

// A server that is killed while it is asked: the next one answers what is
// still waited for, never a second time, and attached terminals stay silent.
func TestTQKilledServer(t *testing.T) {
	t.Parallel()
	for _, viewers := range []int{0, 1, 2} {
		t.Run(fmt.Sprint(viewers), func(t *testing.T) {
			w := newWorld(t)
			a := w.asker("q")
			var terminals []*terminal
			for range viewers {
				tm := w.terminal(80, 24).answering(5 * time.Millisecond)
				tm.attach("q")
				terminals = append(terminals, tm)
			}
			if viewers > 0 {
				a.profileKnown()
			}
			for _, tm := range terminals {
				tm.settled()
				tm.mark()
			}
			for round := range 4 {
				ask := fmt.Sprintf("\x1b[%d;5H\x1b[c\x1b[>c\x1b[6n", round+2)
				answer := fmt.Sprintf("\x1b[?62;22c\x1b[>1;10;0c\x1b[%d;5R", round+2)
				switch round % 3 {
				case 0: // asked, then killed
					pid := w.server()
					a.print(ask)
					syscall.Kill(pid, syscall.SIGKILL)
				case 1: // asked while there is none
					w.killServer()
					a.print(ask)
				case 2: // killed while the answer is on its way
					pid := w.server()
					kill := time.AfterFunc(time.Duration(round)*300*time.Microsecond, func() { syscall.Kill(pid, syscall.SIGKILL) })
					a.print(ask)
					kill.Stop()
				}
				eventually(t, "a server is back", func() bool { return w.server() != 0 && w.status("q").Attached == viewers })
				w.screen("q") // it follows the session at the live edge
				before := len(a.want)
				a.print("\x1b[24;80H\x1b[6n")
				eventually(t, "the last question is answered", func() bool {
					return bytes.HasSuffix(readProbe(t, a.log()).input[before:], []byte("\x1b[24;80R"))
				})
				got := string(readProbe(t, a.log()).input[before:])
				switch got {
				case answer + "\x1b[24;80R", "\x1b[24;80R":
				default:
					t.Fatalf("round %d: the program got %q", round, got)
				}
				a.want += got
			}
			for _, tm := range terminals {
				tm.notAsked()
				tm.detach()
				tm.clean()
			}
			a.nothingMore()
			stays(t, 300*time.Millisecond, "nothing is typed that was not asked for", func() bool {
				return string(readProbe(t, a.log()).input) == a.want
			})
		})
	}
}

// A server that slept for two seconds does not answer what was asked then: the
// program has stopped waiting.
func TestTQNotAnsweredLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.asker("q")
	tm := w.terminal(80, 24).answering(0)
	tm.attach("q")
	a.profileKnown()
	tm.settled()
	tm.mark()
	server := w.server()
	syscall.Kill(server, syscall.SIGSTOP)
	defer syscall.Kill(server, syscall.SIGCONT)
	eventually(t, "the server has stopped", func() bool { return processState(server) == 'T' })
	ask, _ := everything(true)
	a.print(ask)
	tm.sees("wide") // the screen does not need the server
	asked := time.Now()
	stays(t, 2*time.Second, "the program gets nothing", func() bool { return string(readProbe(t, a.log()).input) == a.want })
	if processState(server) != 'T' {
		t.Errorf("the server is in state %c, want stopped", processState(server))
	}
	if slept := time.Since(asked); slept < 2*time.Second {
		t.Errorf("it slept only %v", slept)
	}
	syscall.Kill(server, syscall.SIGCONT)
	a.print("\x1b[3;9H\x1b[6n")
	a.answers("\x1b[3;9R")
	tm.notAsked()
	tm.detach()
	tm.clean()
	a.nothingMore()
}

// A new server that reads a log full of old questions answers none of them.
func TestTQOldQuestionsAreNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.asker("q")
	ask, answers := everything(false)
	for range 50 {
		a.print(ask)
		a.answers(answers...)
	}
	for range 2 {
		w.killServer()
		eventually(t, "a server is back", func() bool { return w.server() != 0 && strings.Contains(w.screen("q"), "wide") })
		a.nothingMore()
	}
}

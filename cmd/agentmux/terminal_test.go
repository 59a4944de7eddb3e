//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentmux/pty/vt"
)

// detachKey is Ctrl-\, the default.
const detachKey = "\x1c"

// terminal is a scripted terminal: what a person has in front of them. One
// goroutine reads what is written to it, keeps the screen and the ledger, and
// answers questions if it was told to.
type terminal struct {
	t             testing.TB
	w             *world
	master, slave *os.File
	termios       unix.Termios // as found
	flags         int          // of the slave's open file, as found

	cmd       *exec.Cmd
	sentinels int // written by settled
	exited    chan struct{}

	mu      sync.Mutex
	changed *sync.Cond
	out     []byte // all that was written
	marked  int    // what came before is forgotten by expect
	screen  *vt.Terminal
	book    *ledger
	before  string // what the ledger said when the command was started
	paused  bool
	rate    int           // bytes a second, 0: at once
	answers bool          // to questions
	delay   time.Duration // of the answers
	closed  bool
	replies chan answer
}

// answer is what is said to a question, and when.
type answer struct {
	at   time.Time
	text string
}

// terminal makes a terminal of a size.
func (w *world) terminal(cols, rows int) *terminal {
	w.t.Helper()
	master, slave, err := openPTY()
	if err != nil {
		w.t.Fatal(err)
	}
	tm := &terminal{
		t: w.t, w: w, master: master, slave: slave, screen: vt.New(cols, rows, vt.Options{HistoryLines: 1000, HistoryBytes: 1 << 20}), book: newLedger(),
		replies: make(chan answer, 1024),
	}
	tm.changed = sync.NewCond(&tm.mu)
	if err := tm.setSize(cols, rows); err != nil {
		w.t.Fatal(err)
	}
	tm.termios, tm.flags = tm.settings()
	w.mu.Lock()
	w.terminals = append(w.terminals, tm)
	w.mu.Unlock()
	go tm.read()
	go tm.reply()
	return tm
}

// openPTY opens a pair. The master is in the poller, so that closing it ends a
// read; the slave is not, since that would change the flags of its open file.
func openPTY() (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	if err == nil {
		fd, err = unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, os.NewFile(uintptr(fd), name), nil
}

func (tm *terminal) setSize(cols, rows int) error {
	raw, err := tm.master.SyscallConn()
	if err != nil {
		return err
	}
	var sizeErr error
	err = raw.Control(func(fd uintptr) {
		sizeErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)})
	})
	return errors.Join(err, sizeErr)
}

// settings are the line settings and the flags of the open file that the
// command shares.
func (tm *terminal) settings() (unix.Termios, int) {
	tm.t.Helper()
	raw, err := tm.slave.SyscallConn()
	if err != nil {
		tm.t.Fatal(err)
	}
	var termios *unix.Termios
	var flags int
	raw.Control(func(fd uintptr) {
		if termios, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0)
		}
	})
	if err != nil {
		tm.t.Fatal(err)
	}
	return *termios, flags
}

// read takes in what is written, until the terminal is closed.
func (tm *terminal) read() {
	buf := make([]byte, 32<<10)
	for {
		tm.mu.Lock()
		for tm.paused && !tm.closed {
			tm.changed.Wait()
		}
		rate, closed := tm.rate, tm.closed
		tm.mu.Unlock()
		if closed {
			return
		}
		piece := buf
		if rate > 0 {
			piece = buf[:max(1, rate/50)]
			time.Sleep(time.Second / 50)
		}
		n, err := tm.master.Read(piece)
		tm.took(piece[:n])
		if err != nil && !os.IsTimeout(err) {
			return
		}
	}
}

func (tm *terminal) took(p []byte) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.out = append(tm.out, p...)
	for _, piece := range bytes.SplitAfter(p, []byte{0x1b}) { // so that CPR is asked where the cursor is
		tm.screen.Write(piece)
		for _, q := range tm.book.feed(piece) {
			if a := tm.answer(q); a != "" && tm.answers {
				tm.replies <- answer{time.Now().Add(tm.delay), a}
			}
		}
	}
}

// answer is what this terminal says to a question. tm.mu is held.
func (tm *terminal) answer(q string) string {
	cols, rows := tm.screen.Size()
	switch q {
	case "DA1":
		return "\x1b[?62;4;22c"
	case "DA2":
		return "\x1b[>1;10;0c"
	case "XTVERSION":
		return "\x1bP>|TestTerm 1.0\x1b\\"
	case "DSR":
		return "\x1b[0n"
	case "CPR":
		c := tm.screen.Cursor()
		return fmt.Sprintf("\x1b[%d;%dR", c.Y+1, c.X+1)
	case "OSC10":
		return "\x1b]10;rgb:cccc/dddd/eeee\x1b\\"
	case "OSC11":
		return "\x1b]11;rgb:1111/2222/3333\x1b\\"
	case "KITTY":
		return fmt.Sprintf("\x1b[?%su", tm.book.kitty[tm.book.active()].flags)
	case "CELL":
		return "\x1b[6;18;9t"
	case "AREA":
		return fmt.Sprintf("\x1b[8;%d;%dt", rows, cols)
	case "PIXELS":
		return fmt.Sprintf("\x1b[4;%d;%dt", rows*18, cols*9)
	case "DECRQM":
		return "\x1b[?2026;2$y"
	}
	return ""
}

// reply sends answers, in order and each in its time.
func (tm *terminal) reply() {
	for a := range tm.replies {
		time.Sleep(time.Until(a.at))
		tm.master.WriteString(a.text)
	}
}

// answering makes the terminal answer questions.
func (tm *terminal) answering(delay time.Duration) *terminal {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.answers, tm.delay = true, delay
	return tm
}

// show writes to the terminal as a shell before the command would.
func (tm *terminal) show(s string) {
	tm.took([]byte(s))
}

// run starts agentmux with the terminal as its controlling terminal.
func (tm *terminal) run(args ...string) {
	tm.t.Helper()
	tm.start(tm.w.command(args...))
}

func (tm *terminal) start(cmd *exec.Cmd) {
	tm.t.Helper()
	tm.mu.Lock()
	tm.before = tm.book.state()
	tm.mu.Unlock()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tm.slave, tm.slave, tm.slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		tm.t.Fatal(err)
	}
	exited := make(chan struct{})
	tm.cmd, tm.exited = cmd, exited
	go func() {
		cmd.Wait()
		close(exited)
	}()
}

// attach attaches to a session and waits until it is listed as attached and
// the terminal is raw.
func (tm *terminal) attach(args ...string) {
	tm.t.Helper()
	name := args[len(args)-1]
	before := tm.w.status(name).Attached
	tm.run(append([]string{"attach"}, args...)...)
	tm.attached(name, before+1)
}

// attached waits until a session has so many viewers and this terminal is raw.
func (tm *terminal) attached(name string, viewers int) {
	tm.t.Helper()
	eventually(tm.t, "attached to "+name, func() bool {
		select {
		case <-tm.exited:
			tm.t.Fatalf("the client ended: %q", shortened(tm.text()))
		default:
		}
		info, err := tm.w.find(name)
		return err == nil && info.Attached >= viewers && tm.raw()
	})
}

// raw reports whether the terminal is in raw mode.
func (tm *terminal) raw() bool {
	now, _ := tm.settings()
	return now.Lflag&unix.ICANON == 0
}

// typed types at the terminal.
func (tm *terminal) typed(s string) {
	tm.t.Helper()
	tm.master.SetWriteDeadline(time.Now().Add(patience))
	if _, err := tm.master.WriteString(s); err != nil {
		tm.t.Fatalf("type %q: %v", shortened(s), err)
	}
}

// resize changes the size of the window.
func (tm *terminal) resize(cols, rows int) {
	tm.t.Helper()
	tm.mu.Lock()
	tm.screen.Resize(cols, rows)
	tm.mu.Unlock()
	if err := tm.setSize(cols, rows); err != nil {
		tm.t.Fatal(err)
	}
}

// pause stops reading: the terminal stalls.
func (tm *terminal) pause() {
	tm.mu.Lock()
	tm.paused = true
	tm.mu.Unlock()
	tm.master.SetReadDeadline(time.Now())
}

func (tm *terminal) resume() {
	tm.mu.Lock()
	tm.paused = false
	tm.mu.Unlock()
	tm.master.SetReadDeadline(time.Time{})
	tm.changed.Broadcast()
}

// slow makes the terminal read so many bytes a second; 0: at once.
func (tm *terminal) slow(rate int) {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.rate = rate
}

// drop closes the window.
func (tm *terminal) drop() {
	tm.mu.Lock()
	done := tm.closed
	tm.closed, tm.answers = true, false
	if !done {
		close(tm.replies)
	}
	tm.mu.Unlock()
	tm.changed.Broadcast()
	if done {
		return
	}
	tm.master.Close()
	tm.slave.Close()
}

// exit waits for the command's end, by this status.
func (tm *terminal) exit(want int) {
	tm.t.Helper()
	if got := tm.end(); got != want {
		tm.t.Fatalf("status %d, want %d: %q", got, want, shortened(tm.recent()))
	}
}

// end waits for the command's end and returns its status, as a shell tells it.
func (tm *terminal) end() int {
	tm.t.Helper()
	select {
	case <-tm.exited:
	case <-time.After(patience):
		tm.t.Fatalf("%q did not end; it printed %q", tm.cmd.Args, shortened(tm.recent()))
	}
	ws := tm.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// detach leaves by the key.
func (tm *terminal) detach() {
	tm.t.Helper()
	tm.typed(detachKey)
	tm.exit(0)
	tm.settled()
}

// settled waits until all that was written was read: what the shell writes
// next arrives after it.
func (tm *terminal) settled() {
	tm.t.Helper()
	tm.sentinels++
	mark := fmt.Sprintf("\x1b_settled %d\x1b\\", tm.sentinels)
	if _, err := tm.slave.WriteString(mark); err != nil {
		tm.t.Fatal(err)
	}
	eventually(tm.t, "the terminal has read all", func() bool { return strings.Contains(tm.text(), mark) })
}

// text is all that was written to the terminal.
func (tm *terminal) text() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return string(tm.out)
}

// mark forgets what was written so far, for recent and expect.
func (tm *terminal) mark() {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	tm.marked = len(tm.out)
}

// recent is what was written since the last mark.
func (tm *terminal) recent() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return string(tm.out[tm.marked:])
}

// expect waits until a text was written since the last mark.
func (tm *terminal) expect(text string) {
	tm.t.Helper()
	deadline := time.Now().Add(patience)
	for !strings.Contains(tm.recent(), text) {
		if time.Now().After(deadline) {
			tm.t.Fatalf("%q was not written; last came %q", text, tail(tm.recent()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func tail(s string) string { return s[max(0, len(s)-400):] }

// lines are the rows of the screen, without blanks at their ends.
func (tm *terminal) lines() []string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	var rows []string
	for _, l := range tm.screen.Lines() {
		rows = append(rows, strings.TrimRight(l.Text(), " "))
	}
	return rows
}

// row waits until a row of the screen, from 1, is this text.
func (tm *terminal) row(n int, want string) {
	tm.t.Helper()
	got := ""
	deadline := time.Now().Add(patience)
	for {
		if rows := tm.lines(); n <= len(rows) {
			got = rows[n-1]
		}
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			tm.t.Fatalf("row %d is %q, want %q; the screen:\n%s", n, got, want, strings.Join(tm.lines(), "\n"))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// sees waits until the screen shows a text, which may go on in the next row.
// Blanks do not count, since rows lose those at their ends.
func (tm *terminal) sees(text string) {
	tm.t.Helper()
	deadline := time.Now().Add(patience)
	squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
	for !strings.Contains(squeeze(strings.Join(tm.lines(), "")), squeeze(text)) {
		if time.Now().After(deadline) {
			tm.t.Fatalf("%q is not on the screen:\n%s\nlast came %q", text, strings.Join(tm.lines(), "\n"), tail(tm.text()))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// picture is the screen with colours, and the cursor.
func (tm *terminal) picture() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	var b strings.Builder
	for _, l := range tm.screen.Lines() {
		b.WriteString(strings.TrimRight(l.ANSI(), " ") + "\n")
	}
	c := tm.screen.Cursor()
	fmt.Fprintf(&b, "cursor %d,%d visible %v shape %d pending %v", c.X, c.Y, c.Visible, c.Shape, c.PendingWrap)
	return b.String()
}

// same waits until the screen is this picture.
func (tm *terminal) same(want string) {
	tm.t.Helper()
	deadline := time.Now().Add(patience)
	for tm.picture() != want {
		if time.Now().After(deadline) {
			tm.t.Fatalf("the screen is\n%q\nwant\n%q", tm.picture(), want)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// clean fails the test unless the terminal is as it was before the command:
// modes, line settings, descriptor flags, and nothing typed left for the next
// program.
func (tm *terminal) clean() {
	tm.t.Helper()
	tm.settled()
	tm.mu.Lock()
	before, after := tm.before, tm.book.state()
	tm.mu.Unlock()
	if before != after {
		tm.t.Errorf("left on: %s (before: %s); last came %q", after, before, tail(tm.text()))
	}
	tm.restored()
	if left := tm.leftover(); left != "" {
		tm.t.Errorf("left for the next program: %q", left)
	}
}

// restored fails the test unless the settings and flags are as found.
func (tm *terminal) restored() {
	tm.t.Helper()
	termios, flags := tm.settings()
	if termios != tm.termios {
		tm.t.Errorf("line settings are %+v, were %+v", termios, tm.termios)
	}
	if flags != tm.flags {
		tm.t.Errorf("descriptor flags are %#x, were %#x", flags, tm.flags)
	}
}

// leftover is what was typed and nobody has read.
func (tm *terminal) leftover() string {
	tm.t.Helper()
	f, err := os.OpenFile(tm.slave.Name(), os.O_RDONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
	if err != nil {
		tm.t.Fatal(err)
	}
	defer f.Close()
	raw := tm.termios
	raw.Lflag &^= unix.ICANON
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 0, 0
	conn, err := f.SyscallConn()
	if err != nil {
		tm.t.Fatal(err)
	}
	set := func(to unix.Termios) {
		conn.Control(func(fd uintptr) { err = unix.IoctlSetTermios(int(fd), unix.TCSETS, &to) })
		if err != nil {
			tm.t.Fatal(err)
		}
	}
	set(raw)
	defer set(tm.termios)
	buf := make([]byte, 4096)
	f.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	n, err := f.Read(buf)
	if err != nil && err != io.EOF && !os.IsTimeout(err) {
		tm.t.Fatal(err)
	}
	return string(buf[:n])
}

// modes is the ledger's state now.
func (tm *terminal) modes() string {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.book.state()
}

// seen is how often the ledger has seen something.
func (tm *terminal) seen(what string) int {
	tm.mu.Lock()
	defer tm.mu.Unlock()
	return tm.book.seen[what]
}

// ledger keeps what is switched on in a terminal, by its own small parser: it
// is independent of both the filter and the emulator under test.
type ledger struct {
	pending []byte // an unfinished sequence
	modes   map[string]bool
	kitty   [2]levels // by screen
	titles  int
	seen    map[string]int // what happened beside the screen
}

// levels is a stack of kitty keyboard flags.
type levels struct {
	flags string
	below []string
}

func newLedger() *ledger {
	return &ledger{
		modes: make(map[string]bool), seen: make(map[string]int),
		kitty: [2]levels{{flags: "0"}, {flags: "0"}},
	}
}

func (l *ledger) active() int {
	if l.modes["?1049"] || l.modes["?1047"] || l.modes["?47"] {
		return 1
	}
	return 0
}

// state names all that is not as in a fresh terminal.
func (l *ledger) state() string {
	var on []string
	for m, v := range l.modes {
		if v {
			on = append(on, m)
		}
	}
	slices.Sort(on)
	for i, k := range l.kitty {
		if k.flags != "0" || len(k.below) > 0 {
			on = append(on, fmt.Sprintf("kitty%d:%s/%d", i, k.flags, len(k.below)))
		}
	}
	if l.titles != 0 {
		on = append(on, fmt.Sprintf("titles:%d", l.titles))
	}
	return strings.Join(on, " ")
}

// trackedModes are those that a shell would suffer from.
var trackedModes = []string{
	"4", "12", "20", "?1", "?5", "?6", "?7", "?8", "?9", "?25", "?45", "?47", "?66", "?67", "?69", "?1000", "?1001", "?1002",
	"?1003", "?1004", "?1005", "?1006", "?1007", "?1015", "?1016", "?1045", "?1047", "?1049", "?2004", "?2026", "?2031", "?2048", "?5522",
}

// normallyOn are the modes that a fresh terminal has on.
var normallyOn = map[string]bool{"?25": true, "?7": true, "?8": true, "12": true}

// feed takes output and returns the questions in it.
func (l *ledger) feed(p []byte) (asked []string) {
	data := append(l.pending, p...)
	l.pending = nil
	for i := 0; i < len(data); {
		switch data[i] {
		case 0x07:
			l.seen["BEL"]++
		case 0x0e:
			l.modes["shift-out"] = true
		case 0x0f:
			l.modes["shift-out"] = false
		case 0x1b:
			n := sequenceLength(data[i:])
			if n == 0 {
				l.pending = bytes.Clone(data[i:])
				return asked
			}
			if q := l.sequence(string(data[i : i+n])); q != "" {
				asked = append(asked, q)
			}
			i += n
			continue
		}
		i++
	}
	return asked
}

// sequenceLength is the length of the escape sequence that data begins with,
// 0 if it is not complete.
func sequenceLength(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '[':
		for i := 2; i < len(data); i++ {
			if data[i] >= 0x40 && data[i] <= 0x7e {
				return i + 1
			}
			if data[i] < 0x20 || data[i] > 0x7e {
				return i // broken off
			}
		}
		return 0
	case ']', 'P', '_', '^', 'X':
		for i := 2; i < len(data); i++ {
			switch {
			case data[i] == 0x07 && data[1] == ']', data[i] == 0x18, data[i] == 0x1a:
				return i + 1
			case data[i] == 0x1b && i+1 < len(data) && data[i+1] == '\\':
				return i + 2
			case data[i] == 0x1b && i+1 < len(data):
				return i
			}
		}
		return 0
	case '(', ')', '*', '+', '-', '.', '/', ' ', '#', '%':
		if len(data) < 3 {
			return 0
		}
		return 3
	}
	return 2
}

// sequence takes one escape sequence and returns the question that it is.
func (l *ledger) sequence(s string) string {
	switch {
	case strings.HasPrefix(s, "\x1b["):
		if final := s[len(s)-1]; len(s) < 3 || final < 0x40 || final > 0x7e {
			return "" // broken off
		}
		return l.csi(s[2:len(s)-1], s[len(s)-1])
	case strings.HasPrefix(s, "\x1b]"):
		return l.osc(strings.TrimSuffix(strings.TrimSuffix(s[2:], "\x07"), "\x1b\\"))
	}
	switch s {
	case "\x1b=":
		l.modes["keypad"] = true
	case "\x1b>":
		l.modes["keypad"] = false
	case "\x1bc":
		l.seen["RIS"]++
		seen := l.seen
		*l = *newLedger()
		l.seen = seen
	case "\x1b(0":
		l.modes["line-drawing"] = true
	case "\x1b(B":
		l.modes["line-drawing"] = false
	}
	return ""
}

func (l *ledger) csi(params string, final byte) string {
	switch final {
	case 'h', 'l':
		private := strings.HasPrefix(params, "?")
		for _, n := range strings.Split(strings.TrimPrefix(params, "?"), ";") {
			if private {
				n = "?" + n
			}
			if slices.Contains(trackedModes, n) {
				l.modes[n] = (final == 'h') != normallyOn[n]
			}
		}
	case 'm':
		switch {
		case strings.HasPrefix(params, ">4"):
			l.modes["modifyOtherKeys"] = strings.HasPrefix(params, ">4;") && params != ">4;0"
		case !strings.HasPrefix(params, ">") && !strings.HasPrefix(params, "?"):
			l.modes["colours"] = params != "" && params != "0"
		}
	case 'q':
		if style, ok := strings.CutSuffix(params, " "); ok {
			l.modes["cursor-style"] = style != "" && style != "0"
		} else if strings.HasPrefix(params, ">") {
			return "XTVERSION"
		}
	case 'r':
		if !strings.HasPrefix(params, "?") {
			l.modes["region"] = params != "" && params != ";"
		}
	case 'u':
		return l.keyboard(params)
	case 't':
		switch strings.SplitN(params, ";", 2)[0] {
		case "22":
			l.titles++
		case "23":
			l.titles--
		case "14":
			return "PIXELS"
		case "16":
			return "CELL"
		case "18":
			return "AREA"
		}
	case 'J':
		if params == "3" {
			l.seen["ED3"]++
		}
	case 'c':
		switch strings.TrimSuffix(params, "0") {
		case "":
			return "DA1"
		case ">":
			return "DA2"
		}
	case 'n':
		switch params {
		case "5":
			return "DSR"
		case "6":
			return "CPR"
		}
	case 'p':
		switch {
		case params == "!":
			for _, m := range []string{"?25", "?6", "?7", "4", "?1", "keypad", "region", "colours", "line-drawing", "shift-out"} {
				l.modes[m] = false
			}
		case strings.HasSuffix(params, "$"):
			return "DECRQM"
		}
	}
	return ""
}

// keyboard takes CSI … u of the kitty keyboard protocol.
func (l *ledger) keyboard(params string) string {
	k := &l.kitty[l.active()]
	if params == "?" {
		return "KITTY"
	}
	rest := ""
	if params != "" {
		rest = params[1:]
	}
	switch {
	case strings.HasPrefix(params, ">"):
		if rest == "" {
			rest = "0"
		}
		k.below = append(k.below, k.flags)
		k.flags = rest
	case strings.HasPrefix(params, "<"):
		n := 1
		fmt.Sscanf(rest, "%d", &n)
		for ; n > 0; n-- {
			if len(k.below) == 0 {
				k.flags = "0"
				break
			}
			k.flags, k.below = k.below[len(k.below)-1], k.below[:len(k.below)-1]
		}
	case strings.HasPrefix(params, "="):
		k.flags, _, _ = strings.Cut(rest, ";")
	}
	return ""
}

func (l *ledger) osc(s string) string {
	number, text, _ := strings.Cut(s, ";")
	l.seen["OSC"+number]++
	switch number {
	case "8":
		_, target, _ := strings.Cut(text, ";")
		l.modes["link"] = target != ""
	case "9":
		if strings.HasPrefix(text, "4;") {
			l.seen["OSC9"]--
			l.modes["progress"] = !strings.HasPrefix(text, "4;0")
		}
	case "22":
		l.modes["pointer"] = text != ""
	case "10", "11", "12":
		if text == "?" {
			return "OSC" + number
		}
		l.modes["colour"+number] = true
	case "110", "111", "112":
		l.modes["colour"+number[1:]] = false
	}
	return ""
}

//go:build linux

package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// The helper programs, which this test binary is when its first argument
// begins with @. They run as agents within sessions.

// runHelper is the main of a helper program.
func runHelper(name string, args []string) int {
	helpers := map[string]func([]string) int{
		"@probe": probeMain, "@flood": floodMain, "@die": dieMain, "@tree": treeMain, "@sleeper": sleeperMain,
		"@orphan": orphanMain, "@ask": askMain, "@args": argsMain, "@redraw": redrawMain, "@asker": askerMain, "@painter": painterMain,
	}
	main := helpers[name]
	if main == nil {
		fmt.Fprintln(os.Stderr, "no such helper:", name)
		return 2
	}
	return main(args)
}

// put writes to standard output in one piece.
func put(s string) { os.Stdout.WriteString(s) }

// appendLine adds a line to a file, in one write.
func appendLine(path, format string, args ...any) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, format+"\n", args...)
}

// forever sleeps until a signal ends the process.
func forever() int {
	for {
		time.Sleep(time.Hour)
	}
}

// probeMain is a raw program that writes down each read and each size:
//
//	@probe [-paint once|winch] [-echo] [-mirror] [-cooked] [-slow D] [-on SEQ] [-history N] LOG
func probeMain(args []string) int {
	f := flag.NewFlagSet("probe", flag.ExitOnError)
	paint := f.String("paint", "", "draw the screen once, or at every size")
	echo := f.Bool("echo", false, "show printable input")
	mirror := f.Bool("mirror", false, "write all input back")
	cooked := f.Bool("cooked", false, "leave the terminal as it is")
	slow := f.Duration("slow", 0, "pause after each KiB of input")
	on := f.String("on", "", "what to write first")
	history := f.Int("history", 0, "lines to print first")
	f.Parse(args)
	log := f.Arg(0)
	sizes := make(chan os.Signal, 64)
	signal.Notify(sizes, syscall.SIGWINCH)
	if !*cooked {
		term.MakeRaw(0)
	}
	put(*on)
	put(strings.Repeat("history that is long enough to take a while\r\n", *history))
	cols, rows, _ := term.GetSize(0)
	appendLine(log, "size %dx%d", cols, rows)
	if *paint != "" {
		paintScreen(cols, rows)
	}
	go func() {
		for range sizes {
			cols, rows, _ := term.GetSize(0)
			appendLine(log, "winch %dx%d", cols, rows)
			if *paint == "winch" {
				paintScreen(cols, rows)
			}
		}
	}()
	appendLine(log, "up")
	buf := make([]byte, 64<<10)
	if *slow > 0 {
		buf = buf[:1024]
	}
	for {
		n, err := os.Stdin.Read(buf)
		if n > 0 {
			appendLine(log, "in %s", hex.EncodeToString(buf[:n]))
		}
		switch {
		case err != nil:
			appendLine(log, "end %v", err)
			return forever()
		case *mirror:
			os.Stdout.Write(buf[:n])
		case *echo:
			for _, b := range buf[:n] {
				if b >= ' ' && b < 0x7f {
					put(string(b))
				}
			}
		}
		time.Sleep(*slow)
	}
}

// paintScreen fills the screen so that every cell tells where it is.
func paintScreen(cols, rows int) {
	var b strings.Builder
	b.WriteString("\x1b[H\x1b[2J")
	for y := range rows {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[3%dm", y+1, y%8)
		for x := range cols {
			if x < cols-1 || y < rows-1 {
				b.WriteByte("0123456789abcdefghijklmnopqrstuvwxyz"[(x+y)%36])
			}
		}
	}
	fmt.Fprintf(&b, "\x1b[m\x1b[1;1H\x1b[7m%dx%d\x1b[m\x1b[3;5H", cols, rows)
	put(b.String())
}

// probed is what a probe has written down.
type probed struct {
	up    bool
	first string   // size at the start
	winch []string // sizes since
	reads [][]byte
	input []byte // all reads together
}

func readProbe(t testing.TB, log string) probed {
	t.Helper()
	var p probed
	data, err := os.ReadFile(log)
	if err != nil {
		return p
	}
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch word {
		case "up":
			p.up = true
		case "size":
			p.first = rest
		case "winch":
			p.winch = append(p.winch, rest)
		case "in":
			b, err := hex.DecodeString(rest)
			if err != nil {
				t.Fatalf("probe log: %v", err)
			}
			p.reads = append(p.reads, b)
			p.input = append(p.input, b...)
		}
	}
	return p
}

// last is the size that the program was told last.
func (p probed) last() string {
	if len(p.winch) == 0 {
		return p.first
	}
	return p.winch[len(p.winch)-1]
}

// startProbe makes a session with a probe in it, waits until that is ready and
// returns the path of what it writes down.
func (w *world) startProbe(name string, args ...string) string {
	w.t.Helper()
	log := w.path("probe-" + name)
	w.start(name, helper("probe", append(args, log)...)...)
	w.probeUp(log)
	return log
}

func (w *world) probeUp(log string) {
	w.t.Helper()
	eventually(w.t, "the probe is up", func() bool { return readProbe(w.t, log).up })
}

// received waits until a probe has got just this input.
func (w *world) received(log, want string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := string(readProbe(w.t, log).input)
		if got == want {
			return
		}
		if !strings.HasPrefix(want, got) || time.Now().After(deadline) {
			w.t.Fatalf("the program got %q, want %q", shortened(got), shortened(want))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func shortened(s string) string {
	if len(s) > 400 {
		return s[:200] + fmt.Sprintf("… (%d bytes)", len(s))
	}
	return s
}

// floodLine is line n of a flood: it proves itself.
func floodLine(n int) string {
	number := fmt.Sprintf("%08d", n)
	return fmt.Sprintf("%s %08x %s\n", number, crc32.ChecksumIEEE([]byte(number)), "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJ"[n%8:])
}

// floodMain prints numbered lines:
//
//	@flood [-rate N] [-color] [-size BYTES] [-go FILE] [-stay] LINES
func floodMain(args []string) int {
	f := flag.NewFlagSet("flood", flag.ExitOnError)
	rate := f.Int("rate", 0, "lines a second")
	color := f.Bool("color", false, "colour the lines")
	start := f.String("go", "", "begin when this file exists")
	stay := f.Bool("stay", false, "go on living afterwards")
	f.Parse(args)
	lines, _ := strconv.Atoi(f.Arg(0))
	for *start != "" {
		if _, err := os.Stat(*start); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	var b bytes.Buffer
	began := time.Now()
	for n := range lines {
		line := floodLine(n)
		if *color {
			line = fmt.Sprintf("\x1b[38;5;%dm%s\x1b[m\n", n%256, strings.TrimSuffix(line, "\n"))
		}
		b.WriteString(line)
		if b.Len() > 4000 || *rate > 0 && n%16 == 0 {
			os.Stdout.Write(b.Bytes())
			b.Reset()
			if *rate > 0 {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(*rate))))
			}
		}
	}
	os.Stdout.Write(b.Bytes())
	put(fmt.Sprintf("FLOOD END %d\n", lines))
	if *stay {
		return forever()
	}
	return 0
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// checkFlood checks that output holds the lines of a flood from 0 on, in order
// and unharmed, and returns how many there are and whether the end was seen.
func checkFlood(out []byte) (n int, ended bool, err error) {
	out = colours.ReplaceAll(out, nil)
	for line := range bytes.Lines(out) {
		text := string(bytes.ReplaceAll(line, []byte("\r"), nil))
		if strings.HasPrefix(text, "FLOOD END ") {
			if text != fmt.Sprintf("FLOOD END %d\n", n) {
				return n, true, fmt.Errorf("the end is %q after %d lines", text, n)
			}
			return n, true, nil
		}
		if want := floodLine(n); text != want {
			if strings.HasPrefix(want, text) && !strings.HasSuffix(text, "\n") {
				return n, false, nil // cut at the end
			}
			return n, false, fmt.Errorf("line %d is %q, want %q", n, text, want)
		}
		n++
	}
	return n, false, nil
}

// wholeFlood fails the test unless the log of a session holds a whole flood.
func (w *world) wholeFlood(name string, lines int) {
	w.t.Helper()
	n, ended, err := checkFlood(w.raw(name))
	if err != nil || !ended || n != lines {
		w.t.Fatalf("the log of %s: %d lines of %d, ended %v: %v", name, n, lines, ended, err)
	}
}

// dieMain ends in one of many ways: @die HOW [N].
func dieMain(args []string) int {
	n := 0
	if len(args) > 1 {
		n, _ = strconv.Atoi(args[1])
	}
	switch args[0] {
	case "code":
		put("LAST WORDS")
		return n
	case "sig":
		put("LAST WORDS")
		return dieOf(syscall.Signal(n))
	case "burst":
		var b strings.Builder
		for i := range n * 16 {
			fmt.Fprintf(&b, "B%06d %s\n", i, strings.Repeat("x", 55))
		}
		put(b.String() + "LAST WORDS")
	case "trap":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM)
		put("UP\n")
		<-c
		time.Sleep(300 * time.Millisecond)
		put("LAST WORDS")
		return 5
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		put("UP\n")
		return forever()
	case "close":
		for fd := range 3 {
			syscall.Close(fd)
		}
		time.Sleep(700 * time.Millisecond)
		return 19
	case "stdin":
		os.Stdin.Close()
		for i := range 20 {
			put(fmt.Sprintf("o%d\n", i))
			time.Sleep(30 * time.Millisecond)
		}
		return 19
	case "stop":
		put("STOPPED\n")
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		put("AGAIN\n")
	case "suspend": // raw, and stops itself at Ctrl-Z as full-screen programs do
		term.MakeRaw(0)
		put("UP\r\n")
		for buf := make([]byte, 1); ; {
			if _, err := os.Stdin.Read(buf); err != nil {
				return 1
			}
			if buf[0] == 0x1a {
				syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				put("BACK\r\n")
			}
		}
	case "utf8":
		put("cut \xe4\xb8")
	case "esc":
		put("cut \x1b[38;5")
	}
	return 0
}

// dieOf dies of a signal. The Go runtime handles most of them, so the default
// action is set first.
func dieOf(sig syscall.Signal) int {
	signal.Reset(sig)
	// SIGSEGV and its like are caught by the runtime whatever is reset; a
	// shell, which catches none, is put in place of this process.
	syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$", sig)}, os.Environ())
	return 99
}

// treeMain starts descendants of all kinds: @tree [-stay] DIR. Each writes its
// pid to DIR/NAME.
func treeMain(args []string) int {
	f := flag.NewFlagSet("tree", flag.ExitOnError)
	stay := f.Bool("stay", false, "do not end")
	f.Parse(args)
	dir := f.Arg(0)
	start := func(helper string, attr *syscall.SysProcAttr, quiet bool, args ...string) {
		cmd := exec.Command(self0(), append([]string{helper}, args...)...)
		cmd.SysProcAttr = attr
		if !quiet {
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		if helper == "@orphan" {
			cmd.Wait()
		}
	}
	start("@sleeper", nil, false, dir, "samegroup")
	start("@sleeper", &syscall.SysProcAttr{Setpgid: true}, false, dir, "owngroup")
	start("@sleeper", &syscall.SysProcAttr{Setsid: true}, false, dir, "newsession")
	start("@sleeper", nil, false, dir, "hupproof")
	start("@orphan", nil, false, dir, "holdtty")
	start("@orphan", nil, true, dir, "quiet")
	for _, name := range treeNames {
		for readPID(dir, name) == 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	put("TREE UP\n")
	if *stay {
		return forever()
	}
	return 7
}

// treeNames are the descendants that treeMain makes.
var treeNames = []string{"samegroup", "owngroup", "newsession", "hupproof", "holdtty", "quiet"}

func self0() string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return exe
}

func readPID(dir, name string) int {
	data, _ := os.ReadFile(filepath.Join(dir, name))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(data)))
	return pid
}

// orphanMain leaves a sleeper behind that has a session of its own.
func orphanMain(args []string) int {
	cmd := exec.Command(self0(), append([]string{"@sleeper"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if args[1] != "quiet" {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return 0
}

// sleeperMain sleeps: @sleeper DIR NAME.
func sleeperMain(args []string) int {
	if args[1] == "hupproof" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	}
	tmp := filepath.Join(args[0], "."+args[1])
	os.WriteFile(tmp, []byte(strconv.Itoa(os.Getpid())), 0o600)
	os.Rename(tmp, filepath.Join(args[0], args[1]))
	return forever()
}

// question is a question to the terminal and the form of its answer.
type question struct {
	name, ask string
	answer    *regexp.Regexp
}

var questions = []question{
	{"OSC10", "\x1b]10;?\x1b\\", regexp.MustCompile(`\x1b\]10;[^\x07\x1b]*(?:\x07|\x1b\\)`)},
	{"OSC11", "\x1b]11;?\x07", regexp.MustCompile(`\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\)`)},
	{"DA2", "\x1b[>c", regexp.MustCompile(`\x1b\[>[0-9;]*c`)},
	{"XTVERSION", "\x1b[>0q", regexp.MustCompile(`\x1bP>\|[^\x1b]*\x1b\\`)},
	{"KITTY", "\x1b[?u", regexp.MustCompile(`\x1b\[\?\d+u`)},
	{"SYNC", "\x1b[?2026$p", regexp.MustCompile(`\x1b\[\?2026;\d\$y`)},
	{"DSR", "\x1b[5n", regexp.MustCompile(`\x1b\[0n`)},
	{"CPR", "\x1b[6n", regexp.MustCompile(`\x1b\[\d+;\d+R`)},
	{"DA1", "\x1b[c", regexp.MustCompile(`\x1b\[\?[0-9;]*c`)},
}

// asked is what askMain has found out.
type asked struct {
	Count map[string]int           // answers by question
	Delay map[string]time.Duration // of the answered ones, with -one-by-one
	Rest  string                   // what came and is no answer
	Raw   string
}

// askMain asks the terminal and counts the answers:
//
//	@ask [-wait D] [-one-by-one] [-at-exit] [-print] FILE
func askMain(args []string) int {
	f := flag.NewFlagSet("ask", flag.ExitOnError)
	wait := f.Duration("wait", time.Second, "how long to wait for answers")
	each := f.Bool("one-by-one", false, "ask one, wait, ask the next")
	atExit := f.Bool("at-exit", false, "ask and end without waiting")
	f.Parse(args)
	term.MakeRaw(0)
	in := make(chan []byte)
	go func() {
		for {
			buf := make([]byte, 4096)
			n, err := os.Stdin.Read(buf)
			if err != nil {
				return
			}
			in <- buf[:n]
		}
	}()
	var raw []byte
	await := func(enough func([]byte) bool) {
		timer := time.After(*wait)
		for !enough(raw) {
			select {
			case b := <-in:
				raw = append(raw, b...)
			case <-timer:
				return
			}
		}
	}
	got := asked{Count: map[string]int{}, Delay: map[string]time.Duration{}}
	if *each {
		for _, q := range questions {
			began, before := time.Now(), len(raw)
			put(q.ask)
			await(func(raw []byte) bool { return q.answer.Match(raw[before:]) })
			if q.answer.Match(raw[before:]) {
				got.Delay[q.name] = time.Since(began)
			}
		}
	} else {
		var all string
		for _, q := range questions {
			all += q.ask
		}
		put(all)
		if *atExit {
			return 0
		}
		await(func([]byte) bool { return false })
	}
	rest := raw
	for _, q := range questions {
		got.Count[q.name] = len(q.answer.FindAll(raw, -1))
		rest = q.answer.ReplaceAll(rest, nil)
	}
	got.Rest, got.Raw = string(rest), string(raw)
	data, _ := json.Marshal(got)
	os.WriteFile(f.Arg(0)+".tmp", data, 0o600)
	os.Rename(f.Arg(0)+".tmp", f.Arg(0))
	put("ASKED\r\n")
	return forever()
}

func readAsked(t testing.TB, path string) asked {
	t.Helper()
	var got asked
	eventually(t, "the questions were asked", func() bool {
		data, err := os.ReadFile(path)
		return err == nil && json.Unmarshal(data, &got) == nil
	})
	return got
}

// argsMain writes its arguments, environment, directory and descriptors to a
// file as JSON, and ends if -stay is not given: @args FILE [ARG]...
func argsMain(args []string) int {
	s := started{Args: args[1:], Env: os.Environ()}
	s.Dir, _ = os.Getwd()
	old := syscall.Umask(0)
	s.Umask = old
	syscall.Umask(old)
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	s.TTY = err == nil
	tty.Close()
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			s.Files = append(s.Files, target)
		}
	}
	if pgid, err := unix.IoctlGetInt(0, unix.TIOCGPGRP); err == nil {
		s.Foreground = pgid == os.Getpid()
	}
	data, _ := json.Marshal(s)
	os.WriteFile(args[0]+".tmp", data, 0o600)
	os.Rename(args[0]+".tmp", args[0])
	return 0
}

// started is what a program finds when it starts.
type started struct {
	Args, Env, Files []string
	Dir              string
	Umask            int
	TTY, Foreground  bool
}

func readStarted(t testing.TB, path string) started {
	t.Helper()
	var got started
	eventually(t, "the program has started", func() bool {
		data, err := os.ReadFile(path)
		return err == nil && json.Unmarshal(data, &got) == nil
	})
	return got
}

func (s started) getenv(name string) (string, bool) {
	for _, kv := range s.Env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// redrawMain writes a text in pieces of N bytes with pauses: @redraw N TEXT.
func redrawMain(args []string) int {
	n, _ := strconv.Atoi(args[0])
	for text := args[1]; text != ""; {
		piece := text[:min(n, len(text))]
		text = text[len(piece):]
		put(piece)
		time.Sleep(2 * time.Millisecond)
	}
	io.Copy(io.Discard, os.Stdin)
	return 0
}

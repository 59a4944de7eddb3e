//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentmux/session"
)

func TestSL01StalledClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 200000
	w.start("a", helper("flood", "-go", w.path("go"), "-stay", fmt.Sprint(lines))...)
	other := w.startProbe("other", "-echo")
	stalled := w.terminal(80, 24)
	stalled.attach("a")
	stalled.pause()
	b := w.terminal(80, 24)
	b.attach("other")
	client := stalled.cmd.Process.Pid
	memory := residentKiB(t, client)
	w.write("go", "")
	for i := range 10 {
		key := string(rune('a' + i))
		b.typed(key)
		b.sees(key)
		if r := w.run("ls"); r.code != 0 || r.took > 2*time.Second {
			t.Errorf("ls: %v", r)
		}
	}
	w.received(other, "abcdefghij")
	eventually(t, "the flood has ended", func() bool { return strings.Contains(w.screen("a"), "FLOOD END") })
	w.wholeFlood("a", lines)
	if now := residentKiB(t, client); now > memory+48<<10 {
		t.Errorf("the stalled client has %d KiB, had %d", now, memory)
	}
	stalled.resume()
	stalled.sees("FLOOD END")
	fresh := w.terminal(80, 24)
	fresh.attach("a")
	fresh.same(stalled.picture())
	stalled.detach()
	stalled.clean()
}

func TestSL01StoppedClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 100000
	w.start("a", helper("flood", "-go", w.path("go"), "-stay", fmt.Sprint(lines))...)
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.cmd.Process.Signal(syscall.SIGSTOP)
	w.write("go", "")
	eventually(t, "the flood has ended", func() bool { return strings.Contains(w.screen("a"), "FLOOD END") })
	w.wholeFlood("a", lines)
	if r := w.run("ls"); r.code != 0 || r.took > 2*time.Second {
		t.Errorf("ls: %v", r)
	}
	tm.cmd.Process.Signal(syscall.SIGCONT)
	tm.sees("FLOOD END")
	tm.detach()
	tm.clean()
}

func TestSL02StalledInTheMiddleOfColours(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("flood", "-go", w.path("go"), "-color", "-stay", "100000")...)
	tm := w.terminal(80, 24)
	tm.attach("a")
	w.write("go", "")
	for range 3 {
		eventually(t, "some lines", func() bool { return strings.Contains(strings.Join(tm.lines(), ""), "abcdef") })
		tm.pause()
		time.Sleep(150 * time.Millisecond) // the row asks for a stall
		tm.resume()
	}
	tm.sees("FLOOD END")
	fresh := w.terminal(80, 24)
	fresh.attach("a")
	fresh.same(tm.picture())
	for _, row := range tm.lines() {
		if strings.Contains(row, "38;5;") {
			t.Errorf("a piece of a sequence is shown: %q", row)
		}
	}
	tm.detach()
	tm.clean()
}

func TestSL05NothingLeaks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startProbe("a", "-paint", "once")
	tm := w.terminal(80, 24)
	round := func(i int) {
		name := fmt.Sprintf("s%d", i)
		w.ok("new", "-d", "-n", name, "--", "true")
		w.ended(name)
		tm.attach("a")
		tm.detach()
		w.fails(3, "attach", "none")
		w.fails(127, "new", "-d", "--", "/nonexistent/x")
		w.ok("capture", "a")
		w.ok("rm", name)
	}
	for i := range 3 { // what is opened once
		round(i)
	}
	pids := map[string]int{"server": w.server(), "shim": w.status("a").ShimPID}
	before := make(map[string]int)
	for who, pid := range pids {
		before[who] = descriptors(t, pid)
	}
	for i := range 25 {
		round(i)
	}
	for who, pid := range pids {
		within(t, 5*time.Second, who+" has no more descriptors than before", func() bool { return descriptors(t, pid) <= before[who]+3 })
	}
	within(t, 5*time.Second, "one shim is left", func() bool { return w.count("shim") == 1 })
	if entries, err := os.ReadDir(w.tree.Sessions()); err != nil || len(entries) != 1 {
		t.Errorf("%d session directories, %v", len(entries), err)
	}
}

func TestSL08SlowLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 100000
	timed := func(name string, slow bool) time.Duration {
		gate := w.path("go-" + name)
		w.start(name, helper("flood", "-go", gate, fmt.Sprint(lines))...)
		tm := w.terminal(80, 24)
		if slow {
			tm.attach(name)
			tm.slow(10 << 10)
		}
		began := time.Now()
		w.write("go-"+name, "")
		w.exited(name, session.Exit{})
		took := time.Since(began)
		w.wholeFlood(name, lines)
		tm.drop()
		return took
	}
	alone := timed("alone", false)
	watched := timed("watched", true)
	if watched > 2*alone+2*time.Second {
		t.Errorf("watched through a slow link it took %v, alone %v", watched, alone)
	}
}

// cpu is the time that a process has used.
func cpu(t testing.TB, pid int) time.Duration {
	t.Helper()
	fields := statFields(t, pid)
	var user, system int
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ is 100
}

func TestSL09IdleCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pids := map[string]int{}
	for i := range 10 {
		name := fmt.Sprintf("s%d", i)
		pids["shim "+name] = w.start(name, "sleep", "600").ShimPID
	}
	tm := w.terminal(80, 24)
	tm.run("attach", "s0")
	tm.attached("s0", 1)
	pids["server"], pids["client"] = w.server(), tm.cmd.Process.Pid
	// Nothing is asked from here on: questions cost time.
	time.Sleep(time.Second)
	before := make(map[string]time.Duration)
	for who, pid := range pids {
		before[who] = cpu(t, pid)
	}
	const idle = 8 * time.Second
	time.Sleep(idle)
	for who, pid := range pids {
		if used := cpu(t, pid) - before[who]; used > 50*time.Millisecond {
			t.Errorf("%s used %v in %v", who, used, idle)
		}
	}
	tm.detach()
}

var missing = regexp.MustCompile(`\[agentmux: (\d+) bytes of output are missing`)

func TestLG02FullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mountTmpfs(t, w.path("s"), "size=4m")
	t.Cleanup(w.end)
	const lines = 300000 // some 16 MB
	log := w.path("keys")
	gate, back := w.path("go"), w.path("back")
	script := fmt.Sprintf("(%s @flood -go %s %d; touch done; while [ ! -e %s ]; do sleep 0.02; done; echo BACK) & exec %s @probe %s", self, gate, lines, back, self, log)
	w.start("a", "sh", "-c", script)
	w.probeUp(log)
	tm := w.terminal(80, 24)
	tm.attach("a")
	w.write("go", "")
	tm.typed("1")
	w.received(log, "1")
	eventually(t, "ls shows that the log is stalled", func() bool { return w.status("a").LogState != "ok" })
	if out := w.ok("ls"); !strings.Contains(out, "stalled") {
		t.Errorf("ls:\n%s", out)
	}
	tm.typed("2")
	w.received(log, "12")
	shim := w.status("a").ShimPID
	eventually(t, "the flood has ended", func() bool {
		_, err := os.Stat(w.path("w", "done"))
		return err == nil
	})
	if kib := residentKiB(t, shim); kib > 256<<10 {
		t.Errorf("the shim has %d KiB", kib)
	}
	if err := syscall.Mount("tmpfs", w.path("s"), "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	w.write("back", "")
	eventually(t, "BACK is logged", func() bool { return bytes.HasSuffix(w.raw("a"), []byte("BACK\n")) })
	eventually(t, "the log is well again", func() bool { return w.status("a").LogState == "ok" })
	got := w.status("a")
	if got.LostBytes == 0 || !strings.Contains(w.ok("ls"), "missing") {
		t.Errorf("%d bytes are missing;\n%s", got.LostBytes, w.ok("ls"))
	}
	var told uint64
	for _, note := range missing.FindAllStringSubmatch(w.ok("log", "a"), -1) {
		n, err := strconv.ParseUint(note[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		told += n
	}
	if told != got.LostBytes {
		t.Errorf("the log says that %d bytes are missing, ls %d", told, got.LostBytes)
	}
	if n, _, _ := checkFlood(w.raw("a")); n < 10000 {
		t.Errorf("%d lines before the gap", n)
	}
	tm.sees("BACK")
	tm.typed("3")
	w.received(log, "123")
	tm.detach()
	tm.clean()
	w.ok("kill", "a")
}

// An agent that ends while the disk is full has its exit recorded.
func TestLG02EndOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mountTmpfs(t, w.path("s"), "size=3m")
	t.Cleanup(w.end)
	w.start("a", helper("flood", "250000")...)
	info := w.exited("a", session.Exit{})
	if info.LostBytes == 0 {
		t.Errorf("nothing is missing: %+v", info)
	}
	w.killServer()
	if got := w.status("a"); got.State != session.Exited || got.LostBytes == 0 {
		t.Errorf("the next server says %+v", got)
	}
	w.ok("rm", "a")
	w.start("b", "sh", "-c", "echo fine")
	w.exited("b", session.Exit{})
	if got := w.ok("log", "b"); got != "fine\n" {
		t.Errorf("the log is %q", got)
	}
}

func TestLG04LastWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var want strings.Builder
	for i := range 64 * 16 {
		fmt.Fprintf(&want, "B%06d %s\r\n", i, strings.Repeat("x", 55))
	}
	want.WriteString("LAST WORDS")
	for i := range 10 {
		name := fmt.Sprintf("d%d", i)
		w.start(name, helper("die", "burst", "64")...)
		w.exited(name, session.Exit{})
		if got := string(w.raw(name)); got != want.String() {
			t.Fatalf("detached, try %d: %d bytes of %d, last %q", i, len(got), want.Len(), tail(got))
		}
		tm := w.terminal(80, 24)
		name = fmt.Sprintf("f%d", i)
		tm.foreground(name, helper("die", "burst", "64")...)
		tm.exit(0)
		tm.settled()
		if got := string(w.raw(name)); got != want.String() {
			t.Fatalf("in the foreground, try %d: %d bytes of %d, last %q", i, len(got), want.Len(), tail(got))
		}
		if !strings.Contains(tm.text(), "LAST WORDS") {
			t.Fatalf("try %d: the terminal got %q", i, tail(tm.text()))
		}
		tm.drop()
	}
}

func TestLG06CutLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("flood", "-rate", "20000", "-stay", "1000000")...)
	eventually(t, "a lot is in the log", func() bool { return len(w.raw("a")) > 200<<10 })
	shim := w.status("a").ShimPID
	w.killServer()
	syscall.Kill(shim, syscall.SIGKILL)
	eventually(t, "the shim is dead", func() bool { return !alive(shim) })
	dir, _, err := w.mux().Find("a")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir.Log())
	if err != nil {
		t.Fatal(err)
	}
	newest := dir.Log() + "/" + entries[len(entries)-1].Name()
	before, _, err := checkFlood(w.raw("a"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(newest)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range int64(40) {
		if err := os.Truncate(newest, info.Size()-cut-1); err != nil {
			t.Fatal(err)
		}
		n, _, err := checkFlood(w.raw("a"))
		if err != nil || n > before || n < before-1200 {
			t.Fatalf("cut by %d: %d lines of %d, %v", cut+1, n, before, err)
		}
	}
	if r := w.run("log", "a"); r.code != 0 || !strings.Contains(r.out, strings.TrimSpace(floodLine(100))) {
		t.Errorf("log: %v", result{shortened(r.out), r.err, r.code, r.took})
	}
	if got := w.status("a"); got.State != session.Lost {
		t.Errorf("the state is %s", got.State)
	}
}

func TestLG10KilledServerUnderFlood(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a", helper("flood", "-rate", "10000", "30000")...)
	for range 4 {
		n := len(w.raw("a"))
		eventually(t, "the log grows", func() bool { return len(w.raw("a")) > n+10000 })
		if w.server() != 0 {
			w.killServer()
		}
	}
	w.exited("a", session.Exit{})
	w.wholeFlood("a", 30000)
}

func TestLG11Follow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const lines = 50000
	w.start("a", helper("flood", "-go", w.path("go"), fmt.Sprint(lines))...)
	var wait sync.WaitGroup
	results := make([]result, 3)
	for i, args := range [][]string{{"log", "-f", "a"}, {"log", "-f", "--raw", "a"}, {"log", "-f", "--tail", "5", "a"}} {
		wait.Go(func() { results[i] = w.run(args...) })
	}
	eventually(t, "they follow", func() bool { return w.count("log") == 3 })
	w.write("go", "")
	wait.Wait()
	for i, r := range results {
		out := r.out
		if i == 2 { // it may have begun later
			var first int
			fmt.Sscanf(out, "%08d", &first)
			var before strings.Builder
			for n := range first {
				before.WriteString(floodLine(n))
			}
			out = before.String() + out
		}
		n, ended, err := checkFlood([]byte(out))
		if r.code != 0 || n != lines || !ended || err != nil {
			t.Errorf("%d: status %d, %d lines, ended %v, %v", i, r.code, n, ended, err)
		}
	}
	if got := w.ok("log", "--tail", "2", "a"); got != strings.ReplaceAll(floodLine(lines-1), "\r", "")+fmt.Sprintf("FLOOD END %d\n", lines) {
		t.Errorf("log --tail 2: %q", got)
	}
}

func TestLG13TypedSecretsAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const secret = "hunter2hunter2"
	w.start("a", "sh", "-c", "stty -echo; echo ASK; read p; stty echo; echo got ${#p}; sleep 600")
	tm := w.terminal(80, 24)
	tm.attach("a")
	tm.sees("ASK")
	tm.typed(secret + "\r")
	tm.sees("got 14")
	tm.detach()
	w.ok("kill", "a")
	w.grepNothing(secret)
}

func TestLG16FastExit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 10 {
		name := fmt.Sprintf("e%d", i)
		w.ok("new", "-d", "-n", name, "--", "sh", "-c", "echo oops >&2; exit 3")
		info := w.exited(name, session.Exit{Code: 3})
		if got := w.ok("log", name); got != "oops\n" {
			t.Errorf("the log is %q", got)
		}
		if info.Started.IsZero() || info.Ended == nil || info.Ended.Before(info.Started) {
			t.Errorf("started %v, ended %v", info.Started, info.Ended)
		}
	}
}

func TestLG03LogIsSafeToPrint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// Without echo: the answer to the question would be shown, as everywhere.
	w.start("a", "sh", "-c", "stty -echo; printf \"$1\"", "sh", `\033]0;title\a\033[31mred\033[m\n10%%\r20%%\r100%%\nab\bc\n\033[6n\033]52;c;eA==\a\033[2Kend\n`)
	w.ended("a")
	if got := w.ok("log", "a"); got != "red\n100%\nac\nend\n" {
		t.Errorf("the log is %q", got)
	}
	tm := w.terminal(80, 24).answering(0)
	tm.run("log", "a")
	tm.exit(0)
	tm.clean()
	tm.run("log", "--raw", "a")
	tm.exit(2)
	if out := tm.text(); strings.Contains(out, "\x1b]52") {
		t.Errorf("the terminal got %q", out)
	}
}

// TestLG02ServerOnAFullDisk: a server that was killed comes back on a disk that
// is full, so that what fills it can be seen, ended and removed.
func TestLG02ServerOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mountTmpfs(t, w.path("s"), "size=3m")
	t.Cleanup(w.end)
	w.start("a", append(helper("flood", "-stay"), "250000")...)
	eventually(t, "the log is stalled", func() bool { return w.status("a").LogState != "ok" })
	fill := w.path("s", "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	before := w.server()
	syscall.Kill(before, syscall.SIGKILL)
	eventually(t, "ls works", func() bool {
		r := w.run("ls")
		return r.code == 0 && strings.Contains(r.out, "a ")
	})
	w.ok("kill", "a")
	w.ok("rm", "a")
	os.Remove(fill)
	w.start("b", "sleep", "600")
}

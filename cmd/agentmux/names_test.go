//go:build linux

package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"agentmux/session"
)

// Rows NM-01 and NM-02: what may be a name and what not.
func TestNM01AndNM02Names(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	outside := func() []string {
		var found []string
		filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != w.path("s") && !strings.HasPrefix(path, w.path("s")+"/") && !strings.Contains(path, "/race.") {
				found = append(found, path)
			}
			return nil
		})
		return found
	}
	w.ok("server", "start")
	before := outside()
	for _, v := range []struct {
		name string
		ok   bool
	}{
		{"refactor", true}, {"two words", false}, {"a/b", false}, {"../escape", false}, {".", false}, {"..", false}, {"", false},
		{"-n", false}, {"--help", false}, {"a:b", false}, {"a.b", true}, {"a_b", true}, {"a\nb", false}, {"a\tb", false},
		{"\x1b]0;x\a", false}, {"\x1b[2J", false}, {"caf\u00e9", true}, {"\u4e2d\u6587", true}, {"\u202egnp.exe", false},
		{"1", true}, {strings.Repeat("a", 64), true}, {strings.Repeat("a", 65), false}, {strings.Repeat("a", 5000), false},
		{"\xff\xfe", false}, {"a b\u200d", false}, {"\u2028", false}, {"$(id)", false}, {"`id`", false}, {"a'b", false}, {"*", false},
		{"8c99f87a-798d-45fc-93d5-40ca816ce238", false},
	} {
		t.Run(shortened(v.name), func(t *testing.T) {
			if !v.ok {
				msg := w.fails(2, "new", "-d", "-n", v.name, "--", "sleep", "600")
				line, hint, _ := strings.Cut(strings.TrimSuffix(msg, "\n"), "\n")
				if !strings.HasPrefix(hint, "agentmux: hint: ") || strings.Contains(hint, "\n") || len(line) > 400 {
					t.Errorf("the message is %q", msg)
				}
				if strings.ContainsFunc(line+hint, func(r rune) bool { return !unicode.IsPrint(r) }) {
					t.Errorf("the message shows the name as it is: %q", msg)
				}
				if msg := w.fails(2, "rename", "--", "x", v.name); !strings.Contains(msg, "invalid session name") {
					t.Errorf("rename: %q", msg)
				}
				return
			}
			log := w.startProbe(v.name)
			w.ok("send", v.name, "x")
			w.received(log, "x")
			list := w.listJSON()
			if len(list) != 1 || list[0].Name != v.name {
				t.Errorf("the list is %+v", list)
			}
			if table := w.ok("ls"); !strings.Contains(table, v.name+" ") {
				t.Errorf("the table is\n%s", table)
			}
			w.ok("capture", v.name)
			w.ok("log", v.name)
			w.ok("kill", v.name)
			w.ok("rm", v.name)
		})
	}
	if after := outside(); !slices.Equal(slices.DeleteFunc(after, func(p string) bool { return strings.HasPrefix(filepath.Base(p), "probe-") }), before) {
		t.Errorf("files outside the state tree:\n%s", strings.Join(after, "\n"))
	}
	if n := len(w.list(true)); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestNM02TableOfWideNamesLinesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("\u4e2d\u6587", "sleep", "600")
	w.start("abcd", "sleep", "600")
	w.start("e\u0301fgh", "sleep", "600")
	tm := w.terminal(100, 24)
	tm.run("ls")
	tm.exit(0)
	tm.settled()
	for _, cells := range tm.lines()[1:4] {
		// The screen's text has a wide character once for its two columns.
		column := 0
		before, _, found := strings.Cut(cells, "running")
		for _, r := range before {
			switch {
			case r >= 0x1100:
				column += 2
			case r != '\u0301':
				column++
			}
		}
		if !found || column != 6 {
			t.Errorf("the state is in column %d of %q", column, cells)
		}
	}
}

func TestNM05AlikeNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fails(2, "new", "-d", "-n", "a:b", "--", "true")
	w.start("a.b", "sh", "-c", "echo dot; sleep 600")
	w.start("a_b", "sh", "-c", "echo line; sleep 600")
	w.start("A_B", "sh", "-c", "echo upper; sleep 600")
	for name, want := range map[string]string{"a.b": "dot\r\n", "a_b": "line\r\n", "A_B": "upper\r\n"} {
		eventually(t, name+" has printed", func() bool { return len(w.raw(name)) > 0 })
		if got := string(w.raw(name)); got != want {
			t.Errorf("the log of %s is %q", name, got)
		}
	}
	w.ok("kill", "a_b")
	for _, name := range []string{"a.b", "A_B"} {
		if got := w.status(name).State; got != session.Running {
			t.Errorf("%s is %s", name, got)
		}
	}
}

func TestNM06Prefixes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ab, abc := w.start("ab", "sh", "-c", "echo I am ab; sleep 600"), w.start("abc", "sh", "-c", "echo I am abc; sleep 600")
	w.shows("ab", "ab")
	w.shows("abc", "abc")
	w.fails(3, "kill", "a")
	w.fails(3, "kill", "abcd")
	w.fails(3, "send", "a", "x")
	w.fails(3, "rm", "a")
	w.fails(3, "rename", "a", "b")
	w.fails(3, "capture", "a") // ambiguous
	tm := w.terminal(80, 24)
	tm.attach("abc")
	tm.row(1, "I am abc")
	tm.detach()
	if got := w.ok("log", "ab"); got != "I am ab\n" {
		t.Errorf("the log of ab is %q", got)
	}
	if got := w.ok("capture", string(abc.ID)); got != "I am abc\n" {
		t.Errorf("by id: %q", got)
	}
	w.ok("kill", "ab")
	if alive(ab.AgentPID) || !alive(abc.AgentPID) {
		t.Error("the wrong one was killed")
	}
	// Of a live and an ended one, the live one is meant.
	if got := w.ok("capture", "a"); got != "I am abc\n" {
		t.Errorf("by prefix: %q", got)
	}
}

func TestNM08ArgumentsUntouched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := []string{"a b", "$HOME", `"`, "'", "*", "", "-n", "--", "x\ny", "\\", "\t", "\x1b[31m", "\xff\xfe", "~", "!", "a=b", strings.Repeat("long ", 20000)}
	file := w.path("started")
	w.ok(append([]string{"new", "-d", "-n", "q", self, "@args", file}, args...)...)
	if got := readStarted(t, file); !slices.Equal(got.Args, jsonStrings(t, args)) {
		t.Errorf("the program got %q", got.Args)
	}
	w.exited("q", session.Exit{})
	list := w.listJSON()
	if len(list) != 1 || !slices.Equal(list[0].Command[3:], jsonStrings(t, args)) {
		t.Errorf("ls --json: %+v", list)
	}
	w.ok("new", "-d", "-n", "r", "--", "sh", "-c", "true", "a b", "$HOME", "it's", "")
	for _, out := range []string{w.ok("ls"), w.ok("status", "q"), w.ok("status", "r")} {
		if strings.ContainsFunc(out, func(r rune) bool { return r < ' ' && r != '\n' }) || !utf8.ValidString(out) {
			t.Errorf("raw bytes are shown: %q", shortened(out))
		}
	}
	if got := w.ok("status", "r"); !strings.Contains(got, `sh -c true 'a b' '$HOME' 'it'\''s' ''`) {
		t.Errorf("status:\n%s", got)
	}
}

// jsonStrings are strings as they come back from JSON, which cannot hold what
// is no UTF-8.
func jsonStrings(t testing.TB, in []string) (out []string) {
	t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestNM08BytesThatAreNoText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.path("out")
	w.start("x", "sh", "-c", `printf %s "$1" >`+file+`; printf %s "$V" >>`+file, "sh", "\xff\x01\x80")
	w.ended("x")
	w.setenv("V=\xfe\x1b")
	w.start("y", "sh", "-c", `printf %s "$1" >`+file+`; printf %s "$V" >>`+file, "sh", "\xff\x01\x80")
	w.ended("y")
	if got, err := os.ReadFile(file); err != nil || string(got) != "\xff\x01\x80\xfe\x1b" {
		t.Errorf("the program got %q, %v", got, err)
	}
}

func TestNM09OptionsOfTheAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, argv := range map[string][]string{
		"plain": {"new", "-d", "-n", "plain"}, "dashes": {"new", "-d", "-n", "dashes", "--"},
	} {
		t.Run(name, func(t *testing.T) {
			file := w.path("args-" + name)
			args := []string{"--name", "y", "-d", "-h", "--version", "--", "-n", "--json"}
			w.ok(append(append(argv, self, "@args", file), args...)...)
			if got := readStarted(t, file); !slices.Equal(got.Args, args) {
				t.Errorf("the program got %q", got.Args)
			}
		})
	}
}

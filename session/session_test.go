package session

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheckName(t *testing.T) {
	good := []string{
		"refactor", "a_b", "a.b", "a-b", "a+b", "a@b", "1", "_x", "café", "中文", "ไทย",
		strings.Repeat("a", MaxNameLength),
	}
	for _, name := range good {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
	bad := []string{
		"", ".", "..", ".hidden", "-n", "--help", "a/b", "../escape", "a:b", "two words", "a\nb", "a\tb",
		"\x1b]0;x\a", "\x1b[2J", "\u202egnp.exe", "a\x00b", "\xff\xfe", "a\u200db", "@x", "+x",
		strings.Repeat("a", MaxNameLength+1), strings.Repeat("a", 5000), "0f0e0d0c-0b0a-4908-8706-050403020100",
	}
	for _, name := range bad {
		err := CheckName(name)
		if !errors.Is(err, ErrInvalidName) {
			t.Errorf("CheckName(%q) = %v, want ErrInvalidName", name, err)
			continue
		}
		if text := err.Error(); Printable(text) != text || len(text) > 400 {
			t.Errorf("CheckName(%q) says %q, which is not one short printable line", name, text)
		}
	}
}

func FuzzCheckName(f *testing.F) {
	f.Add("refactor")
	f.Add("\x1b[2J")
	f.Fuzz(func(t *testing.T, name string) {
		if CheckName(name) == nil && (Printable(name) != name || strings.ContainsAny(name, "/:\x00 ")) {
			t.Errorf("%q was taken", name)
		}
	})
}

func TestMakeName(t *testing.T) {
	none := func(string) bool { return false }
	for _, c := range []struct{ dir, program, want string }{
		{"/home/me/repo", "/usr/bin/claude", "repo-claude"},
		{"/", "bash", "bash"},
		{"/tmp/a b", "x", "a-b-x"},
		{"/tmp/\x1b[2J", "y", "2J-y"},
		{"/tmp/---", "...", "session"},
		{"/tmp/.git", "sh", "git-sh"},
	} {
		got := MakeName(c.dir, c.program, none)
		if got != c.want || CheckName(got) != nil {
			t.Errorf("MakeName(%q, %q) = %q, want %q", c.dir, c.program, got, c.want)
		}
	}
	taken := map[string]bool{"repo-claude": true, "repo-claude-2": true}
	if got := MakeName("/repo", "claude", func(n string) bool { return taken[n] }); got != "repo-claude-3" {
		t.Errorf("with two taken: %q", got)
	}
}

func FuzzMakeName(f *testing.F) {
	f.Add("/home/me", "claude")
	f.Fuzz(func(t *testing.T, dir, program string) {
		if name := MakeName(dir, program, func(string) bool { return false }); CheckName(name) != nil {
			t.Errorf("MakeName(%q, %q) = %q: %v", dir, program, name, CheckName(name))
		}
	})
}

func TestParseID(t *testing.T) {
	id := NewID()
	if got, err := ParseID(strings.ToUpper(string(id))); err != nil || got != id {
		t.Errorf("ParseID of %s in capitals = %s, %v", id, got, err)
	}
	if id.Bytes() == [16]byte{} || len(id.Short()) != 8 {
		t.Errorf("bytes %x, short %q", id.Bytes(), id.Short())
	}
	for _, bad := range []string{"", "x", string(id) + "0", "urn:uuid:" + string(id), "{" + string(id) + "}", strings.ReplaceAll(string(id), "-", "")} {
		if _, err := ParseID(bad); !errors.Is(err, ErrInvalidID) {
			t.Errorf("ParseID(%q) = %v", bad, err)
		}
	}
}

func TestClamp(t *testing.T) {
	for _, c := range []struct{ in, want Size }{
		{Size{}, DefaultSize},
		{Size{80, 24}, Size{80, 24}},
		{Size{1, 1}, Size{MinCols, MinRows}},
		{Size{65535, 1}, Size{MaxCols, MinRows}},
		{Size{-5, 10000}, Size{DefaultSize.Cols, MaxRows}},
	} {
		if got := c.in.Clamp(); got != c.want {
			t.Errorf("%v clamped is %v, want %v", c.in, got, c.want)
		}
	}
}

func TestFindTree(t *testing.T) {
	env := func(kv ...string) func(string) string {
		m := map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			m[kv[i]] = kv[i+1]
		}
		return func(k string) string { return m[k] }
	}
	for _, c := range []struct {
		getenv func(string) string
		want   string
	}{
		{env("HOME", "/h"), "/h/.local/state/agentmux"},
		{env("HOME", "/h", "XDG_STATE_HOME", "/s"), "/s/agentmux"},
		{env("HOME", "/h", "XDG_STATE_HOME", "relative"), "/h/.local/state/agentmux"},
	} {
		if got, err := FindTree(c.getenv); err != nil || string(got) != c.want {
			t.Errorf("got %q, %v, want %q", got, err, c.want)
		}
	}
	if got, err := FindTree(env("XDG_STATE_HOME", "/tmp/x\xff")); err == nil {
		t.Errorf("a path that no record can hold: %q", got)
	}
	if got, err := FindTree(env()); err != nil || !filepath.IsAbs(string(got)) {
		t.Errorf("without HOME: %q, %v", got, err)
	}
}

func TestTreeIsPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agentmux")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	tree := Tree(dir)
	if err := tree.Make(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, tree.Sessions()} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

func TestRecord(t *testing.T) {
	tree := Tree(t.TempDir())
	if err := tree.Make(); err != nil {
		t.Fatal(err)
	}
	id := NewID()
	dir := tree.Session(id)
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	want := Record{Schema: RecordSchema, ID: id, Name: "n", Argv: []string{"a", ""}, Dir: "/", Created: time.Unix(1, 2).UTC()}
	if err := dir.WriteRecord(want); err != nil {
		t.Fatal(err)
	}
	got, err := dir.ReadRecord()
	if err != nil || got.Name != want.Name || !got.Created.Equal(want.Created) || len(got.Argv) != 2 {
		t.Errorf("read back %+v, %v", got, err)
	}
	if dirs, err := tree.List(); err != nil || len(dirs) != 1 || dirs[0].ID() != id {
		t.Errorf("List = %v, %v", dirs, err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(dir), "*.tmp")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	want.Schema = RecordSchema + 1
	if err := dir.WriteRecord(want); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.ReadRecord(); !errors.Is(err, ErrVersion) {
		t.Errorf("a record of a later schema: %v", err)
	}
	if err := os.WriteFile(dir.Record(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var syntax *json.SyntaxError
	if _, err := dir.ReadRecord(); !errors.As(err, &syntax) {
		t.Errorf("a torn record: %v", err)
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain ünï 中": "plain ünï 中", "\x1b]0;x\a": `\x1b]0;x\a`, "a\nb": `a\nb`, "\xff": `\xff`,
		"\u202e": `\u202e`, "\u009b31m": `\u009b31m`, "": "",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for _, c := range []struct {
		argv []string
		want string
	}{
		{[]string{"claude", "--resume", "x"}, "claude --resume x"},
		{[]string{"a b", "$HOME", `"`, "'", "*", "", "-n"}, `'a b' '$HOME' '"' ''\''' '*' '' -n`},
		{[]string{"x\ny", "\xff", `b\`}, `$'x\ny' $'\xff' $'b\\'`},
	} {
		if got := Quote(c.argv); got != c.want {
			t.Errorf("Quote(%q) = %s, want %s", c.argv, got, c.want)
		}
	}
}

func TestCleanEnvironment(t *testing.T) {
	env := map[string]string{"HOME": "/h", "CLAUDECODE": "1", "API_KEY": "s", "PATH": "/bin"}
	got := CleanEnvironment(func(k string) string { return env[k] })
	if strings.Join(got, " ") != "HOME=/h PATH=/bin" {
		t.Errorf("got %q", got)
	}
}

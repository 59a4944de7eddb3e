package tty

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

func mustDetach(t testing.TB, s string) DetachKeys {
	t.Helper()
	d, err := ParseDetachKeys(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// show writes inputs in a form in which how they were cut does not matter:
// neighbours of one kind are joined.
func show(inputs []Input) string {
	var b strings.Builder
	last := Kind(0)
	for _, in := range inputs {
		if in.Kind != last || in.First || in.Kind == Detach {
			fmt.Fprintf(&b, " %s:", in.Kind)
		}
		if in.First {
			b.WriteString("<")
		}
		if len(in.Bytes) > 0 {
			fmt.Fprintf(&b, "%q", in.Bytes)
		}
		last = in.Kind
		if in.Last {
			b.WriteString(">")
			last = 0
		}
	}
	return strings.TrimSpace(b.String())
}

// feedAll feeds the reads, then lets the timer run out.
func feedAll(d DetachKeys, reads ...[]byte) []Input {
	k := NewKeys(d)
	var got []Input
	for _, r := range reads {
		got = append(got, k.Feed(r)...)
	}
	return append(got, k.Flush()...)
}

func TestParseDetachKeys(t *testing.T) {
	for _, s := range []string{`ctrl-\`, "ctrl-b,d", "q", "none", "ctrl-@", "ctrl-],ctrl-],x", "ctrl-_", "ctrl-^", "~,."} {
		d, err := ParseDetachKeys(s)
		if err != nil || d.String() != s || d.Enabled() != (s != "none") {
			t.Errorf("%q: %v, %v", s, d, err)
		}
	}
	if d := mustDetach(t, `CTRL-B`); d.String() != "ctrl-b" {
		t.Error(d)
	}
	if d := mustDetach(t, `ctrl-\\`); d.String() != DefaultDetachKeys {
		t.Error(d)
	}
	for s, part := range map[string]string{
		"":                    "none",
		"ctrl-":               "one character",
		"ctrl-ab":             "one character",
		"ctrl-1":              "a-z",
		"ctrl-[":              "Escape",
		"ctrl-b,,d":           "missing",
		"alt-b":               "neither",
		"é":                   "neither",
		" ":                   "neither",
		"a,b,c,d,e,f,g,h,i":   "more than 8",
		"ctrl-b, d":           "neither",
		"detach, please, now": "neither",
	} {
		_, err := ParseDetachKeys(s)
		if !errors.Is(err, ErrDetachKeys) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want it to mention %q", s, err, part)
		}
	}
}

// unescape reads the notation of detach_keys.txt.
func unescape(s string) []byte {
	var b []byte
	for len(s) > 0 {
		switch {
		case strings.HasPrefix(s, `\e`):
			b, s = append(b, esc), s[2:]
		case strings.HasPrefix(s, `\x`):
			var c byte
			fmt.Sscanf(s[2:4], "%x", &c)
			b, s = append(b, c), s[4:]
		default:
			b, s = append(b, s[0]), s[1:]
		}
	}
	return b
}

// TestDetachRows goes through the shared rows, at every split into two reads.
func TestDetachRows(t *testing.T) {
	text, err := os.ReadFile("testdata/detach_keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := mustDetach(t, DefaultDetachKeys)
	rows := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		col := strings.Split(strings.TrimSpace(line), " | ")
		data, want := unescape(strings.ReplaceAll(col[1], `\\`, `\`)), ""
		switch {
		case strings.HasPrefix(col[2], "detach"):
			want = "detach:"
		case strings.HasPrefix(col[2], "abc"):
			want = `key:"abc" detach:`
		case strings.HasPrefix(col[2], "nothing"):
		case strings.HasPrefix(col[2], "to the program, unchanged"):
			kind := Key
			if strings.Contains(col[0], "mouse") {
				kind = Mouse
			}
			want = show([]Input{{Kind: kind, Bytes: data}})
		default:
			t.Fatalf("row not understood: %s", line)
		}
		rows++
		for i := range len(data) + 1 {
			if got := joined(feedAll(d, data[:i], data[i:])); got != want {
				t.Errorf("%s, split at %d: %s, want %s", col[0], i, got, want)
			}
		}
	}
	if rows != 19 {
		t.Errorf("%d rows", rows)
	}
}

// joined is show with the bytes of neighbours in one string.
func joined(inputs []Input) string {
	var out []Input
	for _, in := range inputs {
		if n := len(out) - 1; n >= 0 && out[n].Kind == in.Kind && !out[n].Last && in.Kind != Detach {
			out[n].Bytes = append(slices.Clone(out[n].Bytes), in.Bytes...)
			out[n].Last = in.Last
			continue
		}
		out = append(out, in)
	}
	return show(out)
}

func TestKeys(t *testing.T) {
	const def = DefaultDetachKeys
	for _, tt := range []struct{ name, keys, in, want string }{
		{"text", def, "hello é", `key:"hello é"`},
		{"none", "none", "a\x1cb\x1b[92;5u", `key:"a\x1cb\x1b[92;5u"`},
		{"arrow", def, "\x1b[A", `key:"\x1b[A"`},
		{"cyrillic layout", def, "\x1b[1101::92;5u", "detach:"},
		{"caps lock", "ctrl-b", "\x1b[27;5;66~", "detach:"},
		{"ctrl-_ is shifted minus", "ctrl-_", "\x1b[45:95;6u", "detach:"},
		{"ctrl-space is ctrl-@", "ctrl-@", "\x1b[32;5u", "detach:"},
		{"release of another key", def, "\x1b[97;5:3u", `key:"\x1b[97;5:3u"`},
		{"escape, then detach", def, "\x1b\x1c", `key:"\x1b" detach:`},
		{"escape, then detach report", def, "\x1b\x1b[92;5u", `key:"\x1b" detach:`},
		{"alt-up", def, "\x1b\x1b[A", `key:"\x1b\x1b[A"`},
		{"escapes", def, "\x1b\x1b\x1b", `key:"\x1b""\x1b\x1b"`},
		{"detach cuts off a sequence", def, "\x1b[1;\x1cx", `key:"\x1b[1;" detach:`},
		{"detach cuts off a string", def, "\x1b]11;rgb\x1cx", `key:"\x1b]11;rgb" detach:`},
		{"linux F1", def, "\x1b[[A", `key:"\x1b[[A"`},
		{"ss3", def, "\x1bOP\x1bO5P", `key:"\x1bOP\x1bO5P"`},
		{"alt-é", def, "\x1bé", `key:"\x1bé"`},
		{"x10 mouse", def, "a\x1b[M !!b", `key:"a" mouse:"\x1b[M !!" key:"b"`},
		{"utf-8 mouse", def, "\x1b[M \u0100\u0101b", `mouse:"\x1b[M Āā" key:"b"`},
		{"sgr and urxvt mouse", def, "\x1b[<0;1;1M\x1b[<0;1;1m\x1b[32;5;5M", `mouse:"\x1b[<0;1;1M""\x1b[<0;1;1m""\x1b[32;5;5M"`},
		{"focus", def, "\x1b[I\x1b[O", `focus:"\x1b[I""\x1b[O"`},
		{"da1", def, "\x1b[?62;1;4cx", `reply:"\x1b[?62;1;4c" key:"x"`},
		{"da2, flags, decrpm", def, "\x1b[>1;2;0c\x1b[?5u\x1b[?2026;2$y", `reply:"\x1b[>1;2;0c""\x1b[?5u""\x1b[?2026;2$y"`},
		{"cpr", def, "\x1b[12;40R\x1b[?1;1R", `reply:"\x1b[12;40R""\x1b[?1;1R"`},
		{"shift-F3 is no cpr", def, "\x1b[1;2R", `key:"\x1b[1;2R"`},
		{"dsr, cell size, colour scheme", def, "\x1b[0n\x1b[6;20;10t\x1b[?997;1n", `reply:"\x1b[0n""\x1b[6;20;10t""\x1b[?997;1n"`},
		{"osc, bel and st", def, "\x1b]11;rgb:1/2/3\a\x1b]10;rgb:1/2/3\x1b\\", `reply:"\x1b]11;rgb:1/2/3\a""\x1b]10;rgb:1/2/3\x1b\\"`},
		{"dcs, apc", def, "\x1bP>|foot(1.2)\x1b\\\x1b_Gi=31;OK\x1b\\", `reply:"\x1bP>|foot(1.2)\x1b\\""\x1b_Gi=31;OK\x1b\\"`},
		{"osc and da1 in one packet", def, "\x1b]11;rgb:11/22/33\x1b\\\x1b[?62c", `reply:"\x1b]11;rgb:11/22/33\x1b\\""\x1b[?62c"`},
		{"alt-] and alt-P", def, "\x1b]x\x1bPy", `key:"\x1b]x\x1bPy"`},
		{"no answers", def, "\x1b[?c\x1b[5n\x1b[;5R\x1b[48t", `key:"\x1b[?c\x1b[5n\x1b[;5R\x1b[48t"`},
		{"paste", def, "a\x1b[200~x\x1cy\x1b[92;5uz\x1b[201~b", `key:"a" paste:<"\x1b[200~x\x1cy\x1b[92;5uz\x1b[201~"> key:"b"`},
		{"paste enders", def, "\x1b[200~a\x1b[201b\x03c\x1b[20\x1b[201~", `paste:<"\x1b[200~a\x1b[201b\x03c\x1b[20\x1b[201~">`},
		{"two pastes", def, "\x1b[200~\x1b[201~\x1b[200~\x1b[201~", `paste:<"\x1b[200~\x1b[201~"> paste:<"\x1b[200~\x1b[201~">`},
		{"after a paste", def, "\x1b[200~\x1c\x1b[201~\x1c", `paste:<"\x1b[200~\x1c\x1b[201~"> detach:`},
		{"sequence", "ctrl-b,d", "x\x02dy", `key:"x" detach:`},
		{"sequence in kitty form", "ctrl-b,d", "\x1b[98;5u\x1b[98;5:3u\x1b[100u", "detach:"},
		{"sequence, mixed forms", "ctrl-b,d", "\x02\x1b[100;1:1u", "detach:"},
		{"sequence, control key let go", "ctrl-b,d", "\x1b[98;5u\x1b[57442;5:3ud", "detach:"},
		{"sequence, prefix held down", "ctrl-b,d", "\x1b[98;5u\x1b[98;5:2u\x1b[98;5:2ud", "detach:"},
		{"sequence, upper case", "ctrl-b,D", "\x02\x1b[100:68;2u", "detach:"},
		{"sequence, prefix twice", "ctrl-b,d", "\x02\x02d", `key:"\x02d"`},
		{"sequence, other key", "ctrl-b,d", "\x02xd", `key:"\x02xd"`},
		{"sequence, other key report", "ctrl-b,d", "\x02\x1b[Ad", `key:"\x02\x1b[Ad"`},
		{"sequence, mouse overtakes", "ctrl-b,d", "\x02\x1b[<35;1;1Md", `mouse:"\x1b[<35;1;1M" detach:`},
		{"sequence, paste between", "ctrl-b,d", "\x02\x1b[200~d\x1b[201~d", `key:"\x02" paste:<"\x1b[200~d\x1b[201~"> key:"d"`},
		{"sequence of the same key", "ctrl-a,ctrl-a", "\x01\x01", "detach:"},
		{"sequence of three", "a,b,c", "ababc", `key:"ab" detach:`},
		{"sequence, second alone", "ctrl-b,d", "d\x04", `key:"d\x04"`},
		{"alt-d is not d", "ctrl-b,d", "\x02\x1bdx", `key:"\x02\x1bdx"`},
		{"single letter", "q", "abq", `key:"ab" detach:`},
	} {
		d := mustDetach(t, tt.keys)
		data := []byte(tt.in)
		if got := show(feedAll(d, data)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		want := joined(feedAll(d, data))
		for i := range len(data) + 1 {
			if got := joined(feedAll(d, data[:i], data[i:])); got != want {
				t.Errorf("%s, split at %d:\n got %s\nwant %s", tt.name, i, got, want)
			}
		}
		var bytewise [][]byte
		for i := range data {
			bytewise = append(bytewise, data[i:i+1])
		}
		if got := joined(feedAll(d, bytewise...)); got != want {
			t.Errorf("%s, bytewise:\n got %s\nwant %s", tt.name, got, want)
		}
	}
}

// TestKeysWhole: a sequence comes out in one Input, however it was read.
func TestKeysWhole(t *testing.T) {
	d := mustDetach(t, DefaultDetachKeys)
	for _, seq := range []string{"\x1b[A", "\x1b[1;5A", "\x1bOP", "\x1bx", "\x1b[<0;10;10M", "\x1b]11;rgb:1/2/3\x1b\\", "\x1bé", "\x1b[97;5:3u"} {
		for i := range len(seq) {
			k := NewKeys(d)
			got := k.Feed([]byte(seq[:i]))
			if i > 0 && !k.Pending() {
				t.Errorf("%q at %d: not pending", seq, i)
			}
			got = append(got, k.Feed([]byte(seq[i:]))...)
			if len(got) != 1 || string(got[0].Bytes) != seq {
				t.Errorf("%q at %d: %s", seq, i, show(got))
			}
			if k.Pending() {
				t.Errorf("%q: pending", seq)
			}
		}
	}
}

func TestKeysFlush(t *testing.T) {
	k := NewKeys(mustDetach(t, "ctrl-b,d"))
	if got := k.Feed([]byte("\x1b")); got != nil || k.Wait() != EscapeTimeout {
		t.Errorf("%s, %v", show(got), k.Wait())
	}
	if got := show(k.Flush()); got != `key:"\x1b"` || k.Wait() != 0 {
		t.Error(got)
	}
	k.Feed([]byte("\x1b[9"))
	if k.Wait() != SequenceTimeout {
		t.Error(k.Wait())
	}
	if got := show(k.Flush()); got != `key:"\x1b[9"` {
		t.Error(got)
	}
	k.Feed([]byte("\x02"))
	if k.Pending() || k.Flush() != nil {
		t.Error("a prefix has no timer")
	}
	k.Feed([]byte("d"))
	if got := k.Feed([]byte("more")); got != nil {
		t.Error("input after detach: ", show(got))
	}
}

func TestAbortPaste(t *testing.T) {
	k := NewKeys(mustDetach(t, DefaultDetachKeys))
	if k.AbortPaste() != nil {
		t.Error("no paste to abort")
	}
	got := k.Feed([]byte("\x1b[200~abc\x1c\x1b[20"))
	if !k.InPaste() || k.Pending() {
		t.Error("a paste holds nothing back")
	}
	got = append(got, k.AbortPaste()...)
	got = append(got, k.Feed([]byte("x\x1c"))...)
	if s := joined(got); s != `paste:<"\x1b[200~abc\x1c\x1b[20"> key:"x" detach:` {
		t.Error(s)
	}
}

// TestKeysOwnership: what was given out does not change later.
func TestKeysOwnership(t *testing.T) {
	k := NewKeys(DetachKeys{})
	buf := []byte("abc\x1b[")
	first := k.Feed(buf)
	copy(buf, "XXXXX")
	k.Feed([]byte("Adef"))
	if string(first[0].Bytes) != "abc" {
		t.Errorf("%q", first[0].Bytes)
	}
}

var keyAtoms = []string{
	"a", "é", "\x1b", "\x1b[A", "\x1b[92;5u", "\x1b[92;5:3u", "\x1c", "\x02", "d", "\x1b[200~", "\x1b[201~", "\x1b[20",
	"\x1b[<0;1;1M", "\x1b[M", "\x1b[I", "\x1b[?62c", "\x1b]11;rgb:1/2/3", "\x1b\\", "\a", "\x1bP>|x", "\x1b_G", "\x1bO", "[", "\x1b[27;5;92~", "\x00", "\xff", "\x1b[[",
}

func TestKeysChunks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		var data []byte
		for range 1 + rng.IntN(10) {
			data = append(data, keyAtoms[rng.IntN(len(keyAtoms))]...)
		}
		for _, keys := range []string{DefaultDetachKeys, "ctrl-b,d", "none"} {
			d := mustDetach(t, keys)
			want := joined(feedAll(d, data))
			var reads [][]byte
			for rest := data; len(rest) > 0; {
				n := 1 + rng.IntN(len(rest))
				reads, rest = append(reads, rest[:n]), rest[n:]
			}
			if got := joined(feedAll(d, reads...)); got != want {
				t.Fatalf("%q in %q with %s:\n got %s\nwant %s", data, reads, keys, got, want)
			}
		}
	}
}

func FuzzKeys(f *testing.F) {
	for _, s := range keyAtoms {
		f.Add([]byte(s+"x"+s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		var none DetachKeys
		def, _ := ParseDetachKeys(DefaultDetachKeys)
		i := min(int(cut), len(data))
		var all []byte
		for _, in := range feedAll(none, data[:i], data[i:]) {
			all = append(all, in.Bytes...)
		}
		if !bytes.Equal(all, data) {
			t.Fatalf("%q became %q", data, all)
		}
		whole, parts := joined(feedAll(def, data)), joined(feedAll(def, data[:i], data[i:]))
		if whole != parts {
			t.Fatalf("%q: %s\ncut at %d: %s", data, whole, i, parts)
		}
		k := NewKeys(def)
		k.Feed(data)
		if len(k.hold) > maxInputString+2 {
			t.Fatalf("%d bytes held", len(k.hold))
		}
	})
}

func BenchmarkKeysPaste(b *testing.B) {
	data := append(append(bytes.Clone(pasteStart), bytes.Repeat([]byte("pasted line of text\r"), 1600)...), pasteEnd...)
	k := NewKeys(DetachKeys{})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		k.Feed(data)
	}
}

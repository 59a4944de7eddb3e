package tty

import (
	"bytes"
	"strings"
	"testing"
)

const probeAnswers = "\x1b]10;rgb:ffff/ff/f\x1b\\" + "\x1b]11;rgba:1111/2222/3333/ffff\a" +
	"\x1b[6;20;10t" + "\x1b[?1u" + "\x1bP>|foot(1.16.2)\x1b\\" + "\x1b[?62;4;22c"

var probeProfile = Profile{
	Foreground: "rgb:ffff/ffff/ffff", Background: "rgb:1111/2222/3333",
	CellWidth: 10, CellHeight: 20, KittyKeyboard: true, Name: "foot(1.16.2)", Answered: true,
}

// TestProbe mixes answers with typing, at every split.
func TestProbe(t *testing.T) {
	data := []byte("q1" + strings.Replace(probeAnswers, "\x1b[6;", "\x1b[Aw2\x1b[6;", 1) + "e3\x1b[?62c")
	const typed = "q1\x1b[Aw2e3\x1b[?62c"
	for i := range len(data) + 1 {
		p := NewProber()
		rest, done1 := p.Feed(data[:i])
		rest = bytes.Clone(rest)
		more, done2 := p.Feed(data[i:])
		rest = append(rest, more...)
		if string(rest) != typed || !done2 || p.Outstanding() || p.Pending() || done1 && i < 40 {
			t.Fatalf("split at %d: %q, %v, %v", i, rest, done1, done2)
		}
		if p.Profile() != probeProfile {
			t.Fatalf("split at %d: %+v", i, p.Profile())
		}
	}
}

func TestProbeSilent(t *testing.T) {
	p := NewProber()
	rest, done := p.Feed([]byte("abc\x1b"))
	if string(rest) != "abc" || done || !p.Pending() || !p.Outstanding() {
		t.Errorf("%q %v", rest, done)
	}
	if string(p.Flush()) != "\x1b" || p.Pending() {
		t.Error("escape not given back")
	}
	if p.Profile() != (Profile{}) {
		t.Errorf("%+v", p.Profile())
	}
	// Late: nothing of it is typed.
	if rest, done := p.Feed([]byte(probeAnswers)); len(rest) > 0 || !done || p.Profile() != probeProfile {
		t.Errorf("%q %v %+v", rest, done, p.Profile())
	}
}

func TestProbeStrict(t *testing.T) {
	for _, s := range []string{
		"\x1b[?u", "\x1b[?1;2u", "\x1b[6;20t", "\x1b[4;20;10t", "\x1b[1;5R", "\x1b[c",
		"\x1b]12;rgb:1/2/3\a", "\x1b]4;1;rgb:1/2/3\a", "\x1bP1$r0m\x1b\\", "\x1b_Gi=1;OK\x1b\\", "\x1b[>0;1;2c", "\x1b[?2026;2$y",
	} {
		p := NewProber()
		if rest, _ := p.Feed([]byte(s)); string(rest)+string(p.Flush()) != s {
			t.Errorf("%q: %q", s, rest)
		}
		if p.Profile() != (Profile{}) {
			t.Errorf("%q: %+v", s, p.Profile())
		}
	}
	for s, want := range map[string]Profile{
		"\x1b]10;red\a":             {},
		"\x1b]10;rgb:12345/1/1\a":   {},
		"\x1b]10;rgb:1/1\a":         {},
		"\x1b]11;rgb:0/80/800\a":    {Background: "rgb:0000/8080/8008"},
		"\x1b[6;0;0t":               {},
		"\x1b[6;99999;10t":          {},
		"\x1b[?0u":                  {KittyKeyboard: true},
		"\x1bP>|a\u200bb\xff\x1b\\": {Name: "ab"},
		"\x1bP>|" + strings.Repeat("x", 500) + "\x1b\\": {Name: strings.Repeat("x", 64)},
	} {
		p := NewProber()
		if rest, _ := p.Feed([]byte(s)); len(rest) > 0 || p.Profile() != want {
			t.Errorf("%q: rest %q, %+v", s, rest, p.Profile())
		}
	}
}

func TestProbeSequence(t *testing.T) {
	s := ProbeSequence()
	if !bytes.HasSuffix(s, []byte("\x1b[c")) {
		t.Error("the sentinel must be last")
	}
	if out := NewFilter().Filter(nil, s); len(out) > 0 {
		t.Errorf("the filter knows not all of them: %q", out)
	}
}

func FuzzProber(f *testing.F) {
	f.Add([]byte(probeAnswers), uint8(9))
	f.Add([]byte("typed\x1b[A\x1b"), uint8(6))
	f.Fuzz(func(t *testing.T, data []byte, cut uint8) {
		i := min(int(cut), len(data))
		run := func(reads ...[]byte) (string, Profile) {
			p := NewProber()
			var rest []byte
			for _, r := range reads {
				got, _ := p.Feed(r)
				rest = append(rest, got...)
			}
			return string(append(rest, p.Flush()...)), p.Profile()
		}
		one, prof1 := run(data)
		two, prof2 := run(data[:i], data[i:])
		if one != two || prof1 != prof2 {
			t.Fatalf("%q %+v, cut at %d %q %+v", one, prof1, i, two, prof2)
		}
		if len(one) > len(data) {
			t.Fatal("more than was sent")
		}
	})
}

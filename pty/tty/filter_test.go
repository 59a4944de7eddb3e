package tty

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func filterAll(reads ...[]byte) string {
	f := NewFilter()
	var out []byte
	for _, r := range reads {
		out = f.Filter(out, r)
	}
	return string(out)
}

// everySplit runs check on the output for the whole, for all splits in two and
// for single bytes.
func everySplit(data []byte, check func(how, out string)) {
	check("whole", filterAll(data))
	for i := range len(data) {
		check(fmt.Sprintf("split at %d", i), filterAll(data[:i], data[i:]))
	}
	var reads [][]byte
	for i := range data {
		reads = append(reads, data[i:i+1])
	}
	check("bytewise", filterAll(reads...))
}

var questions = []string{
	"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[>0c", "\x1b[=c", "\x1bZ",
	"\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?15n", "\x1b[?996n",
	"\x1b[?2026$p", "\x1b[4$p", "\x1b[>q", "\x1b[>0q", "\x1b[?u",
	"\x1b[?4m", "\x1b[>4;?m", "\x1b[?4g", "\x1b[?1;1;0S",
	"\x1b[11t", "\x1b[13t", "\x1b[13;2t", "\x1b[14t", "\x1b[14;2t", "\x1b[15t", "\x1b[16t", "\x1b[18t", "\x1b[19t", "\x1b[20t", "\x1b[21t",
	"\x1bP$qm\x1b\\", "\x1bP$q q\x1b\\", "\x1bP+q544e\x1b\\", "\x1bP+q\u009c",
	"\x1b]4;1;?\x1b\\", "\x1b]4;1;?;2;?\a", "\x1b]5;0;?\a", "\x1b]10;?\x1b\\", "\x1b]11;?\a", "\x1b]10;?;?\a", "\x1b]19;?\a",
	"\x1b]0011;?\a", "\x1b]00000000011;?\a", "\x1b]1\x001;?\a",
	"\x1b]21;foreground=?\x1b\\", "\x1b]22;?__current__\x1b\\", "\x1b]50;?\a", "\x1b]60\a",
	"\x1b]52;c;?\a", "\x1b]52;;?\x1b\\", "\x1b]7501;?\a", "\x1b]99;i=1:p=?;\x1b\\",
	"\x1b]1337;ReportCellSize\a", "\x1b]1337;ReportVariable=eA==\a", "\x1b]5522;type=read;\x1b\\",
	"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\", "\x1b_Ga=q\x1b\\",
	"\x1b[1;1;1;1;24;80*y", "\x1b[x", "\x1b[0x", "\x1b[1x", "\x05",
	"\x1b[1$w", "\x1b[2$u", "\x1b[\"v", "\x1b['|", "\x1b[1#|", "\x1b[#R", "\x1b[> q",
	"\u009b6n", "\u009bc", "\u009d11;?\u009c", "\u0090$qm\x1b\\", "\u009a", "\u009fGa=q\x1b\\",
	"\x1b[\x056n", "\x1b\x05[6n", "\x1b[6\x7fn", "\x1b[é6n", "\x1b\x1b[6n", "\x1b[1;\x1b[6n", "\x1b[1\u009b6n", "\x1bP\x7f$qm\x1b\\",
	"\x1b\u009b6n", "\x1b[1\x1b\u009d11;?\a", "\x1b]10;?\u009b6n", "\x1b[1;2\x1bZ",
}

var removed = []string{
	"\x1b]7501;state=idle:app=codex\x1b\\", "\x1b]7501;state=working\a",
	"\x1b[?2048h", "\x1b[?2048l", "\x1b[?9001h", "\x1b[?2l", "\x1b[?3h", "\x1b[?40h", "\x1b[2h",
	"\x1b[1t", "\x1b[2t", "\x1b[3;0;0t", "\x1b[4;100;100t", "\x1b[8;50;132t", "\x1b[9;1t", "\x1b[10;1t", "\x1b[24t", "\x1b[36t",
	"\x1b[80$|", "\x1b[24*|", "\x1b[3J", "\x1b[?3J", "\x1b]1337;ClearScrollback\a", "\x1b[23;0t", "\x1b[<u", "\x1b[<3u", "\x1b G",
}

func TestFilterRemoves(t *testing.T) {
	for _, q := range append(append([]string{}, questions...), removed...) {
		everySplit([]byte("a"+q+"b"), func(how, out string) {
			if out != "ab" {
				t.Errorf("%q, %s: %q", q, how, out)
			}
		})
	}
}

var passes = []string{
	"plain", "é€😀", "\xff\xfe", "\xc2", "\xe2\x82x", "\r\n\t\b\a", "a\u00a0b", "\x18\x1a",
	"\x1b[1;31;44m", "\x1b[38:2::1:2:3m", "\x1b[m", "\x1b[2J", "\x1b[J", "\x1b[22J", "\x1b[10;20H", "\x1b[3;10r", "\x1b[r", "\x1b[s\x1b[u",
	"\x1b7\x1b8", "\x1b(0\x0eqq\x0f\x1b(B", "\x1b#8", "\x1b%G", "\x1b=\x1b>", "\x1bM", "\x1b\\", "\x1bH",
	"\x1b[?1049h\x1b[?1049l", "\x1b[?1000;1002;1006h", "\x1b[4h\x1b[4l", "\x1b[?25l", "\x1b[?2026h\x1b[?2026l", "\x1b[?1049s",
	"\x1b[>1u\x1b[>5u\x1b[=7;1u\x1b[<2u", "\x1b[>4;2m", "\x1b[>4m", "\x1b[>4n", "\x1b[5 q", "\x1b[!p", "\x1b[22;0t\x1b[23;0t", "\x1b[2\"q", "\x1b[1;2;3;4$x", "\x1b[1*x", "\x1b[>1t",
	"\x1b[?6c", "\x1b[1\x18m", "\x1b[1;\x1b[m", "\x1b\x1b[A",
	"\x1b]0;title?\a", "\x1b]2;a;b \x1b[31m\a", "\x1b]8;id=1;https://example.invalid/?x\x1b\\t\x1b]8;;\x1b\\",
	"\x1b]52;c;Y2xpcA==\a", "\x1b]52;c;\x1b\\", "\x1b]9;build finished?\a", "\x1b]9;4;3;0\x1b\\", "\x1b]777;notify;a;?\a", "\x1b]99;i=1:d=0;build\x1b\\",
	"\x1b]133;A\a", "\x1b]7;file://host/tmp\x1b\\", "\x1b]22;wait\x1b\\", "\x1b]4;1;#ff0000;2;#00ff00\a", "\x1b]104\a", "\x1b]110\a", "\x1b]10;#ffffff\x1b\\",
	"\x1b]1337;File=inline=1:AAAA\a", "\x1b]66;s=2;?\x1b\\", "\x1b]unknown\a", "\x1b]4242;x\a", "\x1b]P1ff0000",
	"\x1bPq#0;2;0;0;0#0~~~\x1b\\", "\x1bP1;2|17/abc\x1b\\", "\x1b_Gf=24,s=1,v=1;AAAA\x1b\\", "\x1b^private\x1b\\", "\x1bXsos\x1b\\",
	"\x1bPtmux;\x1b\x1b]52;c;Y2xpcA==\a\x1b\\", "\u0085", "\x1b[1;2;3;4;5;6;7;8;9;10;11;12;13;14;15;16;17;18;19;20;21;22;23;24;25;26;27;28;29;30m",
}

func TestFilterPasses(t *testing.T) {
	for _, s := range passes {
		data := s + "."
		everySplit([]byte(data), func(how, out string) {
			if out != data && s != "\x1b]P1ff0000" {
				t.Errorf("%q, %s: %q", s, how, out)
			}
		})
	}
}

func TestFilterRewrites(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"size reports out of a list", "\x1b[?1000;2048;1006h", "\x1b[?1000;1006h"},
		{"KAM out of a list", "\x1b[4;2h", "\x1b[4h"},
		{"pops are bounded", "\x1b[>1u\x1b[<5u", "\x1b[>1u\x1b[<1u"},
		{"set without push", "\x1b[=7;1u\x1b[=5u", "\x1b[>0u\x1b[=7;1u\x1b[=5u"},
		{"pushes of each screen", "\x1b[>1u\x1b[?1049h\x1b[<u\x1b[?1049l\x1b[<u", "\x1b[>1u\x1b[?1049h\x1b[?1049l\x1b[<u"},
		{"pops of titles are bounded", "\x1b[22;2t\x1b[23;2t\x1b[23;2t", "\x1b[22;2t\x1b[23;2t"},
		{"palette set and asked", "\x1b]4;1;#fff;2;?;3;red\a", "\x1b]4;1;#fff\a\x1b]4;3;red\a"},
		{"colours set and asked", "\x1b]10;?;#000\x1b\\", "\x1b]11;#000\x1b\\"},
		{"wheel is saved once", "\x1b[?1007h\x1b[?1007l", "\x1b[?1007s\x1b[?1007h\x1b[?1007l"},
		{"RIS", "\x1b[?2004h\x1bcx", "\x1b[?2004h\x1b[?2004l\x1b[!p\x1b[?5W\x1b[H\x1b[2Jx"},
		{"controls in a question", "\x1b[6\r\nnx", "\r\nx"},
		{"question in tmux wrapping", "\x1bPtmux;\x1b\x1b[6n\x1b\\x", "\x1bPtmux;\x1b\\\x1b\\x"},
		{"question cuts off a string", "\x1b]0;title\x1b[6nx", "\x1b]0;title\x1b\\x"},
		{"question cut off by another", "\x1b]11;?\x1b[6nx", "x"},
		{"question cut off by text", "\x1b]11;?\x1b[1mx", "\x1b[1mx"},
		{"removal completes no control", "\xc2\u009bc\x9bc", "\ufffd\x9bc"},
		{"ENQ completes no control", "\xc2\x05\x9bc", "\ufffd\x9bc"},
		{"control in a sequence", "\x1b[1\nm", "\n\x1b[1m"},
		{"control before an intermediate", "\x1b\x0f(B", "\x0f\x1b(B"},
		{"control in a C1 sequence", "\u009b1\nm", "\n\x1b[1m"},
		{"control before a string", "\x1b\r]0;x\a", "\r\x1b]0;x\a"},
		{"character in a sequence", "\x1b[1ém", "\x1b[1m"},
		{"C1 string", "\u009d0;t\u009c\u0085", "\x1b]0;t\x1b\\\u0085"},
		{"C1 control in a title", "\x1b]0;a\u0085b\a", "\x1b]0;a\u0085b\a"},
		{"ENQ in a title", "\x1b]0;a\x05b\a", "\x1b]0;ab\a"},
		{"unfinished is held", "x\x1b[1;3", "x"},
		{"unfinished character is held", "x\xe2\x82", "x"},
		{"unfinished string is held", "x\x1b]0;abc", "x"},
	} {
		everySplit([]byte(tt.in), func(how, out string) {
			if out != tt.want {
				t.Errorf("%s, %s:\n got %q\nwant %q", tt.name, how, out, tt.want)
			}
		})
	}
}

func TestFilterLong(t *testing.T) {
	big := strings.Repeat("~", 3*maxHold)
	for _, tt := range []struct{ name, in, want string }{
		{"sixel", "\x1bPq" + big + "\x1b\\AFTER", "\x1bPq" + big + "\x1b\\AFTER"},
		{"clipboard", "\x1b]52;c;" + big + "\aAFTER", "\x1b]52;c;" + big + "\aAFTER"},
		{"image", "\x1b]1337;File=a:" + big + "\aAFTER", "\x1b]1337;File=a:" + big + "\aAFTER"},
		{"kitty", "\x1b_Ga=T;" + big + "\x1b\\AFTER", "\x1b_Ga=T;" + big + "\x1b\\AFTER"},
		{"kitty query", "\x1b_Ga=q;" + big + "\x1b\\AFTER", "AFTER"},
		{"agent state", "\x1b]7501;msg=" + big + "\aAFTER", "AFTER"},
		{"clipboard question", "\x1b]52;c;?" + big + "\aAFTER", "AFTER"},
		{"XTGETTCAP", "\x1bP+q" + big + "\x1b\\AFTER", "AFTER"},
		{"palette, too long to know", "\x1b]4;1;" + big + ";2;?\aAFTER", "AFTER"},
		{"control sequence", "\x1b[1" + strings.Repeat(";1", 3*maxHold) + "nAFTER", "AFTER"},
		{"controls before a question", "\x1b" + strings.Repeat("\r", 2*maxHold) + "]11;?\aAFTER", strings.Repeat("\r", 2*maxHold) + "AFTER"},
		{"controls before another", "\x1b" + strings.Repeat("\r", maxHold-3) + "[6nAFTER", strings.Repeat("\r", maxHold-3) + "AFTER"},
		{"escapes before a question", strings.Repeat("\x1b", 3*maxHold) + "[6nAFTER", "AFTER"},
		{"cut off sequences before a question", strings.Repeat("\x1b[1;", 3*maxHold) + "\x1b[6nAFTER", "AFTER"},
		{"long image cut off by a question", "\x1bPq" + big + "\x1b[6nAFTER", "\x1bPq" + big + "\x1b\\AFTER"},
	} {
		rng := rand.New(rand.NewPCG(3, 4))
		data := []byte(tt.in)
		for round := range 20 {
			f := NewFilter()
			var out []byte
			for rest := data; len(rest) > 0; {
				n := len(rest)
				if round > 0 {
					n = 1 + rng.IntN(min(len(rest), 1<<(round%14)))
				}
				out, rest = f.Filter(out, rest[:n]), rest[n:]
				if len(f.hold) > maxHold || cap(f.hold) > 2*maxHold {
					t.Fatalf("%s: %d bytes held", tt.name, len(f.hold))
				}
			}
			if string(out) != tt.want {
				t.Fatalf("%s, round %d: %d bytes %.60q, want %d", tt.name, round, len(out), out, len(tt.want))
			}
		}
	}
}

func TestFilterStreams(t *testing.T) {
	f := NewFilter()
	f.Filter(nil, []byte("\x1bPq"+strings.Repeat("~", maxHold)))
	if out := f.Filter(nil, []byte("????")); string(out) != "????" {
		t.Errorf("%q", out)
	}
	f.Reset()
	if out := string(f.Filter(nil, []byte("new"))); out != "\x1b\\new" {
		t.Errorf("after a reset in a string: %q", out)
	}
	f.Filter(nil, []byte("\x1b[1;2"))
	f.Reset()
	if out := string(f.Filter(nil, []byte("Hx"))); out != "Hx" {
		t.Errorf("after a reset in a sequence: %q", out)
	}
}

func TestQuestions(t *testing.T) {
	f := NewFilter()
	f.Filter(nil, []byte("\x1b[6n\x1b]52;c;?\a\x1b]12;?\a\x1b[?1;1;0S\x1b]21;cursor=?\x1b\\\x1b]13;?\a"))
	if got := fmt.Sprintf("%q", f.Questions()); got != `["\x1b[?1;1;0S" "\x1b]21;cursor=?\x1b\\" "\x1b]13;?\a"]` {
		t.Error(got)
	}
	for range 100 {
		f.Filter(nil, []byte("\x1b[?1;1;0S"))
	}
	if n := len(f.Questions()); n != maxQuestions || len(f.Questions()) != 0 {
		t.Error(n)
	}
}

// askRE finds the questions that matter in what came out.
var askRE = regexp.MustCompile(`(?:\x1b\[|\x{9b})(?:[>=]?[0-9;]*c|\??[0-9;]*n|>[0-9;]*q|\?[0-9;]*u|\??[0-9;]*\$p|1[1-9][0-9;]*t)|` +
	`(?:\x1bP|\x{90})[0-9;]*[$+]q|(?:\x1b\]|\x{9d})(?:0*(?:4;[0-9]+|1[0-9]|52;[a-z]*);\?|0*7501[;\a\x1b])|\x1bZ|\x{9a}|\x05`)

var filterAtoms = append(append(append([]string{}, questions...), removed...), append(passes,
	"\x1b", "[", "]", "P", "\x18", "\x05", "\x0e", "\xc2", "\x9b", "\x9c", "6", "n", "c", ";", "?", "11", "52", "\a", "\x1b\\", "\r", "\x7f", "\x1bc",
	"\x1b]4;", "\x1bP$", "q", "\x1b[", "\x1b[?", "$", "\xe2", "\x82", "\x1b[?1049h", "\x1b_G", "a=q")...)

func randomStream(rng *rand.Rand) []byte {
	var data []byte
	for range 1 + rng.IntN(12) {
		data = append(data, filterAtoms[rng.IntN(len(filterAtoms))]...)
	}
	return data
}

func TestFilterRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		data := randomStream(rng)
		want := filterAll(data)
		if q := askRE.FindString(want); q != "" {
			t.Fatalf("%q lets %q through: %q", data, q, want)
		}
		var reads [][]byte
		for rest := data; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			reads, rest = append(reads, rest[:n]), rest[n:]
		}
		if got := filterAll(reads...); got != want {
			t.Fatalf("%q in %q:\n got %q\nwant %q", data, reads, got, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range filterAtoms {
		f.Add([]byte("a"+s+"b"), uint16(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) {
		i := min(int(cut), len(data))
		fl := NewFilter()
		out := fl.Filter(fl.Filter(nil, data[:i]), data[i:])
		if len(fl.hold) > maxHold || cap(fl.hold) > 2*maxHold || cap(fl.stripped) > 2*maxHold {
			t.Fatalf("%d bytes held", len(fl.hold))
		}
		if whole := filterAll(data); whole != string(out) {
			t.Fatalf("%q:\n  whole %q\ncut at %d %q", data, whole, i, out)
		}
		if q := askRE.FindString(string(out)); q != "" {
			t.Fatalf("%q lets %q through: %q", data, q, out)
		}
		s := newScreen()
		s.feed(out)
		s.feed(fl.Leave())
		if bad := s.leftOn(); bad != "" {
			t.Fatalf("%q leaves %s: %q", data, bad, out)
		}
		if again := fl.Leave(); len(again) > 0 {
			t.Fatalf("second Leave: %q", again)
		}
	})
}

func TestFilterNoAllocations(t *testing.T) {
	data := bytes.Join([][]byte{plainLines(4096), sgrLines(4096), []byte("\x1b[?2026h\x1b[?1007h\x1b[?2048;1h\x1b[?2026l\x1b[6n\x1b]0;t\a\x1b]8;;u\x1b\\\x1b[>1u\x1b[<u\x1b[5 q\x1b[2$p")}, nil)
	f := NewFilter()
	dst := f.Filter(nil, data)
	if n := testing.AllocsPerRun(100, func() { dst = f.Filter(dst[:0], data) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func plainLines(n int) []byte {
	return bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog, and so on to the end of line\r\n"), n/75+1)[:n]
}

func sgrLines(n int) []byte {
	return bytes.Repeat([]byte("\x1b[1;32muser\x1b[0m \x1b[38;5;208mfile.go\x1b[39m \x1b[48;2;10;20;30m text \x1b[m\r\n"), n/60+1)[:n]
}

func benchmarkFilter(b *testing.B, data []byte) {
	f := NewFilter()
	var dst []byte
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		dst = f.Filter(dst[:0], data)
	}
}

func BenchmarkFilterPlain(b *testing.B) { benchmarkFilter(b, plainLines(32<<10)) }
func BenchmarkFilterUTF8(b *testing.B) {
	benchmarkFilter(b, bytes.Repeat([]byte("┌──── 日本語 ─ äöü · ────┐\r\n"), 600))
}
func BenchmarkFilterSGR(b *testing.B) { benchmarkFilter(b, sgrLines(32<<10)) }
func BenchmarkFilterSixel(b *testing.B) {
	benchmarkFilter(b, []byte("\x1bPq"+strings.Repeat("~", 64<<10)+"\x1b\\"))
}
func BenchmarkFilterTUI(b *testing.B) {
	benchmarkFilter(b, bytes.Repeat([]byte("\x1b[?2026h\x1b[?25l\x1b[10;1H\x1b[2K\x1b[38;5;244m> \x1b[39mtyped text\x1b[11;1H\x1b[K\x1b[?25h\x1b[?2026l"), 300))
}

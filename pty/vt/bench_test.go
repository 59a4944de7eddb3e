package vt

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// corpus returns about a megabyte of each kind of stream, for 200x50.
func corpus() map[string][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	gen := func(f func(b *strings.Builder, i int)) []byte {
		var b strings.Builder
		for i := 0; b.Len() < 1<<20; i++ {
			f(&b, i)
		}
		return []byte(b.String())
	}
	word := func(n int) string { return strings.Repeat("x", n) }
	return map[string][]byte{
		"seq": gen(func(b *strings.Builder, i int) { fmt.Fprintf(b, "%d\r\n", i) }),
		"log": gen(func(b *strings.Builder, i int) { fmt.Fprintf(b, "%s\r\n", word(80+r.IntN(120))) }),
		"sgr256": gen(func(b *strings.Builder, i int) {
			if i%10000 == 0 {
				b.WriteString("\x1b[H")
			}
			fmt.Fprintf(b, "\x1b[38;5;%d;48;5;%dm%c", r.IntN(256), r.IntN(256), 'a'+i%26)
		}),
		"truecolor": gen(func(b *strings.Builder, i int) {
			if i%10000 == 0 {
				b.WriteString("\x1b[H")
			}
			fmt.Fprintf(b, "\x1b[38;2;%d;%d;%dm%c", r.IntN(256), r.IntN(256), r.IntN(256), 'a'+i%26)
		}),
		"motion": gen(func(b *strings.Builder, i int) {
			fmt.Fprintf(b, "\x1b[%d;%dHab", 1+r.IntN(50), 1+r.IntN(200))
		}),
		"region": gen(func(b *strings.Builder, i int) {
			if i == 0 {
				b.WriteString("\x1b[5;40r\x1b[40;1H")
			}
			fmt.Fprintf(b, "\r\nline %d %s", i, word(r.IntN(60)))
		}),
		"insdel": gen(func(b *strings.Builder, i int) {
			if i == 0 {
				b.WriteString("\x1b[5;40r")
			}
			fmt.Fprintf(b, "\x1b[%d;1H\x1b[L%s\x1b[%d;1H\x1b[M\x1bM", 5+r.IntN(35), word(20), 5+r.IntN(35))
		}),
		"cjk": gen(func(b *strings.Builder, i int) {
			for range 40 + r.IntN(50) {
				b.WriteRune(rune(0x4e00 + r.IntN(8000)))
			}
			b.WriteString("\r\n")
		}),
		"emoji": gen(func(b *strings.Builder, i int) {
			all := []string{"😀", "👩\u200d👧", "🇩🇪", "👍🏽", "❤\ufe0f", "🎉", "👨\u200d👩\u200d👧\u200d👦", "ok "}
			for range 30 {
				b.WriteString(all[r.IntN(len(all))])
			}
			b.WriteString("\r\n")
		}),
		"box": gen(func(b *strings.Builder, i int) {
			b.WriteString("│ é ü ─┼─ ñ ░ ö" + strings.Repeat("─", 60) + "\r\n")
		}),
		"ink": gen(func(b *strings.Builder, i int) {
			fmt.Fprintf(b, "\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K\x1b[G\x1b[36m✢ Thinking… (%ds · esc to interrupt)\x1b[39m\r\n\r\n╭%s╮\r\n│ > %-60s│\r\n", i, strings.Repeat("─", 64), "")
		}),
	}
}

func BenchmarkWrite(b *testing.B) {
	for name, data := range corpus() {
		b.Run(name, func(b *testing.B) {
			t := New(200, 50, Options{HistoryLines: 1000, HistoryBytes: 4 << 20})
			t.Write(data)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				for p := data; len(p) > 0; {
					n := min(32<<10, len(p))
					t.Write(p[:n])
					p = p[n:]
				}
			}
		})
	}
}

// agentScreen is a screen as the agents draw it.
func agentScreen(t *Terminal) {
	cols, rows := t.Size()
	for y := range rows {
		fmt.Fprintf(t, "\x1b[%d;1H\x1b[38;2;153;153;153m⏺\x1b[39m \x1b[1mRead\x1b[22m(file%d.go) \x1b[2m%s\x1b[22m", y+1, y, strings.Repeat("text ", cols/14))
	}
	fmt.Fprintf(t, "\x1b[?2004h\x1b[?1004h\x1b[>5u\x1b]0;✳ agent\a")
}

func BenchmarkSnapshot(b *testing.B) {
	t := New(120, 40, Options{HistoryLines: 1000, HistoryBytes: 4 << 20})
	agentScreen(t)
	dense := New(200, 50, Options{})
	dense.Write(corpus()["truecolor"])
	for name, v := range map[string]*Terminal{"agent": t, "dense": dense} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n = len(v.Snapshot(SnapshotOptions{}))
			}
			b.ReportMetric(float64(n), "bytes")
		})
	}
}

// BenchmarkMemory reports the heap bytes of one terminal.
func BenchmarkMemory(b *testing.B) {
	fill := func(width int) func(t *Terminal) {
		return func(t *Terminal) {
			for i := range 10100 {
				fmt.Fprintf(t, "\r\n\x1b[%dm%s", 31+i%7, strings.Repeat("x", width))
			}
		}
	}
	cases := map[string]func(t *Terminal){
		"blank":   func(t *Terminal) { t.Write([]byte("\x1b[?1049h\x1b[?1049l")) },
		"10kx80":  fill(80),
		"10kx190": fill(190),
	}
	for name, f := range cases {
		b.Run(name, func(b *testing.B) {
			var per float64
			for b.Loop() {
				per = measure(f)
			}
			b.ReportMetric(per, "bytes/terminal")
		})
	}
}

func measure(f func(t *Terminal)) float64 {
	const n = 8
	var a, z runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&a)
	ts := make([]*Terminal, n)
	for i := range ts {
		ts[i] = New(200, 50, Options{HistoryLines: 10000, HistoryBytes: 64 << 20})
		f(ts[i])
	}
	runtime.GC()
	runtime.ReadMemStats(&z)
	runtime.KeepAlive(ts)
	return float64(int64(z.HeapAlloc)-int64(a.HeapAlloc)) / n
}

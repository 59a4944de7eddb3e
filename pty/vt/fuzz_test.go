package vt

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func addSeeds(f *testing.F) {
	for _, p := range pieces() {
		f.Add([]byte(p+"x"), uint8(10), uint8(4))
	}
	f.Add([]byte("\x1b[2;4r\x1b[?6h\x1b[9;9H中中中\x1b[3@\x1b[2L\x1bM\x1b[4h👩\u200d👧\x1b[5b"), uint8(7), uint8(5))
}

// FuzzWrite: no panic, the invariants hold, and the split of writes does not matter.
func FuzzWrite(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, in []byte, c, r uint8) {
		cols, rows := 1+int(c)%40, 1+int(r)%20
		a, b := newTest(cols, rows), newTest(cols, rows)
		a.Write(in)
		for i := range in {
			b.Write(in[i : i+1])
		}
		checkInvariants(t, a)
		if !a.Equal(b) || !bytes.Equal(a.Pending(), b.Pending()) {
			t.Fatalf("split matters\n%s", diff(a.dump(), b.dump()))
		}
		a.Resize(1+int(r)%40, 1+int(c)%20)
		checkInvariants(t, a)
	})
}

// FuzzSnapshot: a snapshot and the pending bytes make an equal terminal that
// goes on equally, also after a resize, and hold nothing that acts outside.
func FuzzSnapshot(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, in []byte, c, cut uint8) {
		cols := 1 + int(c)%30
		a := newTest(cols, 5)
		k := int(cut)
		if k > len(in) {
			k = len(in)
		}
		a.Write(in[:k])
		b := newTest(cols, 5)
		b.Write(a.Snapshot(SnapshotOptions{History: 1 << 20, Keyframe: true}))
		if !a.Equal(b) {
			t.Fatalf("snapshot differs\n%s", diff(a.dump(), b.dump()))
		}
		b.Write(a.Pending())
		a.Write(in[k:])
		b.Write(in[k:])
		if !a.Equal(b) {
			t.Fatalf("rest differs\n%s", diff(a.dump(), b.dump()))
		}
		checkQuiet(t, a.Snapshot(SnapshotOptions{History: 9}))
		a.Resize(1+int(cut)%30, 4)
		b.Resize(1+int(cut)%30, 4)
		if !a.Equal(b) {
			t.Fatalf("resize differs\n%s", diff(a.dump(), b.dump()))
		}
	})
}

// checkQuiet plays a snapshot and fails if it asks, rings, tells or holds open.
func checkQuiet(t *testing.T, snap []byte) {
	t.Helper()
	v := New(80, 24, Options{
		Reply: func(p []byte) { t.Errorf("the snapshot asks: reply %q", p) },
		Event: func(e Event) {
			switch e.Kind {
			case EventTitle, EventIcon, EventMode:
			default:
				t.Errorf("the snapshot holds an event: %+v", e)
			}
		},
	})
	v.Write(snap)
	if v.Modes().Sync || v.Pending() != nil {
		t.Error("the snapshot leaves something open")
	}
	for _, bad := range []string{"\x1b[3J", "\x1bc", "\a"} {
		if bytes.Contains(snap, []byte(bad)) {
			t.Errorf("the snapshot holds %q", bad)
		}
	}
}

// TestHostile feeds what is meant to cost much and counts what it costs.
func TestHostile(t *testing.T) {
	big := func(s string) func(v *Terminal) {
		return func(v *Terminal) {
			chunk := bytes.Repeat([]byte("A"), 1<<20)
			v.Write([]byte(s))
			for range 64 {
				v.Write(chunk)
			}
		}
	}
	write := func(s string) func(v *Terminal) { return func(v *Terminal) { v.Write([]byte(s)) } }
	var counts strings.Builder
	for _, final := range "@ABCDEFGHIJKLMPSTXZ`abdefgrstu" {
		fmt.Fprintf(&counts, "x\x1b[999999999;99999999999999999999%c", final)
	}
	cases := map[string]func(v *Terminal){
		"counts":       write(strings.Repeat(counts.String(), 50)),
		"params":       write("\x1b[" + strings.Repeat("1;", 1<<20) + "m"),
		"digits":       write("\x1b[" + strings.Repeat("9", 1<<20) + "C"),
		"combining":    write("e" + strings.Repeat("\u0301", 1<<20)),
		"zwj":          write(strings.Repeat("👩\u200d", 1<<18)),
		"osc":          big("\x1b]0;"),
		"dcs":          big("\x1bPq"),
		"dcs kept":     big("\x1bP$q"),
		"dcs header":   big("\x1bP" + strings.Repeat(";", 1000)),
		"apc":          big("\x1b_G"),
		"sos":          big("\x1bX"),
		"titles":       write(strings.Repeat("\x1b]2;"+strings.Repeat("t", 5000)+"\a\x1b[22;0t", 500)),
		"keyboard":     write(strings.Repeat("\x1b[>31u", 1<<18)),
		"sync":         write(strings.Repeat("\x1b[?2026h", 1<<16)),
		"intermediate": write(strings.Repeat("\x1b"+strings.Repeat(" ", 1000), 100)),
		"styles": func(v *Terminal) {
			for i := range 1 << 19 {
				fmt.Fprintf(v, "\x1b[38;2;%d;%d;%dmx", i>>16&255, i>>8&255, i&255)
			}
		},
		"links": func(v *Terminal) {
			for i := range 1 << 17 {
				fmt.Fprintf(v, "\x1b]8;id=%d;http://x/%d\x1b\\x", i, i)
			}
		},
		"clusters": func(v *Terminal) {
			for i := range 1 << 18 {
				fmt.Fprintf(v, "a%c%c", 0x300+i%64, 0x300+i/64%64)
			}
		},
		"palette": func(v *Terminal) {
			for i := range 1 << 16 {
				fmt.Fprintf(v, "\x1b]4;%d;#%06x\a", i, i)
			}
		},
	}
	for name, f := range cases {
		t.Run(name, func(t *testing.T) {
			v := New(200, 50, Options{HistoryLines: 1000, HistoryBytes: 1 << 20})
			var a, z runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&a)
			f(v)
			runtime.GC()
			runtime.ReadMemStats(&z)
			if kept := int64(z.HeapAlloc) - int64(a.HeapAlloc); kept > 8<<20 {
				t.Errorf("%d bytes are kept", kept)
			}
			checkInvariants(t, v)
			if n := len(v.Pending()); n > maxString+64 {
				t.Errorf("%d bytes are pending", n)
			}
			if n := len(v.tab.styles) + len(v.tab.links) + len(v.tab.clusters); n > 80000 {
				t.Errorf("tables hold %d entries", n)
			}
			v.Write([]byte("\x1b\\\x18\x1bc\x1b[HOK"))
			if got := v.Lines()[0].Text(); got != "OK" {
				t.Errorf("afterwards: %q", got)
			}
			runtime.KeepAlive(v)
		})
	}
}

func TestAbsurdSizes(t *testing.T) {
	for _, s := range [][2]int{{-1, -1}, {0, 0}, {1 << 30, 1}, {10000, 10000}, {1, 10000}} {
		v := New(s[0], s[1], Options{})
		v.Write([]byte("hello 中文\r\n"))
		v.Resize(s[1], s[0])
		v.Resize(1<<31, -5)
		v.Resize(80, 24)
		checkInvariants(t, v)
	}
}

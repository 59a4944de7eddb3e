//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdoptionStartsAtAKeyframe: a new server does not read a long log from
// its beginning. What was painted only then is on the screen although that
// part of the log can no longer be read.
func TestAdoptionStartsAtAKeyframe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info := w.start("long", "sh", "-c", `printf '\033[?1049h\033[HPAINTED ONCE'
i=0; while [ $i -lt 6000 ]; do i=$((i+1)); printf '\033[5;1H%d %01000d' $i 0; done
printf '\033[10;1HAT REST'; exec sleep 600`)
	w.ok("wait", "--until", "text=AT REST", "--timeout", "60s", "long")
	log := w.tree.Session(info.ID).Log()
	eventually(t, "a keyframe is written", func() bool {
		keys, err := filepath.Glob(filepath.Join(log, "*.key"))
		return err == nil && len(keys) > 0
	})
	before := w.screen("long")
	if !strings.Contains(before, "PAINTED ONCE") {
		t.Fatalf("the screen is not as painted:\n%s", before)
	}
	segment := filepath.Join(log, "0000000000000000.seg")
	f, err := os.OpenFile(segment, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 64<<10), 4096); err != nil {
		t.Fatal(err)
	}
	f.Close()
	w.killServer()
	if after := w.screen("long"); after != before {
		t.Errorf("after the restart:\n%s\nbefore:\n%s", after, before)
	}
}

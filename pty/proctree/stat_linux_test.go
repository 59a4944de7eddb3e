package proctree

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	line := "7 (a) (b) c)) S 1 2 3 34816 7 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4321 100 200\n"
	p, err := parseStat(7, []byte(line))
	want := Process{PID: 7, Parent: 1, Group: 2, Session: 3, Start: 4321, State: 'S', Name: "a) (b) c)"}
	if err != nil || p != want {
		t.Errorf("%+v, %v, want %+v", p, err, want)
	}
	for _, bad := range []string{"", "7", "7 (x", "7 (x) S", "7 (x) S a b c d e f g h i j k l m n o p q r s t"} {
		if _, err := parseStat(7, []byte(bad)); err == nil {
			t.Errorf("%q was understood", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (x) S 1 2 3 34816 7 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4321"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := parseStat(7, data); err == nil && p.State == 0 {
			t.Errorf("%q has no state", data)
		}
	})
}

func TestIgnores(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "trap '' TERM; echo ready; read x")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if _, err := out.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	if !Ignores(cmd.Process.Pid, syscall.SIGTERM) || Ignores(cmd.Process.Pid, syscall.SIGHUP) {
		t.Error("it ignores TERM and not HUP")
	}
}

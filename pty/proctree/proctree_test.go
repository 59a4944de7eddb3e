package proctree

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestDescendants(t *testing.T) {
	table := []Process{
		{PID: 1, Parent: 0}, {PID: 10, Parent: 1}, {PID: 11, Parent: 10}, {PID: 12, Parent: 11},
		{PID: 13, Parent: 10, State: 'Z'}, {PID: 14, Parent: 13}, {PID: 20, Parent: 10}, {PID: 21, Parent: 20}, {PID: 30, Parent: 1},
		{PID: 40, Parent: 41}, {PID: 41, Parent: 40}, // a table read while pids were reused
	}
	got := Descendants(table, 10, func(p Process) bool { return p.PID == 20 })
	var pids []int
	for _, p := range got {
		pids = append(pids, p.PID)
	}
	if !slices.Equal(pids, []int{11, 12, 14}) {
		t.Errorf("got %v: a zombie does not count, its child does, and what is below a skipped one does not", pids)
	}
	if got := Descendants(table, 40, nil); len(got) != 1 {
		t.Errorf("a circle: %v", got)
	}
	if got := Ancestors(table, 12); !slices.Equal(got, []int{11, 10, 1}) {
		t.Errorf("ancestors %v", got)
	}
	if got := Ancestors(table, 40); len(got) > 2 {
		t.Errorf("ancestors in a circle: %v", got)
	}
}

func TestOwnProcess(t *testing.T) {
	self, err := Find(os.Getpid())
	if err != nil || self.Parent != os.Getppid() || !self.Alive() || self.Start == 0 {
		t.Fatalf("%+v, %v", self, err)
	}
	table, err := Table()
	if err != nil || !slices.ContainsFunc(table, func(p Process) bool { return p.PID == self.PID && p.Start == self.Start }) {
		t.Errorf("not in the table of %d, %v", len(table), err)
	}
	if !IsAlive(self.PID, self.Start) || IsAlive(self.PID, self.Start+1) {
		t.Error("a pid and its start time must both be right")
	}
	if argv := Argv(self.PID); len(argv) == 0 || argv[0] != os.Args[0] {
		t.Errorf("argv %q", argv)
	}
	if BootID() == "" {
		t.Error("no boot id")
	}
}

func TestEndedProcess(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	if IsAlive(p.PID, p.Start) {
		t.Error("lives after its end")
	}
	if _, err := Find(p.PID); !errors.Is(err, ErrNoProcess) {
		t.Errorf("%v", err)
	}
}

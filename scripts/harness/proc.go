package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Process is one that was found in the process table.
type Process struct {
	PID  int
	Args string
}

func (p Process) String() string { return fmt.Sprintf("%d %s", p.PID, p.Args) }

// Find reads /proc, so it works on Linux only, as do the others here. It returns the processes that have one of the marks in their environment
// or command line. Zombies have neither. The caller itself is left out.
func Find(marks ...string) []Process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, _ := os.ReadFile(dir + "/environ")
		args, _ := os.ReadFile(dir + "/cmdline")
		for _, mark := range marks {
			if bytes.Contains(env, []byte(mark)) || bytes.Contains(args, []byte(mark)) {
				found = append(found, Process{pid, strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))})
				break
			}
		}
	}
	return found
}

// Children returns the direct children of a process.
func Children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(text)) {
			if p, err := strconv.Atoi(f); err == nil {
				pids = append(pids, p)
			}
		}
	}
	return pids
}

// Alive reports whether a process runs; a zombie does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(stat, ')')
	return err == nil && i >= 0 && i+2 < len(stat) && stat[i+2] != 'Z'
}

// Gone waits until no process has one of the marks.
func Gone(limit time.Duration, marks ...string) error {
	return Until(limit, "no process is left", func() (bool, string) {
		left := Find(marks...)
		var text []string
		for _, p := range left {
			text = append(text, p.String())
		}
		return len(left) == 0, strings.Join(text, "\n")
	})
}

//go:build !linux

package proctree

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// columns of ps(1) that every system has; lstart is five words.
const columns = "pid=,ppid=,pgid=,lstart=,state=,comm="

// Table returns all processes, as ps(1) lists them.
func Table() ([]Process, error) {
	out, err := exec.Command("/bin/ps", "-axo", columns).Output()
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	var table []Process
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if p, ok := parseLine(lines.Text()); ok {
			table = append(table, p)
		}
	}
	return table, lines.Err()
}

func parseLine(line string) (Process, bool) {
	f := strings.Fields(line)
	if len(f) < 10 {
		return Process{}, false
	}
	var p Process
	for i, to := range []*int{&p.PID, &p.Parent, &p.Group} {
		n, err := strconv.Atoi(f[i])
		if err != nil {
			return Process{}, false
		}
		*to = n
	}
	start, err := time.ParseInLocation("Mon Jan 2 15:04:05 2006", strings.Join(f[3:8], " "), time.Local)
	if err != nil {
		return Process{}, false
	}
	p.Start, p.State, p.Name = uint64(start.Unix()), f[8][0], f[9]
	return p, true
}

// Find returns the process with this pid, or ErrNoProcess.
func Find(pid int) (Process, error) {
	out, err := exec.Command("/bin/ps", "-o", columns, "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return Process{}, ErrNoProcess
	}
	p, ok := parseLine(string(out))
	if !ok {
		return Process{}, ErrNoProcess
	}
	return p, nil
}

// Argv returns the command line of a process, split at blanks: ps(1) shows no
// better.
func Argv(pid int) []string {
	out, err := exec.Command("/bin/ps", "-o", "args=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	return strings.Fields(string(out))
}

// Ignores is not known here.
func Ignores(int, syscall.Signal) bool { return false }

// BootID is the time of the machine's start.
func BootID() string {
	out, err := exec.Command("/usr/sbin/sysctl", "-n", "kern.boottime").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

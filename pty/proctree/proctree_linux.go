package proctree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Table returns all processes that this one may see, from /proc. Processes
// that end meanwhile are left out.
func Table() ([]Process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	table := make([]Process, 0, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := Find(pid); err == nil {
			table = append(table, p)
		}
	}
	return table, nil
}

// Find returns the process with this pid, or ErrNoProcess.
func Find(pid int) (Process, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return Process{}, ErrNoProcess
	}
	if err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return parseStat(pid, data)
}

// parseStat reads /proc/PID/stat, see proc(5): "pid (name) state ppid pgrp
// session …", the start time being field 22. The name may hold blanks and
// parentheses, so fields are counted from the last one that closes.
func parseStat(pid int, data []byte) (Process, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("look at process %d: %q is not understood", pid, data)
	}
	fields := strings.Fields(string(data[end+1:]))
	if len(fields) < 20 {
		return Process{}, fmt.Errorf("look at process %d: only %d fields", pid, len(fields)+2)
	}
	p := Process{PID: pid, State: fields[0][0], Name: string(data[open+1 : end])}
	var err error
	for field, to := range map[int]*int{1: &p.Parent, 2: &p.Group, 3: &p.Session} {
		var e error
		*to, e = strconv.Atoi(fields[field])
		err = errors.Join(err, e)
	}
	start, e := strconv.ParseUint(fields[19], 10, 64)
	p.Start = start
	if err := errors.Join(err, e); err != nil {
		return Process{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return p, nil
}

// Argv returns the command line of a process, empty for one that has none or
// may not be read.
func Argv(pid int) []string {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// Ignores reports whether the process ignores the signal.
func Ignores(pid int, sig syscall.Signal) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(data, []byte("\nSigIgn:"))
	if !ok {
		return false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && mask&(1<<(sig-1)) != 0
}

// BootID identifies the time since the machine was started: it is another one
// after a reboot.
func BootID() string {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

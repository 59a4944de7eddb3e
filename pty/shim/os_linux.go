package shim

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// becomeSubreaper makes orphaned descendants children of this process, so that
// they can be listed and ended.
func becomeSubreaper() {
	syscall.Syscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// siblingProcess makes a process that is started a child of this process's
// parent and not of this one: a server is no part of the session whose shim
// happens to start it.
func siblingProcess(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Cloneflags |= syscall.CLONE_PARENT
	return attr
}

// reap collects every child that ends, adopted ones included, until the agent
// has; from then on the process table shows who survived it.
func (s *shim) reap(*os.Process) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	for {
		for {
			var st status
			pid, err := syscall.Wait4(-1, &st.wait, syscall.WNOHANG, &st.usage)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if pid <= 0 {
				break
			}
			if pid == s.agent {
				st.at = time.Now()
				s.statuses <- st
			}
		}
		<-ended
	}
}

// offerToOOMKiller makes the kernel take the agent and its tools before the
// shim or the server when memory runs out. Children inherit it.
func offerToOOMKiller(pid int) {
	path := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	own := 0
	if data, err := os.ReadFile(path); err == nil {
		own, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	const raise = 200
	os.WriteFile(path, []byte(strconv.Itoa(min(own+raise, 1000))), 0)
}

// oomKills returns the process's cgroup (version 2) and how often the
// out-of-memory killer was at work in it.
func oomKills() (cgroup string, kills uint64) {
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", 0
	}
	for line := range strings.Lines(string(data)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			cgroup = path
		}
	}
	if cgroup == "" {
		return "", 0
	}
	events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", cgroup, "memory.events"))
	if err != nil {
		return cgroup, 0
	}
	for line := range strings.Lines(string(events)) {
		if n, ok := strings.CutPrefix(line, "oom_kill "); ok {
			kills, _ = strconv.ParseUint(strings.TrimSpace(n), 10, 64)
		}
	}
	return cgroup, kills
}

// maxRSS is the peak of resident memory in bytes; Linux counts in KiB.
func maxRSS(u syscall.Rusage) int64 { return u.Maxrss * 1024 }

func preallocate(f *os.File, size int64) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var allocErr error
	err = conn.Control(func(fd uintptr) { allocErr = syscall.Fallocate(int(fd), 0, 0, size) })
	if errors.Is(allocErr, syscall.EOPNOTSUPP) {
		return errors.ErrUnsupported
	}
	return errors.Join(err, allocErr)
}

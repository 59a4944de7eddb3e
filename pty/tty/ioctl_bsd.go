//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package tty

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	ioctlGetTermios = unix.TIOCGETA
	ioctlSetTermios = unix.TIOCSETA
)

// pollerTakesTerminals: kqueue(2) of some systems does not know terminals, so
// there the descriptors are waited for with select(2).
const pollerTakesTerminals = false

// devicePath names the device behind fd. /dev/fd/N is of no use here: opening
// it duplicates the descriptor, flags and all.
func devicePath(fd int) (string, error) {
	var own unix.Stat_t
	if err := unix.Fstat(fd, &own); err != nil {
		return "", err
	}
	for _, dir := range []string{"/dev", "/dev/pts"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if dir == "/dev" && (e.Name() == "tty" || !strings.HasPrefix(e.Name(), "tty")) {
				continue
			}
			var st unix.Stat_t
			if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == own.Rdev {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("no device file for descriptor %d", fd)
}

// wait blocks until fd is ready for reading (or writing) or wake is readable.
// It is select(2) because poll(2) of macOS refuses terminal devices.
func wait(fd int, write bool, wake int) (ready, woken bool, err error) {
	if fd >= unix.FD_SETSIZE || wake >= unix.FD_SETSIZE {
		return false, false, fmt.Errorf("descriptor above %d", unix.FD_SETSIZE-1)
	}
	var r, w unix.FdSet
	_, err = ignoreEINTR(func() (int, error) {
		r.Zero()
		w.Zero()
		r.Set(wake)
		if write {
			w.Set(fd)
		} else {
			r.Set(fd)
		}
		return unix.Select(max(fd, wake)+1, &r, &w, nil, nil)
	})
	if err != nil {
		return false, false, err
	}
	return w.IsSet(fd) || (!write && r.IsSet(fd)), r.IsSet(wake), nil
}

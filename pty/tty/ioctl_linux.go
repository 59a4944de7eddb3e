package tty

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	ioctlGetTermios = unix.TCGETS
	ioctlSetTermios = unix.TCSETS
)

// pollerTakesTerminals: epoll(7) works on terminals.
const pollerTakesTerminals = true

// devicePath names the device behind fd. The link in /proc opens the inode
// itself, so it also works when the device has no name in our mount namespace.
func devicePath(fd int) (string, error) {
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// wait blocks until fd is ready for reading (or writing) or wake is readable.
func wait(fd int, write bool, wake int) (ready, woken bool, err error) {
	events := int16(unix.POLLIN)
	if write {
		events = unix.POLLOUT
	}
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(wake), Events: unix.POLLIN}}
	_, err = ignoreEINTR(func() (int, error) { return unix.Poll(fds, -1) })
	if err != nil {
		return false, false, err
	}
	// POLLHUP and POLLERR count as ready: the call that follows tells why.
	return fds[0].Revents != 0, fds[1].Revents != 0, nil
}

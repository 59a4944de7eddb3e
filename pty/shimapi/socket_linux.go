package shimapi

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// PeerUID returns the user id of the process that connected.
func PeerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask who connected: %w", err)
	}
	var cred *syscall.Ucred
	var optErr error
	err = raw.Control(func(fd uintptr) {
		cred, optErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err := errors.Join(err, optErr); err != nil {
		return 0, fmt.Errorf("ask who connected: %w", err)
	}
	return int(cred.Uid), nil
}

// fallbackPath is never needed where /proc/self/fd exists; without it (no
// /proc mounted) a long path is an error that says so.
func fallbackPath(path string) (string, error) {
	return "", fmt.Errorf("the socket path %s is longer than %d bytes and /proc is not mounted: set XDG_STATE_HOME to a shorter directory",
		path, maxSocketPath)
}

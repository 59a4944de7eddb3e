//go:build !linux

package shimapi

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// PeerUID trusts the socket's directory, which only its owner can enter: the
// standard library cannot ask this system who connected.
func PeerUID(*net.UnixConn) (int, error) { return os.Geteuid(), nil }

// fallbackPath is a path in a private directory below the temporary one, made
// from the wanted path's hash so that two long paths never share one.
func fallbackPath(path string) (string, error) {
	dir := filepath.Join(os.TempDir(), "agentmux-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("make a directory for sockets: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("check the directory for sockets: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm() != 0o700 || !ok || int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s is not a private directory of yours: remove it, or set TMPDIR", dir)
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(dir, fmt.Sprintf("%x", sum[:8])), nil
}

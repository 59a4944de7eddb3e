package shimapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// A Unix socket's address holds about a hundred bytes, and state directories
// can be longer. So sockets are bound and dialled through a descriptor of
// their directory where the system has /proc/self/fd; elsewhere a long path
// goes to a private directory below the temporary one, and the place is
// recorded for those who dial.

// maxSocketPath is the longest path that fits every system's sockaddr_un.
const maxSocketPath = 103

// Listen binds a Unix socket called name in directory dir, mode 0600, and
// returns it with the path to record and to dial. A socket that is there
// already is replaced, which the caller may do only while it holds the lock
// that goes with it. Anything else of that name is left alone and an error.
// The listener does not remove the socket when it is closed.
func Listen(dir, name string) (*net.UnixListener, string, error) {
	recorded := filepath.Join(dir, name)
	if err := removeSocket(recorded); err != nil {
		return nil, "", err
	}
	bind, done, err := shortPath(dir, name)
	if err != nil {
		return nil, "", err
	}
	defer done()
	if len(bind) > maxSocketPath {
		if bind, err = fallbackPath(recorded); err != nil {
			return nil, "", err
		}
		if err := removeSocket(bind); err != nil {
			return nil, "", err
		}
		recorded = bind
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: bind, Net: "unix"})
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s: %w", recorded, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(recorded, 0o600); err != nil {
		l.Close()
		return nil, "", fmt.Errorf("make the socket private: %w", err)
	}
	return l, recorded, nil
}

// Dial connects to the socket at a path that Listen recorded.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	short, done, err := shortPath(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", short)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", path, unwrapDial(err))
	}
	return conn.(*net.UnixConn), nil
}

// unwrapDial drops the descriptor path that net puts into its message.
func unwrapDial(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}

func removeSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is in the way: it is no socket; move it elsewhere", path)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("replace the socket: %w", err)
	}
	return nil
}

// shortPath returns a path by which the socket can be named in an address, and
// a function to be called when the address has been used.
func shortPath(dir, name string) (string, func(), error) {
	full := filepath.Join(dir, name)
	if len(full) <= maxSocketPath || !procFD() {
		return full, func() {}, nil
	}
	d, err := os.OpenFile(dir, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open the socket's directory: %w", err)
	}
	return "/proc/self/fd/" + strconv.Itoa(int(d.Fd())) + "/" + name, func() { d.Close() }, nil
}

func procFD() bool {
	_, err := os.Stat("/proc/self/fd")
	return err == nil
}

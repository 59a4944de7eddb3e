package shimapi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrLocked: somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// Lock is a held flock(2). It ends with Release or with the process, whichever
// comes first; nothing else ends it, which is why it tells who is alive. The
// descriptor is close-on-exec, so that no child inherits it.
type Lock struct{ f *os.File }

// TryLock takes the exclusive lock on the file at path, which is created with
// mode 0600 where it is missing. It returns ErrLocked when another process
// holds it. A probe (Locked) that is under way at the same moment does not
// make it fail.
func TryLock(path string) (*Lock, error) {
	f, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	for {
		err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &Lock{f}, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		// Only a probe holds a shared lock, and only for a moment.
		if flock(f, syscall.LOCK_SH|syscall.LOCK_NB) != nil {
			f.Close()
			return nil, ErrLocked
		}
		flock(f, syscall.LOCK_UN)
	}
}

// WaitLock takes the exclusive lock, waiting for it as long as it takes: the
// goroutine's thread sleeps in the kernel and nothing wakes up meanwhile.
func WaitLock(path string) (*Lock, error) {
	f, err := openLock(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for lock %s: %w", path, err)
	}
	return &Lock{f}, nil
}

// InheritLock adopts a descriptor on which the lock is held already, as handed
// over by the process that took it.
func InheritLock(fd uintptr, path string) *Lock {
	syscall.CloseOnExec(int(fd))
	return &Lock{os.NewFile(fd, path)}
}

// File is the locked file, to be handed to a child or to be written to. It
// stays owned by the lock.
func (l *Lock) File() *os.File { return l.f }

// Release gives the lock up.
func (l *Lock) Release() error { return l.f.Close() }

// Locked reports whether some process holds the exclusive lock. A file that
// does not exist is not locked.
func Locked(path string) (bool, error) {
	f, err := openLock(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("probe lock %s: %w", path, err)
	}
	return false, nil
}

func openLock(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}

// flock goes through SyscallConn because File.Fd would make the descriptor
// blocking, and repeats what a signal interrupted.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = conn.Control(func(fd uintptr) {
		for {
			result = syscall.Flock(int(fd), how)
			if !errors.Is(result, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, result)
}

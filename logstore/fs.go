package logstore

import (
	"fmt"
	"os"
	"syscall"
)

// fileSystem is what a Writer needs of the disk. The tests put faults in here.
type fileSystem interface {
	create(path string) (segmentFile, error) // must not exist
	publish(temp, path string) error         // rename; must not exist
	remove(path string) error
	makeDir(path string) error
	syncDir(path string) error
	free(path string) (int64, error) // bytes an ordinary user may still write
}

// segmentFile is one open segment.
type segmentFile interface {
	Write(p []byte) (int, error) // appends
	Truncate(size int64) error
	Close() error
	datasync() error
	reserve(offset, n int64) error // disk space, without changing the size
	deleted() bool                 // it has no name any more
}

type diskFS struct{}

type diskFile struct{ *os.File }

func (diskFS) create(path string) (segmentFile, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return diskFile{f}, nil
}

func (diskFS) publish(temp, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("publish %s: %w", path, os.ErrExist)
	}
	return os.Rename(temp, path)
}

func (diskFS) remove(path string) error  { return os.Remove(path) }
func (diskFS) makeDir(path string) error { return os.MkdirAll(path, 0o700) }

func (diskFS) syncDir(path string) error {
	d, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (f diskFile) deleted() bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// openRead opens a segment for reading.
func openRead(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
}

package logstore

import "syscall"

const fallocKeepSize = 1 // FALLOC_FL_KEEP_SIZE of linux/falloc.h

func (f diskFile) reserve(offset, n int64) error {
	return f.control(func(fd int) error { return syscall.Fallocate(fd, fallocKeepSize, offset, n) })
}

func (f diskFile) datasync() error {
	return f.control(syscall.Fdatasync)
}

// control runs call with the descriptor, again while signals interrupt it.
func (f diskFile) control(call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Control(func(fd uintptr) {
		for {
			if result = call(int(fd)); result != syscall.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return result
}

func (diskFS) free(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

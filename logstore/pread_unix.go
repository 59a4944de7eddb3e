//go:build unix

package logstore

import (
	"os"
	"runtime"
	"syscall"
)

// pread reads once, as (*os.File).ReadAt does not: that asks again until it
// has met the end of the file. At the end it returns 0.
func pread(f *os.File, p []byte, offset int64) (int, error) {
	defer runtime.KeepAlive(f)
	for {
		n, err := syscall.Pread(int(f.Fd()), p, offset)
		if err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

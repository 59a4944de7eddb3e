package logstore

import (
	"fmt"
	"syscall"
)

func mountTmpfs(dir string, size int) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", size))
}

func unmount(dir string) { syscall.Unmount(dir, syscall.MNT_DETACH) }

package pty

import (
	"syscall"
	"unsafe"
)

// winsize is struct winsize of tty_ioctl(4).
type winsize struct{ rows, cols, xpixel, ypixel uint16 }

func setWinsize(fd uintptr, s Size) error {
	w := winsize{s.Rows, s.Cols, s.XPixel, s.YPixel}
	return ioctl(fd, syscall.TIOCSWINSZ, unsafe.Pointer(&w))
}

func foregroundGroup(fd uintptr) (int, error) {
	var pgid int32
	err := ioctl(fd, syscall.TIOCGPGRP, unsafe.Pointer(&pgid))
	return int(pgid), err
}

func ioctl(fd, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func dupCloexec(fd int) (int, error) {
	r, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

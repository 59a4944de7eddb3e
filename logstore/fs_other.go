//go:build !linux

package logstore

import "syscall"

// reserve is not to be had from the standard library here: without it EXIT and
// END on a full disk depend on what is left.
func (f diskFile) reserve(offset, n int64) error { return syscall.ENOTSUP }

func (f diskFile) datasync() error { return f.Sync() }

func (diskFS) free(path string) (int64, error) { return 0, syscall.ENOTSUP }

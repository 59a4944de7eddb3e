package session

import (
	"fmt"
	"os"
	"syscall"
)

// check refuses a tree that another user owns, and takes from the group and
// from others whatever rights they have on it.
func (t Tree) check() error {
	info, err := os.Stat(string(t))
	if err != nil {
		return fmt.Errorf("check the state directory: %w", err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("the state directory %s belongs to user %d, not to you (%d)", t, st.Uid, os.Geteuid())
	}
	if info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	if err := os.Chmod(string(t), 0o700); err != nil {
		return fmt.Errorf("make the state directory private: %w", err)
	}
	return nil
}

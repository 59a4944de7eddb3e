//go:build !linux

package shim

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Without a subreaper, orphans go to init: they are found neither by kill nor
// among the survivors, and only the agent's own process group and children are.
func becomeSubreaper() {}

func siblingProcess(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }

func (s *shim) reap(p *os.Process) {
	var st status
	for {
		_, err := syscall.Wait4(p.Pid, &st.wait, 0, &st.usage)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		st.at, st.err = time.Now(), err
		s.statuses <- st
		return
	}
}

func offerToOOMKiller(int) {}

func oomKills() (string, uint64) { return "", 0 }

// maxRSS is the peak of resident memory in bytes, as BSD systems count.
func maxRSS(u syscall.Rusage) int64 { return u.Maxrss }

func preallocate(*os.File, int64) error { return errors.ErrUnsupported }

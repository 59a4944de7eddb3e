package logstore

import (
	"encoding/hex"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// bootClock reads the machine's clocks. Wall and monotonic time come from the
// vDSO; boot time is monotonic time plus what was slept so far, which is asked
// for again each second, and when wall and monotonic time have parted, as they
// do in a suspend.
type bootClock struct {
	base  time.Time
	mono  time.Duration // at base
	id    [16]byte
	slept atomic.Int64 // boot minus monotonic time, ns
	apart atomic.Int64 // wall minus monotonic time when slept was read, ns
	next  atomic.Int64 // monotonic time at which it is read again, ns
}

const (
	clockCheckEvery = int64(time.Second)
	clockDrift      = int64(time.Millisecond) // twice what slewing does in that time
)

// systemClock returns a reader of the machine's clocks, safe for concurrent use.
func systemClock() func() Clock {
	c := &bootClock{base: time.Now(), mono: readClock(clockMonotonic), id: bootID()}
	return c.read
}

func (c *bootClock) read() Clock {
	now := time.Now()
	wall, mono := now.UnixNano(), int64(c.mono+now.Sub(c.base))
	if d := wall - mono - c.apart.Load(); mono >= c.next.Load() || d > clockDrift || d < -clockDrift {
		c.slept.Store(int64(readClock(clockBoottime) - readClock(clockMonotonic)))
		c.apart.Store(wall - mono)
		c.next.Store(mono + clockCheckEvery)
	}
	boot := mono + c.slept.Load()
	return Clock{Wall: wall, Boot: uint64(boot / 1000), Mono: uint64(mono / 1000), BootID: c.id}
}

func readClock(id uintptr) time.Duration {
	var ts syscall.Timespec
	// It can't fail: the clock is known and the address is ours.
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

func bootID() (id [16]byte) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	hex.Decode(id[:], []byte(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")))
	return id
}

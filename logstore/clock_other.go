//go:build !linux

package logstore

import "time"

// systemClock stands in where there is no boot clock in the standard library:
// boot time is wall time, so ages are wrong across a change of the clock, and
// without a boot id Follower.Age says that it doesn't know.
func systemClock() func() Clock {
	base := time.Now()
	return func() Clock {
		now := time.Now()
		return Clock{Wall: now.UnixNano(), Boot: uint64(now.UnixMicro()), Mono: uint64(now.Sub(base).Microseconds())}
	}
}

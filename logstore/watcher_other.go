//go:build !linux

package logstore

import (
	"sync/atomic"
	"time"
)

// There is no inotify here: followers poll. (kqueue would do; nothing of it was
// measured yet.)
type notifier struct{}

type watch struct{ lost atomic.Bool }

func newNotifier(time.Duration) *notifier { return nil }

func (*notifier) close() error                     { return nil }
func (*notifier) add(string, *subscription) *watch { return nil }
func (*notifier) remove(*watch, *subscription)     {}

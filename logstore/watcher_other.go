//go:build !linux

package logstore

import (
	"context"
	"sync/atomic"
	"time"
)

// There is no inotify here: followers poll. (kqueue would do; nothing of it was
// measured yet.)
type notifier struct{}

type watch struct{ lost atomic.Bool }

func newNotifier(time.Duration, bool) *notifier { return nil }

func (*notifier) close() error                     { return nil }
func (*notifier) add(string, *subscription) *watch { return nil }
func (*notifier) remove(*watch, *subscription)     {}

func (*notifier) isPrivate() bool                                          { return false }
func (*notifier) wait(context.Context, *subscription, time.Duration) error { return nil }

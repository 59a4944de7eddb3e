// Package harness drives a built agentmux as a user does, for the tests in
// scripts: the program in a state tree of its own, an outer terminal, and a
// look at the process table. It knows nothing of how agentmux works inside,
// and waits for conditions, never for a time.
package harness

import (
	"fmt"
	"time"
)

// Poll is how often a condition is looked at.
const Poll = 20 * time.Millisecond

// Until looks at a condition until it holds, at most for limit. The condition
// also says what it saw, for the error.
func Until(limit time.Duration, what string, holds func() (bool, string)) error {
	deadline := time.Now().Add(limit)
	for {
		ok, saw := holds()
		if ok {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not within %v; last seen:\n%s", what, limit, saw)
		}
		time.Sleep(Poll)
	}
}

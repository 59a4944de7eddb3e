package server

import (
	"fmt"
	"strings"

	"agentmux/pty/vt"
	"agentmux/session"
)

// attention is what a program did to be noticed while nobody was attached who
// could. The live terminals of viewers get bells and notifications as they
// come; this is for the next one who attaches. It is guarded by run.mu.
type attention struct {
	watched bool // a viewer that may type is there
	bells   int
	notices int
	last    string // the newest notification
	blocked string // what the agent waits for, by its own word
}

// maxAttentionText is the most characters of a program's own words.
const maxAttentionText = 80

// note takes note of an event, if nobody was there to see it.
func (a *attention) note(e vt.Event) {
	if a.watched {
		return
	}
	switch e.Kind {
	case vt.EventBell:
		a.bells++
	case vt.EventNotification:
		a.notices++
		a.last = limit(strings.TrimSpace(e.Name + " " + e.Text))
	case vt.EventAgent:
		a.blocked = ""
		if e.Agent.State == "blocked" {
			a.blocked = limit(strings.TrimSpace(e.Agent.Kind + " " + e.Agent.Msg))
		}
	}
}

func limit(s string) string {
	s = session.Printable(s)
	if r := []rune(s); len(r) > maxAttentionText {
		return string(r[:maxAttentionText-1]) + "…"
	}
	return s
}

// take returns what there is to tell, on one line, and forgets it.
func (a *attention) take() string {
	var parts []string
	if a.blocked != "" {
		parts = append(parts, "it waits for you: "+a.blocked)
	}
	if a.notices == 1 {
		parts = append(parts, "it said: "+a.last)
	}
	if a.notices > 1 {
		parts = append(parts, fmt.Sprintf("%d notifications, the last: %s", a.notices, a.last))
	}
	if a.bells > 0 {
		parts = append(parts, fmt.Sprintf("%d bell(s)", a.bells))
	}
	*a = attention{watched: a.watched}
	return strings.Join(parts, "; ")
}

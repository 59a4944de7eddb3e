package agent

import (
	"path/filepath"
	"slices"
	"strings"
)

// known are the programs whose name a listing shows as the agent.
var known = []string{"claude", "codex", "gemini", "aider", "opencode", "amp", "goose", "copilot", "cursor-agent"}

// Program returns the name of the agent that a command line starts, empty for
// a program that is none that we know. It looks at the program's name only:
// an argument never makes a shell an agent.
func Program(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := strings.TrimSuffix(filepath.Base(argv[0]), ".exe")
	if slices.Contains(known, name) {
		return name
	}
	return ""
}

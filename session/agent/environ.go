package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// enclosing are the variables by which an agent, a multiplexer or a terminal
// emulator marks what runs inside it. A session is inside none of them: with
// CLAUDE_CODE_CHILD_SESSION, for one, Claude Code writes no transcript, and
// with TMUX programs wrap their sequences for tmux. A name that ends in * is a
// prefix.
var enclosing = []string{
	"TMUX", "TMUX_PANE", "STY", "WINDOW", "ZELLIJ*", "INSIDE_EMACS", "VSCODE_*", "WT_*", "ITERM_*",
	"WEZTERM_PANE", "WEZTERM_UNIX_SOCKET", "KITTY_WINDOW_ID", "KITTY_PID", "KITTY_LISTEN_ON", "GHOSTTY_*",
	"CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT",
	"CLAUDE_CODE_MESSAGING_*", "CLAUDE_CODE_CHILD_NOTES_DIR", "CLAUDE_PID", "CLAUDE_EFFORT", "CLAUDE_PROJECT_DIR",
	"AI_AGENT", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI", "CODEX_SANDBOX*",
	"CODEX_MANAGED_*", "CODEX_VERSION", "GEMINI_CLI", "GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR",
	"AGENTMUX_ID", "AGENTMUX_SESSION", "AGENTMUX_DETACH",
}

// agentMarks are those of enclosing that an agent sets for its tools. Where one
// is found, the agent has also switched off colours, pagers and the user's git
// configuration, and those go too.
var agentMarks = []string{"CLAUDECODE", "AI_AGENT", "CODEX_THREAD_ID", "CODEX_CI", "GEMINI_CLI"}

// toolSettings are what agents set for the commands that they run.
var toolSettings = []string{
	"NO_COLOR", "GIT_EDITOR", "GIT_PAGER", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_COUNT",
	"GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_TERMINAL_PROMPT",
}

// pagers are removed only when an agent set them to cat.
var pagers = []string{"PAGER", "GH_PAGER", "MANPAGER", "SYSTEMD_PAGER"}

// DefaultTerm is the terminal type of a session whose creator has none that
// fits.
const DefaultTerm = "xterm-256color"

// Environment turns the environment of the creator of a session into that of
// its agent: everything stays but the marks of what the creator runs in, TERM
// is one that exists, and AGENTMUX_ID and AGENTMUX_SESSION say where the
// program is. termExists tells whether the terminal database has an entry.
func Environment(env []string, id, name string, termExists func(string) bool) []string {
	inAgent := slices.ContainsFunc(env, func(kv string) bool { return matches(kv, agentMarks) })
	out := make([]string, 0, len(env)+4)
	term := ""
	for _, kv := range env {
		switch {
		case !strings.Contains(kv, "="), matches(kv, enclosing):
		case inAgent && (matches(kv, toolSettings) || matches(kv, pagers) && strings.HasSuffix(kv, "=cat")):
		case strings.HasPrefix(kv, "TERM="):
			term = strings.TrimPrefix(kv, "TERM=")
		default:
			out = append(out, kv)
		}
	}
	if term == "" || term == "dumb" || !termExists(term) {
		term = DefaultTerm
	}
	return append(out, "TERM="+term, "AGENTMUX_ID="+id, "AGENTMUX_SESSION="+name)
}

func matches(kv string, names []string) bool {
	key, _, _ := strings.Cut(kv, "=")
	return slices.ContainsFunc(names, func(name string) bool {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			return strings.HasPrefix(key, prefix)
		}
		return key == name
	})
}

// TermExists looks a terminal type up where terminfo(5) keeps its entries, as
// the environment env sees it. Where there is no database at all every type
// counts as existing, since nothing can be said.
func TermExists(env []string) func(string) bool {
	dirs := terminfoDirs(env)
	return func(term string) bool {
		if term == "" || strings.ContainsAny(term, "/\x00") {
			return false
		}
		any := false
		for _, dir := range dirs {
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			any = true
			for _, sub := range []string{term[:1], hexByte(term[0])} {
				if _, err := os.Stat(filepath.Join(dir, sub, term)); err == nil {
					return true
				}
			}
		}
		return !any
	}
}

func terminfoDirs(env []string) []string {
	get := func(name string) string {
		for i := len(env) - 1; i >= 0; i-- {
			if v, ok := strings.CutPrefix(env[i], name+"="); ok {
				return v
			}
		}
		return ""
	}
	dirs := []string{"/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo", "/usr/local/share/terminfo", "/usr/share/lib/terminfo"}
	if home := get("HOME"); home != "" {
		dirs = append(dirs, filepath.Join(home, ".terminfo"))
	}
	if own := get("TERMINFO"); own != "" {
		dirs = append(dirs, own)
	}
	return append(dirs, filepath.SplitList(get("TERMINFO_DIRS"))...)
}

func hexByte(b byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[b>>4], digits[b&15]})
}

package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func exists(term string) bool { return term != "nonexistent" }

func TestEnvironmentDropsTheMarksOfWhatEncloses(t *testing.T) {
	in := []string{
		"PATH=/bin", "TMUX=/tmp/x", "ZELLIJ_SESSION_NAME=z", "CLAUDECODE=1", "CLAUDE_CODE_CHILD_SESSION=1",
		"CODEX_SANDBOX_NETWORK_DISABLED=1", "AGENTMUX_ID=old", "AGENTMUX_SESSION=old", "TERM=xterm",
		"NO_COLOR=1", "GIT_CONFIG_KEY_0=a", "PAGER=cat", "MANPAGER=less", "broken", "EMPTY=",
		"CLAUDE_CONFIG_DIR=/c", "ANTHROPIC_BASE_URL=http://x", "TERM_PROGRAM=kitty",
	}
	got := Environment(in, "id", "name", exists)
	want := []string{
		"PATH=/bin", "MANPAGER=less", "EMPTY=", "CLAUDE_CONFIG_DIR=/c", "ANTHROPIC_BASE_URL=http://x",
		"TERM_PROGRAM=kitty", "TERM=xterm", "AGENTMUX_ID=id", "AGENTMUX_SESSION=name",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestEnvironmentKeepsTheUsersOwnSettings(t *testing.T) {
	got := Environment([]string{"NO_COLOR=1", "PAGER=cat", "GIT_EDITOR=vi"}, "i", "n", exists)
	for _, kv := range []string{"NO_COLOR=1", "PAGER=cat", "GIT_EDITOR=vi"} {
		if !slices.Contains(got, kv) {
			t.Errorf("%s was dropped outside of an agent", kv)
		}
	}
}

func TestEnvironmentHasATermThatExists(t *testing.T) {
	for in, want := range map[string]string{
		"TERM=screen": "screen", "TERM=dumb": DefaultTerm, "TERM=": DefaultTerm, "TERM=nonexistent": DefaultTerm, "X=1": DefaultTerm,
	} {
		if got := Environment([]string{in}, "i", "n", exists); !slices.Contains(got, "TERM="+want) {
			t.Errorf("%s gives %q, want TERM=%s", in, got, want)
		}
	}
}

func TestTermExists(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".terminfo", "m")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	known := TermExists([]string{"HOME=" + home})
	for term, want := range map[string]bool{"mine": true, "xterm-none-of-that": false, "": false, "../m/mine": false} {
		if known(term) != want {
			t.Errorf("TermExists(%q) = %v", term, !want)
		}
	}
}

func TestProgram(t *testing.T) {
	for argv, want := range map[string]string{
		"claude --resume x": "claude", "/opt/bin/codex": "codex", "bash -c claude": "", "": "", "gemini": "gemini",
	} {
		if got := Program(strings.Fields(argv)); got != want {
			t.Errorf("Program(%q) = %q, want %q", argv, got, want)
		}
	}
}

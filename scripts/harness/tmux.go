package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Tmux is a user's terminal: one window of a tmux of its own, with a shell in
// it. What is on it was drawn by a terminal emulator that is not ours.
type Tmux struct {
	socket string
	env    []string
	pid    int
	closed bool
}

// prompt is the shell's in the window.
const prompt = "outer-ready>"

// NewTmux opens a terminal of a size. Its shell has the environment env.
func NewTmux(dir string, env []string, cols, rows int) (*Tmux, error) {
	t := &Tmux{socket: filepath.Join(dir, "outer"), env: env}
	config := filepath.Join(dir, "outer.conf")
	text := "set -g status off\nset -g escape-time 0\nset -g default-terminal tmux-256color\n" +
		"set -g set-titles off\nset -g history-limit 20000\nset -g remain-on-exit off\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	_, err := t.tmux("-f", config, "new-session", "-d", "-x", strconv.Itoa(cols), "-y", strconv.Itoa(rows),
		"env", "-u", "TMUX", "-u", "TMUX_PANE", "PS1="+prompt, "/bin/sh")
	if err != nil {
		return nil, err
	}
	pid, err := t.tmux("display-message", "-p", "#{pid}")
	if err != nil {
		return nil, err
	}
	if t.pid, err = strconv.Atoi(strings.TrimSpace(pid)); err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	return t, t.Await(Limit, prompt)
}

// Close ends the terminal, as closing its window does. A second call does
// nothing.
func (t *Tmux) Close() error {
	if t.closed {
		return nil
	}
	t.closed = true
	if _, err := t.tmux("kill-server"); err != nil {
		return err
	}
	return Until(Limit, "the outer terminal ends", func() (bool, string) { return !Alive(t.pid), strconv.Itoa(t.pid) })
}

func (t *Tmux) tmux(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "tmux", append([]string{"-S", t.socket}, args...)...)
	cmd.Env = t.env
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, exit.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w", args[0], err)
	}
	return string(out), nil
}

// Screen is what the user sees.
func (t *Tmux) Screen() (string, error) {
	out, err := t.tmux("capture-pane", "-p")
	return Trim(out), err
}

// Type types a text; it has no line end.
func (t *Tmux) Type(text string) error {
	_, err := t.tmux("send-keys", "-l", text)
	return err
}

// Key presses keys by tmux's names, such as Enter or C-\.
func (t *Tmux) Key(names ...string) error {
	_, err := t.tmux(append([]string{"send-keys"}, names...)...)
	return err
}

// Command types a command line for the shell.
func (t *Tmux) Command(line string) error {
	return errors.Join(t.Type(line), t.Key("Enter"))
}

// Await waits until a text is on the screen.
func (t *Tmux) Await(limit time.Duration, text string) error {
	return Until(limit, fmt.Sprintf("the terminal shows %q", text), func() (bool, string) {
		screen, err := t.Screen()
		if err != nil {
			return false, err.Error()
		}
		return strings.Contains(screen, text), screen
	})
}

// AwaitShell waits until the shell has its prompt on the last line.
func (t *Tmux) AwaitShell(limit time.Duration) error {
	return Until(limit, "the terminal is back at the shell", func() (bool, string) {
		screen, err := t.Screen()
		if err != nil {
			return false, err.Error()
		}
		return strings.HasSuffix(screen, prompt), screen
	})
}

// Modes are what a program may have switched on in the terminal, and the
// line's settings, as one text to compare.
func (t *Tmux) Modes() (string, error) {
	modes, err := t.tmux("display-message", "-p", "alternate=#{alternate_on} cursor=#{cursor_flag} insert=#{insert_flag} "+
		"keypad=#{keypad_flag} cursor-keys=#{keypad_cursor_flag} mouse=#{mouse_any_flag},#{mouse_button_flag},#{mouse_standard_flag},"+
		"#{mouse_sgr_flag},#{mouse_utf8_flag} origin=#{origin_flag} wrap=#{wrap_flag} region=#{scroll_region_upper}-#{scroll_region_lower}")
	if err != nil {
		return "", err
	}
	tty, err := t.tmux("display-message", "-p", "#{pane_tty}")
	if err != nil {
		return "", err
	}
	stty, err := exec.Command("stty", "-F", strings.TrimSpace(tty), "-a").Output()
	if err != nil {
		return "", fmt.Errorf("stty: %w", err)
	}
	return modes + string(stty), nil
}

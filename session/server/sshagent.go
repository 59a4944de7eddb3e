package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A session's SSH_AUTH_SOCK is a link in the session's directory, which each
// attach points to the agent of its own login: the one of the login that made
// the session may be gone for days.

// maxSSHAgent is the longest path that ssh can connect to on every system.
const maxSSHAgent = 103

const sshAgentName = "ssh-agent"

// stableSSHAgent makes the link for the agent that env names and returns env
// with the link in its place. Where the link's path would be too long for a
// socket's address, env stays as it is.
func stableSSHAgent(dir string, env []string) ([]string, error) {
	i := slices.IndexFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "SSH_AUTH_SOCK=/") })
	link := filepath.Join(dir, sshAgentName)
	if i < 0 || len(link) > maxSSHAgent {
		return env, nil
	}
	target := strings.TrimPrefix(env[i], "SSH_AUTH_SOCK=")
	if err := replaceLink(link, target); err != nil {
		return env, fmt.Errorf("make the link to the ssh agent: %w", err)
	}
	env = slices.Clone(env)
	env[i] = "SSH_AUTH_SOCK=" + link
	return env, nil
}

// pointSSHAgent points the session's link to another agent, if it has a link
// and that agent is there.
func (e *entry) pointSSHAgent(target string) error {
	link := filepath.Join(string(e.dir), sshAgentName)
	if _, err := os.Lstat(link); errors.Is(err, fs.ErrNotExist) || target == link {
		return nil
	}
	info, err := os.Stat(target)
	if err != nil || info.Mode().Type() != fs.ModeSocket || !filepath.IsAbs(target) {
		return nil
	}
	return replaceLink(link, target)
}

// replaceLink makes a symbolic link in one step, whatever was there before.
func replaceLink(link, target string) error {
	temporary := link + ".tmp"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, link)
}

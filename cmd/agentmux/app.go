package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/wire"
)

// Exit statuses. They are part of the interface and never change.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitTimeout  = 4
	exitNoServer = 5
	exitVersion  = 6
	exitRefused  = 7
	exitAgentmux = 125
	// exitInterrupted is what a shell gives for SIGINT.
	exitInterrupted = 130
	exitLinkLost    = 255
)

// app is what all verbs share.
type app struct {
	in       *os.File
	out, err *os.File
	getenv   func(string) string
	ran      bool // a verb has begun: what was wrong before is a usage error
}

func newApp() *app {
	return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}
}

// version is set by the release build; otherwise the module's version is used.
var version string

func programVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") && !strings.ContainsAny(info.Main.Version, "-+") {
		return info.Main.Version
	}
	return "dev"
}

// mux finds the state tree and this program.
func (a *app) mux() (*client.Mux, error) {
	tree, err := session.FindTree(a.getenv)
	if err != nil {
		return nil, err
	}
	exe, err := executable()
	if err != nil {
		return nil, err
	}
	return &client.Mux{Tree: tree, Version: programVersion(), Executable: exe, Getenv: a.getenv}, nil
}

// executable is the path of this program: as installed, not the file that an
// upgrade has since replaced.
func executable() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the own program: %w", err)
	}
	exe = strings.TrimSuffix(exe, " (deleted)")
	if _, err := os.Stat(exe); err != nil {
		return "", fmt.Errorf("find the own program: %w; it was removed while running", err)
	}
	return filepath.Clean(exe), nil
}

// root is the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentmux",
		Short: "Keep coding agents running, and come back to them",
		Long: `agentmux starts a coding agent (or any program) on a terminal that no closed
window, lost ssh connection or logout can take down, logs every byte that it
prints, and brings you back to the exact screen.

    agentmux new -n work claude     start Claude Code; Ctrl-\ leaves it running
    agentmux attach work            come back, from anywhere
    agentmux log work               read what it did`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          arguments(0, 0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, _ []string) error {
			return a.list(ctx, m, listOptions{})
		}),
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{err, "'" + cmd.CommandPath() + " --help' shows the options"}
	})
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.AddCommand(
		a.newCommand(), a.attachCommand(), a.detachCommand(), a.listCommand(), a.statusCommand(),
		a.logCommand(), a.killCommand(), a.renameCommand(), a.sendCommand(), a.captureCommand(),
		a.waitCommand(), a.removeCommand(), a.resetCommand(), a.serverCommand(), a.versionCommand(),
	)
	a.noteRuns(root)
	return root
}

// noteRuns makes every verb note that it has begun.
func (a *app) noteRuns(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			a.ran = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		a.noteRuns(sub)
	}
}

// usageError is a command line that makes no sense.
type usageError struct {
	err  error
	hint string
}

func (e usageError) Error() string { return e.err.Error() }

// statusError ends the program with a status and, if it has one, a message.
type statusError struct {
	status int
	err    error
}

func (e statusError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e statusError) Unwrap() error { return e.err }

// arguments checks the number of positional arguments: at least least, and at
// most most unless that is below 0.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		var problem string
		switch {
		case len(args) < least:
			problem = "something is missing"
		case most >= 0 && len(args) > most && !cmd.HasSubCommands():
			problem = fmt.Sprintf("%q is too much", args[most])
		case most >= 0 && len(args) > most:
			return usageError{fmt.Errorf("there is no command %q", args[most]), "'" + cmd.CommandPath() + " --help' shows them"}
		default:
			return nil
		}
		usage := strings.TrimPrefix(cmd.UseLine(), cmd.Root().Name()+" ")
		return usageError{errors.New(problem), "the form is: agentmux " + strings.TrimSuffix(usage, " [flags]")}
	}
}

// exit prints an error and returns the program's status.
func (a *app) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) {
		return exitInterrupted // by Ctrl-C or SIGTERM: who sent it knows
	}
	var usage usageError
	if !a.ran && !errors.As(err, &usage) {
		err = usageError{err, "'agentmux --help' shows the commands"}
	}
	if text := err.Error(); text != "" {
		text = strings.ReplaceAll(text, "\n", "; ") // joined errors
		fmt.Fprintln(a.err, "agentmux: error: "+session.Printable(text))
	}
	if hint := hintOf(err); hint != "" {
		fmt.Fprintln(a.err, "agentmux: hint: "+session.Printable(hint))
	}
	return statusOf(err)
}

func hintOf(err error) string {
	var usage usageError
	if errors.As(err, &usage) {
		return usage.hint
	}
	var remote *wire.Error
	if errors.As(err, &remote) {
		return remote.Hint
	}
	switch {
	case errors.Is(err, session.ErrInvalidName):
		return "a name such as fix-login is fine"
	case errors.Is(err, session.ErrNoServer):
		return "'agentmux server start' starts one, and so do new and attach"
	case errors.Is(err, session.ErrAmbiguous):
		return "give more of the name; 'agentmux ls' lists them"
	}
	return ""
}

func statusOf(err error) int {
	var usage usageError
	var status statusError
	var remote *wire.Error
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &status):
		return status.status
	case errors.As(err, &remote) && remote.Exit != 0:
		return remote.Exit
	}
	for _, s := range []struct {
		err    error
		status int
	}{
		{session.ErrInvalidName, exitUsage},
		{session.ErrInvalidID, exitUsage},
		{session.ErrUsage, exitUsage},
		{session.ErrNotFound, exitNotFound},
		{session.ErrAmbiguous, exitNotFound},
		{session.ErrTimeout, exitTimeout},
		{session.ErrNoServer, exitNoServer},
		{session.ErrVersion, exitVersion},
		{session.ErrRefused, exitRefused},
		{session.ErrBusy, exitRefused},
		{session.ErrExists, exitRefused},
		{session.ErrRunning, exitRefused},
		{session.ErrNotRunning, exitFailed},
	} {
		if errors.Is(err, s.err) {
			return s.status
		}
	}
	return exitFailed
}

// verb is what a command does with the state tree and its arguments.
type verb func(ctx context.Context, m *client.Mux, args []string) error

// with makes a command of a verb.
func (a *app) with(do verb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		m, err := a.mux()
		if err != nil {
			return err
		}
		return do(cmd.Context(), m, args)
	}
}

// completeNames completes the names of sessions for commands that take one
// (max 1) or several (max 0).
func (a *app) completeNames(most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		m, err := a.mux()
		if err != nil || most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return m.Names(prefix), cobra.ShellCompDirectiveNoFileComp
	}
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool { return f != nil && term.IsTerminal(int(f.Fd())) }

// say writes lines to w; that nobody reads them is not an error.
func say(w io.Writer, lines ...string) {
	for _, line := range lines {
		fmt.Fprintln(w, session.Printable(line))
	}
}

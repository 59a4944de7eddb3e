package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"agentmux/pty/tty"
	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/wire"
)

// newOptions are the flags of new.
type newOptions struct {
	detached bool
	name     string
	named    bool
	dir      string
	size     string
	env      []string
	keys     string
}

func (a *app) newCommand() *cobra.Command {
	var o newOptions
	cmd := &cobra.Command{
		Use:   "new [-d] [-n NAME] [-C DIR] [--] COMMAND [ARGUMENT]...",
		Short: "Start a command in a new session, and attach to it",
		Long: `Start a command in a new session, and attach to it. The command gets this
directory and this environment; options of agentmux end at the first word that
is none, so that everything after it belongs to the command.

The session lives until its command ends. Ctrl-\ leaves it running.`,
		Example: `  agentmux new -n refactor claude
  agentmux new -d -n tests -- make test`,
		Args: arguments(1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.named = cmd.Flags().Changed("name")
			return a.newSession(cmd.Context(), o, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.BoolVarP(&o.detached, "detached", "d", false, "do not attach; print the session's name")
	f.StringVarP(&o.name, "name", "n", "", "name of the session (made from directory and command if not given)")
	f.StringVarP(&o.dir, "directory", "C", "", "directory to start in, in place of this one")
	f.StringVar(&o.size, "size", "", "size of the terminal as COLUMNSxROWS (that of this terminal, else 120x40)")
	f.StringArrayVar(&o.env, "env", nil, "set a variable KEY=VALUE for the command; may be repeated")
	f.StringVar(&o.keys, "detach-keys", "", `key that leaves the session running (ctrl-\)`)
	return cmd
}

func (a *app) newSession(ctx context.Context, o newOptions, argv []string) error {
	m, err := a.mux()
	if err != nil {
		return err
	}
	n, err := a.newRequest(o, argv)
	if err != nil {
		return err
	}
	if o.detached {
		return a.newDetached(ctx, m, n)
	}
	keys, err := a.detachKeys(o.keys)
	if err != nil {
		return err
	}
	if err := refuseNested(m, "'agentmux new -d' starts a session beside it"); err != nil {
		return err
	}
	return a.newAttached(ctx, m, n, keys)
}

// newRequest checks the flags and collects what the command is to get.
func (a *app) newRequest(o newOptions, argv []string) (client.NewOptions, error) {
	n := client.NewOptions{Name: o.name, Argv: argv}
	if o.named {
		if err := session.CheckName(o.name); err != nil {
			return n, err
		}
	}
	var err error
	if n.Size, err = parseSize(o.size); err != nil {
		return n, err
	}
	if n.Dir, err = workingDirectory(o.dir); err != nil {
		return n, err
	}
	n.Env = os.Environ()
	for _, kv := range o.env {
		if i := strings.IndexByte(kv, '='); i <= 0 {
			return n, usageError{fmt.Errorf("--env %q is not of the form KEY=VALUE", kv), "for example --env DEBUG=1"}
		}
		name, _, _ := strings.Cut(kv, "=")
		n.Env = slices.DeleteFunc(n.Env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		n.Env = append(n.Env, kv)
	}
	n.Umask = syscall.Umask(0)
	syscall.Umask(n.Umask)
	return n, nil
}

func parseSize(text string) (session.Size, error) {
	if text == "" {
		return session.Size{}, nil
	}
	var z session.Size
	var rest string
	hint := fmt.Sprintf("from %dx%d to %dx%d, for example 120x40", session.MinCols, session.MinRows, session.MaxCols, session.MaxRows)
	if n, _ := fmt.Sscanf(text+"\n", "%dx%d%s", &z.Cols, &z.Rows, &rest); n != 2 {
		return z, usageError{fmt.Errorf("--size %q is not of the form COLUMNSxROWS", text), hint}
	}
	if z.Clamp() != z {
		return z, usageError{fmt.Errorf("--size %q is too small or too large", text), hint}
	}
	return z, nil
}

func workingDirectory(dir string) (string, error) {
	here, err := os.Getwd()
	if dir == "" || !filepath.IsAbs(dir) {
		if err != nil {
			return "", fmt.Errorf("the current directory does not exist any more (%w); choose another one with -C DIR", err)
		}
		dir = filepath.Join(here, dir)
	}
	return filepath.Clean(dir), nil
}

func (a *app) newDetached(ctx context.Context, m *client.Mux, n client.NewOptions) error {
	made, err := m.New(ctx, n)
	if err != nil {
		return err
	}
	say(a.err, prefixed(made.Notes)...)
	_, err = fmt.Fprintln(a.out, made.Session.Name)
	return err
}

func prefixed(notes []string) []string {
	out := make([]string, len(notes))
	for i, note := range notes {
		out[i] = "agentmux: note: " + note
	}
	return out
}

// newAttached starts the session once the terminal has said what it is, so
// that the first questions of the command can be answered.
func (a *app) newAttached(ctx context.Context, m *client.Mux, n client.NewOptions, keys tty.DetachKeys) error {
	screen, err := a.openScreen("new -d")
	if err != nil {
		return err
	}
	if n.Size == (session.Size{}) {
		n.Size.Cols, n.Size.Rows = screen.Size()
	}
	ctx, err = screen.Begin(ctx)
	if err != nil {
		return leaveScreen(ctx, screen, err)
	}
	n.Profile = screen.AwaitProfile(ctx)
	made, err := m.New(ctx, n)
	if err != nil {
		return leaveScreen(ctx, screen, err)
	}
	return a.attach(ctx, m, client.AttachOptions{
		Target: string(made.Session.ID), DetachKeys: keys, Screen: screen, Fresh: true,
	}, made.Notes)
}

// leaveScreen hands the terminal back after a failure. If a signal ended ctx,
// the status is that of a program ended by it.
func leaveScreen(ctx context.Context, screen *client.Screen, err error) error {
	if endErr := screen.End(false); endErr != nil {
		err = errors.Join(err, endErr)
	}
	var sig client.SignalError
	if errors.As(context.Cause(ctx), &sig) {
		return statusError{128 + int(sig.Signal), fmt.Errorf("ended by a signal: %w", sig)}
	}
	return err
}

// openScreen opens the terminal; instead names what to use without one.
func (a *app) openScreen(instead string) (*client.Screen, error) {
	screen, err := client.OpenScreen(a.in, a.out)
	if errors.Is(err, tty.ErrNotTerminal) {
		return nil, &wire.Error{
			Code: wire.CodeFailed, Message: "standard input and output are no terminal",
			Hint: "'agentmux " + instead + "' works without one",
		}
	}
	return screen, err
}

// refuseNested refuses to attach inside a session, which would draw a screen
// into itself.
func refuseNested(m *client.Mux, hint string) error {
	id, nested := m.Nested()
	if !nested {
		return nil
	}
	name := id.Short()
	if record, err := m.Tree.Session(id).ReadRecord(); err == nil {
		name = record.Name
	}
	return &wire.Error{Code: "refused", Message: fmt.Sprintf("this terminal is inside the session %s already", name), Hint: hint}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"agentmux/pty/shimapi"
	"agentmux/pty/tty"
	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/wire"
)

func (a *app) attachCommand() *cobra.Command {
	var o client.AttachOptions
	var keys string
	cmd := &cobra.Command{
		Use:   "attach [-r] [--take-over] [--history N] [NAME]",
		Short: "Show a session on this terminal",
		Long: `Show a session on this terminal and type at it. Ctrl-\ (or the keys given with
--detach-keys or in AGENTMUX_DETACH_KEYS) leaves it running. To send that key
to the program, use another terminal: agentmux send --key 'ctrl-\' NAME.

NAME may be the beginning of a name if it fits one session only. Without NAME
the one live session is meant.`,
		Example:           "  agentmux attach refactor",
		Args:              arguments(0, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) (err error) {
			if o.DetachKeys, err = a.detachKeys(keys); err != nil {
				return err
			}
			if o.Target, err = targetOf(ctx, m, args); err != nil {
				return err
			}
			return a.attachTo(ctx, m, o)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.ReadOnly, "read-only", "r", false, "only look: nothing typed here reaches the session")
	f.BoolVar(&o.TakeOver, "take-over", false, "make all other clients leave")
	f.IntVar(&o.History, "history", 0, "also bring `N` lines that scrolled off into this terminal's scrollback")
	f.StringVar(&keys, "detach-keys", "", `key or keys that leave, such as ctrl-b,d, or none (ctrl-\)`)
	return cmd
}

// detachKeys are those of the flag, else of the environment, else the default.
func (a *app) detachKeys(flag string) (tty.DetachKeys, error) {
	text := flag
	if text == "" {
		text = a.getenv("AGENTMUX_DETACH_KEYS")
	}
	if text == "" {
		text = tty.DefaultDetachKeys
	}
	keys, err := tty.ParseDetachKeys(text)
	if err != nil {
		return keys, usageError{err, `for example --detach-keys 'ctrl-b,d', or none`}
	}
	return keys, nil
}

// targetOf is the session named on the command line, else the only live one.
func targetOf(ctx context.Context, m *client.Mux, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	list, err := m.List(ctx, false)
	if err != nil {
		return "", err
	}
	var live []wire.Info
	for _, s := range list {
		if s.State == session.Running {
			live = append(live, s)
		}
	}
	switch len(live) {
	case 0:
		return "", &wire.Error{Code: "not-found", Message: "no session is running", Hint: "'agentmux new COMMAND' starts one"}
	case 1:
		return string(live[0].ID), nil
	}
	return "", usageError{fmt.Errorf("%d sessions are running", len(live)), "name one of them; 'agentmux ls' lists them"}
}

func (a *app) attachTo(ctx context.Context, m *client.Mux, o client.AttachOptions) error {
	if err := refuseNested(m, "leave it first, or use another terminal"); err != nil {
		return err
	}
	// What is wrong with the name is said before the terminal is touched.
	info, err := m.Status(ctx, o.Target)
	if errors.Is(err, session.ErrNoServer) {
		info, err = wire.Info{State: session.Unknown}, nil // attaching starts it again
	}
	if err != nil {
		return err
	}
	if info.State != session.Running && info.State != session.Unknown {
		return a.ended(client.Outcome{Reason: client.Ended, Session: info, Exit: exitOf(info)})
	}
	screen, err := a.openScreen("capture NAME")
	if err != nil {
		return err
	}
	ctx, err = screen.Begin(ctx)
	if err != nil {
		return leaveScreen(ctx, screen, err)
	}
	o.Screen = screen
	return a.attach(ctx, m, o, nil)
}

func exitOf(info wire.Info) session.Exit {
	if info.Exit == nil {
		return session.Exit{}
	}
	return *info.Exit
}

// attach shows the session until there is a reason to leave, hands the
// terminal back and says what happened.
func (a *app) attach(ctx context.Context, m *client.Mux, o client.AttachOptions, notes []string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			o.Screen.End(false)
			panic(p)
		}
	}()
	outcome, err := m.Attach(ctx, o)
	if err != nil {
		return leaveScreen(ctx, o.Screen, err)
	}
	left := outcome.Reason != client.Ended && outcome.Reason != client.HungUp
	if err := o.Screen.End(left); err != nil && outcome.Reason != client.HungUp {
		return err
	}
	say(a.err, prefixed(notes)...)
	return a.ended(outcome)
}

// ended says how an attach ended and makes it the program's status.
func (a *app) ended(o client.Outcome) error {
	name := o.Session.Name
	switch o.Reason {
	case client.Detached:
		say(a.out, fmt.Sprintf("[left %s running; come back with: agentmux attach %s]", name, name))
		return nil
	case client.Dismissed:
		say(a.out, fmt.Sprintf("[left %s running: %s; come back with: agentmux attach %s]", name, o.Message, name))
		return nil
	case client.Ended:
		return a.agentEnded(o.Session, o.Exit)
	case client.Lost:
		return statusError{exitAgentmux, &wire.Error{
			Code: wire.CodeFailed, Message: fmt.Sprintf("session %s is lost: how its agent ended was not recorded", name),
			Hint: fmt.Sprintf("'agentmux status %s' says what is known, 'agentmux log %s' what it printed", name, name),
		}}
	}
	status := exitLinkLost
	text := fmt.Sprintf("left %s running: the terminal went away", name)
	if o.Signal != 0 {
		status = 128 + int(o.Signal)
		text = fmt.Sprintf("left %s running: %v", name, o.Signal)
	} else if o.Message != "" {
		text = fmt.Sprintf("left %s running: %s", name, o.Message)
	}
	return statusError{status, errors.New(text)}
}

// agentEnded reports the agent's end and exits as the agent did.
func (a *app) agentEnded(info wire.Info, exit session.Exit) error {
	if info.State == session.Lost {
		return statusError{exitAgentmux, fmt.Errorf("session %s is lost: %s", info.Name, info.Evidence)}
	}
	if exit.Signal == "" {
		say(a.out, fmt.Sprintf("[%s ended with exit code %d]", info.Name, exit.Code))
	} else {
		say(a.out, fmt.Sprintf("[%s was ended by %s]", info.Name, exit.Signal))
	}
	if status := shellStatus(exit); status != 0 {
		return statusError{status: status}
	}
	return nil
}

// shellStatus is the exit status by which a shell tells how a program ended.
func shellStatus(e session.Exit) int {
	if e.Signal == "" {
		return e.Code
	}
	sig, err := shimapi.ParseSignalName(e.Signal)
	if err != nil {
		return exitAgentmux
	}
	return 128 + int(sig)
}

func (a *app) detachCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "detach NAME",
		Short:             "Make all clients leave a session",
		Example:           "  agentmux detach refactor",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			n, err := m.Detach(ctx, args[0])
			if err != nil {
				return err
			}
			say(a.out, count(n, "client")+" detached")
			return nil
		}),
	}
}

func (a *app) resetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Repair this terminal after a client was killed",
		Long: `Repair this terminal after a client was killed with SIGKILL: mouse, paste and
keyboard modes, colours, title and line settings are put back. The screen and
the scrollback stay.`,
		Example: "  agentmux reset",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if !isTerminal(a.out) {
				return errors.New("standard output is no terminal: there is nothing to repair")
			}
			for _, f := range []*os.File{a.in, a.out} {
				if isTerminal(f) {
					if err := tty.Sane(f); err != nil {
						return err
					}
				}
			}
			_, err := a.out.Write(tty.ResetSequence())
			return err
		},
	}
}

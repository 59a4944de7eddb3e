package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/client"
)

// defaultGrace is the time between the polite signals and SIGKILL.
const defaultGrace = 5 * time.Second

func (a *app) killCommand() *cobra.Command {
	var signalName string
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "kill [--signal S] [--grace D] NAME...",
		Short: "End a session's command and everything it started",
		Long: `End a session's command and everything it started: TERM first, then HUP, and
after the grace KILL. It returns when all processes are gone, or names what is
left. With --signal, only that signal is sent, to the command's process group.
Names are taken literally: no prefixes here.`,
		Example: `  agentmux kill refactor
  agentmux kill --signal CONT refactor`,
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeNames(0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			number := 0
			if signalName != "" {
				sig, err := shimapi.ParseSignalName(signalName)
				if err != nil {
					return usageError{err, "for example --signal INT"}
				}
				number = int(sig)
			}
			if grace <= 0 || grace > time.Hour {
				return usageError{fmt.Errorf("--grace %v is not a time of up to an hour", grace), "for example --grace 10s"}
			}
			var failed []error
			for _, name := range args {
				failed = append(failed, a.kill(ctx, m, name, number, grace))
			}
			return joinErrors(failed)
		}),
	}
	cmd.Flags().StringVar(&signalName, "signal", "", "send only this signal, by name or number")
	cmd.Flags().DurationVar(&grace, "grace", defaultGrace, "time between TERM and KILL")
	return cmd
}

// joinErrors is nil, the one error, or all of them; the status is that of the
// first.
func joinErrors(errs []error) error {
	var first error
	n := 0
	for _, err := range errs {
		if err != nil && n == 0 {
			first = err
		}
		if err != nil {
			n++
		}
	}
	if n > 1 {
		return errors.Join(errs...)
	}
	return first
}

func (a *app) kill(ctx context.Context, m *client.Mux, name string, number int, grace time.Duration) error {
	info, err := m.Kill(ctx, name, number, grace)
	if err != nil {
		return err
	}
	if number != 0 {
		return nil
	}
	say(a.out, fmt.Sprintf("%s: %s", info.Name, stateText(info)))
	if len(info.Survivors) == 0 {
		return nil
	}
	left := fmt.Sprintf("%d process(es) of %s could not be ended:", len(info.Survivors), info.Name)
	for _, p := range info.Survivors {
		left += fmt.Sprintf(" %d (%s)", p.PID, session.Quote(p.Argv))
	}
	return errors.New(left)
}

func (a *app) renameCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rename OLD NEW",
		Short:             "Give a session another name",
		Example:           "  agentmux rename refactor refactor-old",
		Args:              arguments(2, 2),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			if err := session.CheckName(args[1]); err != nil {
				return err
			}
			_, err := m.Rename(ctx, args[0], args[1])
			return err
		}),
	}
}

func (a *app) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "rm NAME...",
		Short:             "Delete ended sessions with their logs",
		Long:              "Delete ended sessions with their logs. A live session is refused. Names are taken literally: no prefixes here.",
		Example:           "  agentmux rm refactor-old",
		Args:              arguments(1, -1),
		ValidArgsFunction: a.completeNames(0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			var failed []error
			for _, name := range args {
				info, err := m.Remove(ctx, name)
				failed = append(failed, err)
				if err == nil {
					say(a.out, "removed "+info.Name)
				}
			}
			return joinErrors(failed)
		}),
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"agentmux/session"
	"agentmux/session/client"
)

func (a *app) waitCommand() *cobra.Command {
	var until string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait [--until exit|text=RE] [--timeout D] NAME",
		Short: "Wait until a session has ended or shows a text",
		Long: `Wait until a session has ended, and exit as its command did, or until its
screen shows a line that matches a regular expression, and print that line.
The status is 4 if it did not happen in time.`,
		Example: `  agentmux wait --until exit --timeout 10m tests
  agentmux wait --until 'text=[0-9]+ passed' tests`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			if timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, timeout)
				defer cancel()
			}
			err := a.wait(ctx, m, until, args[0])
			if errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("wait for %s: %w after %v", args[0], session.ErrTimeout, timeout)
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&until, "until", "exit", "what to wait for: exit, or text=REGULAR-EXPRESSION")
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "give up after this time (never)")
	return cmd
}

func (a *app) wait(ctx context.Context, m *client.Mux, until, name string) error {
	if pattern, ok := strings.CutPrefix(until, "text="); ok {
		if _, err := regexp.Compile(pattern); err != nil {
			return usageError{err, "the syntax is that of Go's regexp package"}
		}
		got, err := m.WaitText(ctx, name, pattern)
		if err != nil {
			return err
		}
		say(a.out, got.Matched)
		return nil
	}
	if until != "exit" {
		return usageError{fmt.Errorf("--until %q is not known", until), "it is exit or text=REGULAR-EXPRESSION"}
	}
	info, err := m.WaitExit(ctx, name)
	if err != nil {
		return err
	}
	if info.State != session.Exited || info.Exit == nil {
		return statusError{exitAgentmux, fmt.Errorf("session %s is %s: %s", info.Name, info.State, info.Evidence)}
	}
	if status := shellStatus(*info.Exit); status != 0 {
		return statusError{status: status}
	}
	return nil
}

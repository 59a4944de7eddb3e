package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agentmux/session/client"
	"agentmux/session/wire"
)

func (a *app) captureCommand() *cobra.Command {
	var in wire.CaptureParams
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "capture [--ansi | --json] [--history N] NAME",
		Short:             "Print a session's screen as it is now",
		Example:           "  agentmux capture refactor",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			in.Name = args[0]
			got, err := m.Capture(ctx, in)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, struct {
					Schema int `json:"schema"`
					wire.CaptureResult
				}{listSchema, got})
			}
			lines := got.Lines
			for len(lines) > 0 && lines[len(lines)-1] == "" {
				lines = lines[:len(lines)-1]
			}
			if len(lines) == 0 {
				return nil
			}
			_, err = fmt.Fprintln(a.out, strings.Join(lines, "\n"))
			return err
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&in.ANSI, "ansi", false, "keep colours and attributes")
	f.BoolVar(&asJSON, "json", false, "print JSON, with size and cursor")
	f.IntVar(&in.History, "history", 0, "also print `N` lines that scrolled off")
	cmd.MarkFlagsMutuallyExclusive("ansi", "json")
	return cmd
}

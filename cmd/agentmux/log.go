package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"agentmux/session/client"
)

func (a *app) logCommand() *cobra.Command {
	var o client.LogOptions
	var force bool
	cmd := &cobra.Command{
		Use:   "log [--raw] [-f] [--tail N] NAME",
		Short: "Read what a session printed",
		Long: `Read what a session printed: the lines that scrolled off its screen, then the
screen as it is or was left. It is safe to print: nothing in it acts on your
terminal. --raw writes the exact bytes instead.`,
		Example: `  agentmux log refactor | less
  agentmux log -f --tail 20 tests`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case !cmd.Flags().Changed("tail"):
				o.Tail = -1
			case o.Tail < 0:
				return usageError{fmt.Errorf("--tail %d is negative", o.Tail), "for example --tail 20"}
			}
			if o.Raw && isTerminal(a.out) && !force {
				return usageError{
					errors.New("the raw log holds whatever the program sent to its terminal, and standard output is one"),
					"redirect it to a file, or insist with --force",
				}
			}
			o.Color = isTerminal(a.out) && a.getenv("NO_COLOR") == ""
			if o.Raw {
				o.Note = func(text string) { say(a.err, "agentmux: note: "+text) }
			}
			m, err := a.mux()
			if err != nil {
				return err
			}
			err = m.ReadLog(cmd.Context(), args[0], a.out, o)
			if errors.Is(err, syscall.EPIPE) {
				return nil // the reader has had enough
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.Raw, "raw", false, "write the exact bytes that the program printed")
	f.BoolVarP(&o.Follow, "follow", "f", false, "go on until the session has ended")
	f.IntVar(&o.Tail, "tail", 0, "only the last `N` lines")
	f.BoolVar(&force, "force", false, "write raw bytes to a terminal")
	return cmd
}

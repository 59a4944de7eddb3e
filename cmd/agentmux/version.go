package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"agentmux/pty/shimapi"
	"agentmux/session/wire"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version [--json]",
		Short:   "Print the version of this program and of its protocols",
		Example: "  agentmux version --json",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(a.out, map[string]any{
					"schema": listSchema, "version": programVersion(), "go": runtime.Version(),
					"control_protocol": []int{wire.MinVersion, wire.MaxVersion}, "shim_protocol": shimapi.ProtocolVersion,
				})
			}
			_, err := fmt.Fprintf(a.out, "agentmux %s (%s %s/%s, control protocol %d, shim protocol %d)\n", programVersion(),
				runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.MaxVersion, shimapi.ProtocolVersion)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

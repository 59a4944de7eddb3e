// Command agentmux keeps coding agents running and lets their users come back
// to them. This package turns arguments into one call and errors into text and
// an exit status; a file holds one verb. It must not import package pty.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"agentmux/pty/shim"
	"agentmux/pty/shimapi"
)

func main() {
	shimapi.RunDetachStage()
	if len(os.Args) > 1 && os.Args[1] == "shim" {
		os.Exit(shim.Main(os.Args[2:])) // before anything that a shim does not need
	}
	if os.Getpid() == 1 {
		os.Exit(runAsInit())
	}
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := newApp()
	root := a.root()
	root.SetArgs(os.Args[1:])
	return a.exit(root.ExecuteContext(ctx))
}

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the scripts of testdata/script: the commands that need no
// terminal. Each has a world of its own; $WORK is the working directory.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			w := newWorld(e.T().(testing.TB))
			for _, kv := range w.env {
				name, value, _ := strings.Cut(kv, "=")
				if name == "PATH" {
					value = filepath.Dir(program) + string(os.PathListSeparator) + value
				}
				e.Setenv(name, value)
			}
			e.Setenv("STATE", string(w.tree))
			e.Setenv("HELPER", self)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"status": statusOfLast},
	})
}

// statusOfLast runs agentmux and checks its exit status: status N ARG...
func statusOfLast(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND [ARG]...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("status %s, want %s", got, args[0])
	}
}

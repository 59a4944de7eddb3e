package main

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayImport is the architecture: what each package of agentmux may import of
// the others and of third parties. Dependencies point one way. A package that
// is not listed here fails the test, so that its place is thought about.
var mayImport = map[string][]string{
	"session":        {"github.com/google/uuid"},
	"session/agent":  {"session"},
	"session/wire":   {"session", "github.com/vmihailenco/msgpack/v5"},
	"session/server": {"session", "session/wire", "session/agent", "pty/vt", "pty/shimapi", "pty/proctree", "logstore", "logstore/seal"},
	"session/client": {"session", "session/wire", "pty/shimapi", "pty/proctree", "pty/tty", "pty/vt", "logstore"},
	"pty":            {"github.com/creack/pty"},
	"pty/proctree":   {},
	"pty/shimapi":    {"pty/proctree"},
	"pty/shim":       {"pty", "pty/proctree", "pty/shimapi", "logstore"},
	"pty/vt":         {"github.com/clipperhouse/displaywidth", "github.com/clipperhouse/uax29/v2"},
	"pty/tty":        {"golang.org/x/term", "golang.org/x/sys/unix"},
	"logstore":       {},
	"logstore/seal":  {"logstore"},
	"cmd/agentmux": {
		"session", "session/wire", "session/client", "session/server", "pty/shim", "pty/shimapi", "pty/tty", "pty/vt",
		"github.com/spf13/cobra", "golang.org/x/term",
	},
}

// listed is what "go list -json" tells of a package.
type listed struct {
	ImportPath string
	Dir        string
	Imports    []string
	Deps       []string
	GoFiles    []string
}

func listPackages(t *testing.T, goos string) map[string]listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,GoFiles", "agentmux/...")
	cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := make(map[string]listed)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(p.ImportPath, "agentmux/scripts") {
			packages[strings.TrimPrefix(p.ImportPath, "agentmux/")] = p
		}
	}
}

func TestDependenciesPointOneWay(t *testing.T) {
	for _, goos := range []string{"linux", "darwin"} {
		for name, p := range listPackages(t, goos) {
			allowed, ok := mayImport[name]
			if !ok {
				t.Errorf("package %s is not in the table of this test", name)
			}
			for _, imported := range p.Imports {
				own, isOwn := strings.CutPrefix(imported, "agentmux/")
				third := strings.Contains(strings.SplitN(imported, "/", 2)[0], ".")
				fits := func(a string) bool {
					return imported == a || own == a || third && strings.HasPrefix(imported, a+"/")
				}
				if (isOwn || third) && !slices.ContainsFunc(allowed, fits) {
					t.Errorf("%s (%s) imports %s, which the architecture does not allow", name, goos, imported)
				}
			}
		}
	}
}

// TestTheShimStaysSmall: the process that must live longest holds the least
// code. Of third parties it holds the one that opens the PTY.
func TestTheShimStaysSmall(t *testing.T) {
	for _, dep := range listPackages(t, "linux")["pty/shim"].Deps {
		own, isOwn := strings.CutPrefix(dep, "agentmux/")
		switch {
		case isOwn && !slices.Contains([]string{"pty", "pty/proctree", "pty/shimapi", "logstore"}, own):
			t.Errorf("the shim reaches %s", dep)
		case !isOwn && strings.Contains(strings.SplitN(dep, "/", 2)[0], ".") && !strings.HasPrefix(dep, "github.com/creack/pty"):
			t.Errorf("the shim reaches %s", dep)
		case dep == "net/http" || dep == "log/slog" || dep == "html/template":
			t.Errorf("the shim reaches %s", dep)
		}
	}
}

// TestTheServerOpensNoDevice: only the shim may open terminals.
func TestTheServerOpensNoDevice(t *testing.T) {
	if slices.Contains(listPackages(t, "linux")["session/server"].Deps, "agentmux/pty") {
		t.Error("the server reaches package pty")
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for name, p := range listPackages(t, "linux") {
		var with []string
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil {
				with = append(with, file)
			}
		}
		if len(with) != 1 {
			t.Errorf("package %s has its comment in %v, want exactly one file", name, with)
		}
	}
}

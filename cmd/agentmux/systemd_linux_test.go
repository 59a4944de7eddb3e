package main

import (
	"os"
	"strings"
	"testing"
)

// standIns puts a systemd user manager into the world that is none: programs
// that write down how they were called.
func (w *world) standIns(lingers, killsAtLogout string) {
	w.t.Helper()
	for _, dir := range []string{"bin", "r/systemd"} {
		if err := os.MkdirAll(w.path(dir), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	w.write("r/systemd/private", "")
	w.program("loginctl", `echo "loginctl $*" >>`+w.path("calls")+`
case "$*" in
*Linger*) echo Linger=`+lingers+` ;;
*KillUserProcesses*) echo KillUserProcesses=`+killsAtLogout+` ;;
esac`)
	w.setenv("PATH=" + w.path("bin") + ":" + w.getenv("PATH"))
}

// program writes an executable shell script into the world's bin.
func (w *world) program(name, script string) {
	w.t.Helper()
	path := w.write("bin/"+name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(path, 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// runsInScope is systemd-run --scope, as far as executing the rest goes.
const runsInScope = `while [ "$1" != -- ]; do shift; done; shift; exec "$@"`

func (w *world) calls() string {
	data, err := os.ReadFile(w.path("calls"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return string(data)
}

func TestLV01RunsGetScopesOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.standIns("yes", "yes")
	w.program("systemd-run", `echo "systemd-run $*" >>`+w.path("calls")+"\n"+runsInScope)
	info := w.start("a", "sleep", "600")
	want := "systemd-run --user --scope --quiet --collect --property=OOMPolicy=continue --unit=agentmux-" + string(info.ID) + "-1 -- "
	if !strings.Contains(w.calls(), want) {
		t.Errorf("no scope was asked for:\n%s\nwant %q", w.calls(), want)
	}

	// The server that a shim starts in place of a killed one goes into a
	// scope too, not into that of the shim.
	before := strings.Count(w.calls(), " server run")
	w.killServer()
	eventually(t, "the next server is started in a scope", func() bool {
		return strings.Count(w.calls(), " server run") > before
	})
}

func TestLV01ARefusedScopeIsNoObstacle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.standIns("yes", "no")
	w.program("systemd-run", `echo "no bus" >&2; exit 1`)
	r := w.run("new", "-d", "-n", "a", "--", "sleep", "600")
	if r.code != 0 || !strings.Contains(r.err, "no bus") || !strings.Contains(r.err, "runs without") {
		t.Errorf("%v", r)
	}
	w.shows("a", "")
}

func TestLV01LogoutIsWarnedOfOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.standIns("no", "yes")
	w.program("systemd-run", `echo "systemd-run $*" >>`+w.path("calls")+"\n"+runsInScope)
	r := w.run("new", "-d", "-n", "a", "--", "sleep", "600")
	if r.code != 0 || r.out != "a\n" || !strings.Contains(r.err, "loginctl enable-linger") {
		t.Errorf("first: %v", r)
	}
	if r := w.run("new", "-d", "-n", "b", "--", "sleep", "600"); r.code != 0 || r.err != "" {
		t.Errorf("second: %v", r)
	}
	if strings.Contains(w.calls(), "systemd-run") {
		t.Errorf("a user manager that ends at logout was given a run:\n%s", w.calls())
	}
}

func TestLV01ThereIsNothingToWarnOf(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]string{"processes stay": "no", "nobody knows": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.standIns("no", killed)
			if r := w.run("new", "-d", "-n", "a", "--", "sleep", "600"); r.code != 0 || r.err != "" {
				t.Errorf("%v", r)
			}
		})
	}
}

package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"agentmux/logstore"
	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
)

// status is how the agent ended, as wait4(2) told.
type status struct {
	wait  syscall.WaitStatus
	usage syscall.Rusage
	at    time.Time
	err   error
}

// finish writes the end down and leaves nothing behind: the log's last frames,
// then exit.json, then word to whoever is connected.
func (s *shim) finish(st status) {
	record := s.exitRecord(st)
	exit := exitFrame(st)
	rusage, err := json.Marshal(record.Usage)
	if err != nil {
		s.complain(err)
	}
	payload := logstore.EncodeExit(logstore.Exit{
		Kind: logstore.ExitKind(exit.Kind), Core: exit.Core != 0, Code: exit.Code, Wall: exit.Wall, Rusage: rusage,
	})
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	if err := s.log.Close(ctx, payload); err != nil {
		s.complain(err)
	}
	record.LostBytes = s.log.Status().LostBytes
	if err := s.writeExit(record); err != nil {
		s.complain(err)
	}
	s.control.broadcast(exit)
	s.control.close()
	s.master.Close()
}

func exitFrame(st status) shimapi.Exit {
	e := shimapi.Exit{Wall: st.at.UnixNano()}
	switch {
	case st.err != nil:
		e.Kind = shimapi.ExitFailed
	case st.wait.Signaled():
		e.Kind, e.Code = shimapi.ExitSignal, uint16(st.wait.Signal())
		if st.wait.CoreDump() {
			e.Core = 1
		}
	default:
		e.Kind, e.Code = shimapi.ExitCode, uint16(st.wait.ExitStatus())
	}
	return e
}

func (s *shim) exitRecord(st status) shimapi.ExitRecord {
	r := shimapi.ExitRecord{
		Schema: shimapi.ExitSchema, Run: s.bundle.Run, AgentPID: s.agent,
		Started: s.record.Started, Ended: st.at.UTC(), Cause: s.end.why(),
		Output: s.output.Load(), Survivors: s.survivors(),
		Usage: shimapi.Usage{
			User:   time.Duration(st.usage.Utime.Nano()),
			System: time.Duration(st.usage.Stime.Nano()),
			MaxRSS: maxRSS(st.usage),
		},
	}
	switch {
	case st.err != nil:
		r.Error = st.err.Error()
	case st.wait.Signaled():
		r.Signal, r.Core = shimapi.SignalName(st.wait.Signal()), st.wait.CoreDump()
	default:
		r.Code = st.wait.ExitStatus()
	}
	if cgroup, kills := oomKills(); kills > s.oom && cgroup == s.record.Cgroup {
		r.OOM = &shimapi.OOM{Kills: kills - s.oom, Cgroup: cgroup}
	}
	return r
}

func (s *shim) survivors() []shimapi.Survivor {
	var list []shimapi.Survivor
	for _, p := range s.tree() {
		list = append(list, shimapi.Survivor{PID: p.PID, Start: p.Start, Argv: proctree.Argv(p.PID)})
	}
	return list
}

// writeExit writes exit.json into the file that was reserved for it at the
// start, so that a full disk does not lose it, and renames it into place.
func (s *shim) writeExit(r shimapi.ExitRecord) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the exit record: %w", err)
	}
	_, err = s.reserve.WriteAt(append(data, '\n'), 0)
	err = errors.Join(err, s.reserve.Truncate(int64(len(data)+1)), s.reserve.Sync(), s.reserve.Close())
	if err != nil {
		return fmt.Errorf("write the exit record: %w", err)
	}
	if err := os.Rename(s.reserve.Name(), s.bundle.File(shimapi.ExitName)); err != nil {
		return fmt.Errorf("write the exit record: %w", err)
	}
	return nil
}

func reserveFile(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := preallocate(f, size); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		f.Close()
		return nil, err
	}
	return f, nil
}

// runNumber is the number in …/runs/<n>/<file>, 0 if there is none.
func runNumber(file string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
	if err != nil {
		return 0
	}
	return n
}

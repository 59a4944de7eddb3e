package shimapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Bundle is one run of a session: the session's directory (absolute) and the
// number of the run, from 1.
type Bundle struct {
	Session string
	Run     int
}

// Dir is the directory of the run's own files.
func (b Bundle) Dir() string { return filepath.Join(b.Session, "runs", strconv.Itoa(b.Run)) }

// Lock is the file whose flock the live shim holds.
func (b Bundle) Lock() string { return filepath.Join(b.Session, LockName) }

// Log is the directory of the session's log.
func (b Bundle) Log() string { return filepath.Join(b.Session, "log") }

// File is the path of one of the run's own files.
func (b Bundle) File(name string) string { return filepath.Join(b.Dir(), name) }

// Names of the files of a bundle.
const (
	LockName   = "lock"
	SpecName   = "spec.json"
	StartName  = "start.json"
	ExitName   = "exit.json"
	SocketName = "sock"
	ErrorName  = "shim.err"
)

// Spec is spec.json: what a run is to be. The environment's values are never
// written down, since they hold keys; they reach the shim through Launch.
type Spec struct {
	Schema   int       `json:"schema"`
	Session  string    `json:"session"`
	Run      int       `json:"run"`
	Argv     []string  `json:"argv"`
	Dir      string    `json:"cwd"`
	EnvNames []string  `json:"env_names"`
	Cols     int       `json:"cols"`
	Rows     int       `json:"rows"`
	Created  time.Time `json:"created"`
}

// Launch is what the shim reads, as JSON, from descriptor LaunchFD: the spec
// and the environment that belongs to it. Command line, directory and
// environment may hold any bytes but NUL, which JSON's strings cannot; so they
// are given as bytes, and those of the spec are for people to read.
type Launch struct {
	Spec Spec     `json:"spec"`
	Argv [][]byte `json:"argv"`
	Dir  []byte   `json:"cwd"`
	Env  [][]byte `json:"env"`
	// Umask is the file mode mask of the agent.
	Umask int `json:"umask"`
	// Tree is the state tree, whose server lock the shim waits for.
	Tree string `json:"tree"`
	// Version is that of the program that launches the shim.
	Version string `json:"version"`
}

// Texts turns byte strings into strings, Bytes the other way round.
func Texts(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}

// Bytes is the inverse of Texts.
func Bytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

// Descriptors that a shim is started with.
const (
	LaunchFD = 3 // Launch, until end of file
	ReadyFD  = 4 // Ready, written once
)

// Ready is what the shim writes, as JSON, to descriptor ReadyFD when the agent
// runs or cannot be started.
type Ready struct {
	ShimPID  int    `json:"shim_pid,omitempty"`
	AgentPID int    `json:"agent_pid,omitempty"`
	Error    string `json:"error,omitempty"`
	// Code is 127 when the command does not exist, 126 when it cannot be
	// executed, 125 for anything else that went wrong.
	Code int `json:"code,omitempty"`
}

// Start is start.json. It is written without the agent's pid before the agent
// is started and again with it after: a run with a pid of 0, a free lock and
// no exit record may or may not have run.
type Start struct {
	Schema     int       `json:"schema"`
	Run        int       `json:"run"`
	Protocol   [2]int    `json:"protocol"` // lowest and highest version
	Version    string    `json:"version"`
	BootID     string    `json:"boot_id"`
	ShimPID    int       `json:"shim_pid"`
	ShimStart  uint64    `json:"shim_start"`  // clock ticks since boot, as in /proc/PID/stat
	AgentPID   int       `json:"agent_pid"`   // also its session and process group
	AgentStart uint64    `json:"agent_start"` // as ShimStart
	PTY        string    `json:"pty"`
	Socket     string    `json:"socket"` // where to dial
	Started    time.Time `json:"started"`
	Cgroup     string    `json:"cgroup,omitempty"`
}

// ExitRecord is exit.json.
type ExitRecord struct {
	Schema   int       `json:"schema"`
	Run      int       `json:"run"`
	Code     int       `json:"code"`             // 0 when Signal is set
	Signal   string    `json:"signal,omitempty"` // "SIGKILL"
	Core     bool      `json:"core,omitempty"`
	Started  time.Time `json:"started"`
	Ended    time.Time `json:"ended"`
	AgentPID int       `json:"agent_pid"`
	// Cause is set when the end was asked for: "kill" or "SIGTERM to the
	// shim" (shutdown, logout).
	Cause string `json:"cause,omitempty"`
	// Error is set when the agent could not be started or waited for.
	Error     string     `json:"error,omitempty"`
	Usage     Usage      `json:"rusage"`
	OOM       *OOM       `json:"oom,omitempty"`
	Output    uint64     `json:"output_bytes"`
	LostBytes uint64     `json:"lost_bytes,omitempty"`
	Survivors []Survivor `json:"survivors,omitempty"`
}

// Usage is what the agent and its reaped descendants used.
type Usage struct {
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	MaxRSS int64         `json:"max_rss_bytes"`
}

// OOM is evidence that the kernel's out-of-memory killer was at work in the
// run's cgroup while it lived.
type OOM struct {
	Kills  uint64 `json:"kills"`
	Cgroup string `json:"cgroup"`
}

// Survivor is a process that outlived its agent.
type Survivor struct {
	PID   int      `json:"pid"`
	Start uint64   `json:"start"`
	Argv  []string `json:"argv"`
}

// Schema numbers of the files.
const (
	SpecSchema  = 1
	StartSchema = 1
	ExitSchema  = 1
)

// maxBundleFile bounds what is read of one file of a bundle.
const maxBundleFile = 16 << 20

// ErrNewer: a file of the bundle is from a later agentmux.
var ErrNewer = errors.New("written by a later agentmux")

// ReadSpec reads spec.json. It and its siblings return fs.ErrNotExist when the
// file is not there and ErrNewer when its schema is not known.
func (b Bundle) ReadSpec() (Spec, error) {
	var s Spec
	err := b.read(SpecName, &s)
	return s, errors.Join(err, checkSchema(SpecName, s.Schema, SpecSchema))
}

// ReadStart reads start.json.
func (b Bundle) ReadStart() (Start, error) {
	var s Start
	err := b.read(StartName, &s)
	return s, errors.Join(err, checkSchema(StartName, s.Schema, StartSchema))
}

// ReadExit reads exit.json.
func (b Bundle) ReadExit() (ExitRecord, error) {
	var e ExitRecord
	err := b.read(ExitName, &e)
	return e, errors.Join(err, checkSchema(ExitName, e.Schema, ExitSchema))
}

func checkSchema(name string, got, known int) error {
	if got > known {
		return fmt.Errorf("%s: %w: schema %d, this one knows %d", name, ErrNewer, got, known)
	}
	return nil
}

func (b Bundle) read(name string, v any) error {
	f, err := os.OpenFile(b.File(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBundleFile))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if err := json.Unmarshal(bytes.TrimRight(data, "\x00"), v); err != nil {
		return fmt.Errorf("parse %s: %w", b.File(name), err)
	}
	return nil
}

// WriteSpec writes spec.json, which must not exist yet.
func (b Bundle) WriteSpec(s Spec) error { return b.write(SpecName, s) }

// WriteStart replaces start.json.
func (b Bundle) WriteStart(s Start) error { return b.write(StartName, s) }

func (b Bundle) write(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	temporary := b.File(name + ".tmp")
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(temporary, b.File(name)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

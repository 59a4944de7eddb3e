package shimapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The state tree has one server, which holds the flock on server.lock for
// life. The lock is handed over and never freed for a scramble: whoever takes
// it (a client that needs a server, a shim that was waiting for it) starts the
// next server with the locked descriptor inherited and then closes its own
// copy. So there is no moment at which two servers could both believe that
// they are the one.

// Names of the server's files in the state tree.
const (
	ServerLockName   = "server.lock"
	ServerRecordName = "server.json"
	ServerSocketName = "server.sock"
	StoppedName      = "stopped"
)

// ServerLockFD is the descriptor on which a server inherits the lock, ServerReadyFD
// the one on which it tells its starter that it serves, if it has any.
const (
	ServerLockFD  = 3
	ServerReadyFD = 4
)

// ServerRecord is server.json. The server writes it when it begins to serve;
// it tells where the server is, and a shim how to start the next one.
type ServerRecord struct {
	Schema  int       `json:"schema"`
	PID     int       `json:"pid"`
	Start   uint64    `json:"start"` // clock ticks since boot, as in /proc/PID/stat
	Version string    `json:"version"`
	Socket  string    `json:"socket"`
	Started time.Time `json:"started"`
	// Executable is the installed program, Prefix what to put before it (a
	// scope of the service manager), Env the environment of the tree's
	// creator, as far as it decides where the tree is.
	Executable string   `json:"executable"`
	Prefix     []string `json:"prefix,omitempty"`
	Env        []string `json:"env"`
}

// ServerSchema is the schema number of ServerRecord.
const ServerSchema = 1

// ReadServerRecord reads the server's record of a tree.
func ReadServerRecord(tree string) (ServerRecord, error) {
	var r ServerRecord
	f, err := os.Open(filepath.Join(tree, ServerRecordName))
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxBundleFile)).Decode(&r); err != nil {
		return r, fmt.Errorf("parse the server's record: %w", err)
	}
	return r, checkSchema(ServerRecordName, r.Schema, ServerSchema)
}

// Stopped reports whether the user has said that no server shall run.
func Stopped(tree string) bool {
	_, err := os.Lstat(filepath.Join(tree, StoppedName))
	return err == nil
}

// ServerArgs is the command line of a server, after the program's name. It
// names the tree, so that a list of processes tells one server from another.
func ServerArgs(tree string) []string { return []string{"server", "run", "--inherit", "--tree", tree} }

// failures counts how often in a row a server ended within moments of its
// start. The count is kept in the lock file by those who hold the lock.
type failures struct {
	Count int       `json:"failures"`
	Last  time.Time `json:"last"` // start
}

// backoff limits.
const (
	quickDeath   = 2 * time.Second
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second // a server that may be well again is not missed for longer
)

// NoteStart counts a start of the server at the time now, in the lock file,
// and returns how long to wait before it: nothing unless servers keep dying at
// once.
func (l *Lock) NoteStart(now time.Time) time.Duration {
	var f failures
	data := make([]byte, 256)
	n, err := l.f.ReadAt(data, 0)
	if err == nil || errors.Is(err, io.EOF) {
		json.Unmarshal(data[:n], &f) // nonsense counts as none
	}
	if lived := now.Sub(f.Last); lived < -maxBackoff || lived > quickDeath {
		f.Count = 0
	}
	wait := backoff(f.Count)
	f.Count, f.Last = f.Count+1, now.Add(wait)
	if data, err = json.Marshal(f); err == nil && l.f.Truncate(0) == nil {
		l.f.WriteAt(data, 0)
	}
	return wait
}

// backoff is the wait before the start that follows count quick deaths: none
// for the first, so that a killed server is back at once.
func backoff(count int) time.Duration {
	if count < 2 {
		return 0
	}
	return min(firstBackoff<<min(count-2, 16), maxBackoff)
}

package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"unicode/utf8"
)

// Tree is the directory tree of one user's agentmux: the absolute path of
// $XDG_STATE_HOME/agentmux. The tree, not the environment, decides which
// server and which sessions belong together.
type Tree string

// FindTree returns the tree that the environment names: below XDG_STATE_HOME
// when that is an absolute path, else below ~/.local/state. Without HOME the
// user database is asked. Nothing is created.
func FindTree(getenv func(string) string) (Tree, error) {
	tree, err := findTree(getenv)
	if err == nil && !utf8.ValidString(string(tree)) {
		return "", fmt.Errorf("the path of the state directory, %q, is not UTF-8: set XDG_STATE_HOME to one that is", tree)
	}
	return tree, err
}

func findTree(getenv func(string) string) (Tree, error) {
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return Tree(filepath.Join(state, "agentmux")), nil
	}
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		u, err := user.Current()
		if err != nil {
			return "", fmt.Errorf("find the home directory: %w", err)
		}
		home = u.HomeDir
	}
	if !filepath.IsAbs(home) {
		return "", errors.New("find the home directory: HOME is not set to an absolute path")
	}
	return Tree(filepath.Join(home, ".local", "state", "agentmux")), nil
}

// Make creates the tree's directories with mode 0700 where they are missing,
// and refuses a tree that belongs to somebody else.
func (t Tree) Make() error {
	if err := os.MkdirAll(t.Sessions(), 0o700); err != nil {
		return fmt.Errorf("create the state directory: %w", err)
	}
	return t.check()
}

// Paths of the tree. They are pure: nothing is looked up.

// Sessions is the directory of all sessions.
func (t Tree) Sessions() string { return filepath.Join(string(t), "sessions") }

// ServerLock is the lock file that the one server holds for life.
func (t Tree) ServerLock() string { return filepath.Join(string(t), "server.lock") }

// ServerRecord describes the running server.
func (t Tree) ServerRecord() string { return filepath.Join(string(t), "server.json") }

// Stopped is the mark by which the user said that no server shall run.
func (t Tree) Stopped() string { return filepath.Join(string(t), "stopped") }

// ServerLog is where the server writes what an administrator may want to read.
func (t Tree) ServerLog() string { return filepath.Join(string(t), "server.log") }

// Session is the directory of one session.
func (t Tree) Session(id ID) Dir { return Dir(filepath.Join(t.Sessions(), string(id))) }

// Dir is the absolute path of a session's directory.
type Dir string

// ID is the session's id, which is the directory's name.
func (d Dir) ID() ID { return ID(filepath.Base(string(d))) }

// Record is the path of session.json.
func (d Dir) Record() string { return filepath.Join(string(d), "session.json") }

// Log is the directory of the session's log.
func (d Dir) Log() string { return filepath.Join(string(d), "log") }

// NewestRun returns the number of the newest run, 0 if there is none.
func (d Dir) NewestRun() (int, error) {
	entries, err := os.ReadDir(filepath.Join(string(d), "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list runs: %w", err)
	}
	newest := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n > newest {
			newest = n
		}
	}
	return newest, nil
}

// List returns the directories of all sessions, in no useful order.
// A tree that does not exist yet has none.
func (t Tree) List() ([]Dir, error) {
	entries, err := os.ReadDir(t.Sessions())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var dirs []Dir
	for _, e := range entries {
		if id, err := ParseID(e.Name()); err == nil && string(id) == e.Name() {
			dirs = append(dirs, t.Session(id))
		}
	}
	return dirs, nil
}

// maxRecord bounds session.json: command lines may be long, but not endless.
const maxRecord = 8 << 20

// ReadRecord reads session.json. It returns fs.ErrNotExist for a session that
// was never created and ErrVersion for a record of a later agentmux.
func (d Dir) ReadRecord() (Record, error) {
	var r Record
	if err := ReadJSON(d.Record(), maxRecord, &r); err != nil {
		return Record{}, fmt.Errorf("read the record of session %s: %w", d.ID(), err)
	}
	if r.Schema > RecordSchema {
		return Record{}, fmt.Errorf("read the record of session %s: %w: schema %d, this agentmux knows %d",
			d.ID(), ErrVersion, r.Schema, RecordSchema)
	}
	return r, nil
}

// WriteRecord replaces session.json.
func (d Dir) WriteRecord(r Record) error {
	if err := WriteJSON(d.Record(), r); err != nil {
		return fmt.Errorf("write the record of session %s: %w", d.ID(), err)
	}
	return nil
}

// ReadJSON decodes a file of at most limit bytes into v.
func ReadJSON(path string, limit int64, v any) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return fmt.Errorf("%s is not a regular file of at most %d bytes", path, limit)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("parse %s: %w", path, err)
	}
	return nil
}

// WriteJSON replaces a file by rename, so that a reader sees the old or the
// new content and never a part. The file's mode is 0600.
func WriteJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(append(data, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

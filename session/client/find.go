package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/wire"
)

// Find looks a session up on disk, without a server: by name, by id, or by a
// prefix that fits one only. Live sessions come before ended ones, newer ones
// before older ones.
func (m *Mux) Find(name string) (session.Dir, session.Record, error) {
	found, err := m.records()
	if err != nil {
		return "", session.Record{}, err
	}
	for _, match := range []func(session.Record) bool{
		func(r session.Record) bool { return r.Name == name },
		func(r session.Record) bool { return strings.EqualFold(string(r.ID), name) },
	} {
		for _, f := range found {
			if match(f.record) {
				return f.dir, f.record, nil
			}
		}
	}
	var fits []located
	for _, f := range found {
		if name != "" && strings.HasPrefix(f.record.Name, name) {
			fits = append(fits, f)
		}
	}
	switch {
	case len(fits) == 0:
		return "", session.Record{}, &wire.Error{
			Code: "not-found", Message: fmt.Sprintf("no such session: %+q", name), Hint: "'agentmux ls --all' lists them",
		}
	case len(fits) > 1 && fits[0].live == fits[1].live:
		return "", session.Record{}, fmt.Errorf("%w: %q could be %s or %s",
			session.ErrAmbiguous, name, fits[0].record.Name, fits[1].record.Name)
	}
	return fits[0].dir, fits[0].record, nil
}

// Names returns the names of all sessions that begin with prefix, for
// completion.
func (m *Mux) Names(prefix string) []string {
	found, err := m.records()
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range found {
		if strings.HasPrefix(f.record.Name, prefix) && !slices.Contains(names, f.record.Name) {
			names = append(names, f.record.Name)
		}
	}
	return names
}

// located is a session on disk.
type located struct {
	dir    session.Dir
	record session.Record
	live   bool
}

// records returns all sessions, live ones first, newest first.
func (m *Mux) records() ([]located, error) {
	dirs, err := m.Tree.List()
	if err != nil {
		return nil, err
	}
	var found []located
	for _, dir := range dirs {
		record, err := dir.ReadRecord()
		if err != nil {
			continue // being made, or of a later version
		}
		live, err := shimapi.Locked(shimapi.Bundle{Session: string(dir)}.Lock())
		found = append(found, located{dir, record, live && err == nil})
	}
	slices.SortFunc(found, func(a, b located) int {
		if a.live != b.live {
			if a.live {
				return -1
			}
			return 1
		}
		return cmp.Or(b.record.Created.Compare(a.record.Created), strings.Compare(string(a.dir), string(b.dir)))
	})
	return found, nil
}

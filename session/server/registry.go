package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/session"
	"agentmux/session/agent"
	"agentmux/session/wire"
)

// registry is the set of sessions of the tree.
type registry struct {
	s *Server

	mu      sync.Mutex
	entries map[session.ID]*entry
	// creating are the names of sessions that are being made, by id, and
	// what to wait for.
	creating map[session.ID]*creation
}

type creation struct {
	name string
	done chan struct{}
}

func newRegistry(s *Server) *registry {
	return &registry{s: s, entries: make(map[session.ID]*entry), creating: make(map[session.ID]*creation)}
}

// adopters is how many sessions are looked at at the same time at the start.
const adopters = 16

// adopt finds the sessions of the tree and takes over the live ones. Screens
// are built in the background; what must be known at once, names and states,
// is known when adopt returns.
func (g *registry) adopt(ctx context.Context) error {
	dirs, err := g.s.o.Tree.List()
	if err != nil {
		return err
	}
	work := make(chan session.Dir)
	var done sync.WaitGroup
	for range adopters {
		done.Go(func() {
			for dir := range work {
				if err := g.load(dir); err != nil {
					g.s.o.Log.Warn("passed over a session", "dir", dir, "err", err)
				}
			}
		})
	}
	for _, dir := range dirs {
		work <- dir
	}
	close(work)
	done.Wait()
	return nil
}

// load reads one session from disk. A directory without a record or without a
// started run is no session: something ended between its making and its start.
func (g *registry) load(dir session.Dir) error {
	record, err := dir.ReadRecord()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	n, err := dir.NewestRun()
	if err != nil || n == 0 {
		return err
	}
	bundle := shimapi.Bundle{Session: string(dir), Run: n}
	start, err := bundle.ReadStart()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	e := newEntry(g.s, dir, record, bundle, start)
	locked, err := shimapi.Locked(bundle.Lock())
	switch {
	case err != nil:
		e.setUnknown(err)
	case locked:
		e.startRun()
	default:
		e.setEnded()
	}
	g.mu.Lock()
	g.entries[e.id] = e
	g.mu.Unlock()
	return nil
}

func (g *registry) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.entries)
}

func (g *registry) all() []*entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := make([]*entry, 0, len(g.entries))
	for _, e := range g.entries {
		list = append(list, e)
	}
	return list
}

// close ends the following of all runs. The runs themselves do not notice.
func (g *registry) close() {
	for _, e := range g.all() {
		e.stop()
	}
}

func (g *registry) liveNames() []string {
	names := []string{}
	for _, e := range g.all() {
		if e.live() != nil {
			names = append(names, e.name())
		}
	}
	slices.Sort(names)
	return names
}

// find looks a session up by name, id or unique prefix. Live sessions come
// before ended ones, and of ended ones of the same name the newest is meant.
func (g *registry) find(t wire.Target) (*entry, error) {
	list := g.all()
	slices.SortFunc(list, func(a, b *entry) int { return b.record().Created.Compare(a.record().Created) })
	if id, err := session.ParseID(t.Name); err == nil {
		for _, e := range list {
			if e.id == id {
				return e, nil
			}
		}
		return nil, notFound(t.Name)
	}
	for _, wantLive := range []bool{true, false} {
		for _, e := range list {
			if e.name() == t.Name && (e.live() != nil) == wantLive {
				return e, nil
			}
		}
	}
	if t.Exact || t.Name == "" {
		return nil, notFound(t.Name)
	}
	return findPrefix(list, t.Name)
}

func findPrefix(list []*entry, prefix string) (*entry, error) {
	for _, wantLive := range []bool{true, false} {
		var found []*entry
		for _, e := range list {
			fits := strings.HasPrefix(e.name(), prefix) || len(prefix) >= 4 && strings.HasPrefix(string(e.id), prefix)
			if fits && (e.live() != nil) == wantLive {
				found = append(found, e)
			}
		}
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			names := make([]string, len(found))
			for i, e := range found {
				names[i] = e.name()
			}
			slices.Sort(names)
			return nil, fmt.Errorf("%w: %q could be %s", session.ErrAmbiguous, prefix, strings.Join(names, ", "))
		}
	}
	return nil, notFound(prefix)
}

func notFound(name string) error {
	return &wire.Error{
		Code: "not-found", Message: fmt.Sprintf("no such session: %+q", name),
		Hint: "'agentmux ls --all' lists them",
	}
}

// recentlyEnded is how long an ended session stays in the short list.
const recentlyEnded = 24 * time.Hour

// list returns live sessions first, newest first, then ended ones.
func (g *registry) list(in wire.ListParams) wire.ListResult {
	infos := []wire.Info{}
	for _, e := range g.all() {
		info := e.info()
		if info.State != session.Running && e.removed() {
			g.forget(e)
			continue
		}
		if in.All || info.Ended == nil || time.Since(*info.Ended) < recentlyEnded {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b wire.Info) int {
		if (a.State == session.Running) != (b.State == session.Running) {
			if a.State == session.Running {
				return -1
			}
			return 1
		}
		return b.Created.Compare(a.Created)
	})
	return wire.ListResult{Sessions: infos}
}

// forget drops a session of which nothing is left on disk.
func (g *registry) forget(e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.entries[e.id] == e {
		delete(g.entries, e.id)
	}
}

// create makes a session and starts its first run. The same id always means
// the same session: a client that lost the answer may ask again.
func (g *registry) create(ctx context.Context, in wire.NewParams) (wire.NewResult, error) {
	if err := checkNew(&in); err != nil {
		return wire.NewResult{}, err
	}
	for {
		e, c, err := g.reserve(&in)
		if err != nil {
			return wire.NewResult{}, err
		}
		if e != nil {
			return wire.NewResult{Session: e.info()}, nil
		}
		if c.name != "" {
			e, notes, err := g.build(in)
			g.release(in.ID, e)
			close(c.done)
			if err != nil {
				return wire.NewResult{}, g.explain(err)
			}
			return wire.NewResult{Session: e.info(), Notes: notes}, nil
		}
		select { // the first request for this id is still at work
		case <-c.done:
		case <-ctx.Done():
			return wire.NewResult{}, ctx.Err()
		}
	}
}

// explain turns the many ways in which a full disk shows into one.
func (g *registry) explain(err error) error {
	if !errors.Is(err, syscall.ENOSPC) && !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		return err
	}
	return &wire.Error{
		Code: wire.CodeFailed, Message: fmt.Sprintf("the disk that holds %s is full: no session was made", g.s.o.Tree),
		Hint: "'agentmux ls --all' shows the sizes of logs, 'agentmux rm NAME' deletes an ended session",
	}
}

func checkNew(in *wire.NewParams) error {
	id, err := session.ParseID(string(in.ID))
	if err != nil {
		return err
	}
	in.ID = id
	if len(in.Argv) == 0 || in.Argv[0] == "" {
		return fmt.Errorf("%w: the command line is empty", session.ErrCommand)
	}
	if slices.ContainsFunc(slices.Concat(in.Argv, in.Env), func(s string) bool { return strings.Contains(s, "\x00") }) {
		return fmt.Errorf("%w: an argument holds a NUL byte", session.ErrCommand)
	}
	if !filepath.IsAbs(in.Dir) {
		return fmt.Errorf("the working directory %q is not absolute", in.Dir)
	}
	if info, err := os.Stat(in.Dir); err != nil || !info.IsDir() {
		return &wire.Error{
			Code: wire.CodeFailed, Message: fmt.Sprintf("the working directory %s does not exist", in.Dir),
			Hint: "choose another one with -C DIR",
		}
	}
	if in.Name != "" {
		return session.CheckName(in.Name)
	}
	return nil
}

// reserve takes the name for the id. It returns the session if there is one
// already; a creation without a name means that another request for the same
// id is at work.
func (g *registry) reserve(in *wire.NewParams) (*entry, *creation, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if e := g.entries[in.ID]; e != nil {
		return e, nil, nil
	}
	if c := g.creating[in.ID]; c != nil {
		return nil, &creation{done: c.done}, nil
	}
	if in.Name == "" {
		in.Name = session.MakeName(in.Dir, in.Argv[0], func(name string) bool { return g.taken(name, "") })
	} else if g.taken(in.Name, "") {
		return nil, nil, nameTaken(in.Name, fmt.Sprintf("'agentmux attach %s' goes to it; -n NAME chooses another name", in.Name))
	}
	c := &creation{name: in.Name, done: make(chan struct{})}
	g.creating[in.ID] = c
	return nil, c, nil
}

func nameTaken(name, hint string) error {
	return &wire.Error{Code: "exists", Message: fmt.Sprintf("a live session is called %s already", name), Hint: hint}
}

// taken reports whether a live session other than except has the name.
func (g *registry) taken(name string, except session.ID) bool {
	for id, c := range g.creating {
		if c.name == name && id != except {
			return true
		}
	}
	for id, e := range g.entries {
		if id != except && e.name() == name && e.live() != nil {
			return true
		}
	}
	return false
}

func (g *registry) release(id session.ID, e *entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.creating, id)
	if e != nil {
		g.entries[id] = e
	}
}

// build writes the session down and then starts it: whatever dies in between
// loses nothing and starts nothing twice.
func (g *registry) build(in wire.NewParams) (*entry, []string, error) {
	dir := g.s.o.Tree.Session(in.ID)
	record := session.Record{
		Schema: session.RecordSchema, ID: in.ID, Name: in.Name, Argv: in.Argv, Dir: in.Dir,
		Created: time.Now().UTC(),
	}
	env := agent.Environment(in.Env, string(in.ID), in.Name, agent.TermExists(in.Env))
	size := in.Size.Clamp()
	spec := shimapi.Spec{
		Schema: shimapi.SpecSchema, Session: string(in.ID), Run: 1, Argv: in.Argv, Dir: in.Dir,
		EnvNames: names(env), Cols: size.Cols, Rows: size.Rows, Created: record.Created,
	}
	if err := writeBundle(dir, record, spec); err != nil {
		return nil, nil, err
	}
	env, err := stableSSHAgent(string(dir), env)
	if err != nil {
		return nil, nil, err
	}
	bundle := shimapi.Bundle{Session: string(dir), Run: 1}
	launch := shimapi.Launch{
		Spec: spec, Argv: shimapi.Bytes(in.Argv), Dir: []byte(in.Dir), Env: shimapi.Bytes(env),
		Umask: in.Umask, Tree: string(g.s.o.Tree), Version: g.s.o.Version,
	}
	notes, err := g.s.launcher.start(bundle, launch)
	if err != nil && !g.survived(bundle) {
		return nil, nil, err
	}
	start, err := bundle.ReadStart()
	if err != nil {
		return nil, nil, fmt.Errorf("read the record of the started run: %w", err)
	}
	e := newEntry(g.s, dir, record, bundle, start)
	e.startRun()
	e.live().setProfile(in.Profile)
	return e, notes, nil
}

// survived decides what a failed start leaves. A run that lives after all, made
// by an earlier request with the same id, is as good as a started one. One in
// which no agent was ever started is removed; anything else stays.
func (g *registry) survived(b shimapi.Bundle) bool {
	locked, err := shimapi.Locked(b.Lock())
	if locked || err != nil {
		return locked
	}
	start, err := b.ReadStart()
	if errors.Is(err, fs.ErrNotExist) || err == nil && start.AgentPID == 0 {
		os.RemoveAll(b.Session)
	}
	return false
}

// writeBundle makes the session's directory, complete, in one rename. A
// directory that is there already is that of an earlier request with the same
// id that came no further.
func writeBundle(dir session.Dir, record session.Record, spec shimapi.Spec) error {
	if _, err := os.Lstat(dir.Record()); err == nil {
		return nil
	}
	temporary := session.Dir(string(dir) + ".tmp")
	if err := os.RemoveAll(string(temporary)); err != nil {
		return fmt.Errorf("make the session's directory: %w", err)
	}
	bundle := shimapi.Bundle{Session: string(temporary), Run: spec.Run}
	if err := os.MkdirAll(bundle.Dir(), 0o700); err != nil {
		return fmt.Errorf("make the session's directory: %w", err)
	}
	err := errors.Join(os.Mkdir(temporary.Log(), 0o700), bundle.WriteSpec(spec), temporary.WriteRecord(record))
	if err == nil {
		err = os.Rename(string(temporary), string(dir))
	}
	if err != nil {
		os.RemoveAll(string(temporary))
		return fmt.Errorf("make the session's directory: %w", err)
	}
	return nil
}

func names(env []string) []string {
	out := make([]string, len(env))
	for i, kv := range env {
		out[i], _, _ = strings.Cut(kv, "=")
	}
	return out
}

func (g *registry) rename(in wire.RenameParams) (wire.Info, error) {
	if err := session.CheckName(in.NewName); err != nil {
		return wire.Info{}, err
	}
	in.Exact = true
	e, err := g.find(in.Target)
	if err != nil {
		return wire.Info{}, err
	}
	g.mu.Lock()
	taken := g.taken(in.NewName, e.id)
	if !taken {
		err = e.rename(in.NewName)
	}
	g.mu.Unlock()
	if taken {
		return wire.Info{}, nameTaken(in.NewName, "choose another name; 'agentmux ls' shows those in use")
	}
	return e.info(), err
}

// remove deletes an ended session and its log.
func (g *registry) remove(t wire.Target) (wire.Info, error) {
	t.Exact = true
	e, err := g.find(t)
	if err != nil {
		return wire.Info{}, err
	}
	info := e.info()
	if locked, err := shimapi.Locked(e.bundle.Lock()); err != nil || locked {
		return wire.Info{}, errors.Join(err, &wire.Error{
			Code: "running", Message: fmt.Sprintf("session %s is running and is not removed", info.Name),
			Hint: fmt.Sprintf("'agentmux kill %s' ends it first", info.Name),
		})
	}
	if len(info.Survivors) > 0 {
		return wire.Info{}, &wire.Error{
			Code: "running", Message: fmt.Sprintf("session %s is not removed: it left processes that still run, such as %d", info.Name, info.Survivors[0].PID),
			Hint: fmt.Sprintf("'agentmux kill %s' ends them", info.Name),
		}
	}
	g.forget(e)
	e.stop()
	if err := os.RemoveAll(string(e.dir)); err != nil {
		return wire.Info{}, fmt.Errorf("remove session %s: %w", info.Name, err)
	}
	return info, nil
}

// leave forgets a client whose connection has ended.
func (g *registry) leave(p *peer) {
	for _, e := range g.all() {
		e.unregister(p)
	}
}

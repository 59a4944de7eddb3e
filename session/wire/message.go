package wire

import (
	"time"

	"agentmux/session"
)

// Methods.
const (
	MethodNew     = "new"
	MethodList    = "list"    // frozen
	MethodStatus  = "status"  //
	MethodAttach  = "attach"  // the connection then receives notices
	MethodSync    = "sync"    // a fresh snapshot, without registering
	MethodDetach  = "detach"  // frozen
	MethodKill    = "kill"    // frozen
	MethodRename  = "rename"  //
	MethodSend    = "send"    //
	MethodCapture = "capture" //
	MethodWait    = "wait"    //
	MethodRemove  = "rm"      //
	MethodVersion = "version" // frozen
	MethodStop    = "stop"    //
	MethodYield   = "yield"   // step aside for a newer server
)

// NewParams ask for a session. The client chooses the id, and a request that
// is repeated with the same id finds the session that the first one made.
type NewParams struct {
	ID    session.ID   `msgpack:"id"`
	Name  string       `msgpack:"name,omitempty"` // made from directory and program when empty
	Argv  []string     `msgpack:"argv"`
	Dir   string       `msgpack:"cwd"`
	Env   []string     `msgpack:"env"`
	Umask int          `msgpack:"umask"`
	Size  session.Size `msgpack:"size"`
	// Profile is that of the terminal that will attach, if one will.
	Profile Profile `msgpack:"profile"`
}

// NewResult is the session that was made, and what its user should know.
type NewResult struct {
	Session Info     `msgpack:"session"`
	Notes   []string `msgpack:"notes,omitempty"`
}

// Target names a session: by name, by a prefix that fits one session only, or
// by id. Exact asks for no prefixes.
type Target struct {
	Name  string `msgpack:"name"`
	Exact bool   `msgpack:"exact,omitempty"`
}

// ListParams choose what list returns.
type ListParams struct {
	All bool `msgpack:"all,omitempty"` // ended sessions of any age too
}

// ListResult is the answer to list: live sessions first, newest first.
type ListResult struct {
	Sessions []Info `msgpack:"sessions"`
}

// Info is what is known of a session.
type Info struct {
	ID         session.ID    `msgpack:"id" json:"id"`
	Name       string        `msgpack:"name" json:"name"`
	State      session.State `msgpack:"state" json:"state"`
	Agent      string        `msgpack:"agent" json:"agent"`
	Command    []string      `msgpack:"command" json:"command"`
	Dir        string        `msgpack:"cwd" json:"cwd"`
	Host       string        `msgpack:"host" json:"host"`
	AgentPID   int           `msgpack:"agent_pid" json:"agent_pid"`
	ShimPID    int           `msgpack:"shim_pid" json:"shim_pid"`
	Run        int           `msgpack:"run" json:"run"`
	Created    time.Time     `msgpack:"created" json:"created"`
	Started    time.Time     `msgpack:"started" json:"started"`
	Ended      *time.Time    `msgpack:"ended,omitempty" json:"ended"`
	LastOutput *time.Time    `msgpack:"last_output,omitempty" json:"last_output"`
	Exit       *session.Exit `msgpack:"exit,omitempty" json:"exit"`
	// Evidence says in a few words what the state rests on.
	Evidence  string       `msgpack:"evidence,omitempty" json:"evidence"`
	Attached  int          `msgpack:"attached" json:"attached"`
	Stopped   bool         `msgpack:"stopped,omitempty" json:"stopped"` // by a signal, as by Ctrl-Z
	Size      session.Size `msgpack:"size" json:"size"`
	Title     string       `msgpack:"title,omitempty" json:"title"`
	LogBytes  int64        `msgpack:"log_bytes" json:"log_bytes"`
	LogState  string       `msgpack:"log_state" json:"log_state"` // ok, or stalled and why
	LostBytes uint64       `msgpack:"lost_bytes" json:"lost_bytes"`
	Survivors []Process    `msgpack:"survivors,omitempty" json:"survivors,omitempty"`
}

// Process is a process that matters to a session.
type Process struct {
	PID  int      `msgpack:"pid" json:"pid"`
	Argv []string `msgpack:"argv" json:"argv"`
}

// AttachParams ask for a snapshot and register the connection as a viewer,
// until the connection ends.
type AttachParams struct {
	Target
	Client   session.ID   `msgpack:"client"` // of this attach, the same after a reconnect
	Size     session.Size `msgpack:"size"`   // of the viewer's terminal
	ReadOnly bool         `msgpack:"read_only,omitempty"`
	History  int          `msgpack:"history,omitempty"` // lines of scrollback wanted
	Profile  Profile      `msgpack:"profile"`
	PID      int          `msgpack:"pid"`
	Resumed  bool         `msgpack:"resumed,omitempty"`   // no snapshot wanted
	TakeOver bool         `msgpack:"take_over,omitempty"` // all other viewers are to leave
	// SSHAgent is the viewer's SSH_AUTH_SOCK, to which the session's own is
	// pointed.
	SSHAgent string `msgpack:"ssh_agent,omitempty"`
}

// Profile is what the viewer's terminal said of itself; empty fields are not
// known. The server answers the agent's questions from it.
type Profile struct {
	Foreground    string `msgpack:"fg,omitempty"`
	Background    string `msgpack:"bg,omitempty"`
	CellWidth     int    `msgpack:"cw,omitempty"`
	CellHeight    int    `msgpack:"ch,omitempty"`
	KittyKeyboard bool   `msgpack:"kitty,omitempty"`
	Name          string `msgpack:"name,omitempty"`
}

// AttachResult is all that a viewer needs: the screen at a log position, from
// which it follows the log itself, and where the shim listens.
type AttachResult struct {
	Session Info `msgpack:"session"`
	// Dir is the session's directory.
	Dir string `msgpack:"dir"`
	Sync
	// Alone: no other viewer that may type is attached.
	Alone bool `msgpack:"alone,omitempty"`
	// Attention is what the program did to be noticed while nobody was there,
	// on one line of printable text.
	Attention string `msgpack:"attention,omitempty"`
}

// Sync is a screen. Snapshot is to be written to the terminal, then Pending,
// then the log from Position on.
type Sync struct {
	Snapshot []byte       `msgpack:"snapshot"`
	Pending  []byte       `msgpack:"pending,omitempty"`
	Position uint64       `msgpack:"position"`
	Size     session.Size `msgpack:"size"`
}

// SyncParams ask for a fresh screen.
type SyncParams struct {
	Target
	History int `msgpack:"history,omitempty"`
	// For is the size of the terminal that the snapshot is for, zero for the
	// session's own.
	For session.Size `msgpack:"for,omitempty"`
	// After is the log position that the client has seen: the screen is not
	// to be older.
	After uint64 `msgpack:"after,omitempty"`
}

// DetachResult tells how many viewers were asked to leave.
type DetachResult struct {
	Count int `msgpack:"count"`
}

// KillParams ask for the end of a session's agent and its processes, or, with
// a Signal, for just that signal to the agent's process group.
type KillParams struct {
	Target
	Signal int           `msgpack:"signal,omitempty"`
	Grace  time.Duration `msgpack:"grace,omitempty"`
}

// KillResult is the session afterwards; Info.Survivors is what is left.
type KillResult struct {
	Session Info `msgpack:"session"`
}

// RenameParams give a session another name.
type RenameParams struct {
	Target
	NewName string `msgpack:"new_name"`
}

// SendParams type at a session: the text, as a paste if the program takes
// pastes, then the keys, then Enter. Writer makes a repeated request type once.
type SendParams struct {
	Target
	Writer []byte   `msgpack:"writer"` // 16 random bytes
	Text   string   `msgpack:"text,omitempty"`
	Keys   []string `msgpack:"keys,omitempty"`
	Enter  bool     `msgpack:"enter,omitempty"`
}

// CaptureParams ask for the screen as it is.
type CaptureParams struct {
	Target
	ANSI    bool `msgpack:"ansi,omitempty"`
	History int  `msgpack:"history,omitempty"`
}

// CaptureResult is the screen as lines, without trailing blanks.
type CaptureResult struct {
	Lines   []string      `msgpack:"lines" json:"lines"`
	Size    session.Size  `msgpack:"size" json:"size"`
	CursorX int           `msgpack:"x" json:"cursor_x"`
	CursorY int           `msgpack:"y" json:"cursor_y"`
	Title   string        `msgpack:"title,omitempty" json:"title"`
	Alt     bool          `msgpack:"alt,omitempty" json:"alternate_screen"`
	State   session.State `msgpack:"state" json:"state"`
}

// WaitParams wait until the session has ended, or until its screen shows a
// text that matches the regular expression Text.
type WaitParams struct {
	Target
	Exit bool   `msgpack:"exit,omitempty"`
	Text string `msgpack:"text,omitempty"`
}

// WaitResult is the session when the condition came true.
type WaitResult struct {
	Session Info   `msgpack:"session"`
	Matched string `msgpack:"matched,omitempty"`
}

// VersionResult describes the server.
type VersionResult struct {
	Version string    `msgpack:"version"`
	PID     int       `msgpack:"pid"`
	Socket  string    `msgpack:"socket"`
	Started time.Time `msgpack:"started"`
	Live    int       `msgpack:"live"` // live sessions
}

// StopResult names the sessions that go on without a server.
type StopResult struct {
	Live []string `msgpack:"live"`
}

// YieldParams name the program that is to serve from now on.
type YieldParams struct {
	Executable string `msgpack:"executable"`
	Version    string `msgpack:"version"`
}

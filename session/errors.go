package session

import "errors"

// Errors that callers decide on. They keep their meaning across the control
// protocol (package session/wire gives each a code).
var (
	// ErrInvalidName: the name cannot be given to a session.
	ErrInvalidName = errors.New("invalid session name")
	// ErrInvalidID: the text is no UUID.
	ErrInvalidID = errors.New("invalid session id")
	// ErrNotFound: no session has this name, prefix or id.
	ErrNotFound = errors.New("no such session")
	// ErrExists: a live session has this name already.
	ErrExists = errors.New("session name is taken")
	// ErrAmbiguous: the prefix fits more than one session.
	ErrAmbiguous = errors.New("more than one session begins with this")
	// ErrNotRunning: the session's agent has ended or was lost.
	ErrNotRunning = errors.New("session is not running")
	// ErrRunning: the request needs an ended session and this one lives.
	ErrRunning = errors.New("session is running")
	// ErrRefused: agentmux will not do it; the message says why.
	ErrRefused = errors.New("refused")
	// ErrBusy: someone else holds what was asked for.
	ErrBusy = errors.New("busy")
	// ErrTimeout: the condition did not come true in the time allowed.
	ErrTimeout = errors.New("timed out")
	// ErrVersion: the two sides have no protocol version in common.
	ErrVersion = errors.New("versions do not match")
	// ErrNoServer: no server is running and none may be started.
	ErrNoServer = errors.New("no server is running")
	// ErrUsage: the request makes no sense.
	ErrUsage = errors.New("wrong usage")
	// ErrCommand: the agent's command could not be executed.
	ErrCommand = errors.New("cannot execute the command")
)

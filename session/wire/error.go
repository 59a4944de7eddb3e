package wire

import (
	"errors"

	"agentmux/session"
)

// Error is an error as it crosses the wire. Is maps its code back to the
// sentinel, so that errors.Is(err, session.ErrNotFound) holds on both sides.
type Error struct {
	Code    string `msgpack:"code"`
	Message string `msgpack:"message"`
	Hint    string `msgpack:"hint,omitempty"`
	// Exit is the status that a shell would give, 0 if there is none of its
	// own: 126 or 127 for a command that cannot be executed.
	Exit int `msgpack:"exit,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Is reports whether target is the sentinel of the error's code.
func (e *Error) Is(target error) bool {
	for _, c := range codes {
		if c.code == e.Code {
			return c.err == target
		}
	}
	return false
}

// CodeFailed is the code of an error that has no sentinel, and what an unknown
// code means.
const CodeFailed = "failed"

// CodeRetry asks the client to connect again and repeat the request: the
// server is stepping aside.
const CodeRetry = "retry"

// codes are append-only: a code that was released keeps its meaning.
var codes = [...]struct {
	code string
	err  error
}{
	{"invalid-name", session.ErrInvalidName},
	{"invalid-id", session.ErrInvalidID},
	{"not-found", session.ErrNotFound},
	{"exists", session.ErrExists},
	{"ambiguous", session.ErrAmbiguous},
	{"not-running", session.ErrNotRunning},
	{"running", session.ErrRunning},
	{"refused", session.ErrRefused},
	{"busy", session.ErrBusy},
	{"timeout", session.ErrTimeout},
	{"version", session.ErrVersion},
	{"no-server", session.ErrNoServer},
	{"command", session.ErrCommand},
	{"usage", session.ErrUsage},
}

// FromError turns any error into one for the wire. An *Error within err keeps
// its hint and exit status.
func FromError(err error) *Error {
	out := &Error{Code: CodeFailed, Message: err.Error()}
	var inner *Error
	if errors.As(err, &inner) {
		out.Code, out.Hint, out.Exit = inner.Code, inner.Hint, inner.Exit
		return out
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			out.Code = c.code
			break
		}
	}
	return out
}

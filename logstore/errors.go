package logstore

import (
	"errors"
	"fmt"
	"syscall"
)

// What a reader can meet apart from a frame. See also DamageError,
// VersionError and TrimmedError.
var (
	// ErrNotYet: the writer lives, and everything it wrote has been read.
	ErrNotYet = errors.New("no further frame yet")
	// ErrEnded: the last run ended properly and everything has been read. Not
	// final: another run may go on, and the same reader then reads it.
	ErrEnded = errors.New("the log has ended")
	// ErrLost: the writer is gone without having recorded an exit.
	ErrLost = errors.New("the log's writer is gone without an exit record")
	// ErrNotOurs: not a segment of this format, or of another session.
	ErrNotOurs = errors.New("not a segment of this log")

	// ErrClosed: the writer, appender, follower or watcher was closed.
	ErrClosed = errors.New("log closed")
	// ErrTooLarge: a control frame's payload above MaxPayload.
	ErrTooLarge = errors.New("payload too large for a frame")
)

// DamageError reports bytes that are there but wrong. It is returned once per
// hole; the reader goes on at To.
type DamageError struct{ From, To Position }

func (e *DamageError) Error() string {
	return fmt.Sprintf("log damaged from position %d to %d", e.From, e.To)
}

// TrimmedError reports segments that are no longer there. It is returned once
// per hole; the reader goes on at To.
type TrimmedError struct{ From, To Position }

func (e *TrimmedError) Error() string {
	return fmt.Sprintf("log trimmed from position %d to %d", e.From, e.To)
}

// IsHole reports whether a reader that returned err goes on behind what it could
// not return: err is a *DamageError or a *TrimmedError.
func IsHole(err error) bool {
	var damage *DamageError
	var trimmed *TrimmedError
	return errors.As(err, &damage) || errors.As(err, &trimmed)
}

// VersionError reports a segment of another major version (Major not 0) or a
// critical frame type that this version doesn't know. The reader stays where it is.
type VersionError struct {
	Major uint16
	Type  Type
	Pos   Position
}

func (e *VersionError) Error() string {
	if e.Major != 0 {
		return fmt.Sprintf("log segment at %d has format version %d, this program reads %d", e.Pos, e.Major, Major)
	}
	return fmt.Sprintf("log frame at %d has %v, which this program doesn't know", e.Pos, e.Type)
}

// Cause is why the log can't be written.
type Cause uint8

// Causes, as in GAP frames.
const (
	CauseNoSpace  Cause = 1
	CauseQuota    Cause = 2
	CauseIO       Cause = 3
	CauseReadOnly Cause = 4
	CauseFileSize Cause = 5
	CauseOther    Cause = 6
	CauseStuck    Cause = 7 // a write has not returned for a while
)

func (c Cause) String() string {
	switch c {
	case CauseNoSpace:
		return "disk full"
	case CauseQuota:
		return "disk quota exceeded"
	case CauseIO:
		return "I/O error"
	case CauseReadOnly:
		return "read-only file system"
	case CauseFileSize:
		return "file size limit"
	case CauseStuck:
		return "disk does not answer"
	}
	return "write error"
}

// StallError says that nothing was written; what was already in the log is
// untouched. The same data may be given again.
type StallError struct {
	Cause Cause
	Errno syscall.Errno // 0: none
	Err   error
}

func (e *StallError) Error() string {
	return fmt.Sprintf("log stalled (%v): %v", e.Cause, e.Err)
}

func (e *StallError) Unwrap() error { return e.Err }

var causes = map[syscall.Errno]Cause{
	syscall.ENOSPC: CauseNoSpace, syscall.EDQUOT: CauseQuota, syscall.EIO: CauseIO,
	syscall.EROFS: CauseReadOnly, syscall.EFBIG: CauseFileSize,
}

func newStall(err error) *StallError {
	var old *StallError
	if errors.As(err, &old) {
		return old
	}
	s := &StallError{Cause: CauseOther, Err: err}
	if errors.As(err, &s.Errno) {
		if c, ok := causes[s.Errno]; ok {
			s.Cause = c
		}
	}
	return s
}

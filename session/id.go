package session

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// ID identifies a session for ever. Its text form is a lower-case UUID of 36
// characters, which also names the session's directory.
type ID string

// NewID returns a random id (UUID version 4).
func NewID() ID { return ID(uuid.NewString()) }

// ParseID accepts the canonical text form of a UUID, in either case.
// It returns ErrInvalidID for anything else.
func ParseID(s string) (ID, error) {
	if len(s) != 36 {
		return "", fmt.Errorf("%w: %q", ErrInvalidID, s)
	}
	u, err := uuid.Parse(s)
	if err != nil {
		return "", fmt.Errorf("%w: %q", ErrInvalidID, s)
	}
	return ID(u.String()), nil
}

// Bytes returns the 16 bytes of the id, as binary formats store it.
// An id that did not come from NewID or ParseID yields zeros.
func (id ID) Bytes() [16]byte {
	u, err := uuid.Parse(string(id))
	if err != nil {
		return [16]byte{}
	}
	return u
}

// Short returns the first eight characters, enough for a person to tell
// sessions apart in a listing.
func (id ID) Short() string {
	short, _, _ := strings.Cut(string(id), "-")
	return short
}

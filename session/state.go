package session

import "time"

// State is what is known of a session's newest run.
//
//	(new) ──► running ──► exited   the agent ended; code or signal is known
//	              └─────► lost     no keeper lives and no exit was recorded
//	unknown   the facts cannot be read at the moment
type State string

// The states. Their texts are part of the JSON output and never change.
const (
	Running State = "running"
	Exited  State = "exited"
	Lost    State = "lost"
	Unknown State = "unknown"
)

// Exit is how a run ended. Exactly one of Code (with Signal empty) and Signal
// is meant.
type Exit struct {
	// Code is the exit status, 0 to 255.
	Code int `json:"code" msgpack:"code"`
	// Signal is the name of the signal that ended it, as "SIGKILL"; empty
	// when it exited by itself.
	Signal string `json:"signal" msgpack:"signal"`
}

// Size is a terminal size in cells.
type Size struct {
	Cols int `json:"cols" msgpack:"cols"`
	Rows int `json:"rows" msgpack:"rows"`
}

// DefaultSize is the size of a session that no terminal was ever attached to.
var DefaultSize = Size{Cols: 120, Rows: 40}

// The smallest and the largest size a session's terminal may have, in cells.
// Below the floor agents crash or draw nonsense; above the ceiling a size is
// a mistake (an ioctl on something that is no terminal).
const (
	MinCols, MinRows = 20, 5
	MaxCols, MaxRows = 1000, 1000
)

// Clamp returns the size within the limits; a zero side takes its default.
func (s Size) Clamp() Size {
	return Size{
		Cols: clampSide(s.Cols, MinCols, MaxCols, DefaultSize.Cols),
		Rows: clampSide(s.Rows, MinRows, MaxRows, DefaultSize.Rows),
	}
}

func clampSide(v, low, high, none int) int {
	switch {
	case v <= 0:
		return none
	case v < low:
		return low
	case v > high:
		return high
	}
	return v
}

// Record is session.json: what a session is, apart from its runs. It is
// written before anything is started and replaced as a whole by rename.
type Record struct {
	Schema  int       `json:"schema"`
	ID      ID        `json:"id"`
	Name    string    `json:"name"`
	Argv    []string  `json:"argv"`
	Dir     string    `json:"cwd"`
	Created time.Time `json:"created"`
}

// RecordSchema is the schema number of Record.
const RecordSchema = 1

package vt

// EventKind tells what an Event is about.
type EventKind uint8

// The kinds of events and the fields that each one fills.
const (
	EventBell         EventKind = iota + 1 // BEL
	EventTitle                             // OSC 0, 2, title stack: Text
	EventIcon                              // OSC 0, 1, title stack: Text
	EventCwd                               // OSC 7: Text, normally a file URL
	EventNotification                      // OSC 9, 777, 99: Code, Name (title), Text (body)
	EventProgress                          // OSC 9;4: Code (0 none, 1 normal, 2 error, 3 busy, 4 paused), Value (percent)
	EventClipboard                         // OSC 52 write: Name (selections), Text (base64 as sent)
	EventPrompt                            // OSC 133: Name (A, B, C, D), Text (the rest), Value (exit code of D, else -1)
	EventAgent                             // OSC 7501: Agent
	EventMode                              // DECSET, DECRST of a mode we know: Code (its number), On
)

// Event is something that happened beside the screen. Texts are valid UTF-8
// without control characters, at most 64 KiB.
type Event struct {
	Kind  EventKind
	Code  int
	Value int
	On    bool
	Name  string
	Text  string
	Agent AgentState
}

// AgentState is what an agent program says about itself by OSC 7501. State is
// "idle", "working", "blocked", "done" or "error", empty when nothing was said
// or the state was cleared; Kind says what a blocked one waits for, such as
// "permission"; Msg is the decoded message. All are free of control characters
// and bounded, but otherwise as the program sent them.
type AgentState struct {
	State, App, Kind, Msg string
}

func (t *Terminal) emit(e Event) {
	if t.opt.Event != nil {
		t.opt.Event(e)
	}
}

package server

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/pty/vt"
	"agentmux/session"
	"agentmux/session/wire"
)

// settle is the pause between a text and the Enter that submits it: agents take
// an Enter that comes in the same read as the text for a line end within it.
const settle = 150 * time.Millisecond

// readBudget is how long a program may take to show that it has read the text,
// by printing anything. One that prints nothing gets its Enter then.
const readBudget = 2 * time.Second

// settle waits until the program has printed something, and then as long as
// agents need to tell an Enter from a line end.
func (e *expectation) settle(ctx context.Context) error {
	timer := time.NewTimer(readBudget)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	timer.Reset(settle)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send types text, keys and Enter at a session.
func (s *Server) send(ctx context.Context, in wire.SendParams) (wire.Info, error) {
	in.Exact = true
	e, err := s.registry.find(in.Target)
	if err != nil {
		return wire.Info{}, err
	}
	r := e.live()
	if r == nil {
		return wire.Info{}, notRunning(e)
	}
	if len(in.Writer) != 16 {
		return wire.Info{}, fmt.Errorf("%w: a writer has 16 bytes, not %d", wire.ErrProtocol, len(in.Writer))
	}
	if err := r.await(ctx); err != nil {
		return wire.Info{}, err
	}
	t := typist{r: r, writer: shimapi.Writer(in.Writer), modes: r.modes()}
	read := r.expect(0)
	defer read.cancel()
	if err := t.text(ctx, in.Text); err != nil {
		return wire.Info{}, err
	}
	for _, name := range in.Keys {
		key, err := encodeKey(name, t.modes)
		if err != nil {
			return wire.Info{}, err
		}
		if err := t.group(ctx, shimapi.KindSend, key); err != nil {
			return wire.Info{}, err
		}
	}
	if in.Enter {
		if in.Text != "" {
			if err := read.settle(ctx); err != nil {
				return wire.Info{}, err
			}
		}
		if err := t.group(ctx, shimapi.KindSend, "\r"); err != nil {
			return wire.Info{}, err
		}
	}
	return e.info(), nil
}

// typist sends input under one writer.
type typist struct {
	r        *run
	writer   shimapi.Writer
	modes    vt.Modes
	sequence uint64
}

// text types a text: as a paste where the program has asked for pastes, with
// line ends as the Enter key sends them otherwise.
func (t *typist) text(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	if !t.modes.BracketedPaste {
		return t.group(ctx, shimapi.KindSend, strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\r"), "\n", "\r"))
	}
	// An end mark within the text would end the paste early.
	text = strings.ReplaceAll(text, pasteEnd, "")
	return t.group(ctx, shimapi.KindPaste, pasteBegin+text+pasteEnd)
}

// Marks of a bracketed paste (xterm ctlseqs).
const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// group sends data as one group, so that nothing comes in between.
func (t *typist) group(ctx context.Context, kind shimapi.Kind, data string) error {
	const piece = 64 << 10
	for {
		part := data[:min(piece, len(data))]
		data = data[len(part):]
		t.sequence++
		in := shimapi.Input{Writer: t.writer, Sequence: t.sequence, Kind: kind, Data: []byte(part)}
		if data != "" {
			in.Flags = shimapi.FlagMore
			if err := t.r.shim.send(in); err != nil {
				return err
			}
			continue
		}
		status, err := t.r.shim.ask(ctx, in, answerKey{t.writer, t.sequence})
		if err != nil {
			return fmt.Errorf("%w: whether it was typed is not known", err)
		}
		return inputError(status)
	}
}

func inputError(status shimapi.Status) error {
	switch status {
	case shimapi.StatusAccepted, shimapi.StatusDuplicate:
		return nil
	case shimapi.StatusBusy:
		return fmt.Errorf("%w: the program does not read what was typed before", session.ErrBusy)
	case shimapi.StatusTooLarge:
		return fmt.Errorf("%w: the text is larger than %d MiB", session.ErrRefused, shimapi.MaxGroup>>20)
	case shimapi.StatusEnded:
		return session.ErrNotRunning
	}
	return fmt.Errorf("%w: the shim answered with status %d", session.ErrRefused, status)
}

// keys are the names of keys that send something else than a character, with
// what they send in normal and in application cursor mode (xterm ctlseqs, "PC-
// Style Function Keys").
var keys = map[string][2]string{
	"enter": {"\r", "\r"}, "return": {"\r", "\r"}, "tab": {"\t", "\t"}, "shift-tab": {"\x1b[Z", "\x1b[Z"},
	"escape": {"\x1b", "\x1b"}, "esc": {"\x1b", "\x1b"}, "space": {" ", " "}, "backspace": {"\x7f", "\x7f"},
	"up": {"\x1b[A", "\x1bOA"}, "down": {"\x1b[B", "\x1bOB"}, "right": {"\x1b[C", "\x1bOC"}, "left": {"\x1b[D", "\x1bOD"},
	"home": {"\x1b[H", "\x1bOH"}, "end": {"\x1b[F", "\x1bOF"},
	"insert": {"\x1b[2~", "\x1b[2~"}, "delete": {"\x1b[3~", "\x1b[3~"},
	"pageup": {"\x1b[5~", "\x1b[5~"}, "pagedown": {"\x1b[6~", "\x1b[6~"},
	"f1": {"\x1bOP", "\x1bOP"}, "f2": {"\x1bOQ", "\x1bOQ"}, "f3": {"\x1bOR", "\x1bOR"}, "f4": {"\x1bOS", "\x1bOS"},
	"f5": {"\x1b[15~", "\x1b[15~"}, "f6": {"\x1b[17~", "\x1b[17~"}, "f7": {"\x1b[18~", "\x1b[18~"},
	"f8": {"\x1b[19~", "\x1b[19~"}, "f9": {"\x1b[20~", "\x1b[20~"}, "f10": {"\x1b[21~", "\x1b[21~"},
	"f11": {"\x1b[23~", "\x1b[23~"}, "f12": {"\x1b[24~", "\x1b[24~"},
}

// encodeKey returns what a key sends: one of the names above, a single
// character, ctrl-X or alt-X.
func encodeKey(name string, modes vt.Modes) (string, error) {
	lower := strings.ToLower(name)
	if k, ok := keys[lower]; ok {
		if modes.AppCursor {
			return k[1], nil
		}
		return k[0], nil
	}
	if rest, ok := cutFold(name, "ctrl-", "c-", "^"); ok && len(rest) == 1 {
		if c := strings.ToUpper(rest)[0]; c >= '?' && c <= '_' {
			return string([]byte{(c - '@') & 0x7f}), nil
		}
		if rest == " " {
			return "\x00", nil
		}
	}
	if strings.EqualFold(name, "ctrl-space") {
		return "\x00", nil
	}
	if rest, ok := cutFold(name, "alt-", "meta-", "m-"); ok && rest != "" {
		inner, err := encodeKey(rest, modes)
		return "\x1b" + inner, err
	}
	if len([]rune(name)) == 1 {
		return name, nil
	}
	return "", &wire.Error{
		Code: "usage", Message: fmt.Sprintf("there is no key called %+q", name),
		Hint: "keys are single characters, enter, tab, escape, up, down, left, right, home, end, pageup, pagedown, delete, backspace, f1 to f12, ctrl-X and alt-X",
	}
}

func cutFold(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if len(s) > len(p) && strings.EqualFold(s[:len(p)], p) {
			return s[len(p):], true
		}
	}
	return "", false
}

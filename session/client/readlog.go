package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/pty/vt"
	"agentmux/session"
)

// LogOptions say how a log is read.
type LogOptions struct {
	Raw    bool // the exact bytes, else readable lines
	Follow bool // go on until the run has ended
	Tail   int  // only the last lines; below 0: all
	Color  bool // keep colours and attributes of the lines
	// Note is told what is missing from or wrong with the log.
	Note func(string)
}

// ReadLog writes the log of a session to w. It needs no server. Readable lines
// are those that scrolled off the screen, then the screen as it was left; of a
// session that goes on, the screen as it is now.
func (m *Mux) ReadLog(ctx context.Context, name string, w io.Writer, o LogOptions) error {
	dir, record, err := m.Find(name)
	if err != nil {
		return err
	}
	first, _, err := logstore.Ends(dir.Log())
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", record.Name, err)
	}
	f, closeLog, err := openLog(dir, first, o.Follow)
	if err != nil {
		return fmt.Errorf("read the log of %s: %w", record.Name, err)
	}
	defer closeLog()
	buffered := bufio.NewWriterSize(w, 64<<10)
	sink := newSink(buffered, o)
	if err := copyLog(ctx, f, sink, buffered, o); err != nil {
		return fmt.Errorf("read the log of %s: %w", record.Name, err)
	}
	return buffered.Flush()
}

// openLog opens the log at rest, or so that it is followed as long as the
// session's shim lives.
func openLog(dir session.Dir, from logstore.Position, follow bool) (*logstore.Follower, func(), error) {
	if !follow {
		f, err := logstore.Open(dir.Log(), from)
		if err != nil {
			return nil, nil, err
		}
		return f, func() { f.Close() }, nil
	}
	w, err := logstore.NewWatcher()
	if err != nil {
		return nil, nil, err
	}
	lock := shimapi.Bundle{Session: string(dir)}.Lock()
	f, err := w.Follow(dir.Log(), from, func() bool {
		locked, err := shimapi.Locked(lock)
		return locked || err != nil
	})
	if err != nil {
		w.Close()
		return nil, nil, err
	}
	return f, func() { f.Close(); w.Close() }, nil
}

// sink takes a log frame by frame.
type sink interface {
	frame(logstore.Frame) error
	missing(string) error
	// pause is called when all that is there was read and more may come.
	pause() error
	end() error
}

func newSink(w *bufio.Writer, o LogOptions) sink {
	if o.Raw {
		return &rawSink{w: w, note: o.Note}
	}
	return newLines(w, o)
}

func copyLog(ctx context.Context, f *logstore.Follower, s sink, w *bufio.Writer, o LogOptions) error {
	for {
		frame, err := f.TryNext()
		if errors.Is(err, logstore.ErrNotYet) {
			if err := errors.Join(s.pause(), w.Flush()); err != nil {
				return err
			}
			frame, err = f.Next(ctx)
		}
		var damage *logstore.DamageError
		var trimmed *logstore.TrimmedError
		switch {
		case err == nil:
			err = s.frame(frame)
		case errors.As(err, &damage):
			err = s.missing(fmt.Sprintf("%d bytes of the log are damaged", damage.To-damage.From))
		case errors.As(err, &trimmed):
			err = s.missing(fmt.Sprintf("%d bytes of the log were removed", trimmed.To-trimmed.From))
		case errors.Is(err, logstore.ErrEnded), errors.Is(err, logstore.ErrLost):
			return s.end()
		case ctx.Err() != nil:
			return s.end()
		}
		if err != nil {
			return err
		}
	}
}

// gapText says what a GAP frame tells.
func gapText(frame logstore.Frame) (string, bool) {
	g, err := logstore.DecodeGap(frame.Payload)
	if err != nil {
		return "", false
	}
	return fmt.Sprintf("%d bytes of output are missing: %v", g.Bytes, g.Cause), true
}

// rawSink writes output as it was.
type rawSink struct {
	w    *bufio.Writer
	note func(string)
}

func (r *rawSink) frame(frame logstore.Frame) error {
	switch frame.Type {
	case logstore.TypeOut:
		_, err := r.w.Write(frame.Payload)
		return err
	case logstore.TypeGap:
		if text, ok := gapText(frame); ok {
			return r.missing(text)
		}
	}
	return nil
}

func (r *rawSink) missing(text string) error {
	if r.note != nil {
		r.note(text)
	}
	return nil
}

func (r *rawSink) pause() error { return nil }
func (r *rawSink) end() error   { return nil }

// lines renders output into readable lines.
type lines struct {
	w      *bufio.Writer
	o      LogOptions
	screen *vt.Terminal
	joined strings.Builder // a row that goes on in the next one
	kept   []string        // with Tail: the last lines so far
	shown  []string        // of rows that are still on the screen: what was put out of them
	err    error
}

func newLines(w *bufio.Writer, o LogOptions) *lines {
	l := &lines{w: w, o: o}
	l.screen = vt.New(session.DefaultSize.Cols, session.DefaultSize.Rows, vt.Options{ScrollOff: l.row})
	return l
}

func (l *lines) frame(frame logstore.Frame) error {
	switch frame.Type {
	case logstore.TypeOut:
		l.write(frame.Payload)
	case logstore.TypeSize:
		if z, err := logstore.DecodeSize(frame.Payload); err == nil {
			l.screen.Resize(int(z.Cols), int(z.Rows))
			l.shown = nil // the rows are others now
		}
	case logstore.TypeGap:
		if text, ok := gapText(frame); ok {
			return l.missing(text)
		}
	}
	return l.err
}

// leavesAlternate are the sequences by which full-screen programs leave the
// alternate screen (DECRST 1049, 1047, 47).
var leavesAlternate = regexp.MustCompile(`\x1b\[\?(?:1049|1047|47)l`)

// write shows output. What the alternate screen shows when a program leaves it
// is all that is left of it, so it is put out then.
func (l *lines) write(p []byte) {
	for l.screen.AltScreen() || bytes.Contains(p, []byte("\x1b[?")) {
		at := leavesAlternate.FindIndex(p)
		if at == nil {
			break
		}
		l.screen.Write(p[:at[0]])
		if l.screen.AltScreen() {
			l.rows(l.screen.Lines())
		}
		l.screen.Write(p[at[0]:at[1]])
		p = p[at[1]:]
	}
	l.screen.Write(p)
}

// rows puts out a screen, without the blank rows at its end.
func (l *lines) rows(rows []vt.Line) {
	for len(rows) > 0 && strings.TrimSpace(rows[len(rows)-1].Text()) == "" {
		rows = rows[:len(rows)-1]
	}
	for _, row := range rows {
		l.row(row)
	}
	if l.joined.Len() > 0 {
		l.line(l.joined.String())
		l.joined.Reset()
	}
}

// row takes a row that has left the screen.
func (l *lines) row(line vt.Line) {
	text := line.Text()
	if l.o.Color {
		text = line.ANSI()
	}
	if len(l.shown) > 0 { // put out when it was finished, unless it has changed since
		before := l.shown[0]
		l.shown = l.shown[1:]
		if before == text {
			return
		}
	}
	l.joined.WriteString(text)
	if line.Wrapped {
		return
	}
	l.line(l.joined.String())
	l.joined.Reset()
}

// finished puts out the rows above the cursor that were not yet: a program that
// prints line after line has done with them. It is for a reader who follows,
// and would else be a screen behind.
func (l *lines) finished() {
	if l.screen.AltScreen() {
		return
	}
	rows := l.screen.Lines()
	end := l.screen.Cursor().Y
	for end > 0 && rows[end-1].Wrapped {
		end-- // the line goes on where the cursor is
	}
	for len(l.shown) < end {
		row := rows[len(l.shown)]
		text := row.Text()
		if l.o.Color {
			text = row.ANSI()
		}
		kept := l.shown
		l.shown = nil
		l.row(row)
		l.shown = append(kept, text)
	}
}

func (l *lines) line(text string) {
	text = strings.TrimRight(text, " ")
	if l.o.Tail >= 0 {
		l.kept = append(l.kept, text)
		if len(l.kept) > 2*l.o.Tail+1024 {
			l.kept = append([]string(nil), l.kept[len(l.kept)-l.o.Tail:]...)
		}
		return
	}
	if _, err := l.w.WriteString(text + "\n"); err != nil && l.err == nil {
		l.err = err
	}
}

func (l *lines) missing(text string) error {
	l.line("[agentmux: " + text + "]")
	if l.o.Note != nil {
		l.o.Note(text)
	}
	return l.err
}

// pause puts out the last lines, once, when the end of what is there is
// reached: from then on lines go out as they come.
func (l *lines) pause() error {
	l.release()
	l.finished()
	return l.err
}

func (l *lines) release() {
	if l.o.Tail < 0 {
		return
	}
	kept := l.kept[max(0, len(l.kept)-l.o.Tail):]
	l.o.Tail, l.kept = -1, nil
	for _, text := range kept {
		l.line(text)
	}
}

// end puts out the screen as it was left.
func (l *lines) end() error {
	rows := l.screen.Lines()
	if !l.screen.AltScreen() {
		rows = rows[min(len(l.shown), len(rows)):]
	}
	l.shown = nil
	l.rows(rows)
	l.release()
	return l.err
}

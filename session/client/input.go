package client

import (
	"context"
	"errors"
	"io"
	"time"

	"agentmux/pty/shimapi"
	"agentmux/pty/tty"
)

// chunk is what one read of the terminal gave.
type chunk struct {
	data []byte
	err  error
}

// input decodes what the user types and passes it on, until ctx ends, the
// detach key comes or the terminal goes away.
func (a *attachment) input(ctx context.Context) {
	chunks := make(chan chunk)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		a.readTerminal(ctx, chunks)
	}()
	defer func() { <-reading }()
	keys := tty.NewKeys(a.o.DetachKeys)
	inputs := keys.Feed(a.screen.takeAnswers(nil)) // typed while the terminal was probed
	for {
		if a.typeAll(inputs) {
			return
		}
		var flush, abort <-chan time.Time
		if wait := max(keys.Wait(), a.screen.answersWait()); wait > 0 {
			flush = time.After(wait)
		}
		if keys.InPaste() {
			abort = time.After(tty.PasteTimeout)
		}
		select {
		case <-ctx.Done():
			return
		case c := <-chunks:
			if c.err != nil {
				a.leave <- inputEnd(c.err)
				return
			}
			inputs = keys.Feed(a.screen.takeAnswers(c.data))
		case <-flush:
			inputs = append(keys.Feed(a.screen.flushAnswers()), keys.Flush()...)
		case <-abort:
			inputs = keys.AbortPaste()
		}
	}
}

// typeAll passes inputs on, up to the detach key, and reports whether that came.
func (a *attachment) typeAll(inputs []tty.Input) (detached bool) {
	for _, in := range inputs {
		if in.Kind == tty.Detach {
			a.leave <- Outcome{Reason: Detached}
			return true
		}
		a.typeInput(in)
	}
	return false
}

func inputEnd(err error) Outcome {
	if errors.Is(err, io.EOF) {
		return Outcome{Reason: HungUp}
	}
	return Outcome{Reason: HungUp, Message: err.Error()}
}

// readTerminal reads until ctx ends or the terminal does.
func (a *attachment) readTerminal(ctx context.Context, chunks chan<- chunk) {
	for {
		buf := make([]byte, 16<<10)
		n, err := a.screen.terminal.Read(ctx, buf)
		if ctx.Err() != nil {
			return
		}
		select {
		case chunks <- chunk{buf[:n], err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// typeInput passes one piece of input on. Real typing takes the session's size
// for this terminal first. An answer of the terminal is not passed on: the
// server gives the answers.
func (a *attachment) typeInput(in tty.Input) {
	if a.o.ReadOnly || len(in.Bytes) == 0 && in.Kind != tty.Paste {
		return
	}
	kind, more := shimapi.KindKey, false
	switch in.Kind {
	case tty.Reply:
		return
	case tty.Paste:
		kind, more = shimapi.KindPaste, !in.Last
	}
	if in.Kind == tty.Key || in.Kind == tty.Paste {
		if size := a.size.Load(); size != 0 && size != a.logSize.Load() {
			a.takeSize(a.screen.size(), true)
		}
	}
	if !a.typing.add(kind, in.Bytes, more) {
		a.screen.bell()
	}
}

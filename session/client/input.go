package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"agentmux/pty/proctree"
	"agentmux/pty/shimapi"
	"agentmux/pty/tty"
)

// input decodes what the user types and passes it on, until ctx ends, the
// detach key comes or the terminal goes away.
func (a *attachment) input(ctx context.Context) {
	keys := tty.NewKeys(a.o.DetachKeys)
	inputs := keys.Feed(a.screen.takeAnswers(nil)) // typed while the terminal was probed
	buf := make([]byte, 16<<10)
	for !a.typeAll(inputs) {
		n, err := a.readKeys(ctx, keys, buf)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded):
			inputs = a.release(keys)
		case err != nil:
			a.leave <- inputEnd(err)
			return
		default:
			inputs = keys.Feed(a.screen.takeAnswers(buf[:n]))
		}
	}
}

// readKeys reads the terminal; while the decoder holds something back that may
// be complete as it is, only for as long as that may be.
func (a *attachment) readKeys(ctx context.Context, keys *tty.Keys, buf []byte) (int, error) {
	wait := max(keys.Wait(), a.screen.answersWait())
	if wait == 0 && keys.InPaste() {
		wait = tty.PasteTimeout
	}
	if wait == 0 {
		return a.screen.terminal.Read(ctx, buf)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return a.screen.terminal.Read(ctx, buf)
}

// release gives out what was held back for more that did not come.
func (a *attachment) release(keys *tty.Keys) []tty.Input {
	if keys.Wait() == 0 && a.screen.answersWait() == 0 {
		return keys.AbortPaste()
	}
	return append(keys.Feed(a.screen.flushAnswers()), keys.Flush()...)
}

func inputEnd(err error) Outcome {
	if errors.Is(err, io.EOF) {
		return Outcome{Reason: HungUp}
	}
	return Outcome{Reason: HungUp, Message: err.Error()}
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

// typeInput passes one piece of input on. Real typing takes the session's size
// for this terminal. An answer of the terminal is not passed on: the
// server gives the answers.
func (a *attachment) typeInput(in tty.Input) {
	if a.o.ReadOnly || len(in.Bytes) == 0 && in.Kind != tty.Paste {
		return
	}
	kind, more := shimapi.KindKey, false
	switch in.Kind {
	case tty.Reply:
		a.passAnswer(in.Bytes)
		return
	case tty.Mouse:
		if in.Bytes = a.pane.Load().mouse(in.Bytes); in.Bytes == nil {
			return
		}
	case tty.Paste:
		kind, more = shimapi.KindPaste, !in.Last
	}
	var size shimapi.Resize
	if in.Kind == tty.Key || in.Kind == tty.Paste {
		a.endNotice()
		// Each key brings the size along: whether another has the session by
		// now is in a part of the log that may not have been read yet.
		size, _ = a.claimSize(a.screen.size())
	}
	if !a.typing.add(kind, in.Bytes, more, size) {
		a.screen.bell()
	}
	if in.Kind == tty.Key && suspends(in.Bytes) {
		time.AfterFunc(stopPatience, a.continueAgent)
	}
}

// stopPatience is how long after a suspend key an agent has usually stopped.
const stopPatience = 200 * time.Millisecond

// suspends reports whether a key is Ctrl-Z, as a byte or as the kitty keyboard
// protocol has it.
func suspends(key []byte) bool {
	return bytes.IndexByte(key, 0x1a) >= 0 || bytes.HasPrefix(key, []byte("\x1b[122;5"))
}

// continueAgent continues an agent that a suspend key has stopped. Under a
// shell the shell would; here nobody else can, and the agent, which leads its
// session, would be stopped for good.
func (a *attachment) continueAgent() {
	agent, err := proctree.Find(a.info.AgentPID)
	if err != nil || agent.State != 'T' || agent.Session != agent.PID {
		return
	}
	a.typing.signal(shimapi.Signal{
		Operation: shimapi.OpSignal, Target: shimapi.TargetAgent, Signal: uint16(syscall.SIGCONT),
	})
}

package client

import (
	"fmt"
	"time"

	"agentmux/logstore"
	"agentmux/pty/shimapi"
	"agentmux/pty/vt"
)

// noticeTime is how long the line about what happened meanwhile stays on the
// screen, unless a key or output ends it before.
const noticeTime = 4 * time.Second

// notice appends the line that tells what the program did to be noticed while
// nobody was attached. It is laid over the last row, once, right after the
// first snapshot; endNotice has the screen shown anew.
func (a *attachment) notice(out []byte) []byte {
	text := a.attention
	a.attention = ""
	z := a.screen.size()
	if text == "" || z.Cols < 10 || z.Rows < 2 {
		return out
	}
	text = fit("while you were away: "+text, z.Cols-2)
	line := fmt.Sprintf("\x1b[?6l\x1b[%d;1H\x1b[0;7m %s \x1b[0m", z.Rows, text)
	a.noticed.Store(true)
	time.AfterFunc(noticeTime, a.endNotice)
	return a.screen.filter.Filter(out, []byte(line))
}

// fit cuts a text to a number of columns.
func fit(text string, columns int) string {
	width := 0
	for i, r := range text {
		if width += vt.StringWidth(string(r)); width > columns {
			return text[:i]
		}
	}
	return text
}

// endNotice takes the line away, if it is still there.
func (a *attachment) endNotice() {
	if a.noticed.Swap(false) {
		a.damaged.Store(true)
		a.resized.wake()
	}
}

// passQuestions appends the questions in the frame just filtered that nobody
// but a terminal can answer, for the terminal of the one who typed last: there
// is one such, so there is one answer. What was asked long ago is not.
func (a *attachment) passQuestions(out []byte, f *logstore.Follower, frame logstore.Frame) []byte {
	questions := a.screen.filter.Questions()
	if len(questions) == 0 || a.o.ReadOnly || !a.owner.Load() {
		return out
	}
	if age, ok := f.Age(frame); !ok || age > answersWithin {
		return out
	}
	a.answers.Store(time.Now().Add(answersWithin).UnixNano())
	for _, q := range questions {
		out = append(out, q...)
	}
	return out
}

// passAnswer passes an answer of the terminal on if it was asked a moment ago.
// Any other is none of the program's business: the server answers its questions.
func (a *attachment) passAnswer(answer []byte) {
	if time.Now().UnixNano() < a.answers.Load() {
		a.typing.add(shimapi.KindKey, answer, false, shimapi.Resize{})
	}
}

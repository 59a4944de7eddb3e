package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"agentmux/pty/vt"
	"agentmux/scripts/harness"
)

const cols, rows = 120, 40

// viewer is a user at a terminal: an attached client on a real PTY, an emulator
// that shows what it writes, and fingers that type numbered key groups.
type viewer struct {
	life int
	cmd  *exec.Cmd
	tty  *os.File // the terminal's side

	mu     sync.Mutex // guards screen and seen
	screen *vt.Terminal
	seen   bool // the flood is on the screen: the client listens

	typed   int           // key groups that were typed; the typist's until done
	stop    chan struct{} // closed to end the typing
	done    chan struct{} // closed when it has ended
	drained chan struct{} // closed when the terminal has nothing more to show
	exited  chan error    // how the client ended
}

func attach(mux *harness.Mux, name string, life int) (*viewer, error) {
	v := &viewer{
		life: life, cmd: exec.Command(mux.Bin, "attach", name),
		stop: make(chan struct{}), done: make(chan struct{}),
		drained: make(chan struct{}), exited: make(chan error, 1),
	}
	v.cmd.Env, v.cmd.Dir = mux.Env, mux.Home()
	var answers []byte
	v.screen = vt.New(cols, rows, vt.Options{Reply: func(p []byte) { answers = append(answers, p...) }})
	var err error
	if v.tty, err = pty.StartWithSize(v.cmd, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	go func() {
		defer close(v.drained)
		buf := make([]byte, 64<<10)
		for {
			n, err := v.tty.Read(buf)
			v.mu.Lock()
			v.screen.Write(buf[:n])
			if !v.seen && strings.Contains(v.text(), "F ") {
				v.seen = true
			}
			reply := answers
			answers = nil
			v.mu.Unlock()
			if len(reply) > 0 {
				v.tty.Write(reply)
			}
			if err != nil {
				return
			}
		}
	}()
	go v.typist()
	go func() { v.exited <- v.cmd.Wait() }()
	return v, nil
}

// text is the screen; the caller holds mu.
func (v *viewer) text() string {
	var lines []string
	for _, l := range v.screen.Lines() {
		lines = append(lines, l.Text())
	}
	return harness.Trim(strings.Join(lines, "\n"))
}

// Text is what the user sees.
func (v *viewer) Text() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text()
}

func (v *viewer) listening() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen
}

// typist types one key group after the other, once the client listens.
func (v *viewer) typist() {
	defer close(v.done)
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-tick.C:
		}
		if !v.listening() {
			continue
		}
		if _, err := fmt.Fprintf(v.tty, "k%d.%d;", v.life, v.typed+1); err != nil {
			return // the client is gone
		}
		v.typed++
	}
}

// rest ends the typing and returns how many key groups were typed.
func (v *viewer) rest() int {
	select {
	case <-v.stop:
	default:
		close(v.stop)
	}
	<-v.done
	return v.typed
}

// kill kills the client, as a crash or the machine's OOM killer would.
func (v *viewer) kill() {
	v.cmd.Process.Kill()
	v.rest()
	<-v.exited
	v.close()
}

// leave presses the detach key and returns the client's exit code.
func (v *viewer) leave() (int, error) {
	if _, err := v.tty.Write([]byte{0x1c}); err != nil {
		return 0, err
	}
	return v.ended()
}

// ended waits for the client's end and returns its exit code.
func (v *viewer) ended() (int, error) {
	defer v.close()
	v.rest()
	select {
	case err := <-v.exited:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return exit.ExitCode(), nil
		}
		return 0, err
	case <-time.After(harness.Limit):
		v.cmd.Process.Signal(syscall.SIGKILL)
		<-v.exited
		return 0, fmt.Errorf("the client did not leave within %v; on its screen:\n%s", harness.Limit, v.Text())
	}
}

func (v *viewer) close() {
	v.tty.Close()
	<-v.drained
}

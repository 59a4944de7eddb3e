package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentmux/scripts/harness"
)

// soaker runs the rounds, one after the other.
type soaker struct {
	mux    *harness.Mux
	self   string // this program
	random *rand.Rand

	servers, clients, shims int // killed
	lines, keys             int // checked
	bytes                   int64
	longest                 time.Duration // without a server
}

// turn is one round: a session and whoever looks at it.
type turn struct {
	*soaker
	name    string
	session harness.Session
	view    *viewer
	typed   map[string]int // by life, those of killed clients too
	killed  map[string]bool
}

// round starts a session, kills, and checks all that must be left.
func (s *soaker) round(n int, kind string) (err error) {
	t := &turn{soaker: s, name: fmt.Sprintf("flood-%d", n), typed: map[string]int{}, killed: map[string]bool{}}
	if _, err := s.mux.Must("new", "-d", "-n", t.name, "--size", fmt.Sprintf("%dx%d", cols, rows), "--", s.self, "flood"); err != nil {
		return err
	}
	if t.session, err = s.mux.Session(t.name); err != nil {
		return err
	}
	if err := t.attach(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.view.cmd.Process.Kill()
		}
	}()
	if kind == "shim" {
		err = t.shim()
	} else {
		err = t.others(kind)
	}
	if err != nil {
		return err
	}
	if _, err := s.mux.Must("rm", t.name); err != nil {
		return err
	}
	return harness.Gone(harness.Limit, "AGENTMUX_ID="+t.session.ID, "sessions/"+t.session.ID)
}

func (t *turn) attach() (err error) {
	t.view, err = attach(t.mux, t.name, len(t.typed)+1)
	if err == nil {
		t.typed[strconv.Itoa(t.view.life)] = 0
	}
	return err
}

// pause lets things go on until the next random moment.
func (t *turn) pause(most time.Duration) {
	time.Sleep(time.Duration(t.random.Int64N(int64(most))))
}

// others kills server and client some times, then checks that nothing is lost.
func (t *turn) others(kind string) error {
	for range 1 + t.random.IntN(4) {
		t.pause(150 * time.Millisecond)
		both := kind == "both"
		if kind == "server" || both && t.random.IntN(2) == 0 {
			if err := t.killServer(); err != nil {
				return err
			}
			continue
		}
		t.view.kill()
		t.clients++
		life := strconv.Itoa(t.view.life)
		t.typed[life], t.killed[life] = t.view.typed, true
		if err := t.attach(); err != nil {
			return err
		}
	}

	if err := harness.Until(harness.Limit, "the flood is on the client's screen", func() (bool, string) {
		return t.view.listening(), t.view.Text()
	}); err != nil {
		return err
	}
	t.pause(50 * time.Millisecond)
	t.typed[strconv.Itoa(t.view.life)] = t.view.rest()
	if _, err := t.view.tty.WriteString("s;"); err != nil {
		return err
	}
	// The client's word is the last key, so all others are read before it.
	if _, err := t.mux.MustFor(2*harness.Limit, "wait", "--until", `text=^E \d+ `, "--timeout", harness.Limit.String(), t.name); err != nil {
		return fmt.Errorf("%w; on the client's screen:\n%s", err, t.view.Text())
	}
	log, err := t.mux.Must("log", "--raw", t.name)
	if err != nil {
		return err
	}
	r, err := t.checkAll(log)
	if err != nil {
		return err
	}
	want := r.screen(cols, rows)
	if err := harness.Until(harness.Limit, "the client's screen is right", func() (bool, string) {
		got := t.view.Text()
		return got == want, got + "\nwanted:\n" + want
	}); err != nil {
		return err
	}
	if got, err := t.mux.Screen(t.name); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("capture is not right; got:\n%s\nwanted:\n%s", got, want))
	}
	if code, err := t.view.leave(); err != nil || code != 0 {
		return fmt.Errorf("the client left with %d, %w", code, err)
	}
	if _, err := t.mux.Must("send", t.name, "q;"); err != nil {
		return err
	}
	if _, err := t.mux.Must("wait", "--timeout", harness.Limit.String(), t.name); err != nil {
		return err
	}
	final, err := t.mux.Must("log", "--raw", t.name)
	if err != nil {
		return err
	}
	if final != log {
		return fmt.Errorf("the log changed after the end: %d bytes, then %d", len(log), len(final))
	}
	t.lines += len(r.lines)
	t.bytes += int64(len(log))
	return nil
}

// checkAll checks a log in which nothing may be missing.
func (t *turn) checkAll(log string) (record, error) {
	r, err := check(log)
	if err != nil {
		return r, err
	}
	if !r.ended || r.rest != "" {
		return r, fmt.Errorf("the log has no end: %d lines, then %q", len(r.lines), r.rest)
	}
	for life, arrived := range r.keys {
		if typed := t.typed[life]; arrived > typed {
			return r, fmt.Errorf("client %s typed %d keys, %d arrived", life, typed, arrived)
		}
	}
	for life, typed := range t.typed {
		if arrived := r.keys[life]; arrived != typed && !t.killed[life] {
			return r, fmt.Errorf("client %s typed %d keys, %d arrived, though it was not killed", life, typed, arrived)
		}
		t.keys += r.keys[life]
	}
	return r, nil
}

func (t *turn) killServer() error {
	var pid int
	if err := harness.Until(harness.Limit, "a server is there", func() (bool, string) {
		pid = t.mux.ServerPID()
		return pid != 0, ""
	}); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	killed := time.Now()
	t.servers++
	if t.random.IntN(3) == 0 {
		return nil // go on without looking: the next kill comes early
	}
	return harness.Until(harness.Limit, "the server is back by itself", func() (bool, string) {
		now := t.mux.ServerPID()
		if now == 0 || now == pid {
			return false, ""
		}
		t.longest = max(t.longest, time.Since(killed))
		return true, ""
	})
}

// shim kills the shim: the run is lost, and nothing else is.
func (t *turn) shim() error {
	server := t.mux.ServerPID()
	t.pause(200 * time.Millisecond)
	if err := syscall.Kill(t.session.ShimPID, syscall.SIGKILL); err != nil {
		return err
	}
	t.shims++
	if err := harness.Until(harness.Limit, "the session is lost", func() (bool, string) {
		now, err := t.mux.Session(t.name)
		return err == nil && now.State == "lost" && now.Exit == nil, fmt.Sprintf("%+v, %v", now, err)
	}); err != nil {
		return err
	}
	if code, err := t.view.ended(); err != nil || code != 125 {
		return fmt.Errorf("the client of a lost run left with %d, not 125, %w", code, err)
	}
	if r := t.mux.Run("wait", t.name); r.Code != 125 {
		return fmt.Errorf("wait for a lost run: exit code %d, not 125: %s", r.Code, r.Err)
	}
	log, err := t.mux.Must("log", "--raw", t.name)
	if err != nil {
		return err
	}
	r, err := check(log)
	if err != nil {
		return err
	}
	if !prefixOfLine(r.rest, r.last+1) {
		return fmt.Errorf("the log of the lost run ends with %q", r.rest)
	}
	t.lines += len(r.lines)
	t.bytes += int64(len(log))

	// The name is free again.
	if out, err := t.mux.Must("new", "-d", "-n", t.name, "--", "true"); err != nil || strings.TrimSpace(out) != t.name {
		return fmt.Errorf("the name of a lost run is not free: %q, %w", out, err)
	}
	if _, err := t.mux.Must("wait", "--timeout", harness.Limit.String(), t.name); err != nil {
		return err
	}
	if now := t.mux.ServerPID(); now != server {
		return fmt.Errorf("the server is %d, not %d: the shim's end did it harm", now, server)
	}
	return t.removeAll()
}

// removeAll removes the lost run and leaves the newer one to the caller.
func (t *turn) removeAll() error {
	_, err := t.mux.Must("rm", t.session.ID)
	return err
}

// prefixOfLine reports whether rest is the beginning of a line that may come
// next.
func prefixOfLine(rest string, next int) bool {
	line := fmt.Sprintf("F %d %s", next, fill(next))
	if len(rest) <= len(line) {
		return strings.HasPrefix(line, rest) || strings.HasPrefix(rest, "K ") || rest == "K"
	}
	return strings.HasPrefix(rest, line) || strings.HasPrefix(rest, "K ")
}

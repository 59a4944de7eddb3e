// Vtdiff puts our terminal emulator before the differential harness of
// ../shared/vtdiff, whose oracles are xterm.js and tmux. scripts/vtdiff/run
// builds and runs it; the harness's README says what a case and a state are.
//
//	vtdiff cases [-chunk N] [-keyframe] [-nosync] FILE   the states of a file of cases
//	vtdiff snapshots [-history N] FILE             cases whose only write is our snapshot
//	vtdiff points FILE...                          golden streams as cases, one for each prefix
//	vtdiff serve                                   the serve protocol
//	vtdiff judge CHECK ACCEPTED <COMPARISON        tells differences from accepted ones
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"agentmux/pty/vt"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vtdiff:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("run it by scripts/vtdiff/run")
	}
	out := bufio.NewWriter(os.Stdout)
	err := command(out, args[0], args[1:])
	return errors.Join(err, out.Flush())
}

func command(out *bufio.Writer, name string, args []string) error {
	f := flag.NewFlagSet(name, flag.ExitOnError)
	chunk := f.Int("chunk", 0, "split writes into pieces of so many bytes")
	keyframe := f.Bool("keyframe", false, "show the state of a second terminal that was given a keyframe")
	noSync := f.Bool("nosync", false, "leave out whether an update is open, which no snapshot tells")
	history := f.Int("history", 1000, "rows of scrollback in a snapshot")
	f.Parse(args)
	switch name {
	case "cases":
		return eachCase(f.Arg(0), func(c testCase) error {
			s := c.play(*chunk)
			if *keyframe {
				s = s.again()
			}
			st := s.state()
			if *noSync {
				delete(st.Modes, "sync")
			}
			return encode(out, map[string]any{"name": c.Name, "state": st})
		})
	case "snapshots":
		return eachCase(f.Arg(0), func(c testCase) error {
			s := c.play(*chunk)
			c.Cols, c.Rows = s.t.Size()
			c.Ops = []op{{W: latin1(s.t.Snapshot(vt.SnapshotOptions{History: *history}))}}
			return encode(out, c)
		})
	case "points":
		return points(out, f.Args())
	case "serve":
		return serve(os.Stdin, out)
	case "judge":
		return judge(out, os.Stdin, f.Arg(0), f.Arg(1))
	}
	return fmt.Errorf("there is no command %q", name)
}

// op is one write, each code point a byte, or one resize.
type op struct {
	W      string `json:"w,omitempty"`
	Resize []int  `json:"resize,omitempty"`
}

type testCase struct {
	Name string `json:"name"`
	Cat  string `json:"cat"`
	Cols int    `json:"cols"`
	Rows int    `json:"rows"`
	Ops  []op   `json:"ops"`
}

// play feeds a case to a new terminal, its writes cut into pieces of chunk
// bytes if that is not 0.
func (c testCase) play(chunk int) *subject {
	s := newSubject(c.Cols, c.Rows)
	for _, o := range c.Ops {
		if len(o.Resize) == 2 {
			s.t.Resize(o.Resize[0], o.Resize[1])
			continue
		}
		for p := fromLatin1(o.W); len(p) > 0; {
			n := len(p)
			if chunk > 0 {
				n = min(n, chunk)
			}
			s.t.Write(p[:n])
			p = p[n:]
		}
	}
	return s
}

func eachCase(path string, do func(testCase) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		var c testCase
		switch err := d.Decode(&c); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := do(c); err != nil {
			return err
		}
	}
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// points writes each golden stream as cases that end after its first operation,
// its second, and so on, so that what a later repaint hides is seen as well.
func points(out io.Writer, files []string) error {
	for _, file := range files {
		err := eachCase(file, func(c testCase) error {
			all := c.Ops
			for n := range all {
				part := c
				part.Name, part.Ops = fmt.Sprintf("%s@%d", c.Name, n+1), all[:n+1]
				if err := encode(out, part); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func fromLatin1(s string) []byte {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return b
}

func latin1(b []byte) string {
	r := make([]rune, len(b))
	for i, c := range b {
		r[i] = rune(c)
	}
	return string(r)
}

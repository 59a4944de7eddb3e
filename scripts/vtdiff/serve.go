package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxFrame bounds a frame of the serve protocol, in bytes.
const maxFrame = 64 << 20

// serve answers frames of a kind byte, a length and a payload until its input
// ends: o opens a terminal, w writes, z resizes, s asks for the state, q ends.
func serve(r io.Reader, out *bufio.Writer) error {
	in := bufio.NewReader(r)
	s := newSubject(80, 24)
	for {
		var head [5]byte
		switch _, err := io.ReadFull(in, head[:]); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		n := binary.BigEndian.Uint32(head[1:])
		if n > maxFrame {
			return fmt.Errorf("a frame of %d bytes", n)
		}
		p := make([]byte, n)
		if _, err := io.ReadFull(in, p); err != nil {
			return err
		}
		if head[0] == 'q' {
			return nil
		}
		if err := s.frame(out, head[0], p); err != nil {
			return err
		}
	}
}

func (s *subject) frame(out *bufio.Writer, kind byte, p []byte) error {
	var size struct{ Cols, Rows int }
	switch kind {
	case 'o', 'z':
		if err := json.Unmarshal(p, &size); err != nil {
			return err
		}
		if kind == 'z' {
			s.t.Resize(size.Cols, size.Rows)
			return nil
		}
		fresh := newSubject(size.Cols, size.Rows)
		*s = *fresh
		return nil
	case 'w':
		s.t.Write(p)
		return nil
	case 's':
		st := s.state()
		st.History = nil
		data, err := json.Marshal(st)
		if err != nil {
			return err
		}
		out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
		out.Write(data)
		return out.Flush()
	}
	return nil // a later version's
}

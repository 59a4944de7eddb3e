package main

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"agentmux/scripts/harness"
)

// The flood is a stream of lines of three kinds, each with the CRC-32 of what is
// before it, so that each proves itself:
//
//	F NUMBER FILL CRC    numbered from 1, of a length that varies
//	K LIFE.NUMBER CRC    a key group was read: see viewer.go
//	E COUNT CRC          the end: how many F lines there were
//
// Lines end with CR LF: the terminal is raw.

// plenty is after how many lines the flood becomes a trickle, so that a round
// that takes long does not fill the disk.
const plenty = 100_000

// flood is the program in a session. It prints F lines until it is told to stop
// by "s;" on its terminal, then waits for "q;".
func flood() error {
	old, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return err
	}
	defer term.Restore(int(os.Stdin.Fd()), old)
	words := make(chan string, 1024)
	go readWords(os.Stdin, words)

	var out bytes.Buffer
	stopped := false
	for n := 0; ; {
		for stopped || len(words) > 0 {
			word, ok := <-words
			switch {
			case !ok:
				return errors.New("the terminal is gone")
			case word == "q":
				return nil
			case word == "s" && !stopped:
				stopped = true
				appendLine(&out, "E "+strconv.Itoa(n))
			default:
				appendLine(&out, "K "+word)
			}
			if _, err := out.WriteTo(os.Stdout); err != nil {
				return err
			}
		}
		for range 1 + rand.IntN(400) {
			n++
			appendLine(&out, fmt.Sprintf("F %d %s", n, fill(n)))
		}
		if _, err := out.WriteTo(os.Stdout); err != nil {
			return err
		}
		pause := 3 * time.Millisecond // bursts, not one stream
		if n > plenty {
			pause = 200 * time.Millisecond
		}
		time.Sleep(rand.N(pause))
	}
}

// readWords reads what was typed, word by word. A word begins with a letter and
// ends with a semicolon; one that is cut off by the next is dropped.
func readWords(r io.Reader, words chan<- string) {
	defer close(words)
	var word []byte
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			switch {
			case c >= 'a' && c <= 'z':
				word = append(word[:0], c)
			case c == ';':
				words <- strings.TrimPrefix(string(word), "k")
				word = word[:0]
			default:
				word = append(word, c)
			}
		}
		if err != nil {
			return
		}
	}
}

// fill is the part of line n that makes it long or short.
func fill(n int) string {
	const text = "the quick brown fox jumps over the lazy dog 0123456789 "
	return strings.Repeat(text, 5)[:n*37%241]
}

func appendLine(b *bytes.Buffer, body string) {
	fmt.Fprintf(b, "%s %08x\r\n", body, crc32.ChecksumIEEE([]byte(body)))
}

// record is what a log of the flood says.
type record struct {
	lines []string       // all of them, in order, without line ends
	last  int            // number of the last F line
	keys  map[string]int // number of the last key group of each life
	ended bool           // the E line is there
	rest  string         // an unfinished line at the end
}

// check reads a log and fails at the first byte that is not as it must be.
func check(log string) (record, error) {
	r := record{keys: map[string]int{}}
	for log != "" {
		line, after, whole := strings.Cut(log, "\r\n")
		if !whole {
			r.rest = log
			break
		}
		if err := r.add(line); err != nil {
			return r, fmt.Errorf("line %d of the log, %q, after %q: %w", len(r.lines)+1, line, r.lines[max(0, len(r.lines)-2):], err)
		}
		r.lines = append(r.lines, line)
		log = after
	}
	return r, nil
}

func (r *record) add(line string) error {
	i := strings.LastIndexByte(line, ' ')
	if i < 0 || line[i+1:] != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(line[:i]))) {
		return errors.New("not a line of the flood: its CRC is wrong")
	}
	kind, body, _ := strings.Cut(line[:i], " ")
	switch kind {
	case "F":
		number, text, _ := strings.Cut(body, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n != r.last+1 || text != fill(n) {
			return fmt.Errorf("not line number %d", r.last+1)
		}
		r.last = n
	case "K":
		life, number, _ := strings.Cut(body, ".")
		n, err := strconv.Atoi(number)
		if err != nil || n != r.keys[life]+1 {
			return fmt.Errorf("a key of client %s after its key %d", life, r.keys[life])
		}
		r.keys[life] = n
	case "E":
		if body != strconv.Itoa(r.last) {
			return fmt.Errorf("the end after %d lines", r.last)
		}
		r.ended = true
	default:
		return errors.New("not a kind of line")
	}
	return nil
}

// screen is what a terminal shows after these lines.
func (r record) screen(cols, rows int) string {
	var all []string
	for _, line := range r.lines[max(0, len(r.lines)-rows):] {
		for len(line) > cols {
			all = append(all, line[:cols])
			line = line[cols:]
		}
		all = append(all, line)
	}
	all = append(all, "") // where the cursor is
	return harness.Trim(strings.Join(all[max(0, len(all)-rows):], "\n"))
}

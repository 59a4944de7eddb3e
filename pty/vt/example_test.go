package vt_test

import (
	"fmt"

	"agentmux/pty/vt"
)

// A program's output goes in, the screen comes out.
func ExampleTerminal() {
	t := vt.New(20, 3, vt.Options{
		Reply: func(p []byte) { fmt.Printf("reply %q\n", p) },
		Event: func(e vt.Event) {
			if e.Kind == vt.EventTitle {
				fmt.Printf("title %q\n", e.Text)
			}
		},
	})
	fmt.Fprint(t, "\x1b]2;demo\a\x1b[1mhello\x1b[m\r\nworld\x1b[6n")
	for _, l := range t.Lines() {
		fmt.Printf("%q\n", l.ANSI())
	}
	// Output:
	// title "demo"
	// reply "\x1b[2;6R"
	// "\x1b[1mhello\x1b[m"
	// "world"
	// ""
}

// Snapshot, Pending and the rest of the stream make an equal terminal, wherever
// the stream was cut.
func ExampleTerminal_Snapshot() {
	stream := []byte("one\r\n\x1b[3;1Htwo \x1b[31mred")
	cut := 7 // inside a control sequence

	a := vt.New(20, 3, vt.Options{})
	a.Write(stream[:cut])

	b := vt.New(20, 3, vt.Options{})
	b.Write(a.Snapshot(vt.SnapshotOptions{}))
	b.Write(a.Pending())

	a.Write(stream[cut:])
	b.Write(stream[cut:])
	fmt.Println(a.Equal(b), b.Lines()[2].Text())
	// Output: true two red
}

// Package shimapi is what the shim and everybody else agree on for ever: the
// files of a bundle, the lock that tells whether a run is alive, the frames of
// the shim protocol and a client for it. It is frozen from the first release,
// since a shim lives as long as its agent and meets servers and clients that
// are years younger.
//
// It imports the standard library and pty/proctree only and must never import
// anything else of agentmux. It opens no PTY and starts no agent.
//
// # Bundle
//
// A session directory holds one lock and one log for all its runs; a run's own
// files are its bundle:
//
//	lock               flock(2), held by the live shim
//	log/               package logstore
//	runs/<n>/spec.json   by the server: what is to be run, without secrets
//	         start.json  by the shim, before and after the agent starts
//	         sock        the shim's control socket
//	         exit.json   by the shim, the last thing it writes
//	         shim.err    by the shim, only if it has something to complain of
//
// # Frames
//
// All numbers are little-endian. A frame is
//
//	u32 length of the payload | u8 type | payload
//
// with at most 1 MiB + 64 bytes of payload. A reader skips a frame of a type
// it does not know. A payload may be longer than described here: what follows
// is from a later version and is ignored.
//
//	type  name     payload
//	   1  Hello    "AMXS" | u16 lowest and u16 highest version spoken |
//	               u8 role | u8 0 | u32 run | 16 bytes session id
//	   2  Input    16 bytes writer | u64 sequence | u8 kind | u8 flags | bytes
//	   3  Resize   u16 columns, rows, width and height in pixels | u32 client
//	   4  Signal   u32 id | u8 operation | u8 target | u16 signal |
//	               u32 grace in milliseconds
//	   5  Stat     nothing
//	 129  Welcome  "AMXS" | u16 version chosen | u8 flags | u8 stall cause |
//	               u32 run | u32 shim pid | u32 agent pid | u64 end of the log |
//	               u64 bytes lost | u32 input bytes queued |
//	               u16 columns, rows | u64 bytes read from the PTY
//	 130  Ack      16 bytes writer | u64 sequence | u8 status
//	 131  Exit     u8 kind | u8 core | u16 code | i64 wall time, ns since 1970
//
// The client speaks first, with Hello; the shim answers with Welcome, or closes
// the connection when the run or the session is another one or no version
// fits. Stat is answered with Welcome. Input is answered with an Ack that
// repeats its writer and sequence, Signal with an Ack whose writer is zero and
// whose sequence is the Signal's id. Exit goes to every connection once, when
// the agent's end is on disk. No output of the agent ever crosses this
// connection: it is in the log.
//
// # Input, once
//
// The writer is 128 random bits chosen where the typing originates and passed
// on unchanged. Its sequence begins at 1 and grows by one with each frame. The
// shim remembers the last sequence of each writer: what is at or below it was
// taken already and is acknowledged again without being typed; what leaves a
// hole, or comes with a sequence above 1 from a writer that it does not know,
// is refused as uncertain and never typed. A frame of kind Reply (an answer to
// a question of the program's) has the log position of the question as its
// sequence, which only has to grow.
//
// Frames with the flag More are buffered up to and including one without it,
// and written in one piece with no other input in between: a paste. A group
// whose connection goes away before its end is dropped.
package shimapi

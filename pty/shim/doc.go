// Package shim is the keeper of one run: it owns the PTY, appends what the
// agent prints to the log, types what it is sent, waits for the end and writes
// it down. It is to an agent what containerd's shim is to a container.
//
// It is the longest-lived process of agentmux and therefore has the least
// code. It keeps no screen, knows no policy and no configuration, and never
// sends output to anybody: whoever wants output reads the log. It imports pty,
// pty/proctree, pty/shimapi and logstore, and must never import session,
// msgpack, pty/vt or any other third-party code. A change here needs a record
// in session/adr.
//
// Goroutines, each with one owner of what it touches:
//
//	read      PTY → appender, ends when the PTY is drained after the agent's end
//	reap      waits for children, ends with the agent's exit status
//	type      input queue → PTY, size changes in between
//	accept    control socket; one goroutine per connection
//	guard     sleeps in flock(2) on the server's lock; starts the next server
//	signals   what the system sends this process
//	end       only while the tree is being ended
package shim

// Package client is what a program needs to use agentmux: it finds or starts
// the server of a state tree, calls it, and attaches the user's terminal to a
// session.
//
// An attached client does not depend on the server: it reads the log itself
// and types at the shim itself, so the user goes on while the server is killed
// and comes back.
//
// It may import session, session/wire, pty/shimapi, pty/proctree, pty/tty,
// pty/vt and logstore. It must never import session/server or pty.
package client

// Package server is the one server of a user's state tree. It adopts the runs
// that it finds, keeps a screen of each live one by following its log, answers
// the questions that programs ask their terminal, starts shims for new
// sessions, and serves the control protocol.
//
// It is crash-only: all it holds is a cache of what is on disk and in the
// shims, kill -9 is how tests stop it, and the next server begins by reading
// the tree. Nothing that an attached user types or sees passes through it.
//
// It may import session, session/wire, pty/vt, pty/shimapi, pty/proctree,
// logstore and logstore/seal. It must never import package pty: it opens no
// terminal device.
//
// # Locks
//
// registry.mu guards the set of sessions and their names; it is held only for
// moments, never while waiting for a process or a disk. entry.mu guards one
// session's state and screen. A goroutine that holds registry.mu may take
// entry.mu, never the other way round.
package server

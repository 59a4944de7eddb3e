// Package session is the domain of agentmux: names, ids, specifications,
// states and the directory tree in which sessions live.
//
// The words: a session has a name and an id (a UUID); a run is one life of the
// agent in it. The directory tree is the registry: a session exists when its
// directory holds session.json, and a run is alive when the flock on the
// session's lock file is held (package pty/shimapi).
//
// The package is pure: it knows names and paths and how records are written
// to disk, holds no lock, opens no socket and starts nothing. It imports the
// standard library and google/uuid only, and must never import anything else
// of agentmux.
package session

// Package pty opens a pseudo-terminal, starts a program as session leader on
// it, sets its size, and reads and writes its master side.
//
// It is used by the shim alone. It must never import anything of session,
// logstore or pty/vt: it knows bytes, sizes and processes, not sessions, logs
// or screens. No other package of agentmux may open terminal devices.
package pty

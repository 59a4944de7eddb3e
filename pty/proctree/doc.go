// Package proctree reads the operating system's table of processes: who lives,
// who descends from whom, and what of it belongs to a run.
//
// It only reads. It imports the standard library and must never import
// anything else of agentmux, so that the shim and the server can both use it.
package proctree

import (
	"errors"
	"slices"
)

// Process is one row of the process table.
type Process struct {
	PID, Parent, Group, Session int
	// Start tells this process from a later one with the same pid: clock
	// ticks since boot on Linux, seconds since 1970 elsewhere.
	Start uint64
	// State is the letter of ps(1): R, S, D, T (stopped), Z (zombie) …
	State byte
	// Name is the program's name as the kernel has it, at most 15 bytes of
	// any value.
	Name string
}

// Alive reports whether the process still runs: a zombie does not.
func (p Process) Alive() bool { return p.State != 'Z' && p.State != 'X' }

// ErrNoProcess: there is no such process, or it is a later one of that pid.
var ErrNoProcess = errors.New("no such process")

// Descendants returns all living descendants of the process root, parents
// before their children. A process for which skip returns true is left out
// together with everything below it.
func Descendants(table []Process, root int, skip func(Process) bool) []Process {
	children := make(map[int][]Process)
	for _, p := range table {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	queue := []int{root}
	for len(queue) > 0 {
		next := children[queue[0]]
		delete(children, queue[0]) // each is visited once, whatever the table says
		queue = queue[1:]
		for _, p := range next {
			if p.PID == root || skip != nil && skip(p) {
				continue
			}
			queue = append(queue, p.PID)
			if p.Alive() {
				found = append(found, p)
			}
		}
	}
	return found
}

// IsAlive reports whether the process with this pid and start time still runs.
func IsAlive(pid int, start uint64) bool {
	p, err := Find(pid)
	return err == nil && p.Start == start && p.Alive()
}

// Ancestors returns the pids from the parent of pid upwards.
func Ancestors(table []Process, pid int) []int {
	parent := make(map[int]int, len(table))
	for _, p := range table {
		parent[p.PID] = p.Parent
	}
	var up []int
	for next, ok := parent[pid]; ok && next > 0 && !slices.Contains(up, next); next, ok = parent[next] {
		up = append(up, next)
	}
	return up
}

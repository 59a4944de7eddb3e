//go:build linux && race

package main

// raceEnabled: the tests run with the race detector, and so do the programs
// that they start.
const raceEnabled = true

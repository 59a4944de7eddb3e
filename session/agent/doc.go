// Package agent is what agentmux knows of agent programs: which one a command
// line starts, and what their environment must not hold.
//
// It is pure and imports session only.
package agent

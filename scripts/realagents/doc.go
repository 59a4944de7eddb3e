// Package realagents tests a built agentmux with real agents: Claude Code,
// Codex and Gemini CLI in a state tree of their own, driven through whole turns
// by a scripted model relay on loopback. scripts/e2e installs what it needs and
// runs it; without the build tag e2e there is nothing here.
package realagents

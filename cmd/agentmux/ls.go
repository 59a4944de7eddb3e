package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"agentmux/pty/vt"
	"agentmux/session"
	"agentmux/session/client"
	"agentmux/session/wire"
)

// listSchema is the schema number of the JSON of ls and status.
const listSchema = 1

type listOptions struct{ json, all bool }

func (a *app) listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:     "ls [--json] [--all]",
		Aliases: []string{"list"},
		Short:   "List sessions",
		Long:    "List sessions: live ones first, then those that ended within a day; with --all, those that ended at any time.",
		Example: "  agentmux ls --all",
		Args:    arguments(0, 0),
		RunE: a.with(func(ctx context.Context, m *client.Mux, _ []string) error {
			return a.list(ctx, m, o)
		}),
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "list ended sessions of any age too")
	return cmd
}

func (a *app) list(ctx context.Context, m *client.Mux, o listOptions) error {
	sessions, err := m.List(ctx, o.all)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(a.out, struct {
			Schema   int         `json:"schema"`
			Sessions []wire.Info `json:"sessions"`
		}{listSchema, sessions})
	}
	if len(sessions) == 0 {
		say(a.err, "no sessions; 'agentmux new COMMAND' starts one")
		return nil
	}
	command, directory := a.wide()
	rows := [][]string{{"NAME", "STATE", "COMMAND", "DIRECTORY", "STARTED", "ATTACHED", "LOG"}}
	for _, s := range sessions {
		rows = append(rows, []string{
			session.Printable(s.Name), stateText(s), shorten(session.Quote(beginning(s.Command)), command), shorten(session.Printable(s.Dir), directory),
			ago(s.Started), attachedText(s), logText(s),
		})
	}
	return printTable(a.out, rows)
}

// beginning leaves of a command line what a table can show of it.
func beginning(argv []string) []string {
	const words, bytes = 40, 200
	out := make([]string, 0, min(len(argv), words))
	for _, arg := range argv[:min(len(argv), words)] {
		if len(arg) > bytes {
			arg = strings.ToValidUTF8(arg[:bytes], "")
		}
		out = append(out, arg)
	}
	return out
}

// wide are the widths of the two columns that may be long: less on a terminal
// that is narrow, so that a row stays one line.
func (a *app) wide() (command, directory int) {
	const others, most, least = 58, 40, 10 // columns of all others with usual contents
	if !isTerminal(a.out) {
		return most, most
	}
	columns, _, err := term.GetSize(int(a.out.Fd()))
	if err != nil || columns <= 0 {
		return most, most
	}
	each := max(least, min(most, (columns-others)/2))
	return each, each
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// stateText is the state, with what belongs to it.
func stateText(s wire.Info) string {
	switch {
	case s.State == session.Exited && s.Exit != nil && s.Exit.Signal != "":
		return s.Exit.Signal
	case s.State == session.Exited && s.Exit != nil:
		return fmt.Sprintf("exited %d", s.Exit.Code)
	case s.State == session.Running && s.Stopped:
		return "stopped"
	}
	return string(s.State)
}

func attachedText(s wire.Info) string {
	if s.Attached == 0 {
		return "-"
	}
	return fmt.Sprint(s.Attached)
}

func logText(s wire.Info) string {
	text := byteCount(s.LogBytes)
	if s.LogState != "ok" {
		text += " (" + s.LogState + ")"
	}
	if s.LostBytes > 0 {
		text += fmt.Sprintf(" (%d bytes missing)", s.LostBytes)
	}
	return text
}

// ago is a time as a distance from now; "?" for one that makes no sense.
func ago(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero() || d < -time.Minute || d > 100*365*24*time.Hour:
		return "?"
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}

func byteCount(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", max(n, 0))
	}
	value, suffix := float64(n)/unit, "KiB"
	for _, next := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, suffix = value/unit, next
	}
	return fmt.Sprintf("%.1f %s", value, suffix)
}

// shorten cuts a text to a number of columns. It looks at no more of the text
// than it shows, and at no rune twice: command lines may be very long.
func shorten(s string, columns int) string {
	width, fits := 0, 0
	for i, r := range s {
		width += vt.StringWidth(string(r))
		if width > columns {
			return s[:fits] + "…"
		}
		if width < columns {
			fits = i + utf8.RuneLen(r)
		}
	}
	return s
}

// printTable prints rows in columns that line up for wide characters too.
func printTable(w io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], vt.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-vt.StringWidth(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *app) statusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "status [--json] NAME",
		Short:             "Show all that is known of a session",
		Example:           "  agentmux status refactor",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			info, err := m.Status(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(a.out, struct {
					Schema int `json:"schema"`
					wire.Info
				}{listSchema, info})
			}
			return printTable(a.out, statusRows(info))
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func statusRows(s wire.Info) [][]string {
	rows := [][]string{
		{"name", session.Printable(s.Name)},
		{"id", string(s.ID)},
		{"state", stateText(s) + " (" + session.Printable(s.Evidence) + ")"},
		{"command", session.Quote(s.Command)},
		{"directory", session.Printable(s.Dir)},
		{"title", cmp.Or(session.Printable(s.Title), "-")},
		{"created", when(s.Created)},
		{"started", fmt.Sprintf("%s, run %d", when(s.Started), s.Run)},
		{"processes", fmt.Sprintf("agent %d, shim %d", s.AgentPID, s.ShimPID)},
		{"size", fmt.Sprintf("%dx%d", s.Size.Cols, s.Size.Rows)},
		{"attached", fmt.Sprint(s.Attached)},
		{"log", logText(s)},
	}
	if s.LastOutput != nil {
		rows = append(rows, []string{"last output", when(*s.LastOutput)})
	}
	if s.Ended != nil {
		rows = append(rows, []string{"ended", when(*s.Ended)})
	}
	if s.Stopped {
		rows = append(rows, []string{"stopped", fmt.Sprintf("the agent is stopped by a signal; 'agentmux kill --signal CONT %s' continues it", s.Name)})
	}
	for _, p := range s.Survivors {
		rows = append(rows, []string{"left over", fmt.Sprintf("process %d: %s", p.PID, session.Quote(p.Argv))})
	}
	return rows
}

// when is a time in the reader's zone, with its offset, and its distance.
func when(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.Local().Format("2006-01-02 15:04:05 -0700") + ", " + ago(t)
}

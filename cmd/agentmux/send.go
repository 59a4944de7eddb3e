package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"agentmux/session/client"
	"agentmux/session/wire"
)

func (a *app) sendCommand() *cobra.Command {
	var in wire.SendParams
	var file string
	cmd := &cobra.Command{
		Use:   "send [--enter] [--key K]... [--file F] NAME [TEXT]",
		Short: "Type at a session",
		Long: `Type at a session: the text, as a paste if the program has asked for pastes,
then the keys, then Enter. Whether the program did anything with it is not
checked: look with 'agentmux capture' or 'agentmux wait'.`,
		Example: `  agentmux send --enter refactor 'run the tests again'
  agentmux send --key ctrl-c refactor`,
		Args:              arguments(1, 2),
		ValidArgsFunction: a.completeNames(1),
		RunE: a.with(func(ctx context.Context, m *client.Mux, args []string) error {
			in.Name = args[0]
			if err := a.sendText(&in, file, args[1:]); err != nil {
				return err
			}
			_, err := m.Send(ctx, in)
			return err
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&in.Enter, "enter", false, "press Enter at the end")
	f.StringArrayVar(&in.Keys, "key", nil, "press a key: enter, tab, escape, up, f5, ctrl-c, alt-x …; may be repeated")
	f.StringVar(&file, "file", "", "read the text from a file, - for standard input")
	return cmd
}

// maxText is the most that send types, a little less than a shim takes as one
// piece.
const maxText = 8 << 20

// sendText fills in the text from the arguments or the file.
func (a *app) sendText(in *wire.SendParams, file string, args []string) error {
	if len(args) > 0 && file != "" {
		return usageError{errors.New("TEXT and --file exclude each other"), "give one of them"}
	}
	if len(args) > 0 {
		in.Text = args[0]
	}
	if file != "" {
		text, err := a.readText(file)
		if err != nil {
			return err
		}
		in.Text = text
	}
	if in.Text == "" && len(in.Keys) == 0 && !in.Enter {
		return usageError{errors.New("there is nothing to send"), "give TEXT, --file, --key or --enter"}
	}
	return nil
}

func (a *app) readText(file string) (string, error) {
	f := a.in
	if file != "-" {
		var err error
		if f, err = os.Open(file); err != nil {
			return "", fmt.Errorf("read the text: %w", err)
		}
		defer f.Close()
	}
	data, err := io.ReadAll(io.LimitReader(f, maxText+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the text: %w", err)
	case len(data) > maxText:
		return "", fmt.Errorf("read the text: it is larger than %d MiB", maxText>>20)
	case !utf8.Valid(data):
		return "", errors.New("read the text: it is not UTF-8")
	}
	return string(data), nil
}

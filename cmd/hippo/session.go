package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/session"
)

func newSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, fork, rewind and move saved sessions",
		Long: `List, fork, rewind and move sessions: texts with the state that a model was in behind them, as hippo read
and hippo generate --session leave them. A session is a file NAME.session of safetensors, for one model at one
precision, with checksums; docs/sessions.md tells what is in it and what a rewind costs.`,
		Example: `  hippo session list
  hippo session fork whales question
  hippo session export whales whales.session`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("found session %q, want session list, show, fork, rewind, export, import or rm",
					args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSessionList(), newSessionShow(), newSessionRewind(),
		filesCommand("fork NAME OTHER", "Make another session that goes on from the same place", 2,
			func(f session.Folder, key []byte, args []string) error { return f.Fork(args[0], args[1], key) }),
		filesCommand("export NAME FILE", "Copy a session to a file", 2,
			func(f session.Folder, _ []byte, args []string) error { return f.Export(args[0], args[1]) }),
		filesCommand("import FILE NAME", "Take a file over as a session", 2,
			func(f session.Folder, key []byte, args []string) error { return f.Import(args[1], args[0], key) }),
		filesCommand("rm NAME", "Remove a session", 1,
			func(f session.Folder, _ []byte, args []string) error { return f.Remove(args[0]) }))
	return cmd
}

// filesCommand is a command that needs no model.
func filesCommand(use, short string, args int, do func(session.Folder, []byte, []string) error) *cobra.Command {
	var sessions sessionsFlags
	cmd := &cobra.Command{Use: use, Short: short, Example: "  hippo session " + strings.ToLower(use),
		Args: wantArgs(args, args)}
	sessions.register(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		folder, key, err := sessions.open()
		if err != nil {
			return err
		}
		return do(folder, key, args)
	}
	return cmd
}

func newSessionList() *cobra.Command {
	var sessions sessionsFlags
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List sessions", Example: "  hippo session list", Args: wantArgs(0, 0)}
	sessions.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		folder, _, err := sessions.open()
		if err != nil {
			return err
		}
		list, err := folder.List()
		if err != nil {
			return err
		}
		var lines [][]string
		for _, e := range list {
			if asJSON {
				if err := json.NewEncoder(cmd.OutOrStdout()).Encode(e); err != nil {
					return err
				}
				continue
			}
			position := "unknown"
			if e.ID != "" {
				position = strconv.Itoa(e.Position)
			}
			lines = append(lines, []string{e.Name, position, orUnknown(e.Identity.Precision),
				orUnknown(e.Identity.Model), status.Bytes(uint64(e.Bytes)), e.Saved.Format("2006-01-02 15:04")})
		}
		if len(lines) == 0 {
			return nil
		}
		head := []string{"name", "tokens", "precision", "model", "size", "saved"}
		return status.Grid(cmd.OutOrStdout(), head, lines, false)
	}
	return cmd
}

func newSessionShow() *cobra.Command {
	var sessions sessionsFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Check a session, and show what is in it", Example: "  hippo session show whales",
		Args: wantArgs(1, 1),
	}
	sessions.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, key, err := sessions.open()
		if err != nil {
			return err
		}
		path, err := folder.Path(args[0])
		if err != nil {
			return err
		}
		info, err := session.Inspect(path, key)
		if err != nil {
			return err
		}
		info.Name = args[0]
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(info)
		}
		return printSession(cmd.OutOrStdout(), path, info)
	}
	return cmd
}

func printSession(out io.Writer, path string, info session.Info) error {
	fmt.Fprintf(out, "file       %s, %s, saved %s\n", path, status.Bytes(uint64(info.Bytes)),
		info.Saved.Format("2006-01-02 15:04:05"))
	fmt.Fprintf(out, "text       %d tokens, %d of them written\n", info.Position, info.Drawn)
	fmt.Fprintf(out, "model      %s, %s, tokenizer %s\n", info.Identity.Model, info.Identity.Precision,
		info.Identity.Tokenizer)
	if info.Origin.Session != "" {
		fmt.Fprintf(out, "fork       of %s at %d\n", info.Origin.Session, info.Origin.Position)
	}
	if info.Reply {
		fmt.Fprintln(out, `reply      not ended: hippo generate with the text "" goes on`)
	}
	fmt.Fprintf(out, "states     at %s\n", strings.Trim(fmt.Sprint(info.States), "[]"))
	for _, name := range slices.Sorted(maps.Keys(info.Marks)) {
		fmt.Fprintf(out, "mark       %q at %d\n", name, info.Marks[name])
	}
	return nil
}

// mustExist returns an error unless there is a session of a name.
func mustExist(store, name string) error {
	folder, err := session.OpenFolder(store)
	if err != nil {
		return err
	}
	path, err := folder.Path(name)
	if err == nil {
		_, err = os.Stat(path)
	}
	return err
}

// rewind goes back to a mark or, if there is none of that name, a position.
func rewind(ctx context.Context, s *hippo.Session, to string) (again int, err error) {
	if _, ok := s.Whole().MarkAt(to); ok {
		return s.RewindTo(ctx, to)
	}
	position, err := strconv.Atoi(to)
	if err != nil {
		return 0, fmt.Errorf("found %q, want a position or one of the marks %q", to,
			slices.Sorted(maps.Keys(s.Whole().Marks())))
	}
	return s.Rewind(ctx, position)
}

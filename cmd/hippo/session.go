package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/session"
)

func newSession() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "session",
		Short: "List, fork, rewind and move saved sessions",
		Long: `List, fork, rewind and move sessions: texts with the state of a model after them, which hippo read and
hippo generate --session save. A session is a file NAME.session of safetensors, for one model at one precision, with
checksums; docs/sessions.md describes what is in it and what a rewind costs.`,
		Example: `  hippo session list
  hippo session fork whales question
  hippo session export whales whales.session`,
	}
	list := sessionCommand("list", "List sessions", 0, func(cmd *cobra.Command, f session.Folder, _ []byte,
		_ []string) error {
		all, err := f.List()
		if err != nil {
			return err
		}
		return showList(cmd, all, printSessions)
	})
	jsonFlag(list, objectLine)
	one := sessionCommand("show NAME", "Check a session, and show what is in it", 1, showSession)
	jsonFlag(one, oneObject)
	cmd.AddCommand(list, one, newSessionRewind(),
		sessionCommand("fork NAME OTHER", "Copy a session, to continue both", 2,
			func(_ *cobra.Command, f session.Folder, key []byte, args []string) error {
				return f.Fork(args[0], args[1], key)
			}),
		sessionCommand("export NAME FILE", "Copy a session to a file, and sign it", 2,
			func(_ *cobra.Command, f session.Folder, key []byte, args []string) error {
				own, err := ownSigner()
				if err != nil {
					return err
				}
				return f.Export(args[0], args[1], session.FileOptions{Key: key, Signer: own})
			}),
		newSessionImport(), newSessionVerify(), newSessionSigner(),
		sessionCommand("rm NAME", "Remove a session", 1,
			func(_ *cobra.Command, f session.Folder, _ []byte, args []string) error { return f.Remove(args[0]) }))
	return cmd
}

// sessionCommand returns a command on sessions that needs no model.
func sessionCommand(use, short string, args int,
	run func(*cobra.Command, session.Folder, []byte, []string) error) *cobra.Command {
	var sessions sessionsFlags
	cmd := &cobra.Command{Use: use, Short: short, Example: "  hippo session " + strings.ToLower(use),
		Args: wantArgs(args, args)}
	sessions.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		folder, key, err := sessions.open()
		if err != nil {
			return err
		}
		return run(cmd, folder, key, args)
	}
	return cmd
}

func printSessions(out io.Writer, list []session.Info) error {
	var lines [][]string
	for _, e := range list {
		position := "unknown"
		if e.ID != "" {
			position = strconv.Itoa(e.Position)
		}
		lines = append(lines, []string{e.Name, position, inspect.OrUnknown(e.Identity.Precision),
			inspect.OrUnknown(e.Identity.Model), status.Bytes(e.Bytes), status.Minute(e.Saved)})
	}
	if len(lines) == 0 {
		return nil
	}
	return status.Grid(out, []string{"name", "tokens", "precision", "model", "size", "saved"}, lines, false)
}

func showSession(cmd *cobra.Command, folder session.Folder, key []byte, args []string) error {
	path, err := folder.Path(args[0])
	if err != nil {
		return err
	}
	info, err := session.Inspect(path, key)
	if err != nil {
		return err
	}
	info.Name = args[0]
	return show(cmd, info, func(out io.Writer) error {
		t := status.NewTable(out)
		t.Row("file", "%s, %s, saved %s", path, status.Bytes(info.Bytes), info.Saved.Format("2006-01-02 15:04:05"))
		t.Row("text", "%d tokens, %d of them written", info.Position, info.Drawn)
		t.Row("model", "%s, %s, tokenizer %s", info.Identity.Model, info.Identity.Precision, info.Identity.Tokenizer)
		if info.Origin.Session != "" {
			t.Row("fork", "of %s at %d", info.Origin.Session, info.Origin.Position)
		}
		if info.Reply {
			t.Row("reply", `unfinished: hippo generate with the text "" continues it`)
		}
		t.Row("states", "at %s", strings.Trim(fmt.Sprint(info.States), "[]"))
		for _, name := range slices.Sorted(maps.Keys(info.Marks)) {
			t.Row("mark", "%q at %d", name, info.Marks[name])
		}
		return t.Flush()
	})
}

func newSessionRewind() *cobra.Command {
	var sessions sessionsFlags
	var precision, states string
	cmd := &cobra.Command{
		Use:   "rewind DIR NAME MARK|POSITION",
		Short: "Go back to a mark or a position",
		Long: `Go back in the session NAME, of the model in DIR, to a mark or to a position in tokens. What came after
is lost: to keep it, fork the session before. Tokens after the nearest saved state are read again; their number is
printed.`,
		Example: "  hippo session rewind models/h3 whales chapter1.txt",
		Args:    wantArgs(3, 3),
	}
	sessions.register(cmd)
	cmd.Flags().StringVar(&precision, "precision", "float32", "precision of the session")
	statesFlag(cmd, &states)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := modelPath(args[0])
		if err != nil {
			return err
		}
		m, err := hippo.Load(dir, hippo.Precision(precision), hippo.StatePrecision(states))
		if err != nil {
			return err
		}
		folder, _, err := sessions.open()
		if err != nil {
			return err
		}
		path, err := folder.Path(args[1])
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return err
		}
		n, err := sessions.take(m, args[1], 0)
		if err != nil {
			return err
		}
		again, err := rewind(cmd.Context(), n.Session, args[2])
		if err != nil {
			return errors.Join(err, n.lock.Release())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is at %d, %d tokens read again\n", args[1], n.Position(), again)
		return n.give(nil)
	}
	return cmd
}

// rewind rewinds the session to the mark named to or, if there is no such mark, to the position to.
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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func newRead() *cobra.Command {
	var r reading
	cmd := &cobra.Command{
		Use:   "read DIR NAME FILE...",
		Short: "Read documents into a session, to ask from later",
		Long: `Read text files with the model in DIR into the session NAME, one after another, behind what it has read
before. hippo generate DIR "a question" --session NAME then goes on from there, as often as wanted, without reading them
again; hippo session fork NAME OTHER asks without changing NAME.

The session is saved on the way. After Ctrl-C, or if the process is killed, the same command reads only the rest. A file
that has been read as it is now is not read again. Behind each file stands a mark of its name.`,
		Example: `  hippo read models/h3 whales chapter1.txt chapter2.txt
  hippo session fork whales question
  hippo generate models/h3 "Who is Ishmael?" --session question`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 3 {
				return fmt.Errorf("found %d arguments, want DIR NAME FILE", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeArgs(completeFolders),
	}
	r.sessions.register(cmd)
	cmd.Flags().StringVar(&r.precision, "precision", "float32",
		"weights as float32, bf16 or int8: faster with fewer bits, less exact")
	completeFlag(cmd, "precision", cobra.FixedCompletions(precisions, cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().DurationVar(&r.every, "save_every", 30*time.Second, "how much work a crash may cost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := loadModel(args[0], "", hippo.Precision(r.precision))
		if err != nil {
			return err
		}
		if r.n, err = r.sessions.take(m, args[1], 0); err != nil {
			return err
		}
		for _, path := range args[2:] {
			if err = r.file(cmd.Context(), m, path); err != nil {
				break
			}
		}
		return r.n.give(err)
	}
	return cmd
}

// reading is files being read into a session.
type reading struct {
	sessions  sessionsFlags
	precision string
	every     time.Duration
	n         *named
	saved     time.Time
}

// readingMark is the mark before a file that has not been read to its end.
func readingMark(name string) string { return "reading " + name }

// file reads a file, or what is left of it.
func (r *reading) file(ctx context.Context, m *hippo.Model, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var ids []int32
	err = tokenizer.EncodeReader(m.Tokenizer(), f, func(more []int32) error {
		ids = append(ids, more...)
		return ctx.Err()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	s, name := r.n.Whole(), filepath.Base(path)
	if end, ok := s.MarkAt(name); ok && end >= len(ids) && slices.Equal(s.IDs()[end-len(ids):end], ids) {
		fmt.Fprintf(os.Stderr, "%s has been read\n", path)
		return nil
	}
	start, begun := s.MarkAt(readingMark(name))
	if begun && !isPrefix(s.IDs()[start:], ids) {
		return fmt.Errorf("%s: found another text than the one that session %s has begun to read; hippo session "+
			"rewind goes back to the mark %q", path, r.n.held.Name, readingMark(name))
	}
	if !begun {
		start = s.Position()
		s.Mark(readingMark(name))
	}
	if err := r.ids(ctx, ids, start); err != nil {
		return err
	}
	s.Mark(name)
	s.Unmark(readingMark(name))
	return r.n.save()
}

func isPrefix(part, all []int32) bool {
	return len(part) <= len(all) && slices.Equal(part, all[:len(part)])
}

// ids reads the ids of a file that begins at a position, and saves the session from time to time. That it reads them in
// several calls leaves no trace: they end at multiples of the chunk.
func (r *reading) ids(ctx context.Context, ids []int32, start int) error {
	const pieces = 8
	s := r.n.Whole()
	p := newProgress("reading")
	defer p.close()
	r.saved = time.Now()
	for s.Position() < start+len(ids) {
		at := s.Position()
		end := min(start+len(ids), (at/s.Chunk()+pieces)*s.Chunk())
		err := s.Append(ctx, ids[at-start:end-start])
		p.update(s.Position()-start, len(ids))
		if err != nil {
			return err
		}
		if time.Since(r.saved) >= r.every {
			if err := r.n.save(); err != nil {
				return err
			}
			r.saved = time.Now()
		}
	}
	return nil
}

// newSessionRewind is hippo session rewind.
func newSessionRewind() *cobra.Command {
	var sessions sessionsFlags
	var precision string
	cmd := &cobra.Command{
		Use:   "rewind DIR NAME MARK|POSITION",
		Short: "Go back to a mark or a position",
		Long: `Go back in the session NAME, of the model in DIR, to a mark or to a position in tokens. What was behind
is gone: fork the session before, to keep it. What has to be read again is read from the nearest state in the file, and
told.`,
		Example: "  hippo session rewind models/h3 whales chapter1.txt",
		Args:    wantArgs(3, 3),
	}
	sessions.register(cmd)
	cmd.Flags().StringVar(&precision, "precision", "float32", "that of the session")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := modelPath(args[0])
		if err != nil {
			return err
		}
		m, err := hippo.Load(dir, hippo.Precision(precision))
		if err != nil {
			return err
		}
		if err := mustExist(sessions.store, args[1]); err != nil {
			return err
		}
		n, err := sessions.take(m, args[1], 0)
		if err != nil {
			return err
		}
		again, err := rewind(cmd.Context(), n.Session, args[2])
		if err != nil {
			return errors.Join(err, n.held.Release())
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is at %d, %d tokens read again\n", args[1], n.Position(), again)
		return n.give(nil)
	}
	return cmd
}

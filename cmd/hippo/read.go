package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/session"
)

func newRead() *cobra.Command {
	var sessions sessionsFlags
	var precision string
	r := session.FileReader{}
	cmd := &cobra.Command{
		Use:   "read DIR NAME FILE...",
		Short: "Read documents into a session, to ask about later",
		Long: `Read text files with the model in DIR into the session NAME, one after another, after what it has read
before. hippo generate DIR "a question" --session NAME then continues from there, as often as you like, without reading
them again; hippo session fork NAME OTHER asks without changing NAME.

The session is saved on the way. After Ctrl-C, or if the process is killed, the same command reads only the rest. A file
that was read and has not changed is not read again. After each file stands a mark of its name.`,
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
	sessions.register(cmd)
	precisionFlag(cmd, &precision, "float32")
	cmd.Flags().DurationVar(&r.Every, "save_every", 30*time.Second, "how much work a crash may cost")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := loadModel(args[0], "", hippo.Precision(precision))
		if err != nil {
			return err
		}
		n, err := sessions.take(m, args[1], 0)
		if err != nil {
			return err
		}
		r.Session, r.Save = n.Whole(), n.save
		for _, path := range args[2:] {
			if err = readFile(cmd, &r, m, path); err != nil {
				break
			}
		}
		return n.give(err)
	}
	return cmd
}

// readFile reads a file into a session.
func readFile(cmd *cobra.Command, r *session.FileReader, m *hippo.Model, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	p := newProgress("reading")
	defer p.close()
	r.Progress = p.update
	old, err := r.Read(cmd.Context(), m.Tokenizer(), filepath.Base(path), f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old {
		fmt.Fprintf(os.Stderr, "%s has been read\n", path)
	}
	return nil
}

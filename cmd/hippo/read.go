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
	var precision, states string
	var into readLibrary
	r := session.FileReader{}
	cmd := &cobra.Command{
		Use:   "read DIR NAME FILE...",
		Short: "Read documents into a session, to ask about later",
		Long: `Read text files with the model in DIR into the session NAME, one after another, after what it has read
before. hippo generate DIR "a question" --session NAME then continues from there, as often as you like, without reading
them again; hippo session fork NAME OTHER asks without changing NAME.

The session is saved on the way. After Ctrl-C, or if the process is killed, the same command reads only the rest. A file
that was read and has not changed is not read again. After each file stands a mark of its name.

hippo read DIR FILE... --library LIBRARY reads each file into a library instead, as a text of its own, or all of them as
one text of a --name: hippo serve --library LIBRARY mounts the texts by their names into any conversation
("mount": ["handbook"]), without reading them again. They are UTF-8. hippo session list --store LIBRARY lists them, and
hippo session rm NAME --store LIBRARY removes one.`,
		Example: `  hippo read models/h3 whales chapter1.txt chapter2.txt
  hippo session fork whales question
  hippo generate models/h3 "Who is Ishmael?" --session question
  hippo read models/h3 handbook.txt --library texts
  hippo read models/h3 chapter1.txt chapter2.txt --library texts --name whales`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case into.dir == "" && into.name != "":
				return fmt.Errorf("name: found %q without --library, want both", into.name)
			case into.dir != "" && len(args) < 2:
				return fmt.Errorf("found %d arguments, want DIR FILE", len(args))
			case into.dir == "" && len(args) < 3:
				return fmt.Errorf("found %d arguments, want DIR NAME FILE", len(args))
			}
			return nil
		},
		ValidArgsFunction: completeArgs(completeFolders),
	}
	sessions.register(cmd)
	precisionFlag(cmd, &precision, "float32")
	statesFlag(cmd, &states)
	cmd.Flags().DurationVar(&r.Every, "save_every", 30*time.Second, "how much work a crash may cost")
	cmd.Flags().StringVar(&into.dir, "library", "", "folder of a library to read texts into, at the precision stored")
	cmd.Flags().StringVar(&into.name, "name", "", "name of all files as one text of the library; empty: one text each")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if into.dir != "" {
			if !cmd.Flags().Changed("precision") { // the default of hippo serve
				precision = hippo.Stored
			}
			return into.run(cmd, args[0], args[1:], &r, hippo.Precision(precision), hippo.StatePrecision(states))
		}
		m, err := loadModel(args[0], "", hippo.Precision(precision), hippo.StatePrecision(states))
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

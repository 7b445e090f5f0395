package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/disk"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "explain VIEW",
		Short:   "See what a state-space model is, what it has learned, and what it remembers",
		Example: `  hippo explain lens runs/tiny "Call me Ishmael" --out lens.json`,
	}
	cmd.AddCommand(newExplainLens(), newExplainPaths(), newExplainSurprise(), newExplainCompare())
	return cmd
}

// explainOutput is where an explanation goes.
type explainOutput struct{ paths []string }

func (o *explainOutput) register(cmd *cobra.Command, name string) {
	cmd.Flags().StringArrayVar(&o.paths, "out", []string{name + ".json"}, "file to write; - for standard output")
}

func (o *explainOutput) check() error { return nil }

// write writes a page to all places.
func (o *explainOutput) write(cmd *cobra.Command, p *figure.Page) error {
	for _, path := range o.paths {
		if path == "-" {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(p); err != nil {
				return err
			}
			continue
		}
		if err := disk.WriteFile(path, func(w io.Writer) error { return json.NewEncoder(w).Encode(p) }); err != nil {
			return err
		}
	}
	return nil
}

// explainTextFlag adds the flag that explainText reads.
func explainTextFlag(cmd *cobra.Command) {
	cmd.Flags().String("file", "", "file with the text, instead of TEXT")
}

// explainText is the text that a view is about.
func explainText(cmd *cobra.Command, args []string) (string, error) {
	if file := cmd.Flags().Lookup("file").Value.String(); file != "" {
		text, err := os.ReadFile(file)
		return string(text), err
	}
	if len(args) == 0 {
		return "", errors.New("found no text, want one behind the model, - for standard input, or --file FILE")
	}
	if args[0] == "-" {
		text, err := io.ReadAll(cmd.InOrStdin())
		return string(text), err
	}
	return args[0], nil
}

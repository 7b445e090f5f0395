package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/disk"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain VIEW",
		Short: "See what a state-space model is, what it has learned, and what it remembers",
		Long:  `Make pictures of the mathematics of state spaces.`,
		Example: `  hippo explain ssm convolution
  hippo explain ssm recall "a 1 b 2 a"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExplainSSM())
	return cmd
}

// explainOutput is where an explanation goes.
type explainOutput struct {
	paths []string // of files to write; "-" is standard output
	name  string
	frame int
}

// register adds the flags of an explanation whose file has a name of its own.
func (o *explainOutput) register(cmd *cobra.Command, name string) {
	o.name = name
	cmd.Flags().StringArrayVar(&o.paths, "out", nil,
		"file to write as JSON, several times for several; - for standard output (default "+name+".json)")
	cmd.Flags().IntVar(&o.frame, "frame", 0, "which frame PNG and SVG show of figures that move, counted from 0")
}

// check says what is wrong with the flags. A view that computes for long calls it first.
func (o *explainOutput) check() error { return nil }

// write writes a page to all places.
func (o *explainOutput) write(cmd *cobra.Command, p *figure.Page) error {
	paths := o.paths
	if len(paths) == 0 {
		paths = []string{o.name + ".json"}
	}
	for _, path := range paths {
		if path == "-" {
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(p); err != nil {
				return err
			}
			continue
		}
		for _, f := range p.Figures {
			to := path
			if ext := filepath.Ext(path); ext == ".svg" || ext == ".png" {
				to = strings.TrimSuffix(path, ext) + "-" + f.Name + ext
			}
			err := disk.WriteFile(to, func(w io.Writer) error { return json.NewEncoder(w).Encode(p) })
			if err != nil {
				return err
			}
			cmd.PrintErrf("written: %s\n", to)
			if to == path {
				break
			}
		}
	}
	return nil
}

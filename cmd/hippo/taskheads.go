package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/heads"
	"github.com/hippo-ssm/hippo/internal/config"
)

func newTaskHeads() *cobra.Command {
	opt := heads.DefaultOptions()
	var top int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "heads DIR",
		Short: "Score how much of an induction head each head of a model is",
		Long: `Show the model in DIR, the folder of a task's run, a training run or a model, strings of random tokens
that are said several times over, and score its attention and H3 heads as "In-context Learning and Induction Heads" does
(arXiv:2209.11895), between 0 and 1:

  prefix   the share of what a head reads that stands behind an earlier place of the token that it is at
  copying  the share of what it raises among the string's tokens that goes to the token that it reads

An induction head has both near 1. What a head of H3 reads is told by the matrix that maps its values to its outputs; of
many heads of one channel each, the line of the layer says more. --at asks only where some tokens stand, such as the
trigger of the task induction: 19, the last of its 20 symbols. No other symbol says there what comes next.`,
		Example: `  hippo task heads runs/task/recall/h3-seed1
  hippo task heads runs/task/induction/attention-seed1 --at 19
  hippo task heads models/h3-125m --strings 2 --top 3`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	config.Register(cmd.Flags(), &opt)
	cmd.Flags().IntVar(&top, "top", 3, "heads of each layer to print, those of the highest prefix score; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print all scores as one JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		if top < 0 {
			return fmt.Errorf("top: found %d, want 0 or more", top)
		}
		g, _, err := languageNamed(args[0])
		if err != nil {
			return err
		}
		r, err := heads.Of(cmd.Context(), g, opt)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		}
		return printHeads(cmd.OutOrStdout(), r, top)
	}
	return cmd
}

// printHeads prints a line for each layer and for the heads of its highest prefix scores.
func printHeads(out io.Writer, r *heads.Report, top int) error {
	o := r.Options
	fmt.Fprintf(out,
		"%d strings of %d tokens, each said %d times; reading all alike has a prefix of %.3f, raising all alike a "+
			"copying of %.3f\n\n", o.Strings, o.Tokens, o.Repeats, r.Chance, 1/float64(o.Tokens))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "layer\tmixer\thead\tprefix\tcopying\t\n")
	for _, scores := range r.Layers() {
		whole, heads := scores[0], scores[1:]
		fmt.Fprintf(w, "%d\t%s\tall %d\t%.3f\t%.3f\t\n", whole.Layer, whole.Mixer, len(heads), whole.Prefix,
			whole.Copying)
		if top > 0 {
			heads = heads[:min(top, len(heads))]
		}
		for _, s := range heads {
			fmt.Fprintf(w, "\t\t%d\t%.3f\t%.3f\t\n", s.Head, s.Prefix, s.Copying)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Without) > 0 {
		fmt.Fprintf(out, "\nlayers without heads: %v\n", r.Without)
	}
	return nil
}

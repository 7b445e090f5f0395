package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/heads"
)

func newTaskHeads() *cobra.Command {
	opt := heads.DefaultOptions()
	var top int
	cmd := &cobra.Command{
		Use:   "heads DIR",
		Short: "Score how much each head of a model is an induction head",
		Long: `Let the model in DIR, the folder of a task's run, a training run or a model, read strings of random
tokens that are repeated several times. Score its attention and H3 heads as "In-context Learning and Induction Heads"
does (arXiv:2209.11895), between 0 and 1:

  prefix   the share of what a head reads that stands after an earlier occurrence of its token
  copying  the share of what it raises among the string's tokens that goes to the token that it reads

An induction head has both near 1. The matrix that maps values to outputs shows what a head of H3 reads; for many heads
of one channel each, the line of the layer is more reliable. --at scores only positions of some tokens, such as the
trigger of the task induction: 19, the last of its 20 symbols. No other symbol announces what comes next.`,
		Example: `  hippo task heads runs/task/recall/h3-seed1
  hippo task heads runs/task/induction/attention-seed1 --at 19
  hippo task heads models/h3-125m --strings 2 --top 3`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	cmd.Flags().IntVar(&top, "top", 3, "heads of each layer to print, those of the highest prefix score; 0 for all")
	jsonFlag(cmd, "print the scores of all layers (head -1) and heads as JSON objects, one a line")
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
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
		var all []headScore
		for _, s := range r.Scores {
			all = append(all, headScore{args[0], r.Chance, s})
		}
		return showList(cmd, all, func(out io.Writer, _ []headScore) error { return printHeads(out, r, top) })
	})
}

// headScore is a line of JSON: the scores of a head of a model.
type headScore struct {
	Model  string  `json:"model"`
	Chance float64 `json:"chance"` // prefix score of a head that reads all positions so far equally
	heads.Score
}

// printHeads prints a line for each layer and one for each of the heads with the highest prefix scores.
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

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release"
)

// errWeightsDiffer ends hippo diff with status 1. Nothing more is printed.
var errWeightsDiffer = errors.New("the weights differ")

func newDiff() *cobra.Command {
	var out explainOutput
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two models: their weights in numbers, or what moved in pictures",
		Long: `Compare the weights at A and at B, each a model's or a run's folder, the file of a checkpoint (.pt,
.ckpt, .safetensors, .gguf) or the name of a published model. Print tensors that only one has, shapes and types that
differ, and the largest difference of values, absolute and relative to the largest magnitude of the tensor in A. Models
are compared by parameters, whatever their layouts; other files by the names of their tensors. The exit status is 0 if
the weights are the same, 1 if they differ, 2 after an error.

With --open or --out draw what moved between two models, checkpoints or runs instead: how far and by which angle each
parameter, by layer and kind; poles, steps dt, time constants and kernels before and after; the losses of both, if both
are folders of runs; and, with --text or --file, where the predictions differ. The exit status is then 0.`,
		Example: `  hippo diff runs/book/best runs/book/last
  hippo diff org/name models/mine
  hippo diff a.safetensors b.safetensors --json
  hippo diff runs/tiny/last runs/tiny/best --open
  hippo diff models/h3-125m runs/tuned --text "Call me Ishmael." --out moved.html`,
		Annotations:       map[string]string{errorStatus: "2"},
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFiles(checkpoint.Endings...), completeFiles(checkpoint.Endings...)),
	}
	jsonFlag(cmd, oneObject)
	out.register(cmd, "diff")
	explainTextFlags(cmd, 512)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		pictures := slices.ContainsFunc([]string{"out", "open", "frame", "text", "file", "tokens"}, cmd.Flags().Changed)
		switch {
		case pictures && asJSON(cmd):
			return errors.New("found --json together with a flag of the pictures, want one of them; the numbers of " +
				"the pictures are in --out FILE.json")
		case pictures:
			return out.draw(cmd, args, movedPage)
		}
		var paths [2]string
		for i, name := range args {
			var err error
			if paths[i], err = modelOrFile(name); err != nil {
				return err
			}
		}
		d, a, b, err := release.Compare(paths[0], paths[1])
		if err != nil {
			return err
		}
		err = show(cmd, d, func(out io.Writer) error { return printDiff(out, d, a, b) })
		if err == nil && !d.Equal() {
			err = errWeightsDiffer
		}
		return err
	}
	return cmd
}

// printDiff prints the differences, the largest relative ones first.
func printDiff(out io.Writer, d release.Diff, a, b string) error {
	t := status.NewTable(out)
	t.Row("A", "%s", a)
	t.Row("B", "%s", b)
	t.Row("same", "%d tensors", d.Same)
	t.Row("different", "%d tensors", len(d.Other))
	for i, names := range [][]string{d.OnlyA, d.OnlyB} {
		if len(names) > 0 {
			t.Row(fmt.Sprintf("only in %c", 'A'+i), "%d tensors: %s", len(names), brief.List(names, ", "))
		}
	}
	if d.Largest >= 0 {
		x := d.Other[d.Largest]
		t.Row("largest", "in %s: %s, relative %s, in %s at element %d: %v and %v", brief.Line(x.Layer),
			offText(x.Max), offText(x.Relative), brief.Line(x.Name), x.At, float64(x.A), float64(x.B))
	}
	if err := t.Flush(); err != nil || len(d.Other) == 0 {
		return err
	}
	slices.SortStableFunc(d.Other, func(x, y release.TensorDiff) int { return cmp.Compare(y.Relative, x.Relative) })
	var lines [][]string
	for _, x := range d.Other[:min(len(d.Other), brief.MaxItems)] {
		line := []string{brief.Line(x.Name), both(fmt.Sprint(x.ShapeA), fmt.Sprint(x.ShapeB)),
			both(string(x.TypeA), string(x.TypeB))}
		if x.SameShape() {
			line = append(line, fmt.Sprint(x.Count), offText(x.Max), offText(x.Relative))
		}
		lines = append(lines, line)
	}
	fmt.Fprintln(out)
	head := []string{"tensor", "shape", "type", "elements that differ", "largest difference", "relative"}
	if err := status.Grid(out, head, lines, false); err != nil {
		return err
	}
	if more := len(d.Other) - len(lines); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	return nil
}

// both returns a text with two values, or with one if they are equal.
func both(a, b string) string {
	if a == b {
		return a
	}
	return a + " / " + b
}

// offText formats a difference.
func offText(x float64) string {
	if x == release.NotFinite {
		return "not finite"
	}
	return fmt.Sprintf("%.3g", x)
}

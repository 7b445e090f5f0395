package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release"
)

// errWeightsDiffer ends hippo diff with status 1. Nothing more is printed.
var errWeightsDiffer = errors.New("the weights differ")

func newDiff() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare the weights of two models",
		Long: `Compare the weights at A and at B, each a model's or a run's folder, the file of a checkpoint (.pt,
.ckpt, .safetensors, .gguf) or the name of a published model: tensors that only one has, shapes and types that differ,
and of values the largest difference, absolute and relative to the largest magnitude of the tensor in A. Models that are
read are compared by parameters, whatever layouts they have; other files by the names of their tensors. The exit status
is 0 where the weights are the same, 1 where they differ, 2 after an error.`,
		Example: `  hippo diff runs/book/best runs/book/last
  hippo diff org/name models/mine
  hippo diff a.safetensors b.safetensors --json`,
		Annotations:       map[string]string{errorStatus: "2"},
		Args:              wantArgs(2, 2),
		ValidArgsFunction: completeArgs(completeFiles(checkpoint.Endings...), completeFiles(checkpoint.Endings...)),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
		if asJSON {
			err = json.NewEncoder(cmd.OutOrStdout()).Encode(d)
		} else {
			err = printDiff(cmd.OutOrStdout(), d, a, b)
		}
		if err == nil && !d.Equal() {
			err = errWeightsDiffer
		}
		return err
	}
	return cmd
}

// printDiff prints what differs: the largest relative differences first.
func printDiff(out io.Writer, d release.Diff, a, b string) error {
	t := status.NewTable(out)
	t.Row("A", "%s", a)
	t.Row("B", "%s", b)
	t.Row("same", "%d tensors", d.Same)
	t.Row("different", "%d tensors", len(d.Other))
	for _, only := range []struct {
		name  string
		names []string
	}{{"only in A", d.OnlyA}, {"only in B", d.OnlyB}} {
		if len(only.names) > 0 {
			t.Row(only.name, "%d tensors: %s", len(only.names), brief.List(only.names, ", "))
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

// both names two values, once where they are the same.
func both(a, b string) string {
	if a == b {
		return a
	}
	return strings.Join([]string{a, b}, " / ")
}

// offText is a difference as text.
func offText(x float64) string {
	if x == release.NotFinite {
		return "not finite"
	}
	return fmt.Sprintf("%.3g", x)
}

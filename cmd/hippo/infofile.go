package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/release"
)

// infoOfFile describes a checkpoint: its tensors, and the model that hippo convert would make of it.
func infoOfFile(cmd *cobra.Command, path string) error {
	f, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	t := newTable(cmd.OutOrStdout())
	format := f.Format()
	if f.Root() != "" {
		format += ", " + f.Root()
	}
	t.row("file", "%s, %s, %s", path, format, status.Bytes(uint64(f.Size())))
	numbers, kinds := 0, map[checkpoint.DType]int{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		numbers += x.Elements()
		kinds[x.DType]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%d of %s", kinds[kind], kind))
	}
	t.row("tensors", "%d with %s numbers (%d): %s", len(f.Names()), status.Count(float64(numbers)), numbers,
		strings.Join(parts, ", "))
	m, config, err := release.DescribeCheckpoint(f, release.ShapeOptions{})
	if err != nil {
		t.row("model", "none that is read: %v", brief.Line(err.Error()))
	} else {
		if config == "" {
			config = "the tensors"
		}
		t.row("model", "as %s tells", config)
		describeModel(t, m)
	}
	if f.Format() == checkpoint.FormatGGUF {
		describeGGUF(t, path)
	}
	if err := t.flush(); err != nil {
		return err
	}
	var lines [][]string
	for _, name := range f.Names()[:min(len(f.Names()), brief.MaxItems)] {
		x, _ := f.Tensor(name)
		lines = append(lines, []string{brief.Line(name), string(x.DType), fmt.Sprint(x.Shape),
			status.Bytes(uint64(len(x.Data)))})
	}
	fmt.Fprintln(cmd.OutOrStdout())
	if err := printGrid(cmd.OutOrStdout(), []string{"tensor", "kind", "shape", "size"}, lines, false); err != nil {
		return err
	}
	if more := len(f.Names()) - len(lines); more > 0 {
		fmt.Fprintf(cmd.OutOrStdout(), "and %d more\n", more)
	}
	return nil
}

// infoOfTask describes the run of a task in a folder, if there is one: its network, its task and its score.
func infoOfTask(cmd *cobra.Command, dir string) (done bool, err error) {
	m, err := model.FindNetwork(dir)
	if m == nil || err != nil {
		return false, err
	}
	t := newTable(cmd.OutOrStdout())
	c := &m.Config
	kinds := make([]string, len(m.Blocks))
	for i, b := range m.Blocks {
		kinds[i] = b.Kind
	}
	t.row("network", "%s", dir)
	t.row("layers", "%d: %s", len(kinds), compact(kinds))
	in, out := fmt.Sprintf("%d tokens", c.Vocab), fmt.Sprintf("%d outputs for a sequence (%s)", c.Outputs, c.Pool)
	if c.Vocab == 0 {
		in = fmt.Sprintf("%d numbers a position", c.Channels)
	}
	if c.Everywhere {
		out = fmt.Sprintf("%d outputs a position", c.Outputs)
	}
	t.row("shape", "%s, d_model %d, d_inner %d, d_state %d, %s", in, c.Model.DModel, c.Model.Inner(), c.Model.DState,
		out)
	t.row("parameters", "%s (%d)", status.Count(float64(m.NumParams())), m.NumParams())
	r, err := experiment.ReadResult(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		t.row("task", "no %s in the folder: the run has not ended, or this is its network alone", experiment.ResultFile)
	case err != nil:
		return true, err
	default:
		describeResult(t, r, dir)
	}
	return true, t.flush()
}

func describeResult(t table, r *experiment.Result, dir string) {
	t.row("task", "%s, recipe %s, seed %d", r.Task, r.Recipe, r.Seed)
	t.row("score", "%s, of %d", experiment.ScoreText(r.Test, r.Numbers), r.Test.Count)
	for _, x := range r.Extra {
		t.row(x.Name, "%s, of %d", experiment.ScoreText(x.Score, r.Numbers), x.Count)
	}
	t.row("training", "%.1f epochs, %d updates, %s; %s", r.Epochs, r.Steps, status.Duration(seconds(r.TrainSeconds)),
		r.Date)
	if report := filepath.Join(dir, experiment.ReportFile); exists(report) {
		t.row("report", "%s", report)
	}
}

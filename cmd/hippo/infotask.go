package main

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/status"
)

// printTask describes the run of a task: its network, its task and its score.
func (r *infoReport) printTask(t table) {
	m := r.network
	c := &m.Config
	kinds := make([]string, len(m.Blocks))
	for i, b := range m.Blocks {
		kinds[i] = b.Kind
	}
	t.row("network", "%s", r.Path)
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
	if r.Task == nil {
		t.row("task", "no %s in the folder: the run has not ended, or this is its network alone", experiment.ResultFile)
	} else {
		describeResult(t, r.Task, r.Path)
	}
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

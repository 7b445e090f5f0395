package inspect

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// printTask describes the run of a task: its network, its task and its score.
func (r *Report) printTask(t status.Table) {
	m := r.network
	c := &m.Config
	kinds := make([]string, len(m.Blocks))
	for i, b := range m.Blocks {
		kinds[i] = b.Kind
	}
	t.Row("network", "%s", r.Path)
	t.Row("layers", "%d: %s", len(kinds), compact(kinds))
	in, out := fmt.Sprintf("%d tokens", c.Vocab), fmt.Sprintf("%d outputs for a sequence (%s)", c.Outputs, c.Pool)
	if c.Vocab == 0 {
		in = fmt.Sprintf("%d numbers a position", c.Channels)
	}
	if c.Everywhere {
		out = fmt.Sprintf("%d outputs a position", c.Outputs)
	}
	t.Row("shape", "%s, d_model %d, d_inner %d, d_state %d, %s", in, c.Model.DModel, c.Model.Inner(), c.Model.DState,
		out)
	t.Row("parameters", "%s (%d)", status.Count(float64(m.NumParams())), m.NumParams())
	if r.Task == nil {
		t.Row("task", "no %s in the folder: the run has not ended, or this is its network alone", experiment.ResultFile)
	} else {
		describeResult(t, r.Task, r.Path)
	}
}

func describeResult(t status.Table, r *experiment.Result, dir string) {
	t.Row("task", "%s, recipe %s, seed %d", r.Task, r.Recipe, r.Seed)
	t.Row("score", "%s, of %d", experiment.ScoreText(r.Test, r.Numbers), r.Test.Count)
	for _, x := range r.Extra {
		t.Row(x.Name, "%s, of %d", experiment.ScoreText(x.Score, r.Numbers), x.Count)
	}
	took := status.Duration(experiment.Seconds(r.TrainSeconds))
	t.Row("training", "%.1f epochs, %d updates, %s; %s", r.Epochs, r.Steps, took, r.Date)
	if report := filepath.Join(dir, experiment.ReportFile); disk.Exists(report) {
		t.Row("report", "%s", report)
	}
}

package inspect

import (
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
)

// printNetwork adds the network of a run to a table.
func (r *Report) printNetwork(t status.Table) {
	m, c := r.network, &r.network.Config
	in, out := fmt.Sprintf("%d tokens", c.Vocab), fmt.Sprintf("%d outputs for a sequence (%s)", c.Outputs, c.Pool)
	if c.Vocab == 0 {
		in = fmt.Sprintf("%d numbers a position", c.Channels)
	}
	if c.Everywhere {
		out = fmt.Sprintf("%d outputs a position", c.Outputs)
	}
	t.Row("network", "%s", r.Path)
	t.Row("layers", "%d: %s", len(m.Blocks), compact(kinds(m.Blocks)))
	t.Row("shape", "%s, d_model %d, d_inner %d, d_state %d, %s", in, c.Model.DModel, c.Model.Inner(), c.Model.DState,
		out)
	t.Row("parameters", "%s (%d)", status.Count(m.NumParams()), m.NumParams())
}

// printFit adds the network of a run of hippo fit or hippo forecast to a table. The run's result prints the rest.
func (r *Report) printFit(t status.Table) {
	r.printNetwork(t)
	if r.Fit == nil {
		t.Row("note", "no %s in the folder: the run has not ended, or only its network is here; hippo predict %s DATA "+
			"predicts rows", fit.ResultFile, r.Path)
	}
}

// printTask adds the run of a task to a table: its network, its task and its score.
func (r *Report) printTask(t status.Table) {
	r.printNetwork(t)
	x := r.Task
	if x == nil {
		t.Row("task", "no %s in the folder: the run has not ended, or only its network is here", experiment.ResultFile)
		return
	}
	t.Row("task", "%s, recipe %s, seed %d", x.Task, x.Recipe, x.Seed)
	t.Row("score", "%s, of %d", experiment.ScoreText(x.Test, x.Numbers), x.Test.Count)
	for _, e := range x.Extra {
		t.Row(e.Name, "%s, of %d", experiment.ScoreText(e.Score, x.Numbers), e.Count)
	}
	t.Row("training", "%.1f epochs, %d updates, %s; %s", x.Epochs, x.Steps,
		status.Duration(experiment.Seconds(x.TrainSeconds)), x.Date)
	if report := filepath.Join(r.Path, experiment.ReportFile); disk.Exists(report) {
		t.Row("report", "%s", report)
	}
}

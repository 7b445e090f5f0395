package main

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// The files of a report, in the folder of a run.
const (
	reportFile = "REPORT.md"
	curveFile  = "curve.png"
	scoreFile  = "score.png"
)

// writeTaskReport writes the page of a run: what was done, how it came out, curves, and how to do it again.
func writeTaskReport(r *train.TaskResult) error {
	dir := r.Config.Out
	numbers := r.Numbers
	var epochs, loss, valid, score []float64
	for _, p := range r.Curve {
		epochs, loss, valid, score = append(epochs, p.Epoch), append(loss, p.TrainLoss), append(valid, p.Valid.Loss), append(score, p.Valid.Accuracy)
	}
	pictures := []string{curveFile}
	losses := explain.Chart{Title: r.Task + ", " + r.Recipe, X: "epoch", Y: "loss", Lines: []explain.Line{
		{Name: "training", X: epochs, Y: loss}, {Name: "validation", X: epochs, Y: valid},
	}}
	if err := losses.WritePNG(filepath.Join(dir, curveFile)); err != nil {
		return err
	}
	if !numbers {
		c := explain.Chart{Title: r.Task + ", " + r.Recipe, X: "epoch", Y: "accuracy, %", Lines: []explain.Line{{X: epochs, Y: score}}}
		if err := c.WritePNG(filepath.Join(dir, scoreFile)); err != nil {
			return err
		}
		pictures = append(pictures, scoreFile)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\n", r.Task, r.Recipe)
	if t, err := task.Find(taskName(r.Task)); err == nil {
		fmt.Fprintf(&b, "%s. %s.\n\n", t.About, t.Source)
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", key, fmt.Sprintf(format, args...))
	}
	row("test", "%s, of %d", scoreText(r.Test, numbers), r.Test.Count)
	if r.Published != 0 {
		row("published", "%g (%s)", r.Published, r.Where)
	}
	for _, tag := range r.Test.Tags {
		row("test, "+tag.Name, "%.2f %% of %d", tag.Accuracy, tag.Count)
	}
	for _, x := range r.Extra {
		row(x.Name, "%s, of %d%s", scoreText(x.Score, numbers), x.Count, publishedText(x.Published))
	}
	row("parameters", "%d", r.Params)
	row("training", "%.1f epochs, %d updates, %s; %s of CPU time in all", r.Epochs, r.Steps, status.Duration(seconds(r.TrainSeconds)),
		status.Duration(seconds(r.CPUSeconds)))
	row("seed", "%d", r.Seed)
	row("machine", "%s", r.Machine)
	row("version", "%s", r.Version)
	row("date", "%s", r.Date)
	fmt.Fprint(&b, "\n")
	for _, name := range pictures {
		fmt.Fprintf(&b, "![%s](%s)\n\n", name, name)
	}
	text, err := config.Marshal(&r.Config)
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "## Again\n\n```\nhippo task run %s --model %s --config config.yaml --out again\n```\n\n```yaml\n%s```\n",
		config.Quote(r.Task), r.Recipe, text)
	return checkpoint.WriteBytesAtomic(filepath.Join(dir, reportFile), b.Bytes())
}

func publishedText(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("; published %g", v)
}

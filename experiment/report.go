package experiment

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
)

// The files of a report, in the folder of a run.
const (
	ReportFile = "REPORT.md"

	curveFile = "curve.png"
	scoreFile = "score.png"

	forecastFiles = "forecast-%d.png"
)

// draw saves the charts of a run to its folder: losses, accuracy, forecasts. It returns the names of the files.
func (r *Result) draw() ([]string, error) {
	var epochs, loss, valid, score []float64
	for _, p := range r.Curve {
		epochs, loss, valid = append(epochs, p.Epoch), append(loss, p.TrainLoss), append(valid, p.Valid.Loss)
		score = append(score, p.Valid.Accuracy)
	}
	about, unit := fmt.Sprintf("%s, %s, seed %d", r.Task, r.Recipe, r.Seed), "cross-entropy, nats"
	if r.Numbers {
		unit = "mean squared error"
	}
	names := []string{curveFile}
	charts := []figure.Chart{{
		Title: "Loss by epoch", Subtitle: about, X: "epoch", Y: unit,
		LogY:  spreads(slices.Concat(loss, valid)),
		Lines: []figure.Line{{Name: "training", X: epochs, Y: loss}, {Name: "validation", X: epochs, Y: valid}},
	}}
	if !r.Numbers {
		names = append(names, scoreFile)
		charts = append(charts, figure.Chart{
			Title: "Validation accuracy by epoch", Subtitle: about, X: "epoch", Y: "accuracy, %",
			Lines: []figure.Line{{X: epochs, Y: score}},
		})
	}
	for i, f := range r.Forecasts {
		names = append(names, fmt.Sprintf(forecastFiles, i+1))
		charts = append(charts, forecastChart(f, about))
	}
	for i, c := range charts {
		if err := c.WritePNG(filepath.Join(r.Config.Out, names[i])); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// spreads reports whether losses are best compared by ratio: the largest is more than 20 times the smallest.
func spreads(losses []float64) bool {
	return len(losses) > 0 && slices.Min(losses) > 0 && slices.Max(losses) > 20*slices.Min(losses)
}

// forecastChart draws the known values, then the forecast beside the truth.
func forecastChart(f Forecast, about string) figure.Chart {
	line := func(name string, from int, values []float32) figure.Line {
		l := figure.Line{Name: name}
		for i, v := range values {
			l.X, l.Y = append(l.X, float64(from+i)), append(l.Y, float64(v))
		}
		return l
	}
	return figure.Chart{
		Title: fmt.Sprintf("Forecast of the %s, test example %d", f.Series, f.Example), Subtitle: about,
		X: f.Step + " from the first predicted one", Y: f.Unit,
		Lines: []figure.Line{
			line("truth", -len(f.Known), slices.Concat(f.Known, f.Truth)),
			line("forecast", -1, slices.Concat(f.Known[len(f.Known)-1:], f.Forecast)), // starts at the last known value
		},
	}
}

// PublishedRow returns the published result to compare a run with, or the reason why there is none.
func (r *Result) PublishedRow() string {
	switch {
	case r.Published != 0:
		return fmt.Sprintf("%g (%s)", r.Published, r.Where)
	case len(r.Changed) > 0:
		return "nothing for these settings: " + strings.Join(r.Changed, ", ")
	}
	return ""
}

// WriteReport writes the report of a run: scores, curves, and how to repeat it.
func (r *Result) WriteReport() error {
	dir := r.Config.Out
	numbers := r.Numbers
	pictures, err := r.draw()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\n", r.Task, r.Recipe)
	if t, err := task.Find(TaskName(r.Task)); err == nil {
		fmt.Fprintf(&b, "%s. %s.\n\n", t.About, t.Source)
	}
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	row := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", key, fmt.Sprintf(format, args...))
	}
	row("test", "%s, of %d", ScoreText(r.Test, numbers), r.Test.Count)
	r.eachCoded(row)
	if text := r.PublishedRow(); text != "" {
		row("published", "%s", text)
	}
	for _, tag := range r.Test.Tags {
		row("test, "+tag.Name, "%s of %d", status.Percent(tag.Accuracy, tag.Count), tag.Count)
	}
	for _, x := range r.Extra {
		row(x.Name, "%s, of %d%s", ScoreText(x.Score, numbers), x.Count, PublishedText(x.Published))
	}
	row("parameters", "%d", r.Params)
	row("training", "%.1f epochs, %d updates, %s; %s of CPU time in all", r.Epochs, r.Steps,
		status.Duration(Seconds(r.TrainSeconds)), status.Duration(Seconds(r.CPUSeconds)))
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
	fmt.Fprintf(&b, "## Again\n\n```\nhippo task run %s --model %s --config config.yaml --out again\n```\n\n```yaml\n"+
		"%s```\n", config.Quote(r.Task), r.Recipe, text)
	return disk.WriteBytes(filepath.Join(dir, ReportFile), b.Bytes())
}

package fit

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
)

// Print prints the result of a run.
func (r *Result) Print(out io.Writer) error {
	w := status.NewTable(out)
	w.Row("task", "%s", r.Task)
	w.Row("data", "%s rows, %s series", status.Count(r.Rows), status.Count(r.Series))
	for i := range r.Plan.Columns {
		if text := r.Plan.Columns[i].Reading(); text != "" {
			w.Row("read", "column %s: %s", r.Plan.Columns[i].Name, text)
		}
	}
	if t := r.Plan.Time; t != nil && t.Reading() != "" {
		w.Row("read", "column %s: %s", t.Name, t.Reading())
	}
	w.Row("model", "%s, %s parameters, seed %d", r.Model, status.Count(r.Params), r.Config.Seed)
	if c := r.Classes; c != nil {
		w.Row("test", "%s of %d right (the class most frequent: %s), balanced %.4g %%, F1 %.4g, loss %.4g",
			status.Percent(c.Accuracy, c.Count), c.Count, status.Percent(c.Majority, c.Count), c.Balanced, c.F1,
			c.Loss)
	}
	for _, c := range r.Rivals {
		w.Row("", "%s %s right, balanced %.4g %%, F1 %.4g, loss %.4g", c.Name, status.Percent(c.Accuracy, c.Count),
			c.Balanced, c.F1, c.Loss)
	}
	if r.Classes != nil && r.Classes.Floor != "" {
		w.Row("floor", "%s", r.Classes.Floor)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.Predicting().print(out); err != nil {
		return err
	}
	if len(r.Errors) > 0 {
		var lines [][]string
		for _, e := range r.Errors {
			lines = append(lines, []string{e.Target, e.Name, digits(e.MAE), digits(e.RMSE), digits(e.CRPS),
				digits(e.MSE), fmt.Sprintf("%.1f %%", e.Coverage)})
		}
		fmt.Fprintln(out)
		err := status.Grid(out, []string{"target", "test part", "MAE", "RMSE", "CRPS", "MSE/variance",
			fmt.Sprintf("in the %.0f %% interval", r.Errors[0].Nominal)}, lines, false)
		if err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	if err := r.Importance.print(out); err != nil {
		return err
	}
	w = status.NewTable(out)
	w.Row("training", "%.1f epochs, %s", r.Epochs, status.Duration(time.Duration(r.TrainSeconds*float64(time.Second))))
	for i := range r.Calibration {
		w.Row("intervals", "%s", r.Calibration[i].Sentence())
	}
	if r.Scales != nil {
		w.Row("scales", "%s", r.Scales.Summary)
	}
	for i, text := range []string{r.Choice, r.Final} {
		if text != "" {
			w.Row([]string{"choice", "last fit"}[i], "%s", text)
		}
	}
	w.Row("report", "%s", filepath.Join(r.Config.Out, ReportFile))
	w.Row("predict", "hippo predict %s DATA", config.Quote(r.Config.Out))
	return w.Flush()
}

// Predicting returns the score of the model that predicts classes: the network, or the rival that is better on the
// validation set. It returns nil if numbers are predicted.
func (r *Result) Predicting() *ClassScore {
	for i, c := range r.Plan.Contenders {
		if c.Name == r.Plan.uses() && i > 0 && i <= len(r.Rivals) {
			return r.Rivals[i-1]
		}
	}
	return r.Classes
}

// print prints a line for each class of the test part.
func (s *ClassScore) print(out io.Writer) error {
	if s == nil || len(s.PerClass) == 0 || len(s.PerClass) > mostShownClasses {
		return nil
	}
	var lines [][]string
	for _, c := range s.PerClass {
		lines = append(lines, []string{c.Class, status.Count(c.Count), status.Count(c.Predicted),
			fmt.Sprintf("%.1f %%", c.Recall), fmt.Sprintf("%.1f %%", c.Precision), digits(c.F1)})
	}
	fmt.Fprintln(out)
	fmt.Fprintf(out, "each class of the test part, by the %s:\n", cmp.Or(s.Name, useNetwork))
	err := status.Grid(out, []string{"class", "test part", "predicted", "recall", "precision", "F1"}, lines, false)
	fmt.Fprintln(out)
	return err
}

// digits formats an error with the number of digits used for comparisons.
func digits(x float64) string { return fmt.Sprintf("%.4g", x) }

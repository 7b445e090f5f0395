package main

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	tables "github.com/hippo-ssm/hippo/table"
)

// predictOptions are the flags of hippo predict.
type predictOptions struct {
	fit.ReadOptions
	Stream bool   `json:"stream" help:"say what there is to say of each row as it comes"`
	As     string `json:"as" enum:"auto,csv,jsonl,parquet" help:"what is written; auto: as --out ends, else csv"`
	Out    string `json:"out" help:"file to write, whole or not at all; empty: standard output"`
	All    bool   `json:"all" help:"print all quantiles, not the median and the outermost"`
}

func newPredict() *cobra.Command {
	opt := predictOptions{ReadOptions: fit.DefaultReadOptions(), As: autoForm}
	cmd := &cobra.Command{
		Use:   "predict DIR DATA...",
		Short: "Say what a network of hippo fit or hippo forecast makes of new data",
		Long: `Print what a network of hippo fit or hippo forecast says of new data: classes with probabilities, numbers
with intervals, the rows to come, what is missing, or how unusual each row is. DATA is read as in training: files, a
folder, or - for the standard input. The network knows the columns, their scales and classes, and the time from row to
row; what is other than in training is told on standard error. Parquet is written to a file or a pipe, not to a
terminal.`,
		Example: `  hippo predict runs/fit/machine-state new.csv > states.csv
  sensor | hippo predict runs/machine - --stream     # from the recurrent state, row by row
  hippo predict runs/forecast/ETTh1-OT ETTh1.csv     # what comes after the last row
  hippo predict runs/sales sales.parquet --out next.parquet`,
		Args:              modelArgs(2, math.MaxInt),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	config.Register(cmd.Flags(), &opt)
	completeConfig(cmd, opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		form, err := opt.form(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		m, err := fit.Open(args[0])
		if err != nil {
			return err
		}
		ctx, stop := whileRead(cmd.Context())
		defer stop()
		note := func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", text) }
		predict := func(out io.Writer) error {
			w := &predictionWriter{out: newRowWriter(form, out), plan: m.Plan(), opt: &opt}
			_, err = unlessDone(ctx, func() (struct{}, error) { // reading a pipe does not end with ctx
				return struct{}{}, m.Predict(ctx, args[1:], cmd.InOrStdin(),
					fit.PredictOptions{Options: opt.ReadOptions, Live: opt.Stream, Note: note}, w.write)
			})
			if err != nil {
				return err
			}
			return w.out.close()
		}
		if opt.Out != "" {
			return disk.WriteFile(opt.Out, predict)
		}
		return predict(cmd.OutOrStdout())
	}
	return cmd
}

// predictionWriter writes predictions.
type predictionWriter struct {
	out    rowWriter
	plan   *fit.Plan
	opt    *predictOptions
	named  bool // the first prediction is of a series with a name: all rows say theirs
	begun  bool
	names  []string
	values []any
}

// write writes one prediction.
func (w *predictionWriter) write(p *fit.Prediction) error {
	if !w.begun {
		w.begun, w.named = true, w.plan.Series != "" || p.Series != ""
	}
	w.names, w.values = w.names[:0], w.values[:0]
	w.fields(p)
	if err := w.out.write(w.names, w.values); err != nil {
		return err
	}
	if w.opt.Stream {
		return w.out.flush()
	}
	return nil
}

// add adds a column to the row of a prediction.
func (w *predictionWriter) add(name string, value any) {
	w.names, w.values = append(w.names, name), append(w.values, value)
}

// fields adds the columns of a prediction.
func (w *predictionWriter) fields(p *fit.Prediction) {
	add := w.add
	if w.named {
		add("series", p.Series)
	}
	if p.Step == 0 {
		add(p.Place.Unit, p.Place.At)
	}
	if w.plan.Time != nil {
		add("time", tables.Moment(p.Time))
	}
	if p.Step > 0 {
		add("step", int64(p.Step))
	}
	if p.Probabilities != nil {
		class, probability := p.Class()
		names := w.plan.ClassNames()
		add("class", names[class])
		add("probability", rounded(probability))
		for i, x := range p.Probabilities {
			if len(names) <= mostProbabilities || w.opt.All {
				add("p("+names[i]+")", rounded(x))
			}
		}
		return
	}
	if w.plan.Task == fit.Anomaly {
		add("score", rounded(p.Score))
		add("unusual", p.Unusual)
	}
	for k, name := range w.plan.TargetNames() {
		if w.plan.Task == fit.Fill || w.plan.Task == fit.Anomaly {
			add(name, p.Given[k])
			name += " expected"
		}
		w.addQuantiles(name, p, k)
	}
}

// mostProbabilities is for how many classes all probabilities are printed.
const mostProbabilities = 20

// addQuantiles adds the median and the outermost quantiles of target k, or all.
func (w *predictionWriter) addQuantiles(name string, p *fit.Prediction, k int) {
	levels := w.plan.Levels
	q := make([]float64, len(levels))
	for j := range q {
		q[j] = math.NaN() // the first row of a series was not expected
		if k < len(p.Quantiles) {
			q[j] = rounded(p.Quantiles[k][j])
		}
	}
	for j, level := range levels {
		switch {
		case level == 0.5:
			w.add(name, q[j])
		case w.opt.All || j == 0 || j == len(levels)-1:
			w.add(fmt.Sprintf("%s %g%%", name, 100*level), q[j])
		}
	}
}

// rounded is a number with the digits that a network can mean.
func rounded(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 7, 64), 64)
	if err != nil {
		return x
	}
	return y
}

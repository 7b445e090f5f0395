package main

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/config"
)

// predictOptions are the flags of hippo predict.
type predictOptions struct {
	fit.ReadOptions
	Stream bool   `json:"stream" help:"say what there is to say of each row as it comes"`
	As     string `json:"as" enum:"csv,jsonl" help:"what is printed"`
	All    bool   `json:"all" help:"print all quantiles, not the median and the outermost"`
}

func newPredict() *cobra.Command {
	opt := predictOptions{ReadOptions: fit.DefaultReadOptions(), As: "csv"}
	cmd := &cobra.Command{
		Use:   "predict DIR DATA...",
		Short: "Say what a network of hippo fit or hippo forecast makes of new data",
		Long: `Print what a network of hippo fit or hippo forecast says of new data: classes with probabilities, numbers
with intervals, the rows to come, what is missing, or how unusual each row is. DATA is read as in training: files, a
folder, or - for the standard input. The network knows the columns, their scales and classes, and the time from row to
row; what is other than in training is told on standard error.`,
		Example: `  hippo predict runs/fit/machine-state new.csv > states.csv
  sensor | hippo predict runs/machine - --stream     # from the recurrent state, row by row
  hippo predict runs/forecast/ETTh1-OT ETTh1.csv     # what comes after the last row`,
		Args:              modelArgs(2, math.MaxInt),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	config.Register(cmd.Flags(), &opt)
	completeConfig(cmd, opt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := config.Load(&opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return err
		}
		m, err := fit.Open(args[0])
		if err != nil {
			return err
		}
		ctx, stop := whileRead(cmd.Context())
		defer stop()
		w := &predictionWriter{out: bufio.NewWriter(cmd.OutOrStdout()), plan: m.Plan(), opt: &opt}
		w.csv = csv.NewWriter(w.out)
		note := func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", text) }
		_, err = unlessDone(ctx, func() (struct{}, error) { // reading a pipe does not end with ctx
			return struct{}{}, m.Predict(ctx, args[1:], cmd.InOrStdin(),
				fit.PredictOptions{Options: opt.ReadOptions, Live: opt.Stream, Note: note}, w.write)
		})
		if err != nil {
			return err
		}
		return w.flush()
	}
	return cmd
}

// predictionWriter prints predictions.
type predictionWriter struct {
	out  *bufio.Writer
	csv  *csv.Writer
	plan *fit.Plan
	opt  *predictOptions
	head []string
}

// field is a column of what is printed.
type field struct {
	name  string
	value any // a string, a number or a bool; NaN for nothing
}

// write prints one prediction.
func (w *predictionWriter) write(p *fit.Prediction) error {
	fields := w.fields(p)
	if w.opt.As == "jsonl" {
		if err := w.writeJSON(fields); err != nil {
			return err
		}
	} else {
		if w.head == nil {
			for _, f := range fields {
				w.head = append(w.head, f.name)
			}
			if err := w.csv.Write(w.head); err != nil {
				return err
			}
		}
		var cells []string
		for _, f := range fields {
			cells = append(cells, cellText(f.value))
		}
		if err := w.csv.Write(cells); err != nil {
			return err
		}
	}
	if w.opt.Stream {
		return w.flush()
	}
	return nil
}

func (w *predictionWriter) flush() error {
	w.csv.Flush()
	if err := w.csv.Error(); err != nil {
		return err
	}
	return w.out.Flush()
}

// writeJSON prints an object, its fields in their order.
func (w *predictionWriter) writeJSON(fields []field) error {
	for i, f := range fields {
		if x, ok := f.value.(float64); ok && math.IsNaN(x) {
			f.value = nil
		}
		name, err := json.Marshal(f.name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.out, "%s%s:%s", map[bool]string{true: "{", false: ","}[i == 0], name, value)
	}
	_, err := io.WriteString(w.out, "}\n")
	return err
}

// fields are the columns of a prediction.
func (w *predictionWriter) fields(p *fit.Prediction) (all []field) {
	add := func(name string, value any) { all = append(all, field{name, value}) }
	if p.Series != "" {
		add("series", p.Series)
	}
	if p.Step == 0 {
		add(p.Place.Unit, float64(p.Place.At))
	}
	if w.plan.Time != nil {
		add("time", timeText(p.Time))
	}
	if p.Step > 0 {
		add("step", float64(p.Step))
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
		return all
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
		w.addQuantiles(name, p, k, add)
	}
	return all
}

// mostProbabilities is for how many classes all probabilities are printed.
const mostProbabilities = 20

// addQuantiles adds the median and the outermost quantiles of target k, or all.
func (w *predictionWriter) addQuantiles(name string, p *fit.Prediction, k int, add func(string, any)) {
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
			add(name, q[j])
		case w.opt.All || j == 0 || j == len(levels)-1:
			add(fmt.Sprintf("%s %g%%", name, 100*level), q[j])
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

// timeText is a time as RFC 3339 writes it, "" where it is not known.
func timeText(seconds float64) string {
	if math.IsNaN(seconds) || math.Abs(seconds) > 1e11 {
		return ""
	}
	whole, part := math.Modf(seconds)
	return time.Unix(int64(whole), int64(math.Round(part*1e6))*1000).UTC().Format(time.RFC3339Nano)
}

// cellText is a value as a cell of CSV.
func cellText(value any) string {
	switch x := value.(type) {
	case float64:
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', -1, 64)
	case bool:
		return strconv.Itoa(map[bool]int{true: 1}[x])
	}
	return fmt.Sprint(value)
}

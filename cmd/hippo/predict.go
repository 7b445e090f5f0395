package main

import (
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/disk"
)

// predictOptions holds the flags of hippo predict.
type predictOptions struct {
	fit.ReadOptions
	Stream bool   `json:"stream" help:"predict each row as it comes"`
	As     string `json:"as" enum:"auto,csv,jsonl,parquet" help:"output format; auto: by the ending of --out, else csv"`
	Out    string `json:"out" help:"file to write atomically; empty: standard output"`
	Use    string `json:"use" help:"what predicts: best, network, or a baseline's name; empty: as the run has chosen"`
	All    bool   `json:"all" help:"print all quantiles, not the median and the outermost"`
}

func newPredict() *cobra.Command {
	opt := predictOptions{ReadOptions: fit.DefaultReadOptions(), As: autoForm}
	cmd := &cobra.Command{
		Use:   "predict DIR DATA...",
		Short: "Predict new rows with a network of hippo fit or hippo forecast",
		Long: `Predict new rows with a network of hippo fit or hippo forecast: classes with probabilities, numbers with
intervals, the rows to come, missing values, or how unusual each row is. DATA is read as in training: files, a folder,
or - for standard input. The network knows the columns, their scales and classes, and the time from row to row; what
differs from training is reported on standard error. Parquet is written to a file or a pipe, not to a terminal.`,
		Example: `  hippo predict runs/fit/machine-state new.csv > states.csv
  sensor | hippo predict runs/machine - --stream     # from the recurrent state, row by row
  hippo predict runs/forecast/ETTh1-OT ETTh1.csv     # what comes after the last row
  hippo predict runs/sales sales.parquet --out next.parquet`,
		Args:              modelArgs(2, math.MaxInt),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		form, err := opt.form(cmd.OutOrStdout())
		if err != nil {
			return err
		}
		m, err := fit.Open(args[0])
		if err != nil {
			return err
		}
		if m, err = m.Use(opt.Use); err != nil {
			return err
		}
		if text := m.Choice(); text != "" {
			note(text)
		}
		ctx, stop := whileRead(cmd.Context())
		defer stop()
		predict := func(out io.Writer) error {
			w := fit.NewWriter(out, m.Plan(), fit.WriteOptions{As: form, All: opt.All, Live: opt.Stream})
			p := newRowCounter("rows predicted")
			_, err = unlessDone(ctx, func() (struct{}, error) { // ctx does not interrupt reading from a pipe
				return struct{}{}, m.Predict(ctx, args[1:], cmd.InOrStdin(),
					fit.PredictOptions{Options: opt.ReadOptions, Live: opt.Stream, Note: note},
					func(row *fit.Prediction) error {
						p.add()
						return w.Write(row)
					})
			})
			p.close()
			if err != nil {
				return err
			}
			return w.Close()
		}
		if opt.Out != "" {
			return disk.WriteFile(opt.Out, predict)
		}
		return predict(cmd.OutOrStdout())
	})
}

// autoForm is the value of --as that selects the format by the name of the file to write.
const autoForm = "auto"

// form returns the format of the output.
func (o *predictOptions) form(out io.Writer) (string, error) {
	form := o.As
	if form == autoForm {
		switch strings.ToLower(filepath.Ext(o.Out)) {
		case ".parquet", ".pq", ".parq":
			form = fit.AsParquet
		case ".jsonl", ".ndjson":
			form = fit.AsJSONL
		default:
			form = fit.AsCSV
		}
	}
	f, isFile := out.(*os.File)
	switch {
	case form == fit.AsParquet && o.Stream:
		return "", errors.New("stream: found --as parquet, which writes many rows at a time; want --as csv or jsonl")
	case form == fit.AsParquet && isFile && o.Out == "" && isTerminal(f):
		return "", errors.New("as: found parquet and a terminal, want --out FILE, or a pipe")
	}
	return form, nil
}

package main

import (
	"fmt"
	"math"

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
		w := fit.NewWriter(cmd.OutOrStdout(), m.Plan(), fit.WriteOptions{As: opt.As, All: opt.All, Live: opt.Stream})
		note := func(text string) { fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", text) }
		_, err = unlessDone(ctx, func() (struct{}, error) { // reading a pipe does not end with ctx
			return struct{}{}, m.Predict(ctx, args[1:], cmd.InOrStdin(),
				fit.PredictOptions{Options: opt.ReadOptions, Live: opt.Stream, Note: note}, w.Write)
		})
		if err != nil {
			return err
		}
		return w.Flush()
	}
	return cmd
}

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
)

func newFit() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fit DATA...",
		Short: "Learn from your own data: tables, signals, recordings",
		Long: `Train a network on your own data and measure it beside simple forecasts. DATA is a file, some files, a
folder of them (each file a sequence, its folder the class), or - for the standard input. What is asked is inferred from
the target and can be said with --task:

  classify  the class of each sequence              next      the numbers of the next row
  regress   numbers of each sequence                fill      numbers that are missing
  steps     a class or numbers at each row          anomaly   how unlike what was expected each row is

The parts to train on, to choose by and to test on share no sequence, no group and no time. The folder of the run gets
the network with all that hippo predict needs, the result (result.json) and a report (report.html). Ctrl-C saves; the
same command goes on from there.`,
		Example: `  hippo fit machine.csv --target state                     # a class at each row of a log of sensors
  hippo fit machine.csv --task anomaly --out runs/machine  # how unusual each row is: hippo predict tells on a pipe
  hippo fit recordings/ --out runs/words                   # folders of WAV files, one for each class
  hippo fit patients.csv --target outcome --series visit --group patient`,
		Args: wantArgs(1, math.MaxInt),
	}
	runsFit(cmd, fit.DefaultConfig())
	return cmd
}

func newForecast() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forecast DATA...",
		Short: "Learn to forecast series, with intervals",
		Long: `Train a network to forecast one or many series, and measure it at every origin of the test part beside
the last value, the last season and a linear forecast. What is predicted are quantiles. Their intervals are made to hold
what they promise: on the validation part, and, where data has rows enough, by how far off the last forecasts were
(--intervals valid or learnt for less). hippo predict then forecasts from the end of new data.`,
		Example: `  hippo forecast ETTh1.csv --target OT --horizon 24
  hippo forecast sales.csv --target sold --series shop --known price,holiday --horizon 28
  hippo predict runs/forecast/ETTh1-OT ETTh1.csv           # the hours after the last one`,
		Args: wantArgs(1, math.MaxInt),
	}
	defaults := fit.DefaultConfig()
	defaults.Task = fit.Forecast
	defaults.Split = "0.7,0.1,0.2"
	runsFit(cmd, defaults)
	return cmd
}

// runsFit gives a command the flags of a run on people's data, and has it make one.
func runsFit(cmd *cobra.Command, defaults fit.Config) {
	var file string
	var threads int
	var asJSON bool
	config.Register(cmd.Flags(), &defaults)
	cmd.Flags().StringVar(&file, "config", "", "YAML file of settings")
	cmd.Flags().IntVar(&threads, "threads", 0, "cores to use; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := defaults
		c.Data = args
		var problems config.Problems
		problems.Add(config.Load(&c, config.Options{File: file, Flags: cmd.Flags()}))
		problems.Add(c.Check())
		if err := problems.Err(); err != nil {
			return err
		}
		if threads > 0 {
			runtime.GOMAXPROCS(threads)
		}
		run := func(ctx context.Context, p *status.Printer) (*fit.Result, error) {
			return fit.Run(ctx, c, cmd.InOrStdin(), watchFit(p))
		}
		return watchedRun(cmd, asJSON, fit.ErrInterrupted, run, printFit)
	}
}

// watchFit prints what happens in a run.
func watchFit(p *status.Printer) fit.Events {
	numbers := false
	return fit.Events{
		Note: func(text string) { p.Printf("note: %s\n", text) },
		Start: func(s fit.Start) {
			numbers = len(s.Plan.Levels) > 0
			p.Printf("%s: %s rows, %s series; %s parameters; %s windows to train on, %s to choose by, %s to test on\n",
				s.Plan.Task, status.Count(float64(s.Rows)), status.Count(float64(s.Series)),
				status.Count(float64(s.Params)),
				status.Count(float64(s.Windows[0])), status.Count(float64(s.Windows[1])),
				status.Count(float64(s.Windows[2])))
			if s.Resumed > 0 {
				p.Printf("going on from step %d\n", s.Resumed)
			}
		},
		Step: func(g train.Progress) {
			p.Update(status.Line{
				{Value: fmt.Sprintf("step %d/%d", g.Step, g.Steps)},
				{Key: "epoch", Value: fmt.Sprintf("%.2f", g.Epoch)},
				{Key: "loss", Value: fmt.Sprintf("%.4f", g.MeanLoss)},
				{Key: "eta", Value: status.Duration(g.ETA)},
			})
		},
		Eval: func(g train.Progress) {
			if numbers {
				p.Printf("epoch %.2f: training loss %.4f, validation loss %.4f\n", g.Epoch, g.MeanLoss, g.Valid.Loss)
				return
			}
			p.Printf("epoch %.2f: training loss %.4f, validation %s\n", g.Epoch, g.MeanLoss,
				experiment.ScoreText(g.Valid, false))
		},
	}
}

// printFit prints how a run ended.
func printFit(out io.Writer, r *fit.Result) error {
	w := status.NewTable(out)
	w.Row("task", "%s", r.Task)
	w.Row("data", "%s rows, %s series", status.Count(float64(r.Rows)), status.Count(float64(r.Series)))
	w.Row("model", "%s, %s parameters, seed %d", r.Model, status.Count(float64(r.Params)), r.Config.Seed)
	if c := r.Classes; c != nil {
		w.Row("test", "%s of %d right (the class most frequent: %s), balanced %.4g %%, F1 %.4g, loss %.4g",
			experiment.PercentText(c.Accuracy, c.Count), c.Count, experiment.PercentText(c.Majority, c.Count),
			c.Balanced,
			c.F1, c.Loss)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Errors) > 0 {
		var lines [][]string
		for _, e := range r.Errors {
			lines = append(lines, []string{e.Target, e.Name, errorText(e.MAE), errorText(e.RMSE), errorText(e.CRPS),
				errorText(e.MSE),
				fmt.Sprintf("%.1f %%", e.Coverage)})
		}
		fmt.Fprintln(out)
		err := status.Grid(out, []string{"target", "test part", "MAE", "RMSE", "CRPS", "MSE/variance",
			fmt.Sprintf("in the %.0f %% interval", r.Errors[0].Nominal)}, lines, false)
		if err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	w = status.NewTable(out)
	w.Row("training", "%.1f epochs, %s", r.Epochs, status.Duration(experiment.Seconds(r.TrainSeconds)))
	for i := range r.Calibration {
		w.Row("intervals", "%s", r.Calibration[i].Sentence())
	}
	if r.Scales != nil {
		w.Row("scales", "%s", r.Scales.Summary)
	}
	w.Row("report", "%s", filepath.Join(r.Config.Out, fit.ReportFile))
	w.Row("predict", "hippo predict %s DATA", config.Quote(r.Config.Out))
	return w.Flush()
}

// errorText is an error with the digits that errors are compared by.
func errorText(x float64) string { return fmt.Sprintf("%.4g", x) }

package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/fit"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

func newFit() *cobra.Command {
	return runsFit(&cobra.Command{
		Use:   "fit DATA...",
		Short: "Learn from tables, signals and recordings",
		Long: `Train a network on your own data and measure it next to simple forecasts. DATA is a file, some files, a
folder of them (each file a sequence, its folder the class), or - for standard input. The task is inferred from the
target; --task sets it:

  classify  the class of each sequence              next      the numbers of the next row
  regress   numbers of each sequence                fill      missing numbers
  steps     a class or numbers at each row          anomaly   how unexpected each row is

The parts to train on, to choose by and to test on share no sequence, no group and no time. The folder of the run gets
the network with everything that hippo predict needs, the result (result.json) and a report (report.html). Ctrl-C saves;
the same command resumes.`,
		Example: `  hippo fit machine.csv --target state                     # a class at each row of a log of sensors
  hippo fit machine.csv --task anomaly --out runs/machine  # how unusual each row is; hippo predict reads a pipe
  hippo fit recordings/ --out runs/words                   # folders of WAV files, one for each class
  hippo fit patients.csv --target outcome --series visit --group patient`,
	}, fit.DefaultConfig())
}

func newForecast() *cobra.Command {
	defaults := fit.DefaultConfig()
	defaults.Task, defaults.Split = fit.Forecast, "auto"
	return runsFit(&cobra.Command{
		Use:   "forecast DATA...",
		Short: "Learn to forecast series, with intervals",
		Long: `Train a network to forecast one or many series, and measure it at every origin of the test part next to
the last value, the last season and a linear forecast. It predicts quantiles. Their intervals are calibrated to hold the
promised share: on the validation part and, if there are rows enough, by the errors of the last forecasts (--intervals
valid or learnt for less). hippo predict then forecasts from the end of new data.`,
		Example: `  hippo forecast ETTh1.csv --target OT --horizon 24
  hippo forecast sales.csv --target sold --series shop --known price,holiday --horizon 28
  hippo predict runs/forecast/ETTh1-OT ETTh1.csv           # the hours after the last one`,
	}, defaults)
}

// runsFit completes a command that trains a network on a user's data.
func runsFit(cmd *cobra.Command, defaults fit.Config) *cobra.Command {
	cmd.Args = wantArgs(1, math.MaxInt)
	var on string
	deviceFlag(cmd, &on)
	return longRunCommand(cmd, &defaults, fit.ErrInterrupted, func(cmd *cobra.Command, args []string,
		opt config.Options) (preparedRun[*fit.Result], error) {
		c := defaults
		c.Data = args
		var problems config.Problems
		problems.Add(config.Load(&c, opt))
		problems.Add(c.Check())
		if problems.Err() == nil {
			var err error
			c.Device, err = deviceOrAuto(on)
			if problems.Add(err); on == auto {
				c.Faster = noteDevice
			}
		}
		return preparedRun[*fit.Result]{
			run: func(ctx context.Context, p *status.Printer) (*fit.Result, error) {
				return fit.Run(ctx, c, cmd.InOrStdin(), watchFit(p))
			},
			try: func(ctx context.Context, p *status.Printer, do func(*labelled.Work, *train.Training) error) error {
				return fit.Trial(ctx, c, cmd.InOrStdin(), watchFit(p), do)
			},
		}, problems.Err()
	})
}

// watchFit returns events that print the progress of a run.
func watchFit(p *status.Printer) fit.Events {
	numbers := false
	return fit.Events{
		Note: noteTo(p),
		Start: func(s fit.Start) {
			numbers = len(s.Plan.Levels) > 0
			p.Printf("%s: %s rows, %s series; %s parameters; %s windows to train on, %s to choose by, %s to test on\n",
				s.Plan.Task, status.Count(s.Rows), status.Count(s.Series),
				status.Count(s.Params),
				status.Count(s.Windows[0]), status.Count(s.Windows[1]),
				status.Count(s.Windows[2]))
			if s.Resumed > 0 {
				p.Printf("resuming from step %d\n", s.Resumed)
			}
		},
		Step: func(g train.Progress) { p.Update(epochs(g)) },
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

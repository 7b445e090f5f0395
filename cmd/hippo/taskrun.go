package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

func newTaskRun() *cobra.Command {
	var recipe string
	var defaults experiment.Config
	cmd := &cobra.Command{
		Use:   "run TASK",
		Short: "Train and score a model on a task",
		Long: `Train and score a model on a task. The task's options go in parentheses: 'induction(length=60)'. Settings
come from the recipe of the model, a YAML file (--config) and flags, each overriding the one before. The folder of the
run gets the network, the result (result.json) and a report. Ctrl-C saves; the same command resumes. A run that has
ended is not run again.`,
		Example: `  hippo task run induction --model h3
  hippo task run 'recall(length=40)' --model hyena --epochs 100 --seed 2
  hippo task run smnist --data data/mnist --time 30m`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeTask,
	}
	cmd.Flags().StringVar(&recipe, "model", "",
		"the recipe, a model with its settings: see hippo task list TASK; empty for the first")
	return longRunCommand(cmd, &defaults, experiment.ErrInterrupted, func(cmd *cobra.Command, args []string,
		opt config.Options) (preparedRun[*experiment.Result], error) {
		var problems config.Problems
		s, err := experiment.Find(args[0], recipe)
		problems.Add(err)
		problems.Add(config.Load(&s.Config, opt))
		if err == nil { // otherwise the recipe's settings are missing
			problems.Add(s.Config.Check())
		}
		return preparedRun[*experiment.Result]{
			run: func(ctx context.Context, p *status.Printer) (*experiment.Result, error) {
				return experiment.Run(ctx, s, watchTask(p))
			},
			try: func(ctx context.Context, p *status.Printer, do func(*labelled.Work, *train.Training) error) error {
				return experiment.Trial(ctx, s, watchTask(p), do)
			},
		}, problems.Err()
	})
}

// watchTask returns events that print the progress of a run of a task.
func watchTask(p *status.Printer) experiment.Events {
	numbers := false
	return experiment.Events{
		Note: noteTo(p),
		Start: func(r *experiment.Result, set *task.Set, resumed int) {
			numbers = set.Numbers
			p.Printf("%s, %s: %s parameters, %s examples to train on, %s to test on, up to %d positions\n",
				r.Task, r.Recipe,
				status.Count(r.Params), status.Count(set.Train.Len()),
				status.Count(set.Test.Len()), set.MaxLength)
			if resumed > 0 {
				p.Printf("resuming from step %d\n", resumed)
			}
		},
		Step: func(g train.Progress) {
			p.Update(epochs(g, status.Field{Key: "lr", Value: fmt.Sprintf("%.2g", g.LR)}))
		},
		Eval: func(g train.Progress) {
			p.Printf("epoch %.2f: training loss %s, validation %s\n", g.Epoch, experiment.ErrorText(g.MeanLoss),
				experiment.ScoreText(g.Valid, numbers))
		},
	}
}

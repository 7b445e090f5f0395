package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

func newTaskRun() *cobra.Command {
	var recipe, file string
	var threads int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run TASK",
		Short: "Train and score a model on a task",
		Long: `Train and score a model on a task. The task's options go in parentheses: 'induction(length=60)'. Settings
come from the recipe of the model, a YAML file (--config) and flags, each stronger than the one before. The folder of
the run gets the network, the result (result.json) and a report. Ctrl-C saves; the same command goes on from there. A
run that has ended is not run again.`,
		Example: `  hippo task run induction --model h3
  hippo task run 'recall(length=40)' --model hyena --epochs 100 --seed 2
  hippo task run smnist --data data/mnist --time 30m`,
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(cobra.FixedCompletions(taskNames(), cobra.ShellCompDirectiveNoFileComp)),
	}
	var defaults experiment.Config
	config.Register(cmd.Flags(), &defaults)
	cmd.Flags().StringVar(&recipe, "model", "",
		"the recipe, a model with its settings: see hippo task list TASK; empty for the first")
	cmd.Flags().StringVar(&file, "config", "", "YAML file of settings")
	cmd.Flags().IntVar(&threads, "threads", 0, "cores to use; 0 for all")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var problems config.Problems
		s, err := experiment.Find(args[0], recipe)
		problems.Add(err)
		problems.Add(config.Load(&s.Config, config.Options{File: file, Flags: cmd.Flags()}))
		if err == nil { // else the settings lack those of the recipe
			problems.Add(s.Config.Check())
		}
		if err := problems.Err(); err != nil {
			return err
		}
		if threads > 0 {
			runtime.GOMAXPROCS(threads)
		}
		run := func(ctx context.Context, p *status.Printer) (*experiment.Result, error) {
			return experiment.Run(ctx, s, watchTask(p))
		}
		return watchedRun(cmd, asJSON, experiment.ErrInterrupted, run, printTaskResult)
	}
	return cmd
}

// watchTask prints what happens in a run of a task.
func watchTask(p *status.Printer) experiment.Events {
	numbers := false
	return experiment.Events{
		Note: func(text string) { p.Printf("note: %s\n", text) },
		Start: func(r *experiment.Result, set *task.Set, resumed int) {
			numbers = set.Numbers
			p.Printf("%s, %s: %s parameters, %s examples to train on, %s to test on, up to %d positions\n",
				r.Task, r.Recipe,
				status.Count(float64(r.Params)), status.Count(float64(set.Train.Len())),
				status.Count(float64(set.Test.Len())), set.MaxLength)
			if resumed > 0 {
				p.Printf("going on from step %d\n", resumed)
			}
		},
		Step: func(g train.Progress) {
			p.Update(status.Line{
				{Value: fmt.Sprintf("step %d/%d", g.Step, g.Steps)},
				{Key: "epoch", Value: fmt.Sprintf("%.2f", g.Epoch)},
				{Key: "loss", Value: fmt.Sprintf("%.4f", g.MeanLoss)}, {Key: "lr", Value: fmt.Sprintf("%.2g", g.LR)},
				{Key: "eta", Value: status.Duration(g.ETA)},
			})
		},
		Eval: func(g train.Progress) {
			p.Printf("epoch %.2f: training loss %s, validation %s\n", g.Epoch, experiment.ErrorText(g.MeanLoss),
				experiment.ScoreText(g.Valid, numbers))
		},
	}
}

func printTaskResult(out io.Writer, r *experiment.Result) error {
	w := status.NewTable(out)
	numbers := r.Numbers
	w.Row("task", "%s", r.Task)
	w.Row("model", "%s, %s parameters, seed %d", r.Recipe, status.Count(float64(r.Params)), r.Seed)
	w.Row("test", "%s", experiment.ScoreText(r.Test, numbers))
	if text := r.PublishedRow(); text != "" {
		w.Row("published", "%s", text)
	}
	for _, tag := range r.Test.Tags {
		w.Row("  "+tag.Name, "%s of %d", experiment.PercentText(tag.Accuracy, tag.Count), tag.Count)
	}
	for _, x := range r.Extra {
		w.Row(x.Name, "%s%s", experiment.ScoreText(x.Score, numbers), experiment.PublishedText(x.Published))
	}
	trained, busy := experiment.Seconds(r.TrainSeconds), experiment.Seconds(r.CPUSeconds)
	w.Row("training", "%.1f epochs, %s (%s of CPU time in all)", r.Epochs, status.Duration(trained),
		status.Duration(busy))
	w.Row("machine", "%s", r.Machine)
	w.Row("report", "%s", filepath.Join(r.Config.Out, experiment.ReportFile))
	return w.Flush()
}

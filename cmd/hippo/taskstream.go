package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/model"
)

func newTaskStream() *cobra.Command {
	opt := struct {
		Example int `json:"example" help:"test example of the task, instead of FILE; -1: none"`
		experiment.StreamOptions
	}{-1, experiment.StreamOptions{Every: 1}}
	cmd := &cobra.Command{
		Use:   "stream DIR [FILE]",
		Short: "Run a trained network over a sequence step by step",
		Long: `Feed the network of a run in DIR one position after another, from its recurrent state, and print its
outputs at each: of a network with one output for a sequence, those of the sequence so far. The input is a line of
numbers for each position, or tokens, from FILE or standard input as it comes; or, with --example, a test example of the
run's task. Numbers are those of the data, such as pixels of 0 to 255: the network stores how they are scaled, prints
what it expects, and returns numbers in their units. - stands for a missing number. With --scaled, input and output are
as the task scales them. --check then runs the whole sequence at once and prints how far the two differ.`,
		Example: `  hippo task stream runs/task/ecg/s4d-small-seed1 --example 0 --every 1000 --check
  sensor | hippo task stream runs/task/ecg/s4d-small-seed1 -
  hippo task stream runs/task/smnist/s4d-small-seed1 --example 3 --classes --every 100`,
		Args:              modelArgs(1, 2),
		ValidArgsFunction: completeArgs(completeFolders),
	}
	return configured(cmd, &opt, func(cmd *cobra.Command, args []string) error {
		switch {
		case opt.Every < 1:
			return fmt.Errorf("every: found %d, want 1 or more", opt.Every)
		case opt.Example >= 0 && len(args) > 1:
			return fmt.Errorf("found --example and the file %s, want one of them", args[1])
		}
		m, err := model.NetworkOf(args[0])
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(cmd.Context())
		defer stop()
		var steps <-chan experiment.Step
		if opt.Example >= 0 {
			r, err := experiment.ReadResult(args[0])
			if err != nil {
				return err
			}
			ex, err := r.TestExample(ctx, opt.Example)
			if err != nil {
				return err
			}
			steps = experiment.ExampleSteps(ctx, &m.Config, ex)
		} else {
			in, name := io.Reader(cmd.InOrStdin()), "standard input"
			if len(args) > 1 && args[1] != "-" {
				f, err := os.Open(args[1])
				if err != nil {
					return err
				}
				defer f.Close()
				in, name = f, args[1]
			}
			note := func(format string, args ...any) { note(fmt.Sprintf(format, args...)) }
			steps = experiment.ReadSteps(ctx, &m.Config, in, name, opt.Scaled, note)
		}
		return experiment.Stream(ctx, m, steps, cmd.OutOrStdout(), opt.StreamOptions)
	})
}

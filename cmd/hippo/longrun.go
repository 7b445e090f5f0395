package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/train"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// preparedRun is a long run of a command. Both functions report their progress to p.
type preparedRun[R any] struct {
	run func(ctx context.Context, p *status.Printer) (R, error)
	// try prepares the run and calls do with its work and training, without saving anything.
	try func(ctx context.Context, p *status.Printer, do func(*labelled.Work, *train.Training) error) error
}

// longRunCommand completes a command of a long run. It adds flags for the settings in the struct defaults. prepare
// reads them. interrupted is the error of an interrupted run that the same command resumes.
func longRunCommand[R interface{ Print(io.Writer) error }](cmd *cobra.Command, defaults any, interrupted error,
	prepare func(cmd *cobra.Command, args []string, opt config.Options) (preparedRun[R], error)) *cobra.Command {
	config.Register(cmd.Flags(), defaults)
	file := cmd.Flags().String("config", "", "YAML file of settings")
	threads := cmd.Flags().Int("threads", 0, "cores to use; 0 for all")
	dryRun := cmd.Flags().Bool("dry-run", false, "read the data, print what the run would take, and stop")
	var find lrFinder
	find.register(cmd)
	jsonFlag(cmd, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := find.check(); err != nil {
			return err
		}
		run, err := prepare(cmd, args, config.Options{File: *file, Flags: cmd.Flags()})
		if err != nil {
			return err
		}
		if *threads > 0 {
			runtime.GOMAXPROCS(*threads)
		}
		p := status.New(os.Stderr, 10*time.Second)
		ctx, stop := whileRead(cmd.Context())
		defer stop()
		if *dryRun || find.updates != 0 {
			err := run.try(ctx, p, func(w *labelled.Work, l *train.Training) error {
				p.Close()
				if find.updates != 0 {
					return find.find(cmd, func(told func(train.LRPoint)) (*train.LRRange, error) {
						return train.FindLR(ctx, find.updates, l.Plan, w, told)
					})
				}
				return printTrial(cmd, w, l)
			})
			p.Close()
			return err
		}
		var lost *train.DeviceError
		result, err := run.run(ctx, p)
		p.Close()
		switch {
		case errors.Is(err, interrupted):
			return resumable()
		case errors.As(err, &lost):
			return fmt.Errorf("%w; the same command resumes, also with --device %s", err, onCPU)
		case err != nil:
			return err
		}
		return show(cmd, result, result.Print)
	}
	return cmd
}

// printTrial prints the network's size and the memory and time that a run would take.
func printTrial(cmd *cobra.Command, w *labelled.Work, l *train.Training) error {
	e, err := w.Estimate(l)
	if err != nil {
		return err
	}
	return show(cmd, e, func(out io.Writer) error {
		_, err := fmt.Fprintf(out, `network      %s, d_model %d: %d parameters
memory       %s, with the data
run          %d steps of %.3g s: %s, without evaluations
`, w.Net.Config.Model.Layers, w.Net.Config.Model.DModel, e.Params, status.Bytes(e.Memory), e.Steps, e.StepSeconds,
			status.Duration(time.Duration(e.RunSeconds*float64(time.Second))))
		return err
	})
}

// resumable returns the error of an interrupted command and prints that the same command resumes it.
func resumable() error {
	fmt.Fprintln(os.Stderr, "interrupted; the same command resumes")
	return errInterrupted
}

// noteTo returns a function that prints notes.
func noteTo(p *status.Printer) func(text string) {
	return func(text string) { p.Printf("note: %s\n", text) }
}

// epochs returns the status line of a step in a run that counts epochs, with more fields before the last.
func epochs(g train.Progress, more ...status.Field) status.Line {
	line := status.Line{
		{Value: fmt.Sprintf("step %d/%d", g.Step, g.Steps)}, {Key: "epoch", Value: fmt.Sprintf("%.2f", g.Epoch)},
		{Key: "loss", Value: fmt.Sprintf("%.4f", g.MeanLoss)},
	}
	return append(append(line, more...), status.Field{Key: "eta", Value: status.Duration(g.ETA)})
}

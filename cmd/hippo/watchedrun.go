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
)

// runner makes a long run and reports its progress to p.
type runner[R any] func(ctx context.Context, p *status.Printer) (R, error)

// watchedRun makes a command of a long run, with flags for its settings, whose defaults are in a struct. prepare reads
// them. interrupted is the error of a run that the same command resumes.
func watchedRun[R interface{ Print(io.Writer) error }](cmd *cobra.Command, defaults any, interrupted error,
	prepare func(cmd *cobra.Command, args []string, opt config.Options) (runner[R], error)) *cobra.Command {
	config.Register(cmd.Flags(), defaults)
	file := cmd.Flags().String("config", "", "YAML file of settings")
	threads := cmd.Flags().Int("threads", 0, "cores to use; 0 for all")
	jsonFlag(cmd, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
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
		result, err := run(ctx, p)
		p.Close()
		switch {
		case errors.Is(err, interrupted):
			return resumable()
		case err != nil:
			return err
		}
		return show(cmd, result, result.Print)
	}
	return cmd
}

// resumable ends an interrupted command that the same command resumes.
func resumable() error {
	fmt.Fprintln(os.Stderr, "interrupted; the same command resumes")
	return errInterrupted
}

// noteTo returns a function that prints notes.
func noteTo(p *status.Printer) func(text string) {
	return func(text string) { p.Printf("note: %s\n", text) }
}

// epochs is the line of a step in a run that counts epochs, with more fields before the last.
func epochs(g train.Progress, more ...status.Field) status.Line {
	line := status.Line{
		{Value: fmt.Sprintf("step %d/%d", g.Step, g.Steps)}, {Key: "epoch", Value: fmt.Sprintf("%.2f", g.Epoch)},
		{Key: "loss", Value: fmt.Sprintf("%.4f", g.MeanLoss)},
	}
	return append(append(line, more...), status.Field{Key: "eta", Value: status.Duration(g.ETA)})
}

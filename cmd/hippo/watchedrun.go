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

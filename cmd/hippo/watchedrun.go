package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/status"
)

// watchedRun makes a long run with its progress on standard error, and prints its result by show, or as JSON.
// interrupted is the error of a run that was asked to end, and that goes on when it is asked for again.
func watchedRun[R any](cmd *cobra.Command, asJSON bool, interrupted error,
	run func(ctx context.Context, p *status.Printer) (R, error), show func(out io.Writer, result R) error) error {
	p := status.New(os.Stderr, 10*time.Second)
	ctx, stop := whileRead(cmd.Context())
	defer stop()
	result, err := run(ctx, p)
	p.Close()
	switch {
	case errors.Is(err, interrupted):
		fmt.Fprintln(os.Stderr, "interrupted; the same command goes on from here")
		return errInterrupted
	case err != nil:
		return err
	}
	if asJSON {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
	}
	return show(cmd.OutOrStdout(), result)
}

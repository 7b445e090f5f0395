package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/explain/theory"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/disk"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
)

func newExplainSSM() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssm NAME",
		Short: "Show the mathematics of state-space models in pictures",
		Long: `Show the mathematics of state-space models: convolutions, bases, HiPPO's memory, sampling, the parts of
H3, scans. Package ssm computes every number by definition. Without a NAME, list them all.

Signals are generated (sine, chirp, step, square, noise, sum, and sums of these such as sine+0.3*noise) or read from a
WAV file or a column of a CSV file. docs/course explains them in order.`,
		Example: `  hippo explain ssm
  hippo explain ssm hippo --signal chirp
  hippo explain ssm bases --signal prices.csv --column close --whole
  hippo explain ssm recall "a 1 b 2 c 3 a"`,
		RunE: func(cmd *cobra.Command, _ []string) error { return listTheory(cmd.OutOrStdout()) },
	}
	cmd.AddCommand(&cobra.Command{Use: "list", Short: "List the explanations", Example: "  hippo explain ssm list",
		Args: wantArgs(0, 0), RunE: cmd.RunE})
	for _, v := range theory.Views() {
		cmd.AddCommand(newTheory(v))
	}
	return cmd
}

func listTheory(out io.Writer) error {
	t := status.NewTable(out)
	for _, v := range theory.Views() {
		t.Row(v.Name, "%s", v.Short)
	}
	return t.Flush()
}

// newTheory returns the command of one explanation.
func newTheory(v theory.View) *cobra.Command {
	opt := v.New()
	signal, hasSignal := opt.(theory.WithSignal)
	text, hasText := opt.(theory.WithText)
	cmd := &cobra.Command{Use: v.Name, Short: v.Short, Long: v.Long, Example: v.Example, Args: wantArgs(0, 0)}
	if hasText {
		cmd.Use, cmd.Args = v.Name+" [TEXT]", wantArgs(0, 1)
	}
	config.Register(cmd.Flags(), opt)
	if hasSignal {
		completeFlag(cmd, "signal", cobra.FixedCompletions(theory.SignalNames(), cobra.ShellCompDirectiveDefault))
	}
	return drawing(cmd, v.Name, func(cmd *cobra.Command, args []string) (*figure.Page, error) {
		if err := config.Load(opt, config.Options{Flags: cmd.Flags()}); err != nil {
			return nil, err
		}
		if hasSignal && signal.Input().IsFile() {
			if err := readSignal(signal.Input()); err != nil {
				return nil, err
			}
		}
		line := []string{"hippo explain ssm", v.Name}
		if hasText && len(args) == 1 {
			text.SetText(args[0])
			line = append(line, config.Quote(args[0]))
		}
		// Some steps of the mathematics take seconds and cannot be interrupted.
		p, err := unlessDone(cmd.Context(), func() (*figure.Page, error) { return opt.Page(cmd.Context()) })
		if err == nil {
			p.Command = strings.Join(append(line, config.Flags(opt, v.New())...), " ")
		}
		return p, err
	})
}

// readSignal reads the file that the options name: a WAV file, or a file of numbers in columns.
func readSignal(o *theory.SignalOptions) error {
	data, err := disk.ReadText(o.Signal, disk.MaxText)
	if errors.Is(err, fs.ErrNotExist) {
		names := theory.SignalNames()
		return fmt.Errorf("signal: found no file %s, want one, or one of %s, or a sum such as sine+0.3*noise%s",
			o.Signal,
			strings.Join(names, ", "), config.DidYouMean(o.Signal, names))
	}
	if err != nil {
		return err
	}
	o.Recording = &theory.Recording{Name: filepath.Base(o.Signal)}
	if bytes.HasPrefix(data, []byte("RIFF")) {
		if o.Column != "" {
			return fmt.Errorf("column: found %q for the WAV file %s, want none", o.Column, o.Signal)
		}
		var rate int
		if o.Recording.Values, rate, err = task.ReadWAV(bytes.NewReader(data), theory.MostSamples); err != nil {
			return fmt.Errorf("%s: %w", o.Signal, err)
		}
		o.Recording.Rate = float64(rate)
		return nil
	}
	column := ""
	if column, o.Recording.Values, err = theory.ReadCSV(bytes.NewReader(data), o.Column); err != nil {
		return fmt.Errorf("%s: %w", o.Signal, err)
	}
	o.Recording.Name += ", " + column
	return nil
}

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/train/text"
)

// printEstimate prints the time and memory that a run needs on this machine and, if machines is above 1, on several
// like it. It does not create the run's folder.
func printEstimate(cmd *cobra.Command, cfg text.Config, machines int, network string) error {
	vocab, err := cfg.VocabSize()
	if err != nil {
		return err
	}
	plan, err := cfg.Model.Plan()
	if err != nil {
		return err
	}
	if err := cfg.CountSteps(cmd.Context()); err != nil {
		return err
	}
	if _, err := cfg.Together(text.Estimate{}, machines, network); err != nil { // checked before measuring
		return err
	}
	note("measuring some updates: seconds for a small model, minutes for a large one")
	e, err := cfg.Estimate(vocab)
	if err != nil {
		return err
	}
	together := ""
	if machines > 1 {
		if err := e.MeasureExchange(cmd.Context()); err != nil {
			return err
		}
		t, err := cfg.Together(e, machines, network)
		if err != nil {
			return err
		}
		together = t.String()
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "model        d_model %d, %d layers: %s\n%s%s",
		cfg.Model.DModel, len(plan), strings.Join(plan, " "), e, together)
	return nil
}

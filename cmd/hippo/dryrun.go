package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/train/text"
)

// printEstimate prints what a run needs, without creating its folder.
func printEstimate(cmd *cobra.Command, cfg text.Config) error {
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
	note("measuring some updates: seconds for a small model, minutes for a large one")
	e, err := cfg.Estimate(vocab)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "model        d_model %d, %d layers: %s\n%s",
		cfg.Model.DModel, len(plan), strings.Join(plan, " "), e)
	return nil
}

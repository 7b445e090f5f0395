package main

import (
	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/train"
)

func printEstimate(cmd *cobra.Command, cfg train.Config) error { return nil }

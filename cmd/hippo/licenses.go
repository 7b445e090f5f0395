package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/licenses"
)

func newLicenses() *cobra.Command {
	return &cobra.Command{
		Use:   "licenses",
		Short: "Print the licenses of this program and of all that is in it",
		Long: `Print the licenses of this program and of all that is in it: texts, vocabularies, fonts, and the Go
modules that it was built from, whose licenses ask to come with it.`,
		Example: "  hippo licenses | less",
		Args:    wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), licenses.Text)
			return err
		},
	}
}

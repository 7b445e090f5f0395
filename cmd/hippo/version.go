package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/licenses"
)

func newVersion() *cobra.Command {
	terms := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and the processor features in use",
		Long: `Print the version, the processor features in use, and which code computes what with them. HIPPO_CPU
forces a level of features. With --licenses print the licenses of hippo and of everything in the program: texts,
vocabularies, fonts and Go modules.`,
		Example: "  hippo version\n  hippo version --licenses | less",
		Args:    wantArgs(0, 0),
	}
	cmd.Flags().BoolVar(&terms, "licenses", false, "print the licenses of the program and of everything in it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if terms {
			return printLicenses(cmd, nil)
		}
		return printVersion(cmd.OutOrStdout())
	}
	return cmd
}

// newLicenses returns the command licenses, the old name of hippo version --licenses.
func newLicenses() *cobra.Command {
	return &cobra.Command{Use: "licenses", Short: "Print the licenses of the program and of everything in it",
		Example: "  hippo licenses | less", Args: wantArgs(0, 0), RunE: printLicenses}
}

func printLicenses(cmd *cobra.Command, _ []string) error {
	_, err := io.WriteString(cmd.OutOrStdout(), licenses.Text)
	return err
}

func printVersion(out io.Writer) error {
	level, err := hippo.CPULevel()
	if err != nil {
		return err
	}
	lines := hippo.CPUKernels()
	if hasDevices {
		_, all := devices()
		lines = append(lines, all...)
	}
	_, err = fmt.Fprintf(out, "hippo %s, %s %s/%s, %s kernels\n%s\n", version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, level, strings.Join(lines, "\n"))
	return err
}

// version returns the version of the module or, if the program was built in a work tree, its commit.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version and the processor features in use",
		Example: "  hippo version",
		Args:    wantArgs(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(out io.Writer) error {
	level, err := hippo.CPULevel()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "hippo %s, %s %s/%s, %s kernels\n", version(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, level)
	return err
}

// version is the version of the module or, in a work tree, the commit that the program was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

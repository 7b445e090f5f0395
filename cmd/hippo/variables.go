package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/session"
)

// variables returns the prefix of the environment variables for the flags of a command. It returns "" for a command
// that reads no such variables or reads them in another way.
func variables(cmd *cobra.Command) string {
	path := strings.Fields(cmd.CommandPath())
	if len(path) < 2 || slices.Contains([]string{
		"train", "help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd,
	}, path[1]) {
		return ""
	}
	return config.Variable("", strings.Join(path, "_")) + "_"
}

// readVariables sets the flags of a command that were not given to the values of their environment variables.
func readVariables(cmd *cobra.Command) error {
	prefix := variables(cmd)
	if prefix == "" {
		return nil
	}
	return config.Environment(cmd.Flags(), prefix, os.Environ(), !cmd.HasSubCommands())
}

// otherVariables returns the HIPPO_ variables that are not settings of a training run.
func otherVariables(root *cobra.Command) []string {
	names := []string{"HIPPO_CPU", "HIPPO_GOLDEN", "HIPPO_VALIDATE", "HIPPO_GPU_MEMORY", "HIPPO_SESSIONS",
		session.KeyVariable}
	for _, cmd := range root.Commands() {
		if prefix := variables(cmd); prefix != "" {
			cmd.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, config.Variable(prefix, flag.Name)) })
		}
		names = append(names, otherVariables(cmd)...)
	}
	return names
}

// variableHelp returns the line of a help text about environment variables, or "" if the command has none.
func variableHelp(cmd *cobra.Command) string {
	prefix := variables(cmd)
	if prefix == "" {
		return ""
	}
	return config.VariableHelp(cmd.Flags(), prefix)
}

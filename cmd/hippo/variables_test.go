package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/train/text"
)

// eachCommand calls visit for a command and all its subcommands.
func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, visit)
	}
}

// TestEveryFlagIsAVariable checks that each flag of each command takes its value from its own variable, which no
// setting of a training run uses. The command line takes precedence. The help describes the variables.
func TestEveryFlagIsAVariable(t *testing.T) {
	ofTraining := map[string]bool{}
	defaults, err := text.Preset("tiny")
	if err != nil {
		t.Fatal(err)
	}
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.Register(settings, &defaults)
	settings.VisitAll(func(f *pflag.Flag) { ofTraining[config.Variable("HIPPO_", f.Name)] = true })
	seen, flags := map[string]string{}, 0
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		prefix := variables(cmd)
		if prefix == "" {
			return
		}
		if help := variableHelp(cmd); cmd.HasLocalFlags() && !strings.Contains(help, prefix) && cmd.Name() != "help" {
			any := false
			cmd.Flags().VisitAll(func(f *pflag.Flag) { any = any || f.Name != "help" && !f.Hidden })
			if any {
				t.Errorf("the help of %s does not tell of variables: %q", cmd.CommandPath(), help)
			}
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			flags++
			name := config.Variable(prefix, f.Name)
			if other := seen[name]; other != "" || ofTraining[name] {
				t.Errorf("%s is the variable of %s --%s and of %q or a setting of training", name, cmd.CommandPath(),
					f.Name, other)
			}
			seen[name] = cmd.CommandPath() + " --" + f.Name
			value := strings.Trim(f.DefValue, "[]")
			err := config.Environment(cmd.Flags(), prefix, []string{name + "=" + value}, true)
			if err != nil || !f.Changed {
				t.Errorf("%s=%s does not set --%s of %s: %v", name, value, f.Name, cmd.CommandPath(), err)
			}
		})
	})
	if flags < 100 {
		t.Errorf("found %d flags", flags)
	}
	if others := otherVariables(newRoot()); !slices.Contains(others, "HIPPO_SERVE_LISTEN") {
		t.Errorf("hippo train does not know the variables of others: %q", others)
	}
}

// TestPageHasEveryFlag checks that docs/server.md lists every flag of hippo serve with its variable.
func TestPageHasEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/server.md")
	if err != nil {
		t.Fatal(err)
	}
	newServe().Flags().VisitAll(func(f *pflag.Flag) {
		if row := "| `--" + f.Name + "` | `" + config.Variable("HIPPO_SERVE_", f.Name) + "` |"; f.Name != "help" &&
			!strings.Contains(string(page), row) {
			t.Errorf("docs/server.md has no row %s", row)
		}
	})
}

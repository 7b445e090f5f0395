// Command hippo trains, evaluates, generates from and converts state-space sequence models. Each file holds one
// command: flags in, one package call, text out.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/config"
)

func main() { os.Exit(run(os.Args[1:])) }

// errInterrupted ends the program with status 130. Nothing more is printed.
var errInterrupted = errors.New("interrupted")

// errorStatus is the annotation of a command that has another exit status than 1 for errors.
const errorStatus = "error status"

// run is main for a given command line. It returns the exit status: 0, 1 for an error (2 for one of a command whose
// status 1 says something else), 130 after Ctrl-C, SIGTERM or SIGHUP.
func run(args []string) int {
	ctx, stop := interruptible()
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := knownCommand(root, args)
	cmd := root
	if err == nil {
		cmd, err = root.ExecuteContextC(ctx)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return 130
	case errors.Is(err, errWeightsDiffer):
		return 1
	}
	fmt.Fprintf(os.Stderr, "hippo: %v\n", brief.Error(err))
	if status, err := strconv.Atoi(cmd.Annotations[errorStatus]); err == nil {
		return status
	}
	return 1
}

func newRoot() *cobra.Command {
	var asked bool
	root := &cobra.Command{
		Use:   "hippo",
		Short: "State-space sequence models: train, evaluate, generate, convert",
		Long: `hippo trains, evaluates and generates from state-space sequence models: H3 ("Hungry Hungry Hippos",
arXiv:2212.14052), its hybrids with attention, and their relatives. One static binary, no Python.`,
		Example: `  hippo train                                  # learn English from Moby Dick, in minutes
  hippo generate runs/tiny "Call me"           # continue a text
  hippo eval runs/tiny --baseline              # loss, perplexity, bits per byte, beside those of counting
  hippo convert model.pt models/h3             # bring a published checkpoint`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked {
				return printVersion(cmd.OutOrStdout())
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := hippo.CPULevel(); err != nil { // a level that was asked for and is not there
				return err
			}
			return readVariables(cmd)
		},
	}
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return config.FlagError(c.Flags(), err) })
	useGroupedHelp(root)
	cobra.EnableCommandSorting = false // commands stand in the order in which a new user meets them
	root.AddCommand(newTrain(), newGenerate(), newRun(), newServe(), newPs(), newStop(), newUI(), newKey(), newRead(),
		newSession(), newEval(), newEmbed(), newCompare(), newPull(), newList(), newShow(), newRemove(),
		newConvert(), newMerge(), newQuantize(), newInfo(), newDiff(), newTokenizer(), newBench(), newMixers(),
		newTask(), newFit(), newForecast(), newPredict(), newExplain(), newCourse(), newCache(), newVerify(),
		newVersion(), newLicenses())
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd() // cobra would add these two after the spellings
	root.InitDefaultCompletionCmd()
	acceptSpellings(root)
	completeSettings(root)
	return root
}

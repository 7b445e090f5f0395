// Command hippo trains, runs, serves and explains state-space sequence models. Each file holds one command, which reads
// its flags, calls a package and prints the result.
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
)

func main() {
	status := run(os.Args[1:])
	abort(status)
	os.Exit(status)
}

// errInterrupted ends the program with status 130. Nothing more is printed.
var errInterrupted = errors.New("interrupted")

// errRequeue ends the program with status 75 (EX_TEMPFAIL of sysexits.h), which asks a batch system to start it again.
var errRequeue = errors.New("interrupted, to be started again")

// errorStatus is the annotation of a command whose exit status for errors is not 1.
const errorStatus = "error status"

// run executes the command line args and returns the exit status: 0 for success, 1 for an error (2 if status 1 has
// another meaning for the command), 130 after Ctrl-C, SIGTERM or SIGHUP, 75 after a batch system's signal.
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
	if status, ok := exitStatus(err); ok {
		return status
	}
	err = deviceError(err)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errRequeue):
		return 75
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

// group is a section of hippo --help: the commands for one purpose.
type group struct {
	title    string
	commands []*cobra.Command
}

const housekeeping = "Housekeeping:"

// groups returns all commands, in the order in which a new user meets them.
func groups() []group {
	return []group{
		{"Train a model:", []*cobra.Command{newTrain(), newJoin(), newUI(), newMixers()}},
		{"Talk with it:", []*cobra.Command{newRun(), newGenerate(), newRead(), newSession(), newEmbed(),
			newWatch()}},
		{"Serve it:", []*cobra.Command{newServe(), newPs(), newStop(), newKey(), newAudit(), newScore()}},
		{"Look inside:", []*cobra.Command{newExplain(), newDiff(), newCourse()}},
		{"Learn from your own data:", []*cobra.Command{newFit(), newForecast(), newPredict(), newSweep()}},
		{"Manage models:", []*cobra.Command{newPull(), newList(), newInfo(), newRemove(), newConvert(), newMerge(),
			newQuantize(), newTokenizer()}},
		{"Measure:", []*cobra.Command{newEval(), newCompare(), newBench(), newVerify(), newTask(), newEvidence()}},
		{housekeeping, []*cobra.Command{newCache(), newVersion()}},
	}
}

// oldName hides a command that another one has replaced. The command still works.
func oldName(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

func newRoot() *cobra.Command {
	var asked bool
	root := &cobra.Command{
		Use:   "hippo",
		Short: "State-space sequence models: train, talk, serve, look inside",
		Long: `hippo trains, runs, serves and explains state-space sequence models: H3 ("Hungry Hungry Hippos",
arXiv:2212.14052), its hybrids with attention, Mamba and their relatives. One static binary, no Python.`,
		Example: `  hippo train                                  # learn English from Moby Dick, in minutes
  hippo generate runs/tiny "Call me"           # continue a text
  hippo serve runs/tiny                        # serve it over HTTP, as OpenAI, Anthropic and Ollama do
  hippo explain influence runs/tiny "Call me Ishmael" --open
  hippo pull state-spaces/mamba-130m-hf        # fetch a published model`,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked {
				return printVersion(cmd.OutOrStdout())
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := hippo.CPULevel(); err != nil { // if HIPPO_CPU names a level that this processor lacks
				return err
			}
			return readVariables(cmd)
		},
	}
	root.Flags().BoolVarP(&asked, "version", "v", false, "print the version")
	root.SetFlagErrorFunc(flagError)
	useGroupedHelp(root)
	cobra.EnableCommandSorting = false
	for _, g := range groups() {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(oldName(newShow()), oldName(newLicenses()))
	help := newHelp()
	help.GroupID = housekeeping
	root.SetHelpCommand(help)
	root.SetCompletionCommandGroupID(housekeeping)
	root.InitDefaultHelpCmd() // otherwise cobra would add these two after acceptSpellings
	root.InitDefaultCompletionCmd()
	acceptSpellings(root)
	completeSettings(root)
	return root
}

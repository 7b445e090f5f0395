package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hippo-ssm/hippo/evidence"
)

func newEvidence() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evidence",
		Short: "Compute the results on hippo's pages, write the pages from them, check both",
		Long: `Compute the results on the pages of hippo's repository, write the pages from them, and check both. In it,
docs/evidence/recipes.yaml has the commands that compute each table, docs/evidence/results.jsonl what came of them.`,
		Example: `  hippo evidence run table ecg
  hippo evidence table
  hippo evidence check --rerun 2m`,
	}
	cmd.AddCommand(newEvidenceRun(), newEvidenceTable(), newEvidenceCheck())
	return cmd
}

// rootFlag adds the flag --root, the repository.
func rootFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("root", ".", "root of hippo's repository")
}

// dataFlag adds the flag --data, the data that recipes read.
func dataFlag(cmd *cobra.Command) *string {
	return cmd.Flags().String("data", "", "folder with a folder for each data set, if there is no runs/data")
}

// openEvidence opens the recipes and results of a repository. It also returns a runner that executes their commands
// with this program as hippo.
func openEvidence(cmd *cobra.Command, root, data string) (*evidence.Book, *evidence.Runner, error) {
	book, err := evidence.Open(root)
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	return book, &evidence.Runner{Program: self, Data: data, Out: cmd.OutOrStdout()}, err
}

func newEvidenceRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [NAME...]",
		Short: "Run the commands of recipes, store the results, write the pages",
		Long: `Run the commands of recipes by sh, at the root of the repository, store what comes of them and write the
pages. Without a name: all but those with by_name, which need another program or an hour; it takes most of a day on one
core. What is done already is not done again.
Several at once, on machines that share runs/evidence, each take runs that no other has.`,
		Example: `  hippo evidence run table ecg
  hippo evidence run --short       # all, a few updates each; the results are thrown away`,
	}
	root, data := rootFlag(cmd), dataFlag(cmd)
	short := cmd.Flags().Bool("short", false, "a few updates each, on made-up data where there is none; store nothing")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		book, runner, err := openEvidence(cmd, *root, *data)
		if err != nil {
			return err
		}
		if *short {
			return book.RunShort(cmd.Context(), runner, names)
		}
		if err := book.Run(cmd.Context(), runner, names); err != nil {
			return err
		}
		return writePages(cmd, book)
	}
	return cmd
}

// writePages writes the pages and prints the names of those that have changed.
func writePages(cmd *cobra.Command, book *evidence.Book) error {
	changed, err := book.Fill(true)
	for _, page := range changed {
		fmt.Fprintln(cmd.OutOrStdout(), "written:", page)
	}
	return err
}

func newEvidenceTable() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table [RUNS]",
		Short: "Write the pages from recipes and results",
		Long: `Write commands and tables of the pages from recipes and results. With RUNS, a folder that has a folder of
runs for each recipe, store the results of these runs first.`,
		Example: `  hippo evidence table
  hippo evidence table runs/evidence`,
		Args: wantArgs(0, 1),
	}
	root := rootFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		book, err := evidence.Open(*root)
		if err != nil {
			return err
		}
		if len(args) == 1 {
			left, err := book.Take(args[0])
			for _, line := range left {
				fmt.Fprintln(cmd.ErrOrStderr(), "left out:", line)
			}
			if err != nil {
				return err
			}
		}
		return writePages(cmd, book)
	}
	return cmd
}

func newEvidenceCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check pages against recipes, results and this program",
		Long: `Check that the pages are as recipes and results say, and that this program takes every command on every
page. It lists results that are not kept, have few seeds, or are older than the code they depend on, and figures that
were typed by hand. With --rerun it computes quick rows again, those of less than a minute, and checks that their scores
are in the range that another seed may have. The status is 1 if something is wrong.`,
		Example: `  hippo evidence check
  hippo evidence check --rerun 3m`,
		Args: wantArgs(0, 0),
	}
	root, data := rootFlag(cmd), dataFlag(cmd)
	rerun := cmd.Flags().Duration("rerun", 0, "compute quick rows again, as many as took this long in all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		book, runner, err := openEvidence(cmd, *root, *data)
		if err != nil {
			return err
		}
		report, err := book.Check(callParser())
		if err != nil {
			return err
		}
		if err := book.Ages(cmd.Context(), report); err != nil {
			return err
		}
		again := ""
		if *rerun > 0 {
			ran, rows, err := book.Rerun(cmd.Context(), runner, *rerun, report)
			if err != nil {
				return err
			}
			again = fmt.Sprintf("; computed again: %d of %d quick rows", ran, rows)
		}
		out := cmd.OutOrStdout()
		for _, line := range report.Notes {
			fmt.Fprintln(out, "note:", line)
		}
		for _, line := range report.Faults {
			fmt.Fprintln(out, "wrong:", line)
		}
		fmt.Fprintf(out, "%d wrong, %d notes; %d calls of hippo were parsed%s\n", len(report.Faults), len(report.Notes),
			report.Calls, again)
		if len(report.Faults) > 0 {
			return errors.New("the pages do not hold")
		}
		return nil
	}
	return cmd
}

// callParser returns a function that checks the arguments of a call of this program without running it. Models that a
// page names need not exist.
func callParser() func(args []string) error {
	root := newRoot()
	return func(args []string) error {
		if err := knownCommand(root, args); err != nil {
			return err
		}
		cmd, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		defer cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Changed = false }) // for the next use of this command
		cmd.InitDefaultHelpFlag()
		if err := cmd.ParseFlags(rest); err != nil {
			return cmd.FlagErrorFunc()(cmd, err)
		}
		if cmd.Flags().Changed("help") {
			return nil
		}
		err = cmd.ValidateArgs(cmd.Flags().Args())
		if errors.As(err, new(missingModel)) {
			err = nil
		}
		return errors.Join(err, cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups())
	}
}

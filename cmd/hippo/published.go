package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/inspect"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release/hub"
)

func newList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the published models on this machine",
		Long: `List the models in the cache of hippo pull and of the hub's other tools, the last fetched first: name,
family, parameters, the precision of most of them, size and date. Weights are not read. Models trained here are not
listed: they are in the folders of their runs.`,
		Example: "  hippo list\n  hippo list --json",
		Args:    wantArgs(0, 0),
	}
	jsonFlag(cmd, objectLine)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cache, err := hub.DefaultCache()
		if err != nil {
			return err
		}
		list, err := cache.List()
		if err != nil {
			return err
		}
		return showList(cmd, list, func(out io.Writer, list []hub.Entry) error { return printModels(out, cache, list) })
	}
	return cmd
}

func printModels(out io.Writer, cache hub.Cache, list []hub.Entry) error {
	var lines [][]string
	for _, e := range list {
		lines = append(lines, []string{brief.Line(e.Name), inspect.OrUnknown(e.Family),
			inspect.Parameters(e.Parameters), inspect.OrUnknown(e.Precision), status.Bytes(e.Bytes),
			status.Minute(e.Pulled)})
	}
	if len(lines) > 0 {
		head := []string{"name", "family", "parameters", "precision", "size", "pulled"}
		if err := status.Grid(out, head, lines, false); err != nil {
			return err
		}
	}
	for _, e := range list {
		if e.Problem != "" {
			fmt.Fprintf(out, "%s: %s\n", brief.Line(e.Name), e.Problem)
		}
	}
	_, err := fmt.Fprintf(out, "%d models in %s\n", len(list), cache.Dir)
	return err
}

func newRemove() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a published model from this machine",
		Long: `Remove the published model NAME from the cache, for the hub's other tools as well: all its revisions;
with org/name:REVISION that revision; with org/name:FILE or :QUANTISATION that file. Files that another revision shares
stay. On a terminal it asks first; elsewhere it wants --yes.`,
		Example:           "  hippo rm org/name\n  hippo rm org/name:Q8_0 --yes",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completePublished),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	jsonFlag(cmd, oneObject)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, cache, err := publishedName(args[0])
		if err != nil {
			return err
		}
		plan, err := cache.PlanRemoval(name)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s: %d files, %s", name, plan.Files, status.Bytes(plan.Bytes))
		if !yes {
			if ok, err := confirm(cmd, "remove "+what+"?"); !ok || err != nil {
				return err
			}
		}
		if err := plan.Remove(); err != nil {
			return err
		}
		removed := map[string]any{"name": name.String(), "files": plan.Files, "bytes": plan.Bytes}
		return show(cmd, removed, func(out io.Writer) error {
			_, err := fmt.Fprintln(out, "removed "+what)
			return err
		})
	}
	return cmd
}

// confirm asks a yes-or-no question on the terminal.
func confirm(cmd *cobra.Command, question string) (bool, error) {
	if !isTerminal(os.Stdin) {
		return false, fmt.Errorf("%s There is no terminal to ask on: want --yes", question)
	}
	fmt.Fprintf(os.Stderr, "%s [y/N] ", question)
	line, err := unlessDone(cmd.Context(), func() (string, error) { return bufio.NewReader(os.Stdin).ReadString('\n') })
	if err != nil && err != io.EOF {
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/release/hub"
)

func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the published models that were fetched",
		Long: `List the models in the cache of hippo pull and of the hub's other tools, what was fetched last first:
name, family, parameters, the precision of most of them, size and date. Weights are not read. Models trained here are in
the folders of their runs, and not listed.`,
		Example: "  hippo list\n  hippo list --json",
		Args:    wantArgs(0, 0),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cache, err := hub.DefaultCache()
		if err != nil {
			return err
		}
		list, err := cache.List()
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON {
			for _, e := range list {
				if err := json.NewEncoder(out).Encode(e); err != nil {
					return err
				}
			}
			return nil
		}
		return printModels(out, cache, list)
	}
	return cmd
}

func printModels(out io.Writer, cache hub.Cache, list []hub.Entry) error {
	var lines [][]string
	for _, e := range list {
		lines = append(lines, []string{brief.Line(e.Name), orUnknown(e.Family), parameters(e.Parameters),
			orUnknown(e.Precision), status.Bytes(uint64(e.Bytes)), e.Pulled.Format("2006-01-02 15:04")})
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

// parameters writes their number, which PyTorch's files do not tell without being read.
func parameters(n int64) string {
	if n == 0 {
		return orUnknown("")
	}
	return status.Count(float64(n))
}

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show what the files of a published model say of it",
		Long: `Show the published model NAME, which hippo pull has fetched: its family, parameters and files, and what
its configuration or its .gguf file says of it. The weights are not read. hippo info tells how it is read as a model.`,
		Example:           "  hippo show org/name\n  hippo show org/name:Q8_0 --json",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completePublished),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if info, err := os.Stat(args[0]); err == nil {
			kind := "file"
			if info.IsDir() {
				kind = "folder"
			}
			return fmt.Errorf("%s: found a %s, want the name of a published model (hippo info describes a %s)", args[0],
				kind, kind)
		}
		name, cache, err := publishedName(args[0])
		if err != nil {
			return err
		}
		shown, err := cache.Show(name)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(shown)
		}
		return printShown(cmd.OutOrStdout(), shown)
	}
	return cmd
}

func printShown(out io.Writer, s hub.Shown) error {
	t := status.NewTable(out)
	t.Row("model", "%s", brief.Line(s.Name))
	t.Row("commit", "%s", s.Commit)
	t.Row("path", "%s", s.Path)
	t.Row("family", "%s", orUnknown(s.Family))
	t.Row("parameters", "%s (%d), most of them as %s", parameters(s.Parameters), s.Parameters, orUnknown(s.Precision))
	t.Row("size", "%s", status.Bytes(uint64(s.Bytes)))
	t.Row("pulled", "%s", s.Pulled.Format("2006-01-02 15:04"))
	if s.Problem != "" {
		t.Row("problem", "%s", s.Problem)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Said)) {
		text, err := json.Marshal(s.Said[key])
		if err != nil {
			return err
		}
		t.Row(brief.Line(key), "%s", brief.Line(string(text)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	var lines [][]string
	for _, f := range s.Files {
		lines = append(lines, []string{brief.Line(f.Path), status.Bytes(uint64(f.Size))})
	}
	fmt.Fprintln(out)
	return status.Grid(out, []string{"file", "size"}, lines, false)
}

func newRemove() *cobra.Command {
	var yes, asJSON bool
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a published model from the cache",
		Long: `Remove the published model NAME from the cache, for the hub's other tools as well: all revisions of it;
with org/name:REVISION that revision; with org/name:FILE or :QUANTISATION that file. What another revision shares with
it stays. It asks first on a terminal; elsewhere it wants --yes.`,
		Example:           "  hippo rm org/name\n  hippo rm org/name:Q8_0 --yes",
		Args:              wantArgs(1, 1),
		ValidArgsFunction: completeArgs(completePublished),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, cache, err := publishedName(args[0])
		if err != nil {
			return err
		}
		plan, err := cache.PlanRemoval(name)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("%s: %d files, %s", name, plan.Files, status.Bytes(uint64(plan.Bytes)))
		if !yes {
			if ok, err := confirm(cmd, "remove "+what+"?"); !ok || err != nil {
				return err
			}
		}
		if err := plan.Remove(); err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{
				"name": name.String(), "files": plan.Files, "bytes": plan.Bytes,
			})
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "removed "+what)
		return err
	}
	return cmd
}

// confirm asks a question on the terminal.
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

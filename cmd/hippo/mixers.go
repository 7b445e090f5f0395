package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/model"
)

func newMixers() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mixers [NAME]",
		Short: "List the sequence mixers of which models are built, or the options of one",
		Long: `List the sequence mixers that --model.layers accepts: their time for l positions, the numbers in their
state for each sequence, what they can do, and the paper. With a name, list the options of that mixer, which are set in
parentheses: --model.layers 'h3(d_state=32)*3,attention(num_heads=8)'.`,
		Example: `  hippo mixers
  hippo mixers h3`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: completeArgs(cobra.FixedCompletions(model.MixerNames(), cobra.ShellCompDirectiveNoFileComp)),
	}
	jsonFlag(cmd, objectLine)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		infos := mixerInfos()
		if len(args) == 1 {
			i := slices.IndexFunc(infos, func(m mixerInfo) bool { return m.Name == args[0] })
			if i < 0 {
				names := model.MixerNames()
				return fmt.Errorf("found the mixer %q, want one of %s%s", args[0], strings.Join(names, ", "),
					config.DidYouMean(args[0], names))
			}
			infos = infos[i : i+1]
		}
		out := cmd.OutOrStdout()
		switch {
		case asJSON(cmd):
			for _, m := range infos {
				if err := plainJSON(out).Encode(m); err != nil {
					return err
				}
			}
			return nil
		case len(args) == 1:
			return printMixer(out, infos[0])
		}
		var lines [][]string
		for _, m := range infos {
			lines = append(lines, []string{m.Name, m.Time, m.State, strings.Join(m.Can, ", "), m.Paper})
		}
		return status.Grid(out, []string{"mixer", "time", "state", "can", "paper"}, lines, false)
	}
	return cmd
}

// mixerInfo is what hippo mixers prints about a mixer.
type mixerInfo struct {
	Name    string             `json:"name"`
	Paper   string             `json:"paper"`
	Time    string             `json:"time"`
	State   string             `json:"state"`
	Can     []string           `json:"can"`
	Options []config.Described `json:"options"`
}

func mixerInfos() (infos []mixerInfo) {
	for _, m := range model.Mixers() {
		info := mixerInfo{Name: m.Name, Paper: m.Paper, Time: m.Time, State: m.State, Options: model.MixerOptions(m)}
		for i, can := range []bool{m.Causal, m.Bidirectional, m.Recurrent} {
			if can {
				info.Can = append(info.Can, []string{"causal", "bidirectional", "recurrent"}[i])
			}
		}
		infos = append(infos, info)
	}
	return infos
}

func printMixer(out io.Writer, m mixerInfo) error {
	fmt.Fprintf(out, "%s: %s\ntime   %s\nstate  %s\ncan    %s\n", m.Name, m.Paper, m.Time, m.State,
		strings.Join(m.Can, ", "))
	if len(m.Options) == 0 {
		_, err := fmt.Fprintln(out, "It has no options.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\noption\tdefault\t")
	for _, o := range m.Options {
		fmt.Fprintf(w, "%s\t%s\t%s\n", o.Key, o.Value, o.Help)
	}
	return w.Flush()
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/task"
)

func newTask() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "The papers' experiments: train and score models on tasks",
		Long: `Run the experiments that state-space models are known by: synthetic languages, the Long Range Arena,
images, speech and other streams as sequences, forecasts. A task makes its data or reads the published files; its
recipes are models with the settings of their training; results are kept as JSON and printed beside the papers'.`,
		Example: `  hippo task list
  hippo task table
  hippo task run induction --model h3
  hippo task run 'etth1(horizon=168)' --data data/ETT-small`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTaskList(), newTaskRun(), newTaskTable(), newTaskHeads(), newTaskStream())
	return cmd
}

func newTaskList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [TASK]",
		Short: "List the tasks, or the recipes and options of one",
		Example: `  hippo task list
  hippo task list induction`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: completeArgs(cobra.FixedCompletions(taskNames(), cobra.ShellCompDirectiveNoFileComp)),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tasks := task.All()
		if len(args) == 1 {
			t, err := task.Find(args[0])
			if err != nil {
				return err
			}
			tasks = []*task.Task{t}
		}
		out := cmd.OutOrStdout()
		switch {
		case asJSON:
			return printTasksJSON(out, tasks)
		case len(args) == 1:
			return printTask(out, tasks[0])
		}
		return printTasks(out, tasks)
	}
	return cmd
}

func taskNames() []string {
	var names []string
	for _, t := range task.All() {
		names = append(names, t.Name)
	}
	return names
}

// printTasks lists the tasks by their groups.
func printTasks(out io.Writer, tasks []*task.Task) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, group := range task.Groups {
		first := true
		for _, t := range tasks {
			if t.Group != group {
				continue
			}
			if first {
				fmt.Fprintf(w, "%s\n", group)
				first = false
			}
			fmt.Fprintf(w, "  %s\t%s\n", t.Name, t.About)
		}
	}
	return w.Flush()
}

func printTask(out io.Writer, t *task.Task) error {
	fmt.Fprintf(out, "%s: %s\n%s\n", t.Name, t.About, t.Source)
	if t.Files != "" {
		fmt.Fprintf(out, "files: %s\n", t.Files)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\nmodels:\n")
	for _, r := range experiment.Recipes(t) {
		published := ""
		if r.Published != 0 {
			published = fmt.Sprintf("%g (%s)", r.Published, r.Where)
		}
		fmt.Fprintf(w, "  %s\t%s\n", r.Name, published)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if t.Options != nil {
		fmt.Fprint(w, "\noptions:\n")
		for _, o := range config.Describe(t.Options()) {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", o.Key, o.Value, o.Help)
		}
	}
	return w.Flush()
}

func printTasksJSON(out io.Writer, tasks []*task.Task) error {
	type recipe struct {
		Name      string   `json:"name"`
		Settings  []string `json:"settings"`
		Published float64  `json:"published,omitempty"`
		Where     string   `json:"where,omitempty"`
	}
	for _, t := range tasks {
		var options []mixerOption
		if t.Options != nil {
			for _, o := range config.Describe(t.Options()) {
				options = append(options, mixerOption{o.Key, o.Value, o.Help})
			}
		}
		var recipes []recipe
		for _, r := range experiment.Recipes(t) {
			recipes = append(recipes, recipe{r.Name, r.Settings(t), r.Published, r.Where})
		}
		err := json.NewEncoder(out).Encode(struct {
			Name    string        `json:"name"`
			Group   string        `json:"group"`
			About   string        `json:"about"`
			Source  string        `json:"source"`
			Files   string        `json:"files,omitempty"`
			Options []mixerOption `json:"options,omitempty"`
			Models  []recipe      `json:"models"`
		}{t.Name, t.Group, t.About, t.Source, t.Files, options, recipes})
		if err != nil {
			return err
		}
	}
	return nil
}

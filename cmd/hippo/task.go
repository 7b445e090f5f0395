package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/hippo-ssm/hippo/experiment"
	"github.com/hippo-ssm/hippo/task"
)

func newTask() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Run the papers' experiments: train and score models on tasks",
		Long: `Run the experiments that state-space models are known by: synthetic languages, the Long Range Arena,
images, speech and other streams as sequences, forecasts. A task makes its data or reads the published files. Its
recipes are models with the settings of their training. Results are saved as JSON and printed next to the papers'.`,
		Example: `  hippo task list
  hippo task table
  hippo task run induction --model h3
  hippo task run 'etth1(horizon=168)' --data data/ETT-small`,
	}
	cmd.AddCommand(newTaskList(), newTaskRun(), newTaskTable(), newTaskHeads(), newTaskStream(), newTaskSound())
	return cmd
}

func newTaskList() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [TASK]",
		Short: "List the tasks, or the recipes and options of one",
		Example: `  hippo task list
  hippo task list induction`,
		Args:              wantArgs(0, 1),
		ValidArgsFunction: completeTask,
	}
	jsonFlag(cmd, objectLine)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		tasks := task.All()
		if len(args) == 1 {
			t, err := task.Find(args[0])
			if err != nil {
				return err
			}
			tasks = []*task.Task{t}
		}
		var infos []experiment.TaskInfo
		for _, t := range tasks {
			infos = append(infos, experiment.InfoOf(t))
		}
		return showList(cmd, infos, func(out io.Writer, _ []experiment.TaskInfo) error {
			return experiment.PrintTasks(out, tasks)
		})
	}
	return cmd
}

// completeTask completes the name of a task.
func completeTask(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, t := range task.All() {
		names = append(names, t.Name)
	}
	return completeArgs(cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))(cmd, args, start)
}

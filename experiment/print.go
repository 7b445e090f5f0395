package experiment

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"text/tabwriter"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/internal/status"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train"
)

// PrintTasks prints one task with its models and options, or a list of tasks by group.
func PrintTasks(out io.Writer, tasks []*task.Task) error {
	if len(tasks) == 1 {
		return printTask(out, tasks[0])
	}
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
	for _, r := range Recipes(t) {
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

// TaskInfo is a task as JSON.
type TaskInfo struct {
	Name    string             `json:"name"`
	Group   string             `json:"group"`
	About   string             `json:"about"`
	Source  string             `json:"source"`
	Files   string             `json:"files,omitempty"`
	Options []config.Described `json:"options,omitempty"`
	Models  []recipeInfo       `json:"models"`
}

type recipeInfo struct {
	Name      string   `json:"name"`
	Settings  []string `json:"settings"`
	Published float64  `json:"published,omitempty"`
	Where     string   `json:"where,omitempty"`
}

// InfoOf returns a task with its recipes and options.
func InfoOf(t *task.Task) TaskInfo {
	info := TaskInfo{Name: t.Name, Group: t.Group, About: t.About, Source: t.Source, Files: t.Files}
	if t.Options != nil {
		info.Options = config.Describe(t.Options())
	}
	for _, r := range Recipes(t) {
		info.Models = append(info.Models, recipeInfo{r.Name, r.Settings(t), r.Published, r.Where})
	}
	return info
}

// Print prints the result of a run as a table.
func (r *Result) Print(out io.Writer) error {
	w := status.NewTable(out)
	w.Row("task", "%s", r.Task)
	w.Row("model", "%s, %s parameters, seed %d", r.Recipe, status.Count(r.Params), r.Seed)
	w.Row("test", "%s", ScoreText(r.Test, r.Numbers))
	if text := r.PublishedRow(); text != "" {
		w.Row("published", "%s", text)
	}
	r.eachCoded(w.Row)
	groups := func(s train.Score) {
		for _, tag := range s.Tags {
			w.Row("  "+tag.Name, "%s of %d", status.Percent(tag.Accuracy, tag.Count), tag.Count)
		}
	}
	groups(r.Test)
	for _, x := range r.Extra {
		w.Row(x.Name, "%s%s", ScoreText(x.Score, r.Numbers), PublishedText(x.Published))
		groups(x.Score)
	}
	w.Row("training", "%.1f epochs, %s (%s of CPU time in all)", r.Epochs, status.Duration(Seconds(r.TrainSeconds)),
		status.Duration(Seconds(r.CPUSeconds)))
	w.Row("machine", "%s", r.Machine)
	w.Row("report", "%s", filepath.Join(r.Config.Out, ReportFile))
	return w.Flush()
}

// eachCoded calls row for the bits per target, if the target is scored by bits, and for the scores of simple methods.
func (r *Result) eachCoded(row func(key, format string, args ...any)) {
	if r.Coded != "" {
		row("coded by", "%s", r.Bits(r.Test.Loss))
	}
	for _, x := range r.Simple {
		row(x.Name, "%s", r.simpleText(x))
	}
}

// Bits formats a loss in nats as bits per target.
func (r *Result) Bits(loss float64) string {
	return fmt.Sprintf("%.4f bits/%s", loss/math.Ln2, r.Coded)
}

// simpleText formats the score of a simple method.
func (r *Result) simpleText(x task.Simple) string {
	switch {
	case r.Coded != "":
		return r.Bits(x.Loss)
	case r.Numbers:
		return "MSE " + ErrorText(x.Loss)
	}
	return status.Percent(x.Accuracy, r.Test.Count) + ", loss " + ErrorText(x.Loss)
}

// PrintRows prints the rows of a table in columns or as Markdown.
func PrintRows(out io.Writer, rows []Summary, markdown bool) error {
	head := []string{"task", "model", "parameters", "score", "published", "training", "also"}
	var lines [][]string
	for _, r := range rows {
		published := ""
		if r.Published != 0 {
			published = fmt.Sprintf("%g", r.Published)
		}
		lines = append(lines, []string{r.Task, r.Model, status.Count(r.Params),
			ScoresText(r.Scores, r.Numbers, r.Count), published, status.Duration(Seconds(r.Seconds)), r.Also()})
	}
	return status.Grid(out, head, lines, markdown)
}

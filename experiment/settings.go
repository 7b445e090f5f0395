// Package experiment runs the papers' tasks. It trains and scores a model by a recipe, saves the result and a report,
// runs tables of them, and compares the scores with the published ones. Package task has the data, package train the
// training. Progress is reported through Events.
package experiment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// Config holds all settings of a run of a task: the defaults, changed by the recipe, then by the user.
type Config struct {
	Task   string `json:"task" config:"-"`   // with options not at their defaults, such as induction(length=40)
	Recipe string `json:"recipe" config:"-"` // the name of the recipe

	Data string `json:"data" help:"folder of the task's files, for tasks that read files"`

	labelled.Config
}

// Check returns all problems of a run that can be found before its data is created or read: those of Validate, and a
// missing folder of files.
func (c *Config) Check() error {
	var p config.Problems
	p.Add(c.Validate())
	if t, err := task.Find(TaskName(c.Task)); err == nil && t.Files != "" && c.Data != "" {
		if _, err := os.Stat(c.Data); errors.Is(err, fs.ErrNotExist) {
			p.Addf("data", "found no folder %s, want one with %s", c.Data, t.Files)
		}
	}
	return p.Err()
}

// Settings is the configuration of a task by its recipe, before the user's changes, with the values of the task's
// options.
type Settings struct {
	Task    *task.Task
	Recipe  Recipe
	Options any // the value of Task.Options with the settings filled in; nil if the task has none
	Config  Config
}

// Find parses NAME or NAME(OPTION=VALUE,...) and finds the recipe with the given name, "" for the first one. Options in
// the entry override those that the recipe sets. Find returns all problems of both at once, with settings that leave
// out the invalid parts.
func Find(entry, recipe string) (*Settings, error) {
	s := &Settings{Config: Config{Config: labelled.Default()}}
	name, given, err := model.ParseEntry(entry)
	if err != nil {
		return s, fmt.Errorf("task: %w", err)
	}
	t, err := task.Find(name)
	if err != nil {
		return s, err
	}
	var p config.Problems
	r, err := recipeOf(t, recipe)
	if err != nil {
		p.Add(err)
		r = Recipes(t)[0]
	}
	s, err = settingsOf(t, r, given)
	p.Add(err)
	return s, p.Err()
}

// settingsOf returns the settings of a task's recipe with the given options of the task. An error comes with settings
// that leave out the invalid parts.
func settingsOf(t *task.Task, recipe Recipe, given map[string]string) (*Settings, error) {
	s := &Settings{Task: t, Recipe: recipe, Config: Config{Config: labelled.Default()}}
	var p config.Problems
	recipe.Set(&s.Config.Config)
	switch {
	case t.Options != nil:
		s.Options = t.Options()
		if recipe.Options != nil {
			recipe.Options(s.Options)
		}
		p.AddUnder("task "+t.Name+": ", config.Pairs(s.Options, given))
	case len(given) > 0:
		p.Addf("task "+t.Name, "found options, but it has none")
	}
	s.Config.Task, s.Config.Recipe = s.entry(), s.Recipe.Name
	return s, p.Err()
}

// Open creates or reads the data of the run.
func (c *Config) Open(ctx context.Context) (*task.Set, error) {
	s, err := Find(c.Task, c.Recipe)
	if err != nil {
		return nil, err
	}
	return s.Task.Open(ctx, c.Data, s.Options)
}

// entry returns the task's name with its options that are not at their defaults.
func (s *Settings) entry() string {
	if s.Options == nil {
		return s.Task.Name
	}
	if set := different(s.Task.Options(), s.Options); len(set) > 0 {
		return s.Task.Name + "(" + strings.Join(set, ",") + ")"
	}
	return s.Task.Name
}

// TaskName returns the name in an entry such as induction(length=40).
func TaskName(entry string) string {
	name, _, _ := strings.Cut(entry, "(")
	return name
}

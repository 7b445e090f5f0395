package experiment

import (
	"fmt"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/task"
	"github.com/hippo-ssm/hippo/train/labelled"
)

// Recipe is a model for a task with the settings of its training.
type Recipe struct {
	Name string // of the model, in commands and tables
	// Set changes the defaults to the recipe's settings.
	Set func(c *labelled.Config)
	// Options changes the options of the task. It knows their type. nil changes none.
	Options   func(options any)
	Published float64 // the paper's result: accuracy in percent, or mean squared error; 0 for none
	Where     string  // paper and table that Published is from
}

// recipes are the recipes of each task. The first is its default.
var recipes = map[*task.Task][]Recipe{
	task.InductionHead:    inductionRecipes,
	task.Recall:           recallRecipes,
	task.RecallLarge:      recallLargeRecipes,
	task.MQAR:             mqarRecipes,
	task.SelectiveCopying: copyingRecipes,
	task.Text:             withRivals(textRecipes, 4096),
	task.Retrieval:        withRivals(retrievalRecipes, 4096),
	task.Image:            withRivals(imageRecipes, 1024),
	task.Pathfinder:       withRivals(pathfinderRecipes, 1024),
	task.PathX:            withRivals(pathXRecipes, 16384),
	task.ListOps:          withRivals(listOpsRecipes, 2048),
	task.Author:           withRivals(passageRecipes, 1024),
	task.SameAuthor:       withRivals(passageRecipes, 1024),
	task.SMNIST:           withRivals(mnistRecipes, 1024),
	task.PSMNIST:          withRivals(mnistRecipes, 1024),
	task.Frequency:        frequencyRecipes,
	task.Digits:           digitsRecipes,
	task.ECG:              ecgRecipes,
	task.DNA:              dnaRecipes,
	task.Speech:           speechRecipes,
	task.ETTh1:            ettRecipes,
	task.ETTh2:            ettRecipes,
}

// Recipes returns the recipes of a task. The first is its default.
func Recipes(t *task.Task) []Recipe { return recipes[t] }

// recipeOf returns the recipe of a task with a name, or the first one for "".
func recipeOf(t *task.Task, name string) (Recipe, error) {
	var names []string
	for _, r := range Recipes(t) {
		if r.Name == name || name == "" {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Recipe{}, fmt.Errorf("task %s: found the model %q, want one of %s", t.Name, name, strings.Join(names, ", "))
}

// Settings lists the settings of a recipe that differ from the defaults, as KEY=VALUE: the task's options first, then
// those of training.
func (r *Recipe) Settings(t *task.Task) []string {
	var lines []string
	if r.Options != nil {
		options := t.Options()
		r.Options(options)
		lines = different(t.Options(), options)
	}
	defaults, c := labelled.Default(), labelled.Default()
	r.Set(&c)
	return append(lines, different(&defaults, &c)...)
}

// different lists the settings that are not at their defaults, as KEY=VALUE.
func different(defaults, set any) (lines []string) {
	was := config.Describe(defaults)
	for i, o := range config.Describe(set) {
		if o.Value != was[i].Value {
			lines = append(lines, o.Key+"="+o.Value)
		}
	}
	return lines
}

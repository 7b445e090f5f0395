package experiment

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
)

// measuring are settings that say where and when is measured, by which machine, and with which random numbers: a
// published result holds whatever they are.
var measuring = []string{"data", "out", "seed", "eval_every", "eval_limit", "shards", "clock"}

// changed lists what a run changes of the settings of its recipe, options of the task among them, as "key: a -> b". A
// published result is one of the recipe's own settings.
func (s *Settings) changed(c Config) ([]string, error) {
	own, err := settingsOf(s.Task, s.Recipe, nil)
	if err != nil {
		return nil, err
	}
	var lines []string
	if s.Options != nil && s.Recipe.Published != 0 { // else what is published is of these very options
		lines = config.Diff(own.Options, s.Options)
	}
	lines = append(lines, config.Diff(&own.Config, &c)...)
	return slices.DeleteFunc(lines, func(line string) bool {
		key, _, _ := strings.Cut(line, ":")
		return slices.Contains(measuring, key)
	}), nil
}

// settlePublished takes published results away from a run of other settings than they are of, and notes what differs;
// so it does with results of earlier versions.
func (r *Result) settlePublished(s *Settings) error {
	compares := r.Published != 0 || slices.ContainsFunc(r.Extra, func(x ExtraScore) bool { return x.Published != 0 })
	if !compares {
		return nil
	}
	lines, err := s.changed(r.Config)
	if err != nil || len(lines) == 0 {
		return err
	}
	r.Changed = lines
	r.Published, r.Where = 0, ""
	for i := range r.Extra {
		r.Extra[i].Published = 0
	}
	return nil
}

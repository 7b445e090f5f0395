package experiment

import (
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/internal/config"
)

// measuring are settings of where and when to measure, on which machine, and with which random numbers. They do not
// affect which published result a run compares with.
var measuring = []string{"data", "out", "seed", "eval_every", "eval_limit", "shards", "clock"}

// changed lists the settings of a run, options of the task among them, that differ from its recipe's, as "key: a -> b".
// A published result holds for the recipe's own settings.
func (s *Settings) changed(c Config) ([]string, error) {
	own, err := settingsOf(s.Task, s.Recipe, nil)
	if err != nil {
		return nil, err
	}
	var lines []string
	if s.Options != nil && s.Recipe.Published != 0 { // else the published result is of these options
		lines = config.Diff(own.Options, s.Options)
	}
	lines = append(lines, config.Diff(&own.Config, &c)...)
	return slices.DeleteFunc(lines, func(line string) bool {
		key, _, _ := strings.Cut(line, ":")
		return slices.Contains(measuring, key)
	}), nil
}

// settlePublished removes published results from a run whose settings are not those of the publication, and notes the
// differences. This applies to results of earlier versions, too.
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

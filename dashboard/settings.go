package dashboard

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/hippo-ssm/hippo/internal/disk"
)

// Setting is a key of the settings of some runs.
type Setting struct {
	Key    string    `json:"key"`
	Values []*string `json:"values"` // one for each run; null if the run has no such key
	Differ bool      `json:"differ"`
}

// compare returns the settings of some runs, sorted by key.
func compare(runs []*folder) ([]Setting, error) {
	all := make([]map[string]string, len(runs))
	var keys []string
	for i, r := range runs {
		values, err := r.settings()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		all[i] = values
		for key := range values {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	table := make([]Setting, 0, len(keys))
	for _, key := range keys {
		s := Setting{Key: key}
		for _, values := range all {
			var shown *string
			if v, ok := values[key]; ok {
				shown = &v
			}
			s.Values = append(s.Values, shown)
			first := s.Values[0]
			s.Differ = s.Differ || (first == nil) != (shown == nil) || first != nil && *first != *shown
		}
		table = append(table, s)
	}
	return table, nil
}

// settings returns the configuration of a run, with the keys of nested settings joined by dots.
func (r *folder) settings() (map[string]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, configFile)
	return r.values.of(path, func() (map[string]string, error) { return readSettings(path) })
}

func readSettings(path string) (map[string]string, error) {
	data, err := disk.ReadText(path, disk.MaxText)
	if err != nil {
		return nil, err
	}
	var tree yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(data, &tree, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	values := map[string]string{}
	flatten(values, "", tree)
	return values, nil
}

// flatten adds the settings of a tree to values, with the prefix before their keys.
func flatten(values map[string]string, prefix string, tree yaml.MapSlice) {
	for _, item := range tree {
		key := prefix + fmt.Sprint(item.Key)
		if below, ok := item.Value.(yaml.MapSlice); ok {
			flatten(values, key+".", below)
			continue
		}
		values[key] = fmt.Sprint(item.Value)
	}
}

// wantedSteps returns the number of updates of a whole run, or 0 if it is unknown.
func wantedSteps(values map[string]string) int64 {
	if limit := values["train.time"]; limit != "" && limit != "0s" && limit != "0" {
		return 0 // the run ends after a time
	}
	n, err := strconv.ParseInt(values["train.steps"], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// share returns the finished fraction of a run, according to the limit that it reaches first: updates, epochs or time.
// It returns 0 if the fraction is unknown.
func share(values map[string]string, step, epoch, seconds float64) float64 {
	done := 0.0
	reached := func(at, most float64) {
		if most > 0 {
			done = max(done, min(1, at/most))
		}
	}
	reached(step, float64(wantedSteps(values)))
	if most, err := strconv.ParseFloat(values["epochs"], 64); err == nil {
		reached(epoch, most)
	}
	for _, key := range []string{"train.time", "time"} {
		if most, err := time.ParseDuration(values[key]); err == nil {
			reached(seconds, most.Seconds())
		}
	}
	return done
}

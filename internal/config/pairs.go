package config

import (
	"maps"
	"slices"
	"strings"
)

// Pairs sets the fields of the struct that cfg points to from texts by key, like Load. The error is a Problems with a
// line for each text that has no field, the wrong type or is out of range; all others have been applied.
func Pairs(cfg any, values map[string]string) error {
	l := loader{schema: newSchema(cfg)}
	var names []string
	for _, f := range l.schema.fields {
		names = append(names, f.key)
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		f := l.schema.byKey[key]
		switch {
		case f != nil:
			l.set(f, key, values[key])
		case len(names) == 0:
			l.problems.Addf(key, "unknown option, there are none here")
		default:
			l.problems.Addf(key, "unknown option, want one of %s%s", strings.Join(names, ", "), DidYouMean(key, names))
		}
	}
	return l.problems.Err()
}

// Describe lists the fields of the struct cfg, or that cfg points to: key, default value and help, in the order of
// their declaration.
func Describe(cfg any) []Described {
	var out []Described
	for _, f := range newSchema(cfg).fields {
		if f.old && f.value.IsZero() {
			continue
		}
		out = append(out, Described{Key: f.key, Value: f.text(), Help: f.help})
	}
	return out
}

// Described is one field of Describe.
type Described struct {
	Key   string `json:"name"`
	Value string `json:"default"`
	Help  string `json:"help"`
}

// DidYouMean returns "; did you mean X?" for the known name that is closest to the given one, or "" if none is close.
func DidYouMean(name string, known []string) string { return didYouMean("", name, known) }

// Package release reads models as they were published: H3, Mamba and Mamba-2, HyenaDNA. A family is a file: the names
// of its tensors, the forms of its configuration, what its tensors do not show, and which of its layouts are not
// supported. Models made by hippo are read the same way: they have the names of H3 or Mamba, and a flat configuration
// of their own.
//
// It stands above package model, which knows only the names that its own parameters have, and package checkpoint, which
// knows formats and no names. It may import both, engine, internal/brief and internal/disk, and looks inside no tensor.
package release

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/model"
)

// family says how the models of a published family are read.
type family struct {
	// types are its values of model_type, by which the transformers library tells families apart.
	types []string
	// unread explains the values of model_type that are not supported.
	unread map[string]string
	// hasConfig reports whether a config.json is of this family rather than of one after it in families.
	hasConfig func(data []byte) bool
	config    func(data []byte) (model.Config, error)

	// hasNames reports the same of the names of tensors.
	hasNames func(names []string) bool
	// names maps official names of tensors to those in a file.
	names func(names []string) (map[string]string, error)
	// table is the official name of the embedding's weights.
	table string
	// extra returns an error for a tensor that is neither a parameter nor among those that every family may have, by
	// its name in the file, or nil to ignore it. Without this function each is an error.
	extra func(t tensors, key string) error
	// infer finds the configuration from the tensors. heads is the number of attention heads, 0 if unknown.
	infer func(t tensors, heads int) (model.Config, error)
}

// families are the supported ones. The last takes whatever no other does, among it the models that hippo made.
var families = []family{mamba, hyena, h3}

func familyOfConfig(data []byte) family {
	return families[slices.IndexFunc(families, func(f family) bool { return f.hasConfig(data) })]
}

func familyOfNames(names []string) family {
	return families[slices.IndexFunc(families, func(f family) bool { return f.hasNames(names) })]
}

// checkType returns an error for a configuration of a family that is not supported. H3's own configurations and those
// of HyenaDNA's first release have no model_type.
func checkType(data []byte) error {
	var c struct {
		Type any `json:"model_type"`
	}
	if json.Unmarshal(data, &c) != nil || c.Type == nil {
		return nil // the parser of the family reports other errors
	}
	name, _ := c.Type.(string)
	var types []string
	for _, f := range families {
		if what, ok := f.unread[name]; ok {
			return fmt.Errorf("model_type: found %q, %s", name, what)
		}
		types = append(types, f.types...)
	}
	if !slices.Contains(types, name) {
		return fmt.Errorf("model_type: found %q, want one of %s, or none: a config.json of H3's or HyenaDNA's release",
			fmt.Sprint(c.Type), strings.Join(types, ", "))
	}
	return nil
}

// set sets a field that a configuration has.
func set[T any](dst *T, src *T) {
	if src != nil {
		*dst = *src
	}
}

// addName gives a parameter its name in the file.
func addName(names map[string]string, name, inFile string) error {
	if other, ok := names[name]; ok {
		return fmt.Errorf("both %q and %q of the file are the parameter %q", other, inFile, name)
	}
	names[name] = inFile
	return nil
}

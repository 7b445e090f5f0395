// Package release reads published models: H3, Mamba, Mamba-2, HyenaDNA and RWKV-7 in the layouts of their authors, and
// the families of hfFamilies in the layout of the transformers library. Each family is a file with the names of its
// tensors, the forms of its configuration, the settings that its tensors do not show, and the layouts that are not
// supported. Models that hippo saved are read the same way: their tensors have the names of H3 or Mamba, and their
// configuration is flat.
//
// Package model knows only the names of its own parameters. Package checkpoint knows formats but no names.
package release

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/model"
)

// family describes how to read models that are published in a layout of their own.
type family struct {
	// unread explains unsupported values of model_type, by which the transformers library identifies families.
	unread map[string]string
	// hasConfig reports whether a config.json is of this family. Families that come later in families are not
	// considered.
	hasConfig func(data []byte) bool
	config    func(data []byte) (model.Config, error)

	// hasNames reports the same for the names of tensors.
	hasNames func(names []string) bool
	// names maps official names of tensors to those in a file.
	names func(names []string) (map[string]string, error)
	// table is the official name of the embedding's weights.
	table string
	// extra decides about a tensor that is neither a parameter nor permitted in every family, given its name in the
	// file: nil ignores it. If extra is nil, each such tensor is an error.
	extra func(t tensors, key string) error
	// hf returns the names of a family whose tensors do not correspond one to one to parameters. It is nil for other
	// families.
	hf func() hfNames
	// infer infers the configuration from the tensors. heads is the number of attention heads, 0 if unknown.
	infer func(t tensors, heads int) (model.Config, error)
}

// families contains the supported families. The last one accepts everything that no other does, including hippo's own
// models.
var families = []family{rwkv7Pth, mamba, hyena, h3}

func familyOfConfig(data []byte) family {
	return families[slices.IndexFunc(families, func(f family) bool { return f.hasConfig(data) })]
}

func familyOfNames(names []string) family {
	return families[slices.IndexFunc(families, func(f family) bool { return f.hasNames(names) })]
}

// parse parses a configuration of any family.
func parse(data []byte) (published, error) {
	data = pythonJSON(data)
	switch name := hfType(data); {
	case isHF(name):
		return readHF(data)
	case name != "" && name != h3Type:
		for _, f := range families {
			if what, ok := f.unread[name]; ok {
				return published{}, fmt.Errorf("model_type: found %q, %s", name, what)
			}
		}
		return published{}, unknownType(name, data)
	}
	c, err := familyOfConfig(data).config(data)
	return published{config: c}, err
}

// set sets *dst to *src unless src is nil.
func set[T any](dst *T, src *T) {
	if src != nil {
		*dst = *src
	}
}

// addName records the name that a parameter has in the file.
func addName(names map[string]string, name, inFile string) error {
	if other, ok := names[name]; ok {
		return fmt.Errorf("both %q and %q of the file are the parameter %q", other, inFile, name)
	}
	names[name] = inFile
	return nil
}

package release

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// InferConfig infers the configuration of a model from the shapes of its tensors, for families whose shapes determine
// it, or from the values of a GGUF file. heads is the number of attention heads, which only models with attention need.
// 0 means the number of the published model of the same width.
func InferConfig(f *checkpoint.File, heads int) (model.Config, error) {
	if f.Format() == checkpoint.FormatGGUF {
		p, err := ggufPublished(f)
		return p.config, err
	}
	if err := model.CheckTensors(f); err != nil {
		return model.Config{}, err
	}
	fam, t, err := officialTensors(f)
	if err != nil {
		return model.Config{}, err
	}
	c, err := fam.infer(t, heads)
	if err != nil {
		return c, brief.Error(fmt.Errorf("%s: %w", f.Path(), err))
	}
	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: configuration read off its tensors: %w", f.Path(), err)
	}
	return c, nil
}

// embedding returns the shape of the embedding's weights, or of the head's if they are tied.
func (t tensors) embedding(table string) []int {
	if shape := t.shape(table); shape != nil {
		return shape
	}
	return t.shape(headName)
}

var layerName = regexp.MustCompile(`^backbone\.layers\.(\d+)\.(.+)$`)

// layers calls visit for each tensor of a layer, with the number of the layer and the rest of the name. It returns the
// number of layers.
func (t tensors) layers(visit func(layer int, part string, shape []int)) (int, error) {
	n := 0
	for name := range t.keys {
		match := layerName.FindStringSubmatch(name)
		if match == nil {
			continue
		}
		i, err := strconv.Atoi(match[1])
		if err != nil || i > 1e6 {
			return 0, fmt.Errorf("found layer number %s", match[1])
		}
		n = max(n, i+1)
		visit(i, match[2], t.shape(name))
	}
	return n, nil
}

// some returns a list of the first three names.
func some(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

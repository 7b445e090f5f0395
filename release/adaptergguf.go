package release

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/brief"
	"github.com/hippo-ssm/hippo/model"
)

// An adapter in a GGUF file changes tensors of the GGUF file of its base (src/llama-adapter.cpp). For a tensor NAME (n,
// k) it holds NAME.lora_a, A (r, k), and NAME.lora_b, B (n, r), and the result is W + alpha/r·B A. For stacked experts
// A and B have one more axis. The columns of A and the rows of B are in the order of the tensor in the file.

// Keys and values of such a file.
const (
	ggufType        = "general.type"
	ggufAdapterType = "adapter.type"
	ggufAlpha       = "adapter.lora.alpha"
	ggufBaseName    = "general.base_model.0.name"
)

// WriteGGUFAdapter writes the adapter of m as a GGUF file. llama.cpp can apply it to the file that WriteGGUF writes of
// the base. a describes the adapter. published is the same as in GGUFOptions.
func WriteGGUFAdapter(w io.Writer, m *model.Model, a *Adapter, published []byte) error {
	s, err := ggufShapeOf(m, published)
	if err != nil {
		return fmt.Errorf("llama.cpp cannot run the model of this adapter: %w", err)
	}
	values := []checkpoint.GGUFValue{
		{Key: "general.architecture", Value: s.arch}, {Key: ggufType, Value: "adapter"},
		{Key: "general.name", Value: "adapter of " + a.Name}, {Key: "general.file_type", Value: uint32(0)},
		{Key: "general.base_model.count", Value: uint32(1)}, {Key: ggufBaseName, Value: a.Name},
		{Key: ggufAdapterType, Value: "lora"}, {Key: ggufAlpha, Value: float32(a.Alpha)},
	}
	var tensors []checkpoint.Tensor
	sources := func(parameter string) []model.Source { return s.published.names.sources(&m.Backbone, parameter) }
	for _, x := range changedTensors(m, sources) {
		columns, rows, err := s.forms.of(x.name).lowRank()
		if known := ggufArchs[s.arch].adapted; err == nil && known != "" && !isOneOf(x.name, known) {
			err = fmt.Errorf("found a change that llama.cpp's %s leaves out, want changes of %s alone", s.arch,
				strings.Join(strings.Fields(known), "*, ")+"*")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		pair := x.stacked(float64(float32(a.Alpha)))
		columns.change(pair[0].Shape, pair[0].values)
		rows.change(pair[1].Shape, pair[1].values)
		for _, y := range pair {
			tensors = append(tensors, checkpoint.NewTensor(y.Name, y.Shape, y.values))
		}
	}
	return checkpoint.WriteGGUF(w, values, tensors)
}

// isOneOf reports whether the name of a layer's tensor begins with one of the given words.
func isOneOf(name, words string) bool {
	_, part, _ := strings.Cut(strings.TrimPrefix(name, "blk."), ".")
	return hasPrefix(part, strings.Fields(words))
}

// lowRank returns the form of A, which has the tensor's columns, and the form of B, which has its rows.
func (form ggufForm) lowRank() (columns, rows ggufForm, err error) {
	columns = ggufForm{columns: form.columns}
	rows = ggufForm{heads: form.heads, rotated: form.rotated, factors: form.factors}
	if form.negExp || form.plusOne || form.axes != nil || form.squeeze || form.groups > 0 {
		err = errors.New("found a change of a tensor that is no product of llama.cpp's")
	}
	return columns, rows, err
}

type lowRankTensor struct {
	Name   string
	Shape  []int
	values []float32
}

// stacked returns A and B. Their scale is alpha divided by their rank, which all matrices of a stack share.
func (x *changedTensor) stacked(alpha float64) [2]lowRankTensor {
	n, rank := max(1, x.stack), 1
	byMatrix, all := make([][]*changePart, n), make([]changePart, n)
	for _, p := range x.parts {
		byMatrix[p.matrix] = append(byMatrix[p.matrix], p)
	}
	for i, parts := range byMatrix {
		if len(parts) > 0 {
			all[i] = joined(parts)
			rank = max(rank, all[i].rank)
		}
	}
	a, b := make([]float32, n*rank*x.width), make([]float32, n*x.rows*rank)
	for i, c := range all {
		copy(a[i*rank*x.width:], c.a)
		by := c.scale / (alpha / float64(rank)) // 1 if the part has the scale of the file
		for j, v := range c.b {
			b[(i*x.rows+j/c.rank)*rank+j%c.rank] = float32(float64(v) * by)
		}
	}
	axes := []int{x.stack}[:min(1, x.stack)]
	return [2]lowRankTensor{{x.name + ".lora_a", append(axes[:len(axes):len(axes)], rank, x.width), a},
		{x.name + ".lora_b", append(axes[:len(axes):len(axes)], x.rows, rank), b}}
}

// isGGUFAdapter reports whether a path is a GGUF file with an adapter.
func isGGUFAdapter(path string) bool {
	if !IsGGUF(path) {
		return false
	}
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		return false // the error is reported when the model is read
	}
	defer f.Close()
	return f.Values()[ggufType] == "adapter"
}

// readGGUF reads the values of a GGUF file. The adapter's rank is that of the first tensor.
func (a *Adapter) readGGUF() error {
	f, err := checkpoint.OpenGGUF(a.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	values, alpha := f.Values(), 0.
	a.arch, _ = values["general.architecture"].(string)
	a.Name, _ = values[ggufBaseName].(string)
	alpha, _ = values[ggufAlpha].(float64)
	c := adapterConfig{Type: strings.ToUpper(fmt.Sprint(values[ggufAdapterType])), Alpha: alpha,
		RankPattern: map[string]int{}}
	for _, name := range f.Names() {
		if x, _ := f.Tensor(name); strings.HasSuffix(name, ".lora_a") && len(x.Shape) > 1 {
			rank := x.Shape[len(x.Shape)-2]
			if c.R == 0 {
				c.R = rank
			}
			c.RankPattern[strings.TrimSuffix(name, ".weight.lora_a")] = rank
		}
	}
	if _, ok := ggufArchs[a.arch]; !ok {
		err = unknownArch(a.arch, f)
	}
	if !isScale(alpha) {
		err = errors.Join(err, fmt.Errorf("%s: found %s, want a number above 0", ggufAlpha,
			brief.Value(values[ggufAlpha])))
	} else {
		err = errors.Join(err, c.check())
	}
	if err != nil {
		return brief.Error(fmt.Errorf("%s: %w", a.Dir, err))
	}
	a.config, a.Rank, a.Alpha = c, c.R, alpha
	return nil
}

// ggufLowRankName matches the name of a tensor of an adapter in a GGUF file.
var ggufLowRankName = regexp.MustCompile(`^(.+)\.weight\.lora_([ab])$`)

// ggufWeights returns the tensors of the parameters of a model, without values, and their forms in a GGUF file of the
// adapter's architecture. path is the path of the model.
func (a *Adapter) ggufWeights(m *model.Model, path string) (model.Weights, ggufForms, error) {
	texts, err := ChatTexts(path)
	if err != nil {
		return model.Weights{}, nil, err
	}
	layers, err := layersOf(&m.Config)
	if err != nil {
		return model.Weights{}, nil, err
	}
	problems := []string{"other kinds of layers"}
	var s ggufShape
	if ggufArchs[a.arch].has(layers) {
		s, problems, err = ggufShapeIn(a.arch, m, texts[PublishedFile])
	}
	if len(problems) > 0 || err != nil {
		return model.Weights{}, nil, fmt.Errorf("%s: general.architecture: found %s, which is not that of %s (%s, %v)",
			a.Dir, a.arch, brief.Line(path), strings.Join(problems, "; "), err)
	}
	w := model.Weights{Keys: map[string]string{}}
	w.Sources = func(parameter string) []model.Source { return s.published.names.sources(&m.Backbone, parameter) }
	for _, p := range m.Products() {
		for _, source := range w.Sources(p.Name) {
			w.Keys[source.Name] = source.Name
		}
	}
	return w, s.forms, nil
}

package release

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// GGUFOptions specifies how WriteGGUF writes a model.
type GGUFOptions struct {
	Type      checkpoint.DType    // one of GGUFTypes
	Name      string              // general.name
	Tokenizer tokenizer.Tokenizer // nil for none; llama.cpp does not load such a file
	Template  string              // of a chat; "" for none
	BOS, EOS  string              // tokens that start and end a text; "" for those of Tokenizer
	EndIDs    []int32             // tokens that end a reply; a file has at most maxGGUFEnds
	Sampling  []byte              // content of generation_config.json; nil for none
	Published []byte              // content of PublishedFile; nil for none
	MTP       *model.MTP          // nil for none; left out if llama.cpp does not support it
}

// WriteGGUF writes a model of one of the architectures of ggufArchs as a GGUF file that llama.cpp runs. If llama.cpp
// cannot run the model, the error says why. The same model yields the same bytes. Reading the file gives back the model
// up to the rounding of Type.
func WriteGGUF(w io.Writer, m *model.Model, o GGUFOptions) error {
	fileType, ok := ggufFileTypes[o.Type]
	if !ok {
		return fmt.Errorf("type: found %s, want one of %v", o.Type, GGUFTypes())
	}
	if m.Adapter() != nil {
		return errors.New("found a model with an adapter, want one without: hippo merge makes it")
	}
	s, err := ggufShapeOf(m, o.Published)
	if err != nil {
		return fmt.Errorf("llama.cpp cannot run this model: %w", err)
	}
	s.addMTP(o.MTP)
	values := []checkpoint.GGUFValue{
		{Key: "general.architecture", Value: s.arch}, {Key: ggufType, Value: "model"},
		{Key: "general.name", Value: o.Name}, {Key: "general.file_type", Value: fileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	values = append(values, s.values...)
	if o.Tokenizer != nil {
		texts, err := ggufTextValues(o, m.Config.PaddedVocab())
		if err != nil {
			return err
		}
		values = append(values, texts...)
	}
	tensors, exact, err := s.tensors(m, o.Type)
	if err != nil {
		return err
	}
	return checkpoint.WriteGGUF(w, append(values, exact...), tensors)
}

// tensors returns the tensors of the file, ordered by layer, and the values that restore numbers exactly.
func (s *ggufShape) tensors(m *model.Model, to checkpoint.DType) (out []checkpoint.Tensor,
	exact []checkpoint.GGUFValue, err error) {
	if out, err = s.published.names.tensorsOf(&m.Backbone, m.Tensors()); err != nil {
		return nil, nil, err
	}
	if h := s.mtp; h != nil {
		names := s.published.names.ofMTP(nil)
		more, err := names.tensorsOf(&h.Backbone, h.Tensors())
		if err != nil {
			return nil, nil, err
		}
		out = append(out, more...)
	}
	if s.ownHead {
		at := slices.IndexFunc(out, func(x checkpoint.Tensor) bool { return x.Name == ggufTable })
		head := out[at]
		head.Name, head.Data = ggufHead, slices.Clone(head.Data)
		out = append(out, head)
	}
	if s.divisors != nil {
		out = append(out, checkpoint.NewTensor(ggufDivisors, s.divisorsShape(), s.divisors))
	}
	for name, second := range ggufArchs[s.arch].copies {
		if at := slices.IndexFunc(out, func(x checkpoint.Tensor) bool { return x.Name == name }); at >= 0 {
			more := out[at]
			more.Name, more.Data = second, slices.Clone(more.Data)
			out = append(out, more)
		}
	}
	for name, n := range s.zeros {
		out = append(out, checkpoint.NewTensor(name, []int{n}, make([]float32, n)))
	}
	slices.SortFunc(out, func(a, b checkpoint.Tensor) int { return byLayer(a.Name, b.Name) })
	types, left := GGUFTensorTypes(to, out), maxGGUFExact
	for i, x := range out {
		values, failed := x.Float32()
		form, before := s.forms.of(x.Name), []float32(nil)
		if form.negExp || form.plusOne {
			before = slices.Clone(values)
		}
		y, failedToo := checkpoint.ConvertTensor(x.Name, types[x.Name], form.stored(x.Shape, values), values)
		out[i], err = y, errors.Join(err, failed, failedToo)
		if left -= len(before); before == nil || left < 0 || err != nil {
			continue
		}
		back, failed := form.parameter(&y)
		err = errors.Join(err, failed)
		if again, failed := back.Float32(); failed != nil || !slices.Equal(again, before) {
			exact = append(exact, checkpoint.GGUFValue{Key: ggufExact + x.Name, Value: before})
		}
	}
	return out, exact, err
}

// maxGGUFExact limits the numbers that are stored to restore others exactly, since the arrays of a file are limited.
const maxGGUFExact = 1 << 21

// ggufLayer returns the index of a tensor's layer, or -1 if it is in none.
func ggufLayer(name string) int {
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		number, _, _ := strings.Cut(rest, ".")
		if n, err := strconv.Atoi(number); err == nil {
			return n
		}
	}
	return -1
}

// byLayer compares the names of tensors by their layers.
func byLayer(a, b string) int { return cmp.Or(ggufLayer(a)-ggufLayer(b), strings.Compare(a, b)) }

// contextLength returns the number of positions that a model was published for. If there is no maximum, it returns the
// number that llama.cpp's conversion writes.
func contextLength(config []byte) uint32 {
	type text struct {
		Positions uint32 `json:"max_position_embeddings"`
	}
	for _, c := range withTextConfig[text](config) {
		if c.Positions > 0 {
			return c.Positions
		}
	}
	return 1 << 20
}

// withTextConfig parses the fields T of a config.json, and those of its text_config. It returns nil if either cannot be
// parsed.
func withTextConfig[T any](config []byte) []T {
	var whole T
	var part struct {
		Text T `json:"text_config"`
	}
	config = pythonJSON(config)
	if json.Unmarshal(config, &whole) != nil || json.Unmarshal(config, &part) != nil {
		return nil
	}
	return []T{whole, part.Text}
}

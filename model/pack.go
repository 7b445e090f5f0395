package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// errPacked is the error of a model packed for inference when float32 weights are needed.
var errPacked = errors.New("the model is packed for inference: found no weights in float32, load it again without " +
	"a precision")

// Pack puts the weights of all Linear layers, and those that embedding and head share, into a form that decoding one
// token at a time reads as fast as memory gives it, at a precision: at Float32 with the same results, at BF16 and Int8
// rounded, for half and a quarter of the memory, at Int4 for a seventh (see engine.Precision). Matrices that are
// nn.Param.Fine get no coarser than Int8. Everything else stays float32. The model can be used as before, but neither
// be trained nor saved. All its weights must have values.
func (m *Model) Pack(p engine.Precision) error {
	return m.pack(p, engine.PackRounded)
}

// PackFrozen is Pack of a model of which no weights are trained but those of an adapter: results are those of float32
// with the weights rounded to BF16 or Int8, and there is a way back through them.
func (m *Model) PackFrozen(p engine.Precision) error {
	return m.pack(p, engine.PackFrozen)
}

func (m *Model) pack(p engine.Precision, as engine.PackAs) error {
	weights := map[engine.Precision][]*tensor.Tensor{}
	var others []*tensor.Tensor
	var err error
	m.Params("", func(name string, q *nn.Param) {
		if !packable(q) {
			others = append(others, q.Tensor)
			return
		}
		switch {
		case err != nil:
		case q.Packed() != nil:
			err = errPacked
		case q.Bytes() == 0:
			err = fmt.Errorf("%s: found no values, want a model that has been loaded", name)
		}
		at := precisionOf(q, p)
		weights[at] = append(weights[at], q.Tensor)
	})
	if err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(weights)) {
		engine.PackTensors(m.backend, at, as, weights[at]...)
	}
	m.precision = p
	// Their memory may be part of one piece for all parameters, which is freed only as a whole. So they move.
	tensor.Compact(others...)
	return nil
}

// LoadPacked is Load and Pack in one, in which weights that are packed are never float32 as a whole: it takes no more
// memory than the packed model.
func (m *Model) LoadPacked(w Weights, p engine.Precision) error {
	return m.loadAs(w, packing{precision: p})
}

// LoadFrozen is Load and PackFrozen in one, as LoadPacked is Load and Pack.
func (m *Model) LoadFrozen(w Weights, p engine.Precision) error {
	return m.loadAs(w, packing{precision: p, frozen: true})
}

// LoadStored is LoadPacked in the precision of the file. Matrices of bfloat16 and of integers in groups stay as they
// are; what has so few bits but no such groups is rounded to Int8, as the inputs of all products with integers are;
// others become float32. All results but those of integers are those of float32 to the last bit. A matrix of float16
// has more bits than bfloat16 holds.
func (m *Model) LoadStored(w Weights) error {
	if err := m.loadAs(w, packing{precision: engine.Float32, stored: true}); err != nil {
		return err
	}
	m.Params("", func(_ string, p *nn.Param) {
		if kept, ok := p.Packed().(engine.Rounding); ok && kept.Stored() >= engine.Int8 {
			m.precision = max(m.precision, kept.Stored())
		}
	})
	return nil
}

func (m *Model) loadAs(w Weights, p packing) error {
	if err := m.load(w, &p); err != nil {
		return err
	}
	m.precision = p.precision
	return nil
}

// Precision is that of a packed model, of one that LoadStored packed the coarsest of its integers, Float32 for one that
// is not packed.
func (m *Model) Precision() engine.Precision { return m.precision }

// packing says how matrices are packed as they are read.
type packing struct {
	precision engine.Precision
	stored    bool // but for those that have fewer bits in the file
	frozen    bool // see PackFrozen
}

// form is how a matrix is packed.
type form struct {
	precision engine.Precision
	as        reading
}

// reading is what is done with the numbers of a file.
type reading int

const (
	rounded  = reading(engine.PackRounded)
	exact    = reading(engine.PackExact)
	frozen   = reading(engine.PackFrozen)
	integers = frozen + 1 // integers in groups as they are
)

// form decides how a matrix is packed whose rows are those of parts of a file. Nothing is rounded that the precision
// has room for.
func (p *packing) form(w *nn.Param, parts []checkpoint.Tensor) form {
	kinds := groupKinds(parts)
	switch at := precisionOf(w, p.precision); {
	case p.frozen:
		return form{at, frozen}
	case !p.stored && slices.Contains(kinds, at):
		return form{at, integers}
	case !p.stored:
		return form{at, rounded}
	case len(kinds) > 0:
		return form{kinds[0], integers}
	case allOf(parts, func(t checkpoint.DType) bool { return t == checkpoint.BF16 }):
		return form{engine.BF16, exact}
	case allOf(parts, func(t checkpoint.DType) bool { return t.Quantized() }):
		return form{engine.Int8, rounded}
	}
	return form{p.precision, rounded}
}

// groupKinds are the precisions of integers that hold all parts as they are, the smallest first.
func groupKinds(parts []checkpoint.Tensor) (kinds []engine.Precision) {
	for _, kind := range parts[0].GroupTypes() {
		lacks := func(x checkpoint.Tensor) bool { return !slices.Contains(x.GroupTypes(), kind) }
		if slices.ContainsFunc(parts, lacks) {
			continue
		}
		if p, err := engine.ParsePrecision(string(kind)); err == nil { // both have the same names
			kinds = append(kinds, p)
		}
	}
	return kinds
}

// allOf reports whether all parts are of such a type.
func allOf(parts []checkpoint.Tensor, is func(checkpoint.DType) bool) bool {
	return !slices.ContainsFunc(parts, func(x checkpoint.Tensor) bool { return !is(x.DType) })
}

// StoredBytes is the memory of a tensor of a file after LoadStored, but for what panels and short forms of bfloat16
// differ by.
func StoredBytes(x *checkpoint.Tensor) int {
	n := x.Elements()
	if len(x.Shape) < 2 || n == 0 {
		return 4 * n
	}
	k := x.Shape[len(x.Shape)-1]
	switch p := (&packing{stored: true}).form(&nn.Param{}, []checkpoint.Tensor{*x}).precision; p {
	case engine.Float32:
		return 4 * n
	case engine.BF16:
		return 2 * n
	default:
		return n / k * checkpoint.DType(p.String()).RowBytes(k)
	}
}

// packable reports whether a parameter is a matrix of products.
func packable(p *nn.Param) bool { return p.Role == nn.Weight || p.Role == nn.Table }

// precisionOf is the precision of a matrix in a model that is packed at p.
func precisionOf(w *nn.Param, p engine.Precision) engine.Precision {
	if w.Fine {
		return min(p, engine.Int8)
	}
	return p
}

// isPacked reports whether a model has been packed.
func isPacked(m nn.Module) (packed bool) {
	m.Params("", func(_ string, p *nn.Param) { packed = packed || p.Packed() != nil })
	return packed
}

// Bytes is the memory of the parameters. Each token reads all of it.
func (m *Model) Bytes() int {
	n := 0
	add := func(_ string, p *nn.Param) { n += p.Bytes() }
	m.Params("", add)
	if m.adapter != nil {
		m.adapter.Params("", add)
	}
	return n
}

// FrozenBytes is about the memory of the values of a parameter that PackFrozen has packed.
func FrozenBytes(w *nn.Param, p engine.Precision) int {
	n := 4 * w.Len()
	if !packable(w) {
		return n
	}
	switch precisionOf(w, p) {
	case engine.Float32:
		return n
	case engine.BF16:
		return n / 2
	default:
		return w.Dim(0) * checkpoint.DType(engine.Int8.String()).RowBytes(w.Dim(1))
	}
}

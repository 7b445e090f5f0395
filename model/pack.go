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

// errPacked reports that a model is packed for inference, but float32 weights are needed.
var errPacked = errors.New("the model is packed for inference: found no weights in float32, load it again without " +
	"a precision")

// Pack converts the weights of all Linear layers, and those shared by embedding and head, to a packed form at a
// precision. Decoding one token at a time then reads them at the speed of memory. Float32 keeps the results unchanged.
// BF16, Int8 and Int4 round the weights, to a half, a quarter and a seventh of the memory (see engine.Precision).
// Matrices with nn.Param.Fine get at least Int8. All other parameters stay float32. The packed model works as before,
// but can be neither trained nor saved. All its weights must have values.
func (m *Model) Pack(p engine.Precision) error {
	return m.pack(p, engine.PackRounded)
}

// PackFrozen is Pack for a model that is trained only through an adapter. Results are those of float32 arithmetic with
// the weights rounded to BF16, Int8 or Int4, and gradients flow through the packed weights.
func (m *Model) PackFrozen(p engine.Precision) error {
	return m.pack(p, engine.PackFrozen)
}

func (m *Model) pack(p engine.Precision, as engine.PackAs) error {
	err := m.Parameters.pack(p, as)
	if err == nil {
		m.precision = p
	}
	return err
}

// pack converts the weights of a model or of its head.
func (p *Parameters) pack(precision engine.Precision, as engine.PackAs) error {
	weights := map[engine.Precision][]*tensor.Tensor{}
	var others []*tensor.Tensor
	var err error
	p.of.Params("", func(name string, q *nn.Param) {
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
		at := precisionOf(q, precision)
		weights[at] = append(weights[at], q.Tensor)
	})
	if err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(weights)) {
		engine.PackTensors(p.backbone.backend, at, as, weights[at]...)
	}
	// The other parameters may be part of one allocation for all parameters, which is freed only as a whole. So they
	// are copied.
	tensor.Compact(others...)
	return nil
}

// LoadPacked combines Load and Pack. It packs weights as it reads them and takes no more memory than the packed model.
func (m *Model) LoadPacked(w Weights, p engine.Precision) error {
	return m.loadAs(w, packing{precision: p})
}

// LoadFrozen combines Load and PackFrozen, as LoadPacked does for Pack.
func (m *Model) LoadFrozen(w Weights, p engine.Precision) error {
	return m.loadAs(w, packing{precision: p, frozen: true})
}

// LoadStored is LoadPacked in the precision of the file. Matrices of bfloat16 and of integers in groups are kept
// unchanged. Matrices with as few bits but other groups are rounded to Int8. All others become float32, including
// float16, whose mantissa bfloat16 cannot hold. Results equal those of float32 to the last bit, except for integers,
// whose products also round their inputs to Int8.
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

// Precision returns the precision of a packed model, and Float32 for other models. After LoadStored it is the coarsest
// of the integer precisions.
func (m *Model) Precision() engine.Precision { return m.precision }

// packing describes how to pack matrices as they are read.
type packing struct {
	precision engine.Precision
	stored    bool // except for matrices with fewer bits in the file
	frozen    bool // see PackFrozen
}

// form is the packed form of a matrix.
type form struct {
	precision engine.Precision
	as        reading
}

// reading is the way in which the numbers of a file are packed.
type reading int

const (
	rounded  = reading(engine.PackRounded)
	exact    = reading(engine.PackExact)
	frozen   = reading(engine.PackFrozen)
	integers = frozen + 1 // integers in groups, unchanged
)

// form returns the packed form of a matrix whose rows come from parts of a file. It does not round values that the
// precision can hold.
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

// groupKinds returns the integer precisions that hold all parts exactly, the smallest first.
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

// allOf reports whether is returns true for the types of all parts.
func allOf(parts []checkpoint.Tensor, is func(checkpoint.DType) bool) bool {
	return !slices.ContainsFunc(parts, func(x checkpoint.Tensor) bool { return !is(x.DType) })
}

// StoredBytes returns the approximate memory of a tensor of a file after LoadStored. It ignores partly filled panels
// and the short form of bfloat16.
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

// packable reports whether a parameter is the matrix of a product.
func packable(p *nn.Param) bool { return p.Role == nn.Weight || p.Role == nn.Table }

// precisionOf returns the precision of a matrix in a model packed at p.
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

// Bytes returns the memory of the parameters. Each token reads all of it.
func (m *Model) Bytes() int {
	n := 0
	add := func(_ string, p *nn.Param) { n += p.Bytes() }
	m.Params("", add)
	if m.adapter != nil {
		m.adapter.Params("", add)
	}
	return n
}

// FrozenBytes returns the approximate memory of a parameter's values after PackFrozen.
func FrozenBytes(w *nn.Param, p engine.Precision) int {
	n := 4 * w.Len()
	if !packable(w) {
		return n
	}
	switch at := precisionOf(w, p); at {
	case engine.Float32:
		return n
	case engine.BF16:
		return n / 2
	default:
		return w.Dim(0) * checkpoint.DType(at.String()).RowBytes(w.Dim(1))
	}
}

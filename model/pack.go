package model

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
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
		autograd.Pack(at, weights[at]...)
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

// LoadStored is LoadPacked in the precision of the file: matrices of bfloat16 stay so, all others become float32. All
// results are those of float32 to the last bit. A matrix of float16 has more bits than bfloat16 holds.
func (m *Model) LoadStored(w Weights) error {
	return m.loadAs(w, packing{precision: engine.Float32, stored: true})
}

func (m *Model) loadAs(w Weights, p packing) error {
	if err := m.load(w, &p); err != nil {
		return err
	}
	m.precision = p.precision
	return nil
}

// Precision is that of a packed model, Float32 for one that is not.
func (m *Model) Precision() engine.Precision { return m.precision }

// packing says how matrices are packed as they are read.
type packing struct {
	precision engine.Precision
	stored    bool // but for those of bfloat16, which stay as they are
}

// packable tells whether a parameter is a matrix of products.
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
	m.Params("", func(_ string, p *nn.Param) { n += p.Bytes() })
	return n
}

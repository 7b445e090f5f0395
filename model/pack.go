package model

import (
	"errors"
	"fmt"

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
// rounded, for half and a quarter of the memory (see engine.Precision). Everything else stays float32. The model can be
// used as before, but neither be trained nor saved. All its weights must have values.
func (m *Model) Pack(p engine.Precision) error {
	var weights, others []*tensor.Tensor
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
		default:
			if err = checkPackable(q, p); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		weights = append(weights, q.Tensor)
	})
	if err != nil {
		return err
	}
	autograd.Pack(p, weights...)
	m.precision = p
	// Their memory may be part of one piece for all parameters, which is freed only as a whole. So they move.
	tensor.Compact(others...)
	return nil
}

// LoadPacked is Load and Pack in one, in which weights that are packed are never float32 as a whole: it takes no more
// memory than the packed model.
func (m *Model) LoadPacked(w Weights, p engine.Precision) error {
	if err := m.load(w, &p); err != nil {
		return err
	}
	m.precision = p
	return nil
}

// Precision is that of a packed model, Float32 for one that is not.
func (m *Model) Precision() engine.Precision { return m.precision }

// packable tells whether a parameter is a matrix of products.
func packable(p *nn.Param) bool { return p.Role == nn.Weight || p.Role == nn.Table }

// checkPackable returns an error for a matrix that cannot be packed at a precision.
func checkPackable(w *nn.Param, p engine.Precision) error {
	if p == engine.Int8 && w.Dim(1) > autograd.MaxInt8Terms {
		return fmt.Errorf("found shape %v, want rows of at most %d for int8", w.Shape(), autograd.MaxInt8Terms)
	}
	return nil
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

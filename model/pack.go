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
		if q.Role != nn.Weight && q.Role != nn.Table {
			others = append(others, q.Tensor)
			return
		}
		switch {
		case err != nil:
		case q.Packed() != nil:
			err = errPacked
		case q.Bytes() == 0:
			err = fmt.Errorf("%s: found no values, want a model that has been loaded", name)
		case p == engine.Int8 && q.Dim(1) > autograd.MaxInt8Terms:
			err = fmt.Errorf("%s: found shape %v, want rows of at most %d for int8", name, q.Shape(),
				autograd.MaxInt8Terms)
		}
		weights = append(weights, q.Tensor)
	})
	if err != nil {
		return err
	}
	autograd.Pack(p, weights...)
	// Their memory may be part of one piece for all parameters, which is freed only as a whole. So they move.
	tensor.Compact(others...)
	return nil
}

// isPacked reports whether a model has been packed.
func isPacked(m nn.Module) (packed bool) {
	m.Params("", func(_ string, p *nn.Param) { packed = packed || p.Packed() != nil })
	return packed
}

// Bytes is the memory of the parameters, all of which are read for each token.
func (m *Model) Bytes() int {
	n := 0
	m.Params("", func(_ string, p *nn.Param) { n += p.Bytes() })
	return n
}

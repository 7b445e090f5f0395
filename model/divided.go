package model

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// divided describes a model whose first layers compute on its engine, a device, and whose other layers compute on the
// processor. Everything before and after the layers is on the device. So the stream is copied to the processor and back
// once in each call.
type divided struct {
	layers      int // number of layers on the device
	there, here int // bytes of the weights on the device, and on the processor
	tapes       *autograd.Tapes
}

// UseWithin is Use for a model that is not trained, on a device with the given number of bytes for weights. If not all
// layers fit, the last ones stay on the processor. It returns an error if the weights outside the layers do not fit, or
// if the model must be divided and its layers share weights or values.
func (p *Parameters) UseWithin(b engine.Backend, bytes int) error {
	bb, all := p.backbone, 0
	p.of.Params("", func(_ string, q *nn.Param) { all += bytesOf(q) })
	d := &divided{there: all, tapes: autograd.NewTapes(native.Backend)}
	for _, block := range bb.Blocks {
		block.params("", naming{}, func(_ string, q *nn.Param) { d.here += bytesOf(q) })
	}
	outside := all - d.here
	if all <= bytes {
		p.Use(b)
		return nil
	}
	const mib = 1 << 20
	switch {
	case bb.Shares():
		return fmt.Errorf("device: found a model of %.3g MiB whose layers share weights or values, and %.3g MiB for "+
			"weights: want as much, or the processor", float64(all)/mib, float64(bytes)/mib)
	case outside > bytes:
		return fmt.Errorf("device: found %.3g MiB for weights, want at least %.3g for what is outside of the layers",
			float64(bytes)/mib, float64(outside)/mib)
	}
	for d.there = outside; ; d.layers++ {
		layer := 0
		bb.Blocks[d.layers].params("", naming{}, func(_ string, q *nn.Param) { layer += bytesOf(q) })
		if d.there+layer > bytes {
			break
		}
		d.there, d.here = d.there+layer, d.here-layer
	}
	bb.use(b)
	bb.divided = d
	p.Place()
	return nil
}

// bytesOf returns the memory of a parameter and of its change, in bytes.
func bytesOf(q *nn.Param) int {
	n := q.Bytes()
	if q.Change != nil {
		q.Change.Params("", func(_ string, c *nn.Param) { n += c.Bytes() })
	}
	return n
}

// Place moves parameters to the engine on which they are used, unless they are already there. Call it after an adapter
// was attached, for example.
func (p *Parameters) Place() {
	bb, here := p.backbone, map[*nn.Param]bool{}
	if d := bb.divided; d != nil {
		for _, block := range bb.Blocks[d.layers:] {
			block.params("", naming{}, func(_ string, q *nn.Param) { here[q] = true })
		}
	}
	p.of.Params("", func(_ string, q *nn.Param) {
		if here[q] {
			return
		}
		bb.backend.Place(q.Tensor)
		if q.Change != nil {
			q.Change.Params("", func(_ string, c *nn.Param) { bb.backend.Place(c.Tensor) })
		}
	})
}

// Divided describes how the model is divided between a device and the processor. It returns "" if the model is not
// divided.
func (bb *Backbone) Divided() string {
	const mib = 1 << 20
	if d := bb.divided; d != nil {
		return fmt.Sprintf("%d of %d layers are on the device, which has %.3g MiB of the weights; the others, of %.3g "+
			"MiB, compute on the processor", d.layers, len(bb.Blocks), float64(d.there)/mib, float64(d.here)/mib)
	}
	return ""
}

// onProcessor is the part of runFrom from layer i on. These layers compute on the processor.
func (bb *Backbone) onProcessor(t *autograd.Tape, i int, residual, hidden *tensor.Tensor, r *Rows,
	drop float64) (res, hid *tensor.Tensor) {
	if t.Recording() {
		panic("model: found a recording tape for a model that is divided, want one whose layers are all on its engine")
	}
	own := bb.divided.tapes.Lend()
	defer bb.divided.tapes.Return(own)
	copied := func(x *tensor.Tensor) *tensor.Tensor {
		if x == nil {
			return nil
		}
		return tensor.FromSlice(x.Floats(), x.Shape()...)
	}
	residual, hidden = copied(residual), copied(hidden)
	own.Over(&r.at)
	mark := own.Mark()
	for ; i < len(bb.Blocks); i++ {
		residual, hidden = bb.Blocks[i].forward(own, residual, hidden, nil, r.of(i), drop)
		own.ReleaseSince(mark, r.keep(residual, hidden)...)
	}
	own.Over(nil)
	return copied(residual), copied(hidden)
}

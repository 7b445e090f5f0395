//go:build gpu

package gpu

import (
	"encoding/binary"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// updates is a table of parameters for updates.glsl.
type updates struct {
	data                   []byte
	count, groups, numbers int
}

// many is the number of elements that a workgroup updates.
const many = 1 << 12

// add adds a parameter of n numbers: the addresses of the parameter, its moments and its gradient, with its learning
// rate and decay.
func (u *updates) add(places [4]uint64, n int, rate, decay float64) {
	u.data = numbers(addresses(u.data, places[:]...), n, u.groups)
	for _, x := range []float64{rate, decay} {
		u.data = binary.LittleEndian.AppendUint32(u.data, math.Float32bits(float32(x)))
	}
	u.count, u.groups, u.numbers = u.count+1, u.groups+blocks(n, many), u.numbers+n
}

// AdamW updates all parameters that are on the device in one launch.
func (b *Backend) AdamW(params []*tensor.Tensor, moments []engine.Moments, grads []*tensor.Tensor, s engine.AdamWStep) {
	c := b.core
	var all updates
	for k, o := range moments {
		p, m, v, g := b.there(params[k]), b.there(o.M), b.there(o.V), b.there(grads[k])
		if p == nil || m == nil || v == nil || g == nil {
			b.Backend.AdamW(params[k:k+1], moments[k:k+1], grads[k:k+1], s)
			continue
		}
		all.add([4]uint64{p.at.address(), m.at.address(), v.at.address(), g.at.address()}, p.n, o.LR, o.Decay)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.launch("adamw", new(args).address(c.table(all.data)).int(all.count).
		float(s.GradScale, s.Beta1, 1-s.Beta1, s.Beta2, 1-s.Beta2, s.Factor, 1/s.Correct1, 1/s.Correct2, s.Eps).
		work(32*all.numbers, 12*all.numbers), all.groups)
}

// there returns the memory of a tensor that is on this device, or nil for others.
func (b *Backend) there(x *tensor.Tensor) *buffer {
	if m, ok := x.Storage().(*buffer); ok && m.c == b.core {
		return m
	}
	return nil
}

// Norm returns the Euclidean norm of all elements. It sums squares in pieces, and then adds these sums.
func (b *Backend) Norm(xs []*tensor.Tensor) float64 {
	var all updates
	for _, x := range xs {
		m := b.there(x)
		if m == nil {
			return b.Backend.Norm(xs)
		}
		all.add([4]uint64{0, 0, 0, m.at.address()}, m.n, 0, 0)
	}
	c := b.core
	parts := c.New(all.groups + 1).(*buffer)
	defer c.Free(parts) // after c.mu is unlocked
	c.mu.Lock()
	defer c.mu.Unlock()
	sums := parts.at.address()
	first := sums + 4*uint64(all.groups)
	c.launch("squares", new(args).address(sums, c.table(all.data), 0).int(all.count, 0).
		work(4*all.numbers, 2*all.numbers), all.groups, 0)
	c.launch("squares", new(args).address(first, 0, sums).int(0, all.groups).work(4*all.groups, all.groups), 1, 1)
	var sum [1]float32
	c.read(region{parts.at.block, parts.at.at + 4*uint64(all.groups), 4}, sum[:])
	return math.Sqrt(float64(sum[0]))
}

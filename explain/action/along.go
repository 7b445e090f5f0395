package action

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations along the sequence. Their values are what they move from position to position. The factors that
// determine how much of the values arrives are held fixed.

func (e *tracer) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	s := step{name: "CausalConv", along: true}
	if e.traced(x) {
		s.spread = &filter{taps: w.Floats(), width: w.Len() / x.Dim(-1)}
	}
	return e.activated(s, x, a, func(x *tensor.Tensor, a engine.Activation) *tensor.Tensor {
		return e.Engine.CausalConv(x, e.held(w), e.held(bias), a, r, fresh(e, slots))
	})
}

// GatedLongConv is traced with its gates held fixed.
func (e *tracer) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return e.convolved("GatedLongConv", g, g.V.Dim(-1),
		func(g engine.Gates) *tensor.Tensor { return e.Engine.GatedLongConv(g, k, e.held(skip), r) })
}

// DiagSSM is traced with its gates held fixed.
func (e *tracer) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.convolved("DiagSSM", g, s.H,
		func(g engine.Gates) *tensor.Tensor { return e.Engine.DiagSSM(g, s, e.held(skip), r, fresh(e, slots)) })
}

// DiagScan is traced with the steps held fixed, which do not depend on the sequence.
func (e *tracer) DiagScan(u, steps *tensor.Tensor, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.carried("DiagScan", u, nil, func(u *tensor.Tensor) *tensor.Tensor {
		return e.Engine.DiagScan(u, steps, s, e.held(skip), r, fresh(e, slots))
	})
}

func (e *tracer) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.convolved("DPLRSSM", engine.Gates{V: u}, s.H,
		func(g engine.Gates) *tensor.Tensor { return e.Engine.DPLRSSM(g.V, s, e.held(skip), r, fresh(e, slots)) })
}

// convolved traces a convolution between gates, with the given number of kernels.
func (e *tracer) convolved(name string, g engine.Gates, kernels int,
	run func(g engine.Gates) *tensor.Tensor) *tensor.Tensor {
	y := run(g)
	if !e.traced(g.V) {
		return y
	}
	g.HeadDim = max(1, g.HeadDim)
	if g.Q == nil && g.K == nil {
		name = "LongConv" // nothing is held fixed
	}
	how := &longConv{n: kernels, gates: g}
	how.taps = e.impulse(g.V.Rows(), kernels, 0, func(x *tensor.Tensor) *tensor.Tensor {
		if g.HeadDim == 1 {
			return run(engine.Gates{V: x, HeadDim: 1})
		}
		// Use gates that pass only the first channel of each head.
		wide := e.Engine.New(x.Rows(), kernels*g.HeadDim)
		one := make([]float32, wide.Len())
		for i := 0; i < len(one); i += g.HeadDim {
			one[i] = 1
		}
		wide.CopyFrom(one)
		v, xs := e.Engine.New(x.Rows(), kernels*g.HeadDim), x.Floats()
		clear(one)
		for i, k := range xs {
			one[i*g.HeadDim] = k
		}
		v.CopyFrom(one)
		z := run(engine.Gates{Q: wide, K: wide, V: v, HeadDim: g.HeadDim, Order: engine.HeadMajor}).Floats()
		for i := range xs {
			xs[i] = z[i*g.HeadDim]
		}
		x.CopyFrom(xs)
		return x
	})
	e.along(name, g.V, y, how, func(x *tensor.Tensor) *tensor.Tensor {
		with := g
		with.V = x
		return run(with)
	})
	return y
}

// impulse returns the response (l, d) to 1 at one position in all d channels.
func (e *tracer) impulse(l, d, at int, run func(x *tensor.Tensor) *tensor.Tensor) []float32 {
	x := make([]float32, l*d)
	for c := range d {
		x[at*d+c] = 1
	}
	u := e.Engine.New(l, d)
	u.CopyFrom(x)
	return e.again(func() *tensor.Tensor { return run(u) }).Floats()
}

// CachedLongConv cannot be traced, since it continues from a state.
func (e *tracer) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows,
	caches []*engine.ConvCache) *tensor.Tensor {
	y := e.Engine.CachedLongConv(u, k, skip, r, caches)
	if e.traced(u) {
		e.add(&step{name: "CachedLongConv", in: list{u}, out: list{y}, along: true, why: "it goes on from a state"})
	}
	return y
}

func (e *tracer) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	run := func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.BothWays(x, k, ahead, e.held(skip), r) }
	return e.carried("BothWays", u, func() spread {
		l, width := u.Rows(), u.Dim(-1)
		return &longConv{n: width, gates: engine.Gates{V: u, HeadDim: 1}, taps: e.impulse(l, width, 0, run),
			ahead: e.impulse(l, width, l-1, run)}
	}, run)
}

func (e *tracer) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.carried("ShiftSSM", x, nil, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.ShiftSSM(x, e.held(bw), e.held(cw), e.held(dw), r, fresh(e, slots))
	})
}

// SelectiveScan is traced with Δ, B and C held fixed.
func (e *tracer) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.carried("SelectiveScan", u, func() spread {
		return &scan{engine: e.Engine, delta: delta.Floats(), a: a.Floats(), bc: bc.Floats(), skip: dw.Floats(),
			groups: groups}
	}, func(u *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SelectiveScan(u, delta, e.held(a), bc, e.held(dw), groups, r, fresh(e, slots))
	})
}

// SelectiveScanComplex is traced with Δ, B and C held fixed.
func (e *tracer) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	return e.carried("SelectiveScanComplex", u, nil, func(u *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SelectiveScanComplex(u, delta, e.held(a), bc, e.held(dw), groups, r, fresh(e, slots))
	})
}

// RGLRU is traced with its gates held fixed.
func (e *tracer) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.carried("RGLRU", u, func() spread { return newFading(r.Floats(), i.Floats(), lambda.Floats()) },
		func(u *tensor.Tensor) *tensor.Tensor {
			return e.Engine.RGLRU(u, r, i, e.held(lambda), rows, fresh(e, slots))
		})
}

// Recurrence is traced with the factors tanh(x)/x held fixed, as the paper treats activations.
func (e *tracer) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	y := e.Engine.Recurrence(u, rw, tanhs, r, slots)
	if e.traced(u) {
		how := newRecurrent(e.Engine, u.Floats(), y.Floats(), rw.Floats(), tanhs)
		e.along("Recurrence", u, y, how, how.run)
	}
	return y
}

// SSD is traced with dt, B and C held fixed.
func (e *tracer) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.SSD(xbc, dt, a, dw, headDim, groups, r, slots)
	if !e.traced(xbc) {
		return y
	}
	d := a.Len() * headDim
	bc := e.Engine.Split(xbc, d, xbc.Dim(-1)-d)[1]
	return e.headed("SSD", xbc, y, 0, d,
		&pattern{n: a.Len(), keyHeads: a.Len(), unit: func(v *tensor.Tensor) *tensor.Tensor {
			return e.Engine.SSD(e.Engine.Join(v, bc), dt, e.held(a), e.held(dw), headDim, groups, r, nil)
		}})
}

// DeltaRule is traced with queries, keys, decays and what is erased held fixed.
func (e *tracer) DeltaRule(x engine.Delta, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	run := func(v *tensor.Tensor) *tensor.Tensor {
		with := x
		with.V = v
		return e.Engine.DeltaRule(with, r, fresh(e, slots))
	}
	return e.headed("DeltaRule", x.V, run(x.V), 0, x.V.Dim(-1), &pattern{n: x.Heads, keyHeads: x.Heads, unit: run})
}

// MLSTM is traced with queries, keys, gates and the normalizer held fixed.
func (e *tracer) MLSTM(x engine.MLSTM, r *engine.Rows, slots engine.MLSTMSlots) *tensor.Tensor {
	run := func(v *tensor.Tensor) *tensor.Tensor {
		with := x
		with.V = v
		states := engine.MLSTMSlots{C: fresh(e, slots.C), N: fresh(e, slots.N), M: fresh(e, slots.M)}
		return e.Engine.MLSTM(with, r, states)
	}
	return e.headed("MLSTM", x.V, run(x.V), 0, x.V.Dim(-1), &pattern{n: x.Heads, keyHeads: x.Heads, unit: run})
}

// Trapezoid is traced with steps, queries and keys held fixed. All ranks of a head write to one state and read it, so
// there is a pattern only if there is one rank.
func (e *tracer) Trapezoid(x engine.Trapezoid, r *engine.Rows, slots engine.TrapezoidSlots) *tensor.Tensor {
	run := func(v *tensor.Tensor) *tensor.Tensor {
		with := x
		with.V, with.D = v, e.held(x.D)
		states := engine.TrapezoidSlots{S: fresh(e, slots.S), K: fresh(e, slots.K), V: fresh(e, slots.V)}
		return e.Engine.Trapezoid(with, r, states)
	}
	if x.Ranks > 1 {
		return e.carried("Trapezoid", x.V, nil, run)
	}
	return e.headed("Trapezoid", x.V, run(x.V), 0, x.V.Dim(-1), &pattern{n: x.Heads, keyHeads: x.Heads, unit: run})
}

// SLSTM is traced with the gates and the factors tanh(z)/z held fixed, as the paper of this algebra treats activations.
func (e *tracer) SLSTM(x engine.SLSTM, r *engine.Rows, slots engine.SLSTMSlots) *tensor.Tensor {
	y := e.Engine.SLSTM(x, r, slots)
	if e.traced(x.X) {
		e.along("SLSTM", x.X, y, nil, newScalarMemory(e.Engine, &x, y.Floats()).run)
	}
	return y
}

// Phase can be part only of keys and queries.
func (e *tracer) Phase(rates, dt *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	return e.gate("Phase", e.Engine.Phase(rates, dt, r, slots), rates, dt)
}

// headed adds the step of an operation whose values are the columns [at, at+width) of x.
func (e *tracer) headed(name string, x, y *tensor.Tensor, at, width int, how *pattern) *tensor.Tensor {
	if !e.traced(x) {
		return y
	}
	how.engine, how.at, how.width = e.Engine, at, width/how.keyHeads
	if at == 0 && width == x.Dim(-1) {
		e.along(name, x, y, how, how.unit)
		return y
	}
	e.along(name, x, y, how, func(x *tensor.Tensor) *tensor.Tensor {
		switch rest := x.Dim(-1) - at - width; {
		case at == 0:
			return how.unit(e.Engine.Split(x, width, rest)[0])
		case rest == 0:
			return how.unit(e.Engine.Split(x, at, width)[1])
		default:
			return how.unit(e.Engine.Split(x, at, width, rest)[1])
		}
	})
	return y
}

// Attention is traced with queries and keys held fixed, even if these are also the values.
func (e *tracer) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	y := e.Engine.Attention(qkv, r, caches, o, drop)
	if !e.traced(qkv) {
		return y
	}
	hd := qkv.Dim(-1) / o.Packed()
	width := o.KeyHeads() * hd
	at, qk := o.Heads*hd, qkv
	if !o.KeysAsValues {
		at += width
		qk = e.Engine.Split(qkv, at, width)[0]
	}
	o.KeysAsValues = false
	return e.headed("Attention", qkv, y, at, width, &pattern{n: o.Heads, keyHeads: o.KeyHeads(),
		unit: func(v *tensor.Tensor) *tensor.Tensor { return e.Engine.Attention(e.Engine.Join(qk, v), r, nil, o, 0) }})
}

// CrossAttention is traced with queries and keys held fixed.
func (e *tracer) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	y := e.Engine.CrossAttention(q, kv, heads, rq, rkv)
	if !e.traced(kv) {
		return y
	}
	d := q.Dim(-1)
	k := e.Engine.Split(kv, d, d)[0]
	e.along("CrossAttention", kv, y, nil, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.CrossAttention(q, e.Engine.Join(k, e.Engine.Split(x, d, d)[1]), heads, rq, rkv)
	})
	return y
}

// LinearAttention is traced with queries and keys held fixed.
func (e *tracer) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	run := func(v *tensor.Tensor) *tensor.Tensor {
		return e.Engine.LinearAttention(q, k, v, o, r, fresh(e, s), fresh(e, z))
	}
	return e.headed("LinearAttention", v, run(v), 0, v.Dim(-1), &pattern{n: o.Heads, keyHeads: o.Heads, unit: run})
}

// SquaredReLUAttention is traced with queries and keys held fixed.
func (e *tracer) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	run := func(v *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SquaredReLUAttention(q, k, v, e.held(bias), r, fresh(e, keys), fresh(e, values))
	}
	return e.headed("SquaredReLUAttention", v, run(v), 0, v.Dim(-1), &pattern{n: 1, keyHeads: 1, unit: run})
}

func (e *tracer) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	run := func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SpatialMix(x, e.held(w), e.held(bias), r, fresh(e, caches))
	}
	return e.headed("SpatialMix", x, run(x), 0, x.Dim(-1), &pattern{n: 1, keyHeads: 1, affine: true, unit: run})
}

// BucketAttention is traced with queries, keys and the choice of buckets held fixed.
func (e *tracer) BucketAttention(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	r *engine.Rows, caches []*engine.BucketCache) *tensor.Tensor {
	y := e.Engine.BucketAttention(q, kv, p, o, r, caches)
	if !e.traced(kv) {
		return y
	}
	if o.KeysAsValues {
		e.add(&step{name: "BucketAttention", in: list{kv}, out: list{y}, along: true,
			why: "keys are its values too (keys_as_values), so that it is not linear in values"})
		return y
	}
	p = engine.BucketParams{Sort: e.copied(p.Sort), NullK: e.copied(p.NullK), NullV: e.copied(p.NullV)}
	d := q.Dim(-1)
	k := e.Engine.Split(kv, d, d)[0]
	return e.headed("BucketAttention", kv, y, d, d, &pattern{n: o.Heads, keyHeads: o.Heads, affine: true,
		unit: func(v *tensor.Tensor) *tensor.Tensor {
			return e.Engine.BucketAttention(q, e.Engine.Join(k, v), p, o, r, nil)
		}})
}

// MixBlocks is traced with the weights of blocks held fixed.
func (e *tracer) MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor {
	return e.carried("MixBlocks", x, nil, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.MixBlocks(x, w, heads, block)
	})
}

// SpAtten is traced with queries, keys and the choice of what is pruned held fixed.
func (e *tracer) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	y := e.Engine.SpAtten(qkv, o, r, states)
	if !e.traced(qkv) {
		return y
	}
	if o.KeepHeads < o.Heads {
		e.add(&step{name: "SpAtten", in: list{qkv}, out: list{y}, along: true,
			why: "heads are pruned by the size of what they write (keep_heads), which is not linear in values"})
		return y
	}
	d := qkv.Dim(-1) / 3
	qk := e.Engine.Split(qkv, 2*d, d)[0]
	o.Below = nil // has been written already
	return e.headed("SpAtten", qkv, y, 2*d, d, &pattern{n: o.Heads, keyHeads: o.Heads,
		unit: func(v *tensor.Tensor) *tensor.Tensor { return e.Engine.SpAtten(e.Engine.Join(qk, v), o, r, nil) }})
}

// The operations that move positions are linear in all their inputs.

func (e *tracer) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	return e.each(step{name: "Append", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Append(xs[0], xs[1], p, r) }, past, x)
}

func (e *tracer) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	return e.each(step{name: "Stack", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Stack(xs...) }, xs...)
}

func (e *tracer) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor {
	at, n = slices.Clone(at), slices.Clone(n)
	return e.each(step{name: "Cut", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Cut(xs[0], r, at, n) }, x)
}

func (e *tracer) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	return e.each(step{name: "Slice", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Slice(xs[0], at, n) }, x)
}

func (e *tracer) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	return e.each(step{name: "Reverse", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Reverse(xs[0], lag, r) }, x)
}

func (e *tracer) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	return e.each(step{name: "MeanPositions", along: true},
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.MeanPositions(xs[0], r) }, x)
}

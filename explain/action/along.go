package action

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The operations along the sequence. Their values are what they carry from position to position; what says how much of
// them arrives is held fixed.

// CausalConv is traced.
func (e *tracer) CausalConv(x, w, bias *tensor.Tensor, a engine.Activation, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.CausalConv(x, w, bias, a, r, slots)
	if !e.on || !e.known(x) {
		return y
	}
	weight, b := constant(w), constant(bias)
	d := x.Dim(-1)
	s := &step{name: "CausalConv", along: true, spread: &filter{taps: w.Floats(), width: w.Len() / d}}
	e.preactivated(s, x, y, a,
		func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.CausalConv(x, weight, b, engine.None, r, nil) })
	return y
}

// GatedLongConv holds its gates fixed.
func (e *tracer) GatedLongConv(g engine.Gates, k, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	y := e.Engine.GatedLongConv(g, k, skip, r)
	if !e.on || !e.known(g.V) {
		return y
	}
	d := constant(skip)
	run := func(g engine.Gates) *tensor.Tensor { return e.Engine.GatedLongConv(g, k, d, r) }
	e.convolved("GatedLongConv", g, g.V.Dim(-1), y, run)
	return y
}

// convolved adds the step of a convolution between gates, with so many kernels.
func (e *tracer) convolved(name string, g engine.Gates, kernels int, y *tensor.Tensor,
	run func(g engine.Gates) *tensor.Tensor) {
	g.HeadDim = max(1, g.HeadDim)
	if g.Q == nil && g.K == nil {
		name = "LongConv" // which holds nothing fixed
	}
	how := &longConv{n: kernels, gates: g}
	how.taps = e.impulse(g.V.Rows(), kernels, 0, func(x *tensor.Tensor) *tensor.Tensor {
		if g.HeadDim == 1 {
			return run(engine.Gates{V: x, HeadDim: 1})
		}
		// Gates that let the first channel of each head through.
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
}

// impulse is the answer (l, d) to 1 at one position of d channels.
func (e *tracer) impulse(l, d, at int, run func(x *tensor.Tensor) *tensor.Tensor) []float32 {
	x := make([]float32, l*d)
	for c := range d {
		x[at*d+c] = 1
	}
	u := e.Engine.New(l, d)
	u.CopyFrom(x)
	return run(u).Floats()
}

// CachedLongConv is traced without its caches.
func (e *tracer) CachedLongConv(u, k, skip *tensor.Tensor, r *engine.Rows,
	caches []*engine.ConvCache) *tensor.Tensor {
	y := e.Engine.CachedLongConv(u, k, skip, r, caches)
	if e.on && e.known(u) {
		e.add(&step{name: "CachedLongConv", in: list{u}, out: list{y}, along: true, why: "it goes on from a state"})
	}
	return y
}

// BothWays is traced.
func (e *tracer) BothWays(u, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	y := e.Engine.BothWays(u, k, ahead, skip, r)
	if !e.on || !e.known(u) {
		return y
	}
	d := constant(skip)
	run := func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.BothWays(x, k, ahead, d, r) }
	l, width := u.Rows(), u.Dim(-1)
	how := &longConv{n: width, gates: engine.Gates{V: u, HeadDim: 1}}
	how.taps, how.ahead = e.impulse(l, width, 0, run), e.impulse(l, width, l-1, run)
	e.along("BothWays", u, y, how, run)
	return y
}

// ShiftSSM is traced.
func (e *tracer) ShiftSSM(x, bw, cw, dw *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	y := e.Engine.ShiftSSM(x, bw, cw, dw, r, slots)
	b, c, d := constant(bw), constant(cw), constant(dw)
	e.along("ShiftSSM", x, y, nil,
		func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.ShiftSSM(x, b, c, d, r, nil) })
	return y
}

// DiagSSM holds its gates fixed.
func (e *tracer) DiagSSM(g engine.Gates, s *engine.DiagSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.DiagSSM(g, s, skip, r, slots)
	if !e.on || !e.known(g.V) {
		return y
	}
	d := constant(skip)
	e.convolved("DiagSSM", g, s.H, y,
		func(g engine.Gates) *tensor.Tensor { return e.Engine.DiagSSM(g, s, d, r, nil) })
	return y
}

// DPLRSSM is traced.
func (e *tracer) DPLRSSM(u *tensor.Tensor, s *engine.DPLRSystem, skip *tensor.Tensor, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.DPLRSSM(u, s, skip, r, slots)
	if !e.on || !e.known(u) {
		return y
	}
	d := constant(skip)
	e.convolved("DPLRSSM", engine.Gates{V: u}, s.H, y,
		func(g engine.Gates) *tensor.Tensor { return e.Engine.DPLRSSM(g.V, s, d, r, nil) })
	return y
}

// SelectiveScan holds Δ, B and C fixed.
func (e *tracer) SelectiveScan(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.SelectiveScan(u, delta, a, bc, dw, groups, r, slots)
	if !e.on || !e.known(u) {
		return y
	}
	av, d := constant(a), constant(dw)
	how := &scan{engine: e.Engine, delta: delta.Floats(), a: a.Floats(), bc: bc.Floats(), skip: dw.Floats(),
		groups: groups}
	e.along("SelectiveScan", u, y, how, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SelectiveScan(x, delta, av, bc, d, groups, r, nil)
	})
	return y
}

// SelectiveScanComplex holds Δ, B and C fixed.
func (e *tracer) SelectiveScanComplex(u, delta, a, bc, dw *tensor.Tensor, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.SelectiveScanComplex(u, delta, a, bc, dw, groups, r, slots)
	av, d := constant(a), constant(dw)
	e.along("SelectiveScanComplex", u, y, nil, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SelectiveScanComplex(x, delta, av, bc, d, groups, r, nil)
	})
	return y
}

// SSD holds dt, B and C fixed.
func (e *tracer) SSD(xbc, dt, a, dw *tensor.Tensor, headDim, groups int, r *engine.Rows,
	slots engine.Slots) *tensor.Tensor {
	y := e.Engine.SSD(xbc, dt, a, dw, headDim, groups, r, slots)
	if !e.on || !e.known(xbc) {
		return y
	}
	av, skip, d := constant(a), constant(dw), a.Len()*headDim
	bc := e.Engine.Split(xbc, d, xbc.Dim(-1)-d)[1]
	how := &pattern{n: a.Len(), width: headDim, keyHeads: a.Len(), unit: func(v *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SSD(e.Engine.Join(v, bc), dt, av, skip, headDim, groups, r, nil)
	}}
	e.headed("SSD", xbc, y, 0, d, how)
	return y
}

// headed adds the step of an operation whose values are the columns [at, at+width) of x.
func (e *tracer) headed(name string, x, y *tensor.Tensor, at, width int, how *pattern) {
	how.engine, how.at = e.Engine, at
	if at == 0 && width == x.Dim(-1) {
		e.along(name, x, y, how, how.unit)
		return
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
}

// RGLRU holds its gates fixed.
func (e *tracer) RGLRU(u, r, i, lambda *tensor.Tensor, rows *engine.Rows, slots engine.Slots) *tensor.Tensor {
	y := e.Engine.RGLRU(u, r, i, lambda, rows, slots)
	if !e.on || !e.known(u) {
		return y
	}
	l := constant(lambda)
	e.along("RGLRU", u, y, newFading(r.Floats(), i.Floats(), lambda.Floats()),
		func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.RGLRU(x, r, i, l, rows, nil) })
	return y
}

// Recurrence holds the factors tanh(x)/x fixed, as the paper has activations.
func (e *tracer) Recurrence(u, rw *tensor.Tensor, tanhs int, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	y := e.Engine.Recurrence(u, rw, tanhs, r, slots)
	if !e.on || !e.known(u) {
		return y
	}
	how := newRecurrent(e.Engine, u.Floats(), y.Floats(), rw.Floats(), tanhs)
	e.along("Recurrence", u, y, how, how.run)
	return y
}

// Attention holds queries and keys fixed.
func (e *tracer) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	y := e.Engine.Attention(qkv, r, caches, o, drop)
	if !e.on || !e.known(qkv) {
		return y
	}
	hd := qkv.Dim(-1) / o.Packed()
	at, width := (o.Heads+o.KeyHeads())*hd, o.KeyHeads()*hd
	qk := e.Engine.Split(qkv, at, width)[0]
	how := &pattern{n: o.Heads, width: hd, keyHeads: o.KeyHeads(), unit: func(v *tensor.Tensor) *tensor.Tensor {
		return e.Engine.Attention(e.Engine.Join(qk, v), r, nil, o, 0)
	}}
	e.headed("Attention", qkv, y, at, width, how)
	return y
}

// CrossAttention holds queries and keys fixed.
func (e *tracer) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	y := e.Engine.CrossAttention(q, kv, heads, rq, rkv)
	if !e.on || !e.known(kv) {
		return y
	}
	d := q.Dim(-1)
	k := e.Engine.Split(kv, d, d)[0]
	e.along("CrossAttention", kv, y, nil, func(x *tensor.Tensor) *tensor.Tensor {
		return e.Engine.CrossAttention(q, e.Engine.Join(k, e.Engine.Split(x, d, d)[1]), heads, rq, rkv)
	})
	return y
}

// LinearAttention holds queries and keys fixed.
func (e *tracer) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	y := e.Engine.LinearAttention(q, k, v, o, r, s, z)
	if !e.on || !e.known(v) {
		return y
	}
	d := v.Dim(-1)
	how := &pattern{n: o.Heads, width: d / o.Heads, keyHeads: o.Heads,
		unit: func(v *tensor.Tensor) *tensor.Tensor { return e.Engine.LinearAttention(q, k, v, o, r, nil, nil) }}
	e.headed("LinearAttention", v, y, 0, d, how)
	return y
}

// SquaredReLUAttention holds queries and keys fixed.
func (e *tracer) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	y := e.Engine.SquaredReLUAttention(q, k, v, bias, r, keys, values)
	if !e.on || !e.known(v) {
		return y
	}
	b, d := constant(bias), v.Dim(-1)
	how := &pattern{n: 1, width: d, keyHeads: 1, unit: func(v *tensor.Tensor) *tensor.Tensor {
		return e.Engine.SquaredReLUAttention(q, k, v, b, r, nil, nil)
	}}
	e.headed("SquaredReLUAttention", v, y, 0, d, how)
	return y
}

// SpatialMix is traced.
func (e *tracer) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	y := e.Engine.SpatialMix(x, w, bias, r, caches)
	if !e.on || !e.known(x) {
		return y
	}
	weight, b, d := constant(w), constant(bias), x.Dim(-1)
	how := &pattern{n: 1, width: d, keyHeads: 1, affine: true,
		unit: func(x *tensor.Tensor) *tensor.Tensor { return e.Engine.SpatialMix(x, weight, b, r, nil) }}
	e.headed("SpatialMix", x, y, 0, d, how)
	return y
}

// SinkhornAttention holds queries, keys and the choice of buckets fixed.
func (e *tracer) SinkhornAttention(q, kv *tensor.Tensor, p engine.SinkhornParams, o engine.SinkhornOptions,
	r *engine.Rows, caches []*engine.SinkhornCache) *tensor.Tensor {
	y := e.Engine.SinkhornAttention(q, kv, p, o, r, caches)
	if !e.on || !e.known(kv) {
		return y
	}
	if o.KeysAsValues {
		e.add(&step{name: "SinkhornAttention", in: list{kv}, out: list{y}, along: true,
			why: "keys are its values too (keys_as_values), so that it is not linear in values"})
		return y
	}
	p = engine.SinkhornParams{Sort: constant(p.Sort), NullK: constant(p.NullK), NullV: constant(p.NullV)}
	d := q.Dim(-1)
	k := e.Engine.Split(kv, d, d)[0]
	how := &pattern{n: o.Heads, width: d / o.Heads, keyHeads: o.Heads, affine: true,
		unit: func(v *tensor.Tensor) *tensor.Tensor {
			return e.Engine.SinkhornAttention(q, e.Engine.Join(k, v), p, o, r, nil)
		}}
	e.headed("SinkhornAttention", kv, y, d, d, how)
	return y
}

// SpAtten holds queries, keys and what is pruned fixed.
func (e *tracer) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	y := e.Engine.SpAtten(qkv, o, r, states)
	if !e.on || !e.known(qkv) {
		return y
	}
	if o.KeepHeads < o.Heads {
		e.add(&step{name: "SpAtten", in: list{qkv}, out: list{y}, along: true,
			why: "heads are pruned by the size of what they write (keep_heads), which is not linear in values"})
		return y
	}
	d := qkv.Dim(-1) / 3
	qk := e.Engine.Split(qkv, 2*d, d)[0]
	how := &pattern{n: o.Heads, width: d / o.Heads, keyHeads: o.Heads,
		unit: func(v *tensor.Tensor) *tensor.Tensor { return e.Engine.SpAtten(e.Engine.Join(qk, v), o, r, nil) }}
	e.headed("SpAtten", qkv, y, 2*d, d, how)
	return y
}

// moved adds the step of an operation that moves positions.
func (e *tracer) moved(name string, xs []*tensor.Tensor, y *tensor.Tensor,
	op func(xs []*tensor.Tensor) *tensor.Tensor) {
	e.linear(&step{name: name, along: true}, xs, list{y},
		func(xs []*tensor.Tensor) []*tensor.Tensor { return list{op(xs)} })
}

// Append is traced.
func (e *tracer) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	y := e.Engine.Append(past, x, p, r)
	e.moved("Append", list{past, x}, y,
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Append(xs[0], xs[1], p, r) })
	return y
}

// Stack is traced.
func (e *tracer) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	y := e.Engine.Stack(xs...)
	e.moved("Stack", xs, y, func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Stack(xs...) })
	return y
}

// Cut is traced.
func (e *tracer) Cut(x *tensor.Tensor, r *engine.Rows, at, n []int) *tensor.Tensor {
	y := e.Engine.Cut(x, r, at, n)
	at, n = append([]int(nil), at...), append([]int(nil), n...)
	e.moved("Cut", list{x}, y, func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Cut(xs[0], r, at, n) })
	return y
}

// Slice is traced.
func (e *tracer) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	y := e.Engine.Slice(x, at, n)
	e.moved("Slice", list{x}, y, func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Slice(xs[0], at, n) })
	return y
}

// Reverse is traced.
func (e *tracer) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	y := e.Engine.Reverse(x, lag, r)
	e.moved("Reverse", list{x}, y,
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.Reverse(xs[0], lag, r) })
	return y
}

// MeanPositions is traced.
func (e *tracer) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	y := e.Engine.MeanPositions(x, r)
	e.moved("MeanPositions", list{x}, y,
		func(xs []*tensor.Tensor) *tensor.Tensor { return e.Engine.MeanPositions(xs[0], r) })
	return y
}

package compose

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// unseen is the score of a key that a query does not see. It is finite, so that no gradient is NaN.
const unseen = -1e30

// rotate applies rotary positions from start on to heads v (l, h, head_dim) of queries (sign 1) or keys (sign -1).
func (v *val) rotate(rot engine.Rotary, start int, sign float64) *val {
	if rot.Dim == 0 {
		return v
	}
	e, half := v.e, rot.Dim/2
	positions := e.count(v.dim(0)).plus(float64(start)).as(-1, 1, 1)
	angles := positions.mul(e.constant(rot, rot.InvFreq))
	cos, sin := angles.cos(), angles.sin()
	if by := rot.Magnitude(); by != 1 {
		cos, sin = cos.scale(by), sin.scale(by)
	}
	if rot.XPos != 0 {
		zeta := e.count(half).affine(2/float64(rot.Dim), 0.4).scale(1 / 1.4)
		factor := zeta.log().mul(positions).scale(sign / rot.XPos).exp()
		cos, sin = cos.mul(factor), sin.mul(factor)
	}
	x, y, rest := v.slice(2, 0, half), v.slice(2, half, half), v.slice(2, 2*half, v.dim(2)-2*half)
	return concat(2, x.mul(cos).sub(y.mul(sin)), x.mul(sin).add(y.mul(cos)), rest)
}

func (e *Engine) Rotate(x *tensor.Tensor, heads int, rot engine.Rotary, r *engine.Rows) *tensor.Tensor {
	return e.one("Rotate", func() *val {
		return e.in(x).rows().each(r, func(i int, x *val) *val {
			return x.as(r.Len(i), heads, -1).rotate(rot, r.Start(i), 1).as(r.Len(i), -1)
		}).as(x.Shape()...)
	})
}

// notAfter returns a mask (l, n) for l queries, the last of n positions. It is 1 where key j is not after query i and,
// if window is not 0, less than window before it.
func (e *Engine) notAfter(l, n, window int) *val {
	distance := e.count(l).plus(float64(n-l)).as(l, 1).sub(e.count(n))
	sees := distance.lessThan(0).affine(-1, 1)
	if window > 0 {
		sees = sees.mul(distance.lessThan(float64(window)))
	}
	return sees
}

// attend returns the softmax attention of queries (l, k, g, d) to keys and values (k, n, d). mask transforms the scores
// (k, g, l, n), drop their softmax. einsum is (*val).einsum, or matmul for the precision of the tape.
func attend(q, k, v *val, einsum func(v *val, spec string, b *val) *val, scale float64,
	mask, drop func(x *val) *val) *val {
	p := mask(einsum(q, "lkgd,knd->kgln", k).scale(scale)).softmax()
	if drop != nil {
		p = drop(p)
	}
	return einsum(p, "kgln,knd->lkgd", v)
}

func (e *Engine) Attention(qkv *tensor.Tensor, r *engine.Rows, caches []*engine.KVCache, o engine.AttentionOptions,
	drop uint64) *tensor.Tensor {
	return e.one("Attention", func() *val {
		hd, shared := qkv.Dim(-1)/o.Packed(), o.KeyHeads()
		return e.in(qkv).rows().each(r, func(i int, x *val) *val {
			l, start := r.Len(i), r.Start(i)
			x = x.as(l, o.Packed(), hd)
			q := x.slice(1, 0, o.Heads).rotate(o.Rotary, start, 1).as(l, shared, -1, hd)
			k := x.slice(1, o.Heads, shared).rotate(o.Rotary, start, -1).einsum("lkd->kld", nil)
			v := k
			if !o.KeysAsValues {
				v = x.slice(1, o.Heads+shared, shared).einsum("lkd->kld", nil)
			}
			if i < len(caches) && caches[i] != nil {
				k, v = e.afterKeys(caches[i], start, k, v, &o)
			}
			n := k.dim(1)
			mask := func(s *val) *val {
				if o.ALiBi {
					s = s.add(e.alibi(o.Heads).as(shared, -1, 1, 1).mul(e.count(n)))
				}
				if sees := e.sees(&o, l, n, start+l-n); sees != nil {
					return s.where(sees.as(-1, shared, o.Heads/shared, l, n).pick(0, 0), e.full(unseen))
				}
				return s
			}
			var dropped func(p *val) *val
			if r.Trains() && o.Dropout > 0 {
				dropped = func(p *val) *val { return p.mul(e.mask(r.Seed(i, drop), o.Dropout, p.len()).as(p.shape...)) }
			}
			return attend(q, k, v, (*val).matmul, o.ScaleOf(hd), mask, dropped).as(l, -1)
		})
	})
}

// alibi returns the slopes of heads. Adding slope·j to a score is, in a softmax, the same as subtracting slope·(i-j).
func (e *Engine) alibi(heads int) *val {
	type slopes struct{ heads int }
	return e.constant(slopes{heads}, func() []float32 {
		m := make([]float32, heads)
		for h := range m {
			m[h] = float32(engine.ALiBiSlope(h, heads))
		}
		return m
	})
}

// sees returns a mask (heads, l, n), which is 1 for the keys that each query of each head sees, or nil if it sees all.
// The first key is at position start.
func (e *Engine) sees(o *engine.AttentionOptions, l, n, start int) *val {
	switch {
	case o.Blocks != nil:
		sees := make([]float32, o.Heads*l*n)
		for at := range sees {
			h, i, j := at/(l*n), start+n-l+at/n%l, start+at%n
			for _, s := range o.Blocks.Spans(nil, h, i/o.Blocks.Size, i+1, start+n, start) {
				if j-start >= s.Lo && j-start < s.Hi {
					sees[at] = 1
				}
			}
		}
		return e.upload(sees, o.Heads, l, n)
	case o.Ahead:
		return nil
	}
	return e.notAfter(l, n, o.Window).over([]int{o.Heads, l, n}).copy()
}

// afterKeys adds keys and values (heads, l, head_dim) to a cache. It returns all keys and values that the row sees.
func (e *Engine) afterKeys(c *engine.KVCache, start int, k, v *val, o *engine.AttentionOptions) (keys, values *val) {
	if c.Rounded != nil {
		panic("engine/compose.Attention: found rounded keys and values, want float32")
	}
	past := o.Remembered(c.Len)
	forget := c.Len - past
	before := func(which int, x *val) *val {
		if own := [2]*tensor.Tensor{c.K, c.V}[which]; own != nil {
			return concat(1, e.in(own).slice(1, forget, past), x)
		}
		all := e.fresh(x.dim(0), past+x.dim(1), x.dim(2))
		c.CopyTo(tensor.Stored(all.n.buf, all.shape...), which, forget, past)
		return concat(1, all.slice(1, 0, past), x)
	}
	keys, values = k, v
	if past > 0 {
		keys = before(0, k)
		if values = keys; !o.KeysAsValues {
			values = before(1, v)
		}
	}
	if e.Recording {
		*c = engine.KVCache{Len: past + k.dim(1), KeysAsValues: o.KeysAsValues}
		if e.put(&c.K, keys); !o.KeysAsValues {
			e.put(&c.V, values)
		}
		return keys, values
	}
	c.Append(start, e.lent(k), e.lent(v))
	c.Keep(o.Remembered(c.Len))
	return keys, values
}

// lent returns a value as a tensor that is valid during the operation.
func (e *Engine) lent(v *val) *tensor.Tensor {
	v = v.own()
	return tensor.Stored(v.n.buf, v.shape...)
}

func (e *Engine) CrossAttention(q, kv *tensor.Tensor, heads int, rq, rkv *engine.Rows) *tensor.Tensor {
	return e.one("CrossAttention", func() *val {
		hd, kv := q.Dim(-1)/heads, e.in(kv).rows()
		return e.in(q).rows().each(rq, func(i int, q *val) *val {
			both := kv.row(rkv, i).as(-1, 2, heads, hd).einsum("nahd->ahnd", nil)
			none := func(s *val) *val { return s }
			return attend(q.as(-1, heads, 1, hd), both.pick(0, 0), both.pick(0, 1), (*val).einsum,
				1/math.Sqrt(float64(hd)), none, nil).as(-1, heads*hd)
		}).as(q.Shape()...)
	})
}

// phi applies the feature map f.
func (v *val) phi(f engine.FeatureMap) *val {
	switch f {
	case engine.PhiSoftplus:
		return v.softplus()
	case engine.ReLU2:
		return v.act(engine.SquaredReLU)
	case engine.ReLU:
		return v.relu()
	}
	negative := v.e.full(0).where(v.positive(), v).exp() // finite for positive v, too
	return v.plus(1).where(v.positive(), negative)
}

func (e *Engine) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	return e.one("LinearAttention", func() *val {
		heads := func(x *val) *val { return x.as(x.dim(0), o.Heads, -1) }
		Q, K, V := e.in(q).rows().phi(o.Phi), e.in(k).rows().phi(o.Phi), e.in(v).rows()
		return Q.each(r, func(i int, q *val) *val {
			l := r.Len(i)
			q, k, v := heads(q), heads(K.row(r, i)), heads(V.row(r, i))
			S, Z := e.carried(s, i, o.Heads, q.dim(2), v.dim(2)), e.carried(z, i, o.Heads, q.dim(2))
			w := q.matmul("the,she->hts", k)
			w = w.where(e.notAfter(l, l, 0), e.full(0))
			sums := w.matmul("hts,shm->thm", v).add(q.matmul("the,hem->thm", S))
			norm := w.einsum("hts->th", nil).add(q.einsum("the,he->th", Z)).plus(float64(o.Eps))
			e.carry(s, i, func() *val { return S.add(k.matmul("the,thm->hem", v)) })
			e.carry(z, i, func() *val { return Z.add(k.einsum("the->he", nil)) })
			return sums.div(norm.as(l, o.Heads, 1)).as(l, -1)
		}).as(v.Shape()...)
	})
}

// after adds x to a cache, which may be nil. It returns all that the row sees: the contents of the cache, and x.
func (e *Engine) after(caches []*engine.RowCache, i, start int, x *val) *val {
	if i >= len(caches) || caches[i] == nil {
		return x
	}
	c, all := caches[i], x
	if c.X != nil {
		all = concat(0, e.in(c.X), x)
	} else if c.Len > 0 {
		parts := []*val{}
		for at := 0; at < c.Len; {
			page, from, n := c.Run(at)
			parts = append(parts, e.in(page).slice(0, from, n))
			at += n
		}
		all = concat(0, append(parts, x)...)
	}
	if e.Recording {
		*c = engine.RowCache{Len: all.dim(0)}
		e.put(&c.X, all)
		return all
	}
	if page := firstPage(c); page != nil && page.Storage() == nil { // as read from a file
		c.Fill(e.lent(all.slice(0, 0, c.Len)))
	}
	c.Append(start, e.lent(x), 0, x.dim(0))
	return all
}

func firstPage(c *engine.RowCache) *tensor.Tensor {
	if c.Len == 0 {
		return nil
	}
	page, _, _ := c.Run(0)
	return page
}

func (e *Engine) SquaredReLUAttention(q, k, v, bias *tensor.Tensor, r *engine.Rows,
	keys, values []*engine.RowCache) *tensor.Tensor {
	return e.one("SquaredReLUAttention", func() *val {
		k, v, bias, width := e.in(k).rows(), e.in(v).rows(), e.in(bias).flat(), q.Dim(-1)
		m := bias.dim(0)
		return e.in(q).rows().each(r, func(i int, q *val) *val {
			K, V := e.after(keys, i, r.Start(i), k.row(r, i)), e.after(values, i, r.Start(i), v.row(r, i))
			l, n := r.Len(i), K.dim(0)
			// far[t] is the bias at distance n-1-t. Query i sees the biases from n-1-i on.
			far := bias
			if n > m {
				far = concat(0, bias, bias.slice(0, m-1, 1).over([]int{n - m}))
			}
			far = far.slice(0, 0, n).reversed(0).pad(0, 0, l-1).windows(0, n).reversed(0)
			score := q.einsum("ts,js->tj", K).scale(1 / math.Sqrt(float64(width))).add(far).relu()
			score = score.mul(score).where(e.notAfter(l, n, 0), e.full(0))
			return score.einsum("tj,je->te", V).div(e.count(l).plus(float64(n-l+1)).as(l, 1))
		}).as(v.n.of.Shape()...)
	})
}

func (e *Engine) SpatialMix(x, w, bias *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) *tensor.Tensor {
	return e.one("SpatialMix", func() *val {
		bias := e.in(bias).flat()
		w := e.in(w).as(bias.dim(0), -1)
		return e.in(x).rows().each(r, func(i int, x *val) *val {
			all := e.after(caches, i, r.Start(i), x)
			l, n := r.Len(i), all.dim(0)
			mix := w.slice(0, r.Start(i), l).slice(1, r.Start(i)+l-n, n)
			mix = mix.where(e.notAfter(l, n, 0), e.full(0))
			return mix.matmul("tj,jc->tc", all).add(bias.slice(0, r.Start(i), l).as(l, 1))
		}).as(x.Shape()...)
	})
}

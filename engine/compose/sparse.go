package compose

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// The host chooses what a query sees. For that, BucketAttention copies weights out, and SpAtten copies the importance
// of tokens out at the end of a block. See engine/reference for both.

func (e *Engine) BucketAttention(q, kv *tensor.Tensor, p engine.BucketParams, o engine.BucketOptions,
	r *engine.Rows, caches []*engine.BucketCache) *tensor.Tensor {
	qCaches, kvCaches := make([]*engine.RowCache, len(caches)), make([]*engine.RowCache, len(caches))
	for i, c := range caches {
		if c != nil {
			qCaches[i], kvCaches[i] = c.Q, c.KV
		}
	}
	return e.one("BucketAttention", func() *val {
		d, kv := q.Dim(-1), e.in(kv).rows()
		sort := e.in(p.Sort)
		return e.in(q).rows().each(r, func(i int, q *val) *val {
			q, kv := e.after(qCaches, i, r.Start(i), q), e.after(kvCaches, i, r.Start(i), kv.row(r, i))
			n, heads := q.dim(0), make([]*val, o.Heads)
			for h := range heads {
				part := func(x *val, at int) *val { return x.slice(1, at+h*d/o.Heads, d/o.Heads) }
				s := &bucketed{e: e, o: o, q: part(q, 0), k: part(kv, 0), v: part(kv, d)}
				if sort != nil {
					s.net = sort.pick(0, h)
				}
				if !o.Ahead {
					null := func(x *tensor.Tensor) *val { return e.in(x).as(o.Heads, -1).slice(0, h, 1) }
					s.nullK, s.nullV = null(p.NullK), null(p.NullV)
					if h >= o.Heads/2 {
						s.first = min(n, o.Bucket-1)
					}
				}
				heads[h] = s.attend().slice(0, n-r.Len(i), r.Len(i))
			}
			return concat(1, heads...)
		}).as(q.Shape()...)
	})
}

// bucketed is the attention of one head over all positions that a row sees.
type bucketed struct {
	e            *Engine
	o            engine.BucketOptions
	q, k, v, net *val // net is nil if scores compare queries with keys
	nullK, nullV *val // (1, head_dim); nil if it looks ahead
	first        int  // where bucket 0 starts; earlier positions see only each other
}

func (s *bucketed) attend() *val {
	n, e, size, scale := s.q.dim(0), s.e, s.o.Bucket, 1/math.Sqrt(float64(s.q.dim(1)))
	var parts []*val
	if s.first > 0 {
		front := func(x *val) *val { return x.slice(0, 0, s.first) }
		p := front(s.q).matmul("id,jd->ij", front(s.k)).scale(scale)
		p = p.where(e.notAfter(s.first, s.first, 0), e.full(unseen)).softmax()
		parts = append(parts, p.matmul("ij,jd->id", front(s.v)))
	}
	if u := (n - s.first + size - 1) / size; u > 0 {
		weights, picked := s.picks(u)
		own, length := make([]int32, u*size), u*size
		for i := range own {
			own[i] = int32(min(s.first+i, n)) // n is past the end
		}
		k, v := s.k.pad(0, 0, 1), s.v.pad(0, 0, 1)
		buckets := func(x *val, rows []int32) *val { return x.gather(rows).as(u, -1, x.dim(1)) }
		values := s.v
		if s.o.KeysAsValues {
			values = s.k
		}
		pickedK, pickedV := s.k, values
		if !s.o.Ahead {
			pickedK, pickedV = concat(0, s.k, s.nullK), concat(0, values, s.nullV)
		}
		K := concat(1, buckets(pickedK, picked), buckets(k, own))
		V := concat(1, buckets(pickedV, picked), buckets(v, own))
		R := concat(1, weights, e.full(1, u, size)).as(u, 1, -1)
		scores := buckets(s.q.pad(0, 0, 1), own).matmul("uid,ujd->uij", K).scale(scale).mul(R)
		if !s.o.Ahead {
			sees := concat(1, e.full(1, size, s.o.Top*size), e.notAfter(size, size, 0))
			scores = scores.where(sees, e.full(unseen))
		}
		y := scores.softmax().mul(R).matmul("uij,ujd->uid", V)
		parts = append(parts, y.as(length, -1).slice(0, 0, n-s.first))
	}
	return concat(0, parts...)
}

// picks returns the weights of the positions of picked buckets (u, top·bucket), and the indices of these positions.
func (s *bucketed) picks(u int) (weights *val, picked []int32) {
	e, size, n := s.e, s.o.Bucket, s.q.dim(0)
	scores, empties := s.scores(u)
	candidates := func(u int) int {
		if s.o.Ahead {
			return n / size
		}
		return empties + u
	}
	width := scores.dim(1)
	open := make([]float32, u*width)
	for at := range open {
		if at%width < candidates(at/width) {
			open[at] = 1
		}
	}
	temperature := float64(s.o.Temperature)
	if s.o.Ahead && s.net == nil {
		temperature = 1
	}
	picked = make([]int32, u*s.o.Top*size)
	var all []*val
	for r := range s.o.Top {
		p := scores.scale(1/temperature).where(e.upload(open, u, width), e.full(unseen)).softmax()
		values, places := p.read(), make([]int32, u)
		for b := range u {
			c := engine.Heaviest(values[b*width:][:candidates(b)])
			places[b], open[b*width+c] = int32(b*width+c), 0
			for j := range size {
				at := int32(n) // a position of an empty bucket
				if c >= empties {
					at = int32(s.first + (c-empties)*size + j)
				}
				picked[(b*s.o.Top+r)*size+j] = at
			}
		}
		all = append(all, p.as(-1, 1).gather(places).over([]int{u, size}))
	}
	return concat(1, all...), picked
}

// scores returns the scores of the candidates for u buckets. The first candidates are empty buckets.
func (s *bucketed) scores(u int) (x *val, empties int) {
	e, size, hd := s.e, s.o.Bucket, s.q.dim(1)
	n := s.q.dim(0) - s.first
	back := func(x *val) *val { return x.slice(0, s.first, n) }
	starts := make([]int32, u)
	for i := range starts {
		starts[i] = int32(i * size)
	}
	// means returns means over the positions up to each one; sums returns sums over the positions of each bucket.
	means := func(x *val) *val {
		return e.notAfter(n, n, 0).div(e.count(n).plus(1).as(n, 1)).einsum("ti,id->td", back(x))
	}
	sums := func(x *val) *val { return x.pad(0, 0, u*size-n).as(u, size, hd).einsum("ujd->ud", nil) }
	if !s.o.Ahead {
		empties = s.o.Top
	}
	switch {
	case s.net != nil:
		summary := concat(1, means(s.k).gather(starts), back(s.k).gather(starts))
		leak := 0.01
		if s.o.Ahead {
			summary, leak = concat(1, sums(s.q), sums(s.k)), 0
		}
		x = summary.einsum("ue,ec->uc", s.net)
		return x.where(x.positive(), x.scale(leak)).slice(1, 0, empties+min(u, x.dim(1)-empties)), empties
	case s.o.Ahead:
		share := 1 / float64(size*size)
		return sums(s.q).einsum("ud,cd->uc", sums(s.k)).scale(share / math.Sqrt(float64(hd))), 0
	}
	x = means(s.q).gather(starts).einsum("ud,cd->uc", sums(means(s.k))).scale(1 / math.Sqrt(float64(hd)))
	return x.pad(1, empties, 0), empties
}

func (e *Engine) SinkhornBalance(x *tensor.Tensor, o engine.BalanceOptions) *tensor.Tensor {
	return e.one("SinkhornBalance", func() *val {
		x := e.in(x).rows()
		b := x.dim(0)
		f := x.as(b, o.Heads, -1).slice(2, 0, b).einsum("uhv->huv", nil)
		after := e.count(b).plus(-1).as(b, 1).sub(e.count(b)).lessThan(0).affine(-1, 1) // v < u
		none, zero := e.full(unseen), e.full(0)
		if o.Causal {
			f = f.where(after, none)
		}
		for range o.Rounds {
			f = f.sub(f.logSumExp())
			if o.Causal { // each row has its own sums, over the rows up to it
				sums := e.notAfter(b, b, 0).einsum("ui,hiv->huv", f.exp().where(after, zero))
				f = f.sub(sums.where(after, e.full(1)).plus(tiniest).log()).where(after, none)
				continue
			}
			f = f.sub(f.einsum("huv->hvu", nil).logSumExp().einsum("hvu->huv", nil))
		}
		p := f.exp()
		if o.Causal {
			p = p.where(after, zero)
		}
		return p.einsum("huv->uhv", nil).as(b, -1)
	})
}

// tiniest keeps the logarithm of a sum of float32 finite.
const tiniest = 1e-37

func (e *Engine) MixBlocks(x, w *tensor.Tensor, heads, block int) *tensor.Tensor {
	return e.one("MixBlocks", func() *val {
		x, w := e.in(x).rows(), e.in(w).rows()
		k, d := x.dim(0)/block, x.dim(1)
		w = w.as(w.dim(0), heads, -1).slice(2, 0, k)
		return w.einsum("uhv,vjhe->ujhe", x.as(k, block, heads, -1)).as(-1, d)
	})
}

func (e *Engine) SpAtten(qkv *tensor.Tensor, o engine.SpAttenOptions, r *engine.Rows,
	states []*engine.SpAttenState) *tensor.Tensor {
	return e.one("SpAtten", func() *val {
		return e.in(qkv).rows().each(r, func(i int, x *val) *val {
			hd := x.dim(1) / (3 * o.Heads)
			s := &spatten{o: o, mass: e.full(0, o.Heads)}
			s.k, s.v, s.importance = e.full(0, 0, o.Heads, hd), e.full(0, 0, o.Heads, hd), e.full(0, 0)
			var state *engine.SpAttenState
			if i < len(states) && states[i] != nil {
				state = states[i]
				s.load(e, state)
			}
			s.below = engine.SpAttenRow{Block: o.Block, Left: s.k.dim(0)}
			if o.Above != nil {
				s.above = &o.Above[i]
			}
			y := s.row(x.as(-1, 3, o.Heads, hd))
			if o.Below != nil {
				o.Below[i] = s.below
			}
			if state != nil {
				s.save(e, state)
			}
			return y.as(r.Len(i), -1)
		})
	})
}

// spatten holds the remaining tokens (m, heads, head_dim) and heads of a row, with their importance. The importance of
// pruned heads is -1.
type spatten struct {
	o                      engine.SpAttenOptions
	position               int
	k, v, importance, mass *val
	places                 []float32 // of tokens in the previous layer
	above                  *engine.SpAttenRow
	below                  engine.SpAttenRow
}

func (s *spatten) load(e *Engine, from *engine.SpAttenState) {
	position := e.in(from.Position).read()
	s.position = int(position[0])<<20 + int(position[1])
	if from.Places != nil {
		s.places = e.in(from.Places).read()
	}
	left := s.o.LeftOf(s.places, s.position)
	tokens := func(x *val) *val { return x.slice(1, 0, left).einsum("hmd->mhd", nil) }
	s.k, s.v, s.mass = tokens(e.in(from.K)), tokens(e.in(from.V)), e.in(from.Heads).constant()
	s.importance = e.in(from.Importance).constant().slice(0, 0, left)
	if from.Low != nil {
		s.k = s.k.add(tokens(e.in(from.Low)))
	}
	s.places = s.places[:min(left, len(s.places))]
}

func (s *spatten) save(e *Engine, to *engine.SpAttenState) {
	more := s.o.Rows() - s.k.dim(0)
	e.next(&to.K, s.k.einsum("mhd->hmd", nil).pad(1, 0, more))
	e.next(&to.V, s.v.einsum("mhd->hmd", nil).pad(1, 0, more))
	e.next(&to.Importance, s.importance.pad(0, 0, more))
	e.next(&to.Heads, s.mass)
	e.next(&to.Position, e.upload([]float32{float32(s.position >> 20), float32(s.position & (1<<20 - 1))}, 2))
	if to.Low != nil {
		e.next(&to.Low, e.full(0, to.Low.Shape()...))
	}
	if to.Places != nil {
		e.next(&to.Places, e.upload(append(s.places, make([]float32, s.o.Rows()-len(s.places))...), s.o.Rows()))
	}
}

// row computes positions x (l, 3, heads, head_dim). It takes the positions of a block at once.
func (s *spatten) row(x *val) *val {
	var ys []*val
	e, zero, scale := x.e, x.e.full(0), 1/math.Sqrt(float64(x.dim(3)))
	over := s.k.dim(0) // tokens of the previous layer
	if s.above != nil {
		over = s.above.Left
	}
	for at := 0; at < x.dim(0); {
		l := min(x.dim(0)-at, s.o.Block-s.position%s.o.Block)
		part := x.slice(0, at, l)
		q := part.pick(1, 0).rotate(s.o.Rotary, s.position, 1)
		s.k = concat(0, s.k, part.pick(1, 1).rotate(s.o.Rotary, s.position, -1))
		s.v = concat(0, s.v, part.pick(1, 2))
		active, n := s.mass.lessThan(0).affine(-1, 1).as(-1, 1, 1), s.k.dim(0)
		p := q.matmul("thd,mhd->htm", s.k).scale(scale).where(e.notAfter(l, n, 0), e.full(unseen)).softmax()
		p = p.where(active, zero)
		y := s.read(p).matmul("htm,mhd->htd", s.v)
		s.importance = s.importance.pad(0, 0, l).add(p.constant().einsum("htm->m", nil))
		s.mass = s.mass.add(y.abs().einsum("htd->h", nil))
		ys = append(ys, y.einsum("htd->thd", nil))
		for range l {
			if over++; s.o.Cascade {
				s.places = append(s.places, float32(over))
			}
		}
		if at, s.position = at+l, s.position+l; s.position%s.o.Block == 0 {
			over = s.prune(e)
		}
	}
	return concat(0, ys...)
}

// read returns the weights (heads, l, n), with zeros for the values that are not read.
func (s *spatten) read(p *val) *val {
	n := p.dim(2)
	if s.o.ValuesOf(n) == n {
		return p
	}
	weights := p.read()
	reads := make([]float32, len(weights))
	for at := 0; at < len(weights); at += n {
		for i, read := range s.o.Reads(weights[at:][:n]) {
			if read {
				reads[at+i] = 1
			}
		}
	}
	return p.where(p.e.upload(reads, p.shape...), p.e.full(0))
}

// prune keeps the tokens and heads that SpAttenOptions.Leave chooses. It returns the number of tokens that are left in
// the previous layer.
func (s *spatten) prune(e *Engine) (over int) {
	var above *engine.SpAttenCut
	if s.above != nil {
		above = &s.above.Cuts[len(s.below.Cuts)]
	}
	mass, n := s.mass.read(), s.k.dim(0)
	left, cut := s.o.Leave(make([]int, n), s.importance.read(), mass, s.places, above)
	s.below.Cuts, s.mass = append(s.below.Cuts, cut), e.upload(mass, len(mass))
	s.places = s.places[:min(len(left), len(s.places))]
	if len(left) < n {
		order := make([]int32, len(left))
		for to, from := range left {
			order[to] = int32(from)
		}
		s.k, s.v, s.importance = s.k.gather(order), s.v.gather(order), s.importance.gather(order)
	}
	if above != nil {
		return len(above.Importance)
	}
	return len(left)
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// linearChunk is the number of positions of a chunk. Inside a chunk positions are compared by products of matrices;
// between chunks only the state is carried. So the work is linear in the length: l·linearChunk scores.
const linearChunk = 64

var linearOnes = func() (x [linearChunk]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// LinearAttention runs through each row chunk by chunk, with the products of a chunk as matrices (arXiv:2202.10447,
// §3.3).
func (eng *Engine) LinearAttention(q, k, v *tensor.Tensor, o engine.LinearOptions, r *engine.Rows,
	s, z engine.Slots) *tensor.Tensor {
	op := take[linearAttentionOp](eng)
	wants := eng.wantsRows(s, q, k, v)
	wants = eng.wantsRows(z) || wants
	a := &op.linearAttention
	*a = linearAttention{LinearOptions: o, q: q, k: k, v: v, y: eng.like(v), rows: r,
		s: eng.carry(a.s, s), z: eng.carry(a.z, z), e: q.Dim(-1) / o.Heads, m: v.Dim(-1) / o.Heads,
		precision: eng.precision(), chunks: a.chunks[:0], work: a.work}
	a.norms = eng.arena.Floats(o.Heads * r.Total())
	chunks := 0
	for i := range r.Count() {
		a.chunks = append(a.chunks, chunks)
		chunks += (r.Len(i) + linearChunk - 1) / linearChunk
	}
	if wants {
		a.states = eng.arena.Floats(o.Heads * chunks * (a.e*a.m + a.e))
	}
	a.eachHeads(a.forward)
	if wants {
		made := eng.push("LinearAttention", op, a.y)
		made.add(a.s.after...)
		made.add(a.z.after...)
	}
	return a.y
}

type linearAttention struct {
	engine.LinearOptions
	q, k, v, y *tensor.Tensor
	rows       *engine.Rows
	s, z       carried
	norms      []float32 // the denominators, for each row (heads, l)
	states     []float32 // for backward: S and z before each chunk, for each row (heads, chunks, e·m+e)
	chunks     []int     // number of chunks of the rows before each
	e, m       int       // components of a head: of queries and keys, and of values
	precision  kernel.Precision
	work       work
}

// stateBefore returns S and z before the chunk that starts at t0, for a head of a row.
func (a *linearAttention) stateBefore(row, head, t0 int) (s, z []float32) {
	n, chunks := a.e*a.m+a.e, (a.rows.Len(row)+linearChunk-1)/linearChunk
	x := a.states[(a.chunks[row]*a.Heads+head*chunks+t0/linearChunk)*n:][:n]
	return x[:a.e*a.m], x[a.e*a.m:]
}

// linearHeads is the largest number of heads that go through a row together, so that positions that they share are read
// once.
const linearHeads = 8

// eachHeads calls f on all cores for the heads [lo, hi) of a row, at most linearHeads. Their number changes no result,
// because heads are independent.
func (a *linearAttention) eachHeads(f func(row, lo, hi int)) {
	g := max(1, min(linearHeads, a.Heads, a.rows.Count()*a.Heads/parallel.Workers()))
	a.work.clear()
	for range a.rows.Count() {
		a.work.add((a.Heads + g - 1) / g)
	}
	a.work.each(1, func(row, i int) { f(row, i*g, min(a.Heads, (i+1)*g)) })
}

// linearHead is one head of one row, a chunk at a time.
type linearHead struct {
	*linearAttention
	qAt, vAt     int // where position 0 starts in q and k, and in v and y
	qStep, vStep int // distance from one position to the next
	norms        []float32
	s, z         []float32 // the state before the chunk
	fq, fk, w    []float32 // φ(q), φ(k) (n, e) and the weights φ(q)·φ(k) (n, n) of the chunk
	scratch      *[]float32
}

// head prepares a head of a row, with scratch that must be given back.
func (a *linearAttention) head(row, i int) linearHead {
	from, l := a.rows.From(row), a.rows.Len(row)
	c := min(linearChunk, l)
	buf := getFloats(a.e*a.m + a.e + 2*c*a.e + c*c)
	head := linearHead{linearAttention: a, qStep: a.Heads * a.e, vStep: a.Heads * a.m, scratch: buf}
	head.norms = a.norms[from*a.Heads+i*l:][:l]
	head.qAt, head.vAt = from*head.qStep+i*a.e, from*head.vStep+i*a.m
	head.fq, head.fk, head.w, head.s, head.z = split5(*buf, c*a.e, c*a.e, c*c, a.e*a.m, a.e)
	return head
}

// split5 cuts x into five parts.
func split5(x []float32, n0, n1, n2, n3, n4 int) (a, b, c, d, e []float32) {
	return x[:n0], x[n0:][:n1], x[n0+n1:][:n2], x[n0+n1+n2:][:n3], x[n0+n1+n2+n3:][:n4]
}

// load computes φ(q) and φ(k) of the positions [t0, t0+n) and their products up to the diagonal.
func (h *linearHead) load(t0, n int) {
	h.features(h.fk, h.k, t0, n)
	h.features(h.fq, h.q, t0, n)
	h.precision.GemmInline(kernel.Product{
		Op: kernel.NT, M: n, N: n, K: h.e, A: h.fq, LDA: h.e, B: h.fk, LDB: h.e, C: h.w, LDC: n,
	})
	for i := range n {
		clear(h.w[i*n+i+1 : (i+1)*n])
	}
}

func (h *linearHead) features(f []float32, x *tensor.Tensor, t0, n int) {
	for r := range n {
		featureMap(h.Phi, f[r*h.e:][:h.e], x.Data()[h.qAt+(t0+r)*h.qStep:][:h.e])
	}
}

// carry carries the state through the chunk whose features are loaded.
func (h *linearHead) carry(t0, n int) {
	h.precision.GemmInline(kernel.Product{
		Op: kernel.TN, M: h.e, N: h.m, K: n, A: h.fk, LDA: h.e, B: h.v.Data()[h.vAt+t0*h.vStep:], LDB: h.vStep,
		C: h.s, LDC: h.m, Add: true,
	})
	for i := range n {
		kernel.Add(h.z, h.fk[i*h.e:][:h.e])
	}
}

// forward computes the heads [lo, hi) of a row, at most linearHeads.
func (a *linearAttention) forward(row, lo, hi int) {
	var group [linearHeads]linearHead
	heads := group[:hi-lo]
	sBefore, sAfter := a.s.at(row)
	zBefore, zAfter := a.z.at(row)
	for j := range heads {
		i, h := lo+j, &heads[j]
		*h = a.head(row, i)
		if sAfter == nil {
			clear(h.s)
			clear(h.z)
			continue
		}
		// The state is updated in place, because copying it would take most of the time of decoding.
		h.s, h.z = sAfter[i*a.e*a.m:][:a.e*a.m], zAfter[i*a.e:][:a.e]
		if &sAfter[0] != &sBefore[0] {
			copy(h.s, sBefore[i*a.e*a.m:])
			copy(h.z, zBefore[i*a.e:])
		}
	}
	l := a.rows.Len(row)
	for t0 := 0; t0 < l; t0 += linearChunk {
		for j := range heads {
			if a.states != nil {
				s, z := a.stateBefore(row, lo+j, t0)
				copy(s, heads[j].s)
				copy(z, heads[j].z)
			}
			heads[j].forward(t0, min(linearChunk, l-t0))
		}
	}
	for j := range heads {
		putFloats(heads[j].scratch)
	}
}

// forward computes y at the positions [t0, t0+n) and carries the state through them.
func (h *linearHead) forward(t0, n int) {
	h.load(t0, n)
	at := h.vAt + t0*h.vStep
	y, e, m := h.y.Data()[at:], h.e, h.m
	h.precision.GemmInline(kernel.Product{
		Op: kernel.NN, M: n, N: m, K: n, A: h.w, LDA: n, B: h.v.Data()[at:], LDB: h.vStep, C: y, LDC: h.vStep,
	})
	h.precision.GemmInline(kernel.Product{
		Op: kernel.NN, M: n, N: m, K: e, A: h.fq, LDA: e, B: h.s, LDB: m, C: y, LDC: h.vStep, Add: true,
	})
	for r := range n {
		norm := kernel.Dot(h.w[r*n:][:r+1], linearOnes[:]) + kernel.Dot(h.fq[r*e:][:e], h.z) + h.Eps
		kernel.Scale(y[r*h.vStep:][:m], 1/norm)
		h.norms[t0+r] = norm
	}
	h.carry(t0, n)
}

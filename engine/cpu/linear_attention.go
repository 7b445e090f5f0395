package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// linearChunk is how many positions are products of matrices together. Between chunks only the state is carried, so the work
// is linear in the length: within one, l·linearChunk scores.
const linearChunk = 64

var linearOnes = func() (x [linearChunk]float32) {
	for i := range x {
		x[i] = 1
	}
	return x
}()

// LinearAttention is causal attention with φ(q)·φ(k) in place of exp(q·k), with q, k (b, l, heads·e) and v (b, l, heads·m):
//
//	y_t = Σ_{s≤t} (φ(q_t)·φ(k_s)) v_s / (Σ_{s≤t} φ(q_t)·φ(k_s) + eps)
//
// (Transformers are RNNs, arXiv:2006.16236, §3; in chunks as in arXiv:2202.10447, §3.3). state is what came before the chunk,
// none for nothing with none wanted after it; next is the state after it: state itself, updated in place, when the tape does
// not record.
func (eng *Engine) LinearAttention(q, k, v *tensor.Tensor, state engine.LinearState, o engine.LinearOptions) (y *tensor.Tensor, next engine.LinearState) {
	a := linearAttention{LinearOptions: o, q: q, k: k, v: v, batch: q.Dim(0), l: q.Dim(1), precision: eng.precision()}
	a.e, a.m = q.Dim(2)/o.Heads, v.Dim(2)/o.Heads
	if state.S != nil {
		a.before, a.after = state, state
		if eng.Recording {
			a.after = engine.LinearState{S: eng.like(state.S), Z: eng.like(state.Z)}
		}
	}
	a.y = eng.like(v)
	a.norms = eng.arena.Floats(a.batch * o.Heads * a.l)
	wants := eng.wants(q, k, v, a.before.S, a.before.Z)
	if wants {
		a.states = eng.arena.Floats(a.batch * o.Heads * a.statesLen())
	}
	parallel.For(a.batch*o.Heads, a.grain(), func(lo, hi int) { a.forward(lo, hi) })
	if wants {
		op := take[linearAttentionOp](eng)
		op.linearAttention = a
		eng.push(op)
	}
	return a.y, a.after
}

type linearAttention struct {
	engine.LinearOptions
	q, k, v, y    *tensor.Tensor
	norms         []float32          // the denominators, (b, heads, l)
	states        []float32          // for the backward, S and z before each chunk, (b, heads, chunks, e·m+e)
	before, after engine.LinearState // of nils where there are none
	batch, l      int
	e, m          int // components of a head: of queries and keys, and of values
	precision     kernel.Precision
}

// statesLen is how long the states of one head are.
func (a *linearAttention) statesLen() int {
	return (a.l + linearChunk - 1) / linearChunk * (a.e*a.m + a.e)
}

// stateBefore are S and z before the chunk that begins at t0, of head i.
func (a *linearAttention) stateBefore(i, t0 int) (s, z []float32) {
	n := a.e*a.m + a.e
	x := a.states[i*a.statesLen()+t0/linearChunk*n:][:n]
	return x[:a.e*a.m], x[a.e*a.m:]
}

// linearGroup is how many heads at most go from chunk to chunk together: rows that heads share are then read at one time.
const linearGroup = 8

// grain is how many heads a core takes. Heads do not depend on each other, so it changes no result.
func (a *linearAttention) grain() int {
	return max(1, min(linearGroup, a.Heads, a.batch*a.Heads/parallel.Workers()))
}

// linearHead is one head of one sequence, a chunk at a time.
type linearHead struct {
	*linearAttention
	qAt, vAt     int // where position 0 begins in q and k, and in v and y
	qStep, vStep int // from one position to the next
	norms        []float32
	s, z         []float32 // the state before the chunk
	fq, fk, w    []float32 // φ(q), φ(k) (n, e) and the weights φ(q)·φ(k) (n, n) of the chunk
	scratch      *[]float32
}

// head sets up head i of all sequences in scratch, to be given back.
func (a *linearAttention) head(i int) linearHead {
	b, h := i/a.Heads, i%a.Heads
	c := min(linearChunk, a.l)
	buf := getFloats(a.e*a.m + a.e + 2*c*a.e + c*c)
	head := linearHead{linearAttention: a, qStep: a.Heads * a.e, vStep: a.Heads * a.m, norms: a.norms[i*a.l:][:a.l], scratch: buf}
	head.qAt, head.vAt = b*a.l*head.qStep+h*a.e, b*a.l*head.vStep+h*a.m
	head.fq, head.fk, head.w, head.s, head.z = split5(*buf, c*a.e, c*a.e, c*c, a.e*a.m, a.e)
	return head
}

// split5 cuts x into five pieces.
func split5(x []float32, n0, n1, n2, n3, n4 int) (a, b, c, d, e []float32) {
	return x[:n0], x[n0:][:n1], x[n0+n1:][:n2], x[n0+n1+n2:][:n3], x[n0+n1+n2+n3:][:n4]
}

// start sets the state to that before the call, of head i.
func (h *linearHead) start(i int) {
	if h.before.S == nil {
		clear(h.s)
		clear(h.z)
		return
	}
	copy(h.s, h.before.S.Data()[i*h.e*h.m:])
	copy(h.z, h.before.Z.Data()[i*h.e:])
}

// load makes φ(q) and φ(k) of the positions [t0, t0+n) and their products up to the diagonal.
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

// carry adds the chunk whose features are loaded to the state.
func (h *linearHead) carry(t0, n int) {
	h.precision.GemmInline(kernel.Product{
		Op: kernel.TN, M: h.e, N: h.m, K: n, A: h.fk, LDA: h.e, B: h.v.Data()[h.vAt+t0*h.vStep:], LDB: h.vStep,
		C: h.s, LDC: h.m, Add: true,
	})
	for i := range n {
		kernel.Add(h.z, h.fk[i*h.e:][:h.e])
	}
}

// forward goes through the heads lo to hi-1 of all sequences, linearGroup at most.
func (a *linearAttention) forward(lo, hi int) {
	var group [linearGroup]linearHead
	heads := group[:hi-lo]
	for j := range heads {
		i, h := lo+j, &heads[j]
		*h = a.head(i)
		if a.after.S != nil { // carried in place: while decoding, most of the time goes into moving the state
			h.s, h.z = a.after.S.Data()[i*a.e*a.m:][:a.e*a.m], a.after.Z.Data()[i*a.e:][:a.e]
		}
		if a.after.S == nil || a.after.S != a.before.S {
			h.start(i)
		}
	}
	for t0 := 0; t0 < a.l; t0 += linearChunk {
		for j := range heads {
			if a.states != nil {
				s, z := a.stateBefore(lo+j, t0)
				copy(s, heads[j].s)
				copy(z, heads[j].z)
			}
			heads[j].forward(t0, min(linearChunk, a.l-t0))
		}
	}
	for j := range heads {
		putFloats(heads[j].scratch)
	}
}

// forward computes y at the positions [t0, t0+n) and carries the state past them.
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

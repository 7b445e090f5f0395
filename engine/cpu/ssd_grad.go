package cpu

import "github.com/hippo-ssm/hippo/internal/kernel"

// ssdGrads holds the gradients of an SSD during Backward. With X = dt·x, L the decays, M = L ⊙ C Bᵀ, e the decays from
// the border, w the decays to the next border, H the state before a block and dH the gradient of the state after it:
//
//	dX = Mᵀ dY + w·(B dHᵀ)        dM = dY Xᵀ,  d(C Bᵀ) = L ⊙ dM
//	dC = e·(dY H) + d(C Bᵀ) B     dB = (w·X) dH + d(C Bᵀ)ᵀ C
//
// All decays are exponentials of sums of steps dt·A. The gradient of a step is the sum over the decays that contain it.
// It is computed from these only: a difference of larger sums would cancel where A is large.
type ssdGrads struct {
	*ssdOp
	dy, dxbc, ddt []float32
	da, dd        []float32 // for each block
	ends          []float32 // gradients of the states after each block, laid out like borders
}

func (o *ssdOp) Backward(eng *Engine) {
	o.makeGrads(eng)
	w := ssdGrads{ssdOp: o, dy: eng.grad(o.y)}
	var unwanted [][]float32
	w.dxbc, w.ddt = eng.gradOrScratch(o.xbc, &unwanted), eng.gradOrScratch(o.dt, &unwanted)
	w.da, w.dd = eng.scratch(len(o.decays)), eng.scratch(len(o.decays))
	w.ends = eng.scratch(len(o.borders))
	o.eachBlock(o.headsAtOnce(), w.toStates)
	o.eachHead(w.between)
	o.eachBlock(o.heads, w.block)
	addParts(eng.gradOf(o.a), w.da)
	addParts(eng.gradOf(o.d), w.dd)
	for _, buf := range append(unwanted, w.da, w.dd, w.ends) {
		eng.done(buf)
	}
}

// toStates computes the contribution of the outputs to the gradient of the state before a block: (e·dY)ᵀ C.
func (w *ssdGrads) toStates(k *block) {
	d, width := w.heads*w.p, w.width()
	for h := k.h0; h < k.h1; h++ {
		w.starts(k, h)
		kernel.ScaleRows(k.w, w.p, k.rows(w.dy, d, h*w.p), d, k.start, 1, k.q, w.p)
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: w.p, N: w.n, K: k.q, A: k.w, LDA: w.p,
			B: k.rows(w.xbc.Data(), width, w.atC(w.group(h))), LDB: width, C: w.border(w.ends, k.i, h), LDC: w.n})
	}
}

// between replaces the results of toStates by the gradients of the states after each block.
func (w *ssdGrads) between(row, h int) {
	buf := getFloats(w.p * w.n)
	defer putFloats(buf)
	ds := *buf
	clear(ds)
	states := w.states[row]
	if states.after != nil {
		copy(ds, w.stateOf(states.after, h))
	}
	for i := w.first[row+1] - 1; i >= w.first[row]; i-- {
		kernel.CarryState(ds, w.border(w.ends, i, h), w.decays[i*w.heads+h])
	}
	if states.before != nil {
		kernel.Add(w.stateOf(states.before, h), ds)
	}
}

// block computes all gradients of the positions of a block.
func (w *ssdGrads) block(k *block) {
	q, width, perGroup := k.q, w.width(), w.heads/w.groups
	buf := getFloats(2*q*q + q*w.p + q*w.n + 3*q)
	defer putFloats(buf)
	dm, dscores := (*buf)[:q*q], (*buf)[q*q:2*q*q]
	dx := (*buf)[2*q*q:][:q*w.p]
	z := (*buf)[2*q*q+q*w.p:][:q*w.n]
	rest := (*buf)[2*q*q+q*w.p+q*w.n:]
	steps, dstart, sums := rest[:q], rest[q:2*q], rest[2*q:3*q]
	in := w.xbc.Data()
	for g := range w.groups {
		w.scores(k, g)
		clear(dscores)
		b, c := k.rows(in, width, w.atB(g)), k.rows(in, width, w.atC(g))
		db, dc := k.rows(w.dxbc, width, w.atB(g)), k.rows(w.dxbc, width, w.atC(g))
		for h := g * perGroup; h < (g+1)*perGroup; h++ {
			w.head(k, h)
			clear(dstart)
			w.inner(k, h, dm, dscores, dx, steps, sums)
			w.borderOut(k, h, z, dc, dstart)
			w.borderIn(k, h, dx, db, z, steps, dstart)
			w.inputs(k, h, dx, steps, dstart)
		}
		kernel.GemmInline(kernel.Product{Op: kernel.NN, M: q, N: w.n, K: q, A: dscores, LDA: q, B: b, LDB: width,
			C: dc, LDC: width, Add: true})
		kernel.GemmInline(kernel.Product{Op: kernel.TN, M: q, N: w.n, K: q, A: dscores, LDA: q, B: c, LDB: width,
			C: db, LDC: width, Add: true})
	}
}

// inner is the backward pass of Y = M X. The exponent of L[t, s] is the sum of the steps from s+1 to t. So the gradient
// of the step at i, steps[i], is the sum over t ≥ i and s < i. sums[s] is the sum over the rows from t on.
func (w *ssdGrads) inner(k *block, h int, dm, dscores, dx, steps, sums []float32) {
	q, d := k.q, w.heads*w.p
	dy := k.rows(w.dy, d, h*w.p)
	kernel.GemmInline(kernel.Product{Op: kernel.TN, M: q, N: w.p, K: q, A: k.m, LDA: q, B: dy, LDB: d, C: dx, LDC: w.p})
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: q, N: q, K: w.p, A: dy, LDA: d, B: k.x, LDB: w.p, C: dm, LDC: q})
	kernel.MulAdd(dscores, dm, k.decay[:q*q])
	kernel.Mul(dm, k.m[:q*q])
	clear(sums)
	for t := q - 1; t >= 0; t-- {
		kernel.Add(sums[:t], dm[t*q:][:t])
		steps[t] = kernel.Dot(sums[:t], k.ones[:t])
	}
}

// borderOut is the backward pass of the contribution of the state before the block: e·(C Hᵀ). The exponent of e[t] is
// the sum of all steps up to t, and dstart[t] is its gradient.
func (w *ssdGrads) borderOut(k *block, h int, z, dc, dstart []float32) {
	if k.fromZero {
		return // the state is zero
	}
	d, width := w.heads*w.p, w.width()
	c := k.rows(w.xbc.Data(), width, w.atC(w.group(h)))
	kernel.GemmInline(kernel.Product{Op: kernel.NN, M: k.q, N: w.n, K: w.p, A: k.rows(w.dy, d, h*w.p), LDA: d,
		B: w.border(w.borders, k.i, h), LDB: w.n, C: z, LDC: w.n})
	for t := range k.q {
		row := z[t*w.n:][:w.n]
		kernel.Axpy(k.start[t], row, dc[t*width:][:w.n])
		dstart[t] += float32(k.start[t] * kernel.Dot(row, c[t*width:][:w.n]))
	}
}

// borderIn is the backward pass of the state after the block: its decay, and the contribution of the block, (w·X)ᵀ B.
// The exponent of w[s] is the sum of all steps after s.
func (w *ssdGrads) borderIn(k *block, h int, dx, db, z, steps, dstart []float32) {
	q, width, last := k.q, w.width(), k.decay[(k.q-1)*k.q:][:k.q]
	ds, b := w.border(w.ends, k.i, h), k.rows(w.xbc.Data(), width, w.atB(w.group(h)))
	k.toBorder(k.w, w.p, w.p)
	kernel.GemmInline(kernel.Product{Op: kernel.NN, M: q, N: w.n, K: w.p, A: k.w, LDA: w.p, B: ds, LDB: w.n,
		C: z, LDC: w.n})
	for s := range q {
		kernel.Add(db[s*width:][:w.n], z[s*w.n:][:w.n])
	}
	kernel.GemmInline(kernel.Product{Op: kernel.NT, M: q, N: w.p, K: w.n, A: b, LDA: width, B: ds, LDB: w.n,
		C: k.w, LDC: w.p})
	sum := 0.0 // of the gradients of the exponents before s
	for s, v := range last {
		row := k.w[s*w.p:][:w.p]
		kernel.Axpy(v, row, dx[s*w.p:][:w.p])
		steps[s] += float32(sum)
		sum += float64(v * kernel.Dot(row, k.x[s*w.p:][:w.p]))
	}
	dstart[q-1] += float32(k.start[q-1] * kernel.Dot(ds, w.border(w.borders, k.i, h)))
}

// inputs is the backward pass of X = dt·x, of the skip and of the steps dt·A.
func (w *ssdGrads) inputs(k *block, h int, dx, steps, dstart []float32) {
	d, width, a, skip := w.heads*w.p, w.width(), w.a.Data()[h], w.d.Data()[h]
	var ahead, da, dd float64 // ahead is the sum of dstart from t on
	for t := k.q - 1; t >= 0; t-- {
		x := k.rows(w.xbc.Data(), width, t*width+h*w.p)[:w.p]
		dy, to := k.rows(w.dy, d, t*d+h*w.p)[:w.p], k.rows(w.dxbc, width, t*width+h*w.p)[:w.p]
		row := dx[t*w.p:][:w.p]
		ahead += float64(dstart[t])
		step := float64(steps[t]) + ahead
		da += float64(k.dt[t]) * step
		dd += float64(kernel.Dot(dy, x))
		w.ddt[(k.first+t)*w.heads+h] += kernel.Dot(row, x) + float32(float64(a)*step)
		kernel.Axpy(k.dt[t], row, to)
		kernel.Axpy(skip, dy, to)
	}
	at := k.i*w.heads + h
	w.da[at], w.dd[at] = float32(da), float32(dd)
}

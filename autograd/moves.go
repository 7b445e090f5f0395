package autograd

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Append appends each row of x (n, d) to that of past (m, d): row i of y (m+n, d) is row i of past, which has p.Len(i)
// positions, followed by row i of x.
func (t *Tape) Append(past, x *tensor.Tensor, p, r *engine.Rows) *tensor.Tensor {
	checkRows("Append", p, past)
	checkRows("Append", r, x)
	if past.Dim(-1) != x.Dim(-1) || p.Count() != r.Count() {
		shapePanic("Append", past, x)
	}
	return t.engine.Append(past, x, p, r)
}

// Join puts tensors (…, d_i) with the same number of rows side by side along the last axis: y (…, Σ d_i).
func (t *Tape) Join(xs ...*tensor.Tensor) *tensor.Tensor {
	for _, x := range xs {
		if x.Dims() != xs[0].Dims() || x.Rows() != xs[0].Rows() {
			shapePanic("Join", xs...)
		}
	}
	return t.engine.Join(xs...)
}

// Stack puts tensors (n_i, d) one after another: y (Σ n_i, d). A single tensor is returned as it is.
func (t *Tape) Stack(xs ...*tensor.Tensor) *tensor.Tensor {
	if len(xs) == 1 {
		return xs[0]
	}
	for _, x := range xs {
		if x.Dim(-1) != xs[0].Dim(-1) {
			shapePanic("Stack", xs...)
		}
	}
	return t.engine.Stack(xs...)
}

// Split cuts the last axis into parts of the given widths: x (…, w0+w1+…) → (…, w0), (…, w1), … The parts are copies.
func (t *Tape) Split(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	checkWidths("Split", x, widths)
	return t.engine.Split(x, widths...)
}

// Columns is Split, but the parts may remain in the memory of x. Only Gate, Mul, AddBias and CausalConv take such
// parts.
func (t *Tape) Columns(x *tensor.Tensor, widths ...int) []*tensor.Tensor {
	checkWidths("Columns", x, widths)
	if e, ok := t.engine.(engine.Viewer); ok {
		return e.Columns(x, widths...)
	}
	return t.engine.Split(x, widths...)
}

func checkWidths(op string, x *tensor.Tensor, widths []int) {
	d := 0
	for _, w := range widths {
		if w < 1 {
			shapePanic(op, x)
		}
		d += w
	}
	if d != x.Dim(-1) {
		shapePanic(op, x)
	}
}

// Last returns the last position of every row of x (n, d): y (rows, d).
func (t *Tape) Last(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	t.at, t.one = t.at[:0], t.one[:0]
	for i := range r.Count() {
		t.at, t.one = append(t.at, r.Len(i)-1), append(t.one, 1)
	}
	return t.Cut(x, r, t.at, t.one)
}

// Cut copies a part of every row of x (n, d): row i of y (Σ lengths, d) holds the positions [at[i], at[i]+lengths[i])
// of row i of x. Each part has at least one position.
func (t *Tape) Cut(x *tensor.Tensor, r *engine.Rows, at, lengths []int) *tensor.Tensor {
	checkRows("Cut", r, x)
	if len(at) != r.Count() || len(lengths) != r.Count() {
		shapePanic("Cut", x)
	}
	for i, from := range at {
		if from < 0 || lengths[i] < 1 || from+lengths[i] > r.Len(i) {
			shapePanic("Cut", x)
		}
	}
	return t.engine.Cut(x, r, at, lengths)
}

// Slice copies the positions [at, at+n) of x (…, d), whichever rows they belong to: y (n, d).
func (t *Tape) Slice(x *tensor.Tensor, at, n int) *tensor.Tensor {
	if at < 0 || n < 0 || at+n > x.Rows() {
		shapePanic("Slice", x)
	}
	return t.engine.Slice(x, at, n)
}

// Reverse reverses every row of x (n, d), of l positions, and shifts it by lag ≥ 0 positions towards the start: y[t] =
// x[l-1-lag-t], and zero if there is no such position. It is its own transpose.
//
// A convolution of Reverse(u, 0), reversed with lag 1, looks ahead: y[t] = Σ_j k[j]·u[t+1+j].
func (t *Tape) Reverse(x *tensor.Tensor, lag int, r *engine.Rows) *tensor.Tensor {
	checkRows("Reverse", r, x)
	if lag < 0 {
		shapePanic("Reverse", x)
	}
	return t.engine.Reverse(x, lag, r)
}

// MeanPositions returns the mean over the positions of every row of x (n, d): y (rows, d).
func (t *Tape) MeanPositions(x *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
	checkRows("MeanPositions", r, x)
	return t.engine.MeanPositions(x, r)
}

// checkRows panics unless every x has the positions of r.
func checkRows(op string, r *engine.Rows, xs ...*tensor.Tensor) {
	for _, x := range xs {
		if r.Count() < 1 || x != nil && x.Rows() != r.Total() {
			panic(fmt.Sprintf("autograd.%s: %d rows of %d positions do not fit %v", op, r.Count(), r.Total(), x))
		}
	}
}

// checkSlots panics unless there are no slots, or as many as rows, and every state in them has size elements.
func checkSlots(op string, r *engine.Rows, slots engine.Slots, size int) {
	if len(slots) != 0 && len(slots) != r.Count() {
		panic(fmt.Sprintf("autograd.%s: %d slots for %d rows", op, len(slots), r.Count()))
	}
	for i := range slots {
		if x := slots.At(i); x != nil && x.Len() != size {
			panic(fmt.Sprintf("autograd.%s: state %v of row %d, want %d elements", op, x, i, size))
		}
	}
}

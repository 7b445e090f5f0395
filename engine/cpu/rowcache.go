package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// seen holds the positions that the rows of an operation see: those in their caches, and then their own.
type seen struct {
	x      *tensor.Tensor // positions of the rows themselves
	rows   *engine.Rows
	caches []*engine.RowCache // if the tape does not record; they include the rows' own positions
	wholes []*tensor.Tensor   // if it records: past and own positions of each row, nil for a row without a cache
	shares [][]float32        // gradients of the positions that the rows see
}

// see appends the positions of x to the caches of their rows. It reuses the memory of s.
func (eng *Engine) see(s seen, x *tensor.Tensor, r *engine.Rows, caches []*engine.RowCache) seen {
	s = seen{x: x, rows: r, wholes: s.wholes[:0], shares: s.shares}
	if !eng.Recording {
		s.caches = caches
		for i, c := range caches {
			if c != nil {
				c.Append(r.Start(i), x, r.From(i), r.Len(i))
			}
		}
		return s
	}
	cached := false
	for _, c := range caches {
		cached = cached || c != nil
	}
	if !cached {
		return s
	}
	op := take[appendRowsOp](eng)
	*op = appendRowsOp{x: x, rows: r, pasts: op.pasts[:0], wholes: op.wholes[:0]}
	record := eng.wants(x)
	for i, c := range caches {
		var past, whole *tensor.Tensor
		if c != nil {
			past, whole = c.X, eng.New(c.Len+r.Len(i), x.Dim(-1))
			gather(whole.Data(), c)
			copy(whole.Data()[c.Len*x.Dim(-1):], rowOf(x.Data(), r, i))
			c.Replace(whole)
			record = eng.wants(past) || record
		}
		op.pasts, op.wholes = append(op.pasts, past), append(op.wholes, whole)
	}
	if record {
		eng.push("AppendRows", op, op.wholes...)
	}
	s.wholes = append(s.wholes, op.wholes...)
	return s
}

// gather copies the rows in c to y.
func gather(y []float32, c *engine.RowCache) {
	for i := 0; i < c.Len; {
		x, at, n := c.Run(i)
		d := x.Dim(-1)
		copy(y[i*d:], x.Data()[at*d:][:n*d])
		i += n
	}
}

// rowOf returns the part of x (n, …) that belongs to row i of r.
func rowOf(x []float32, r *engine.Rows, i int) []float32 {
	d := len(x) / r.Total()
	return x[r.From(i)*d:][:r.Len(i)*d]
}

// whole returns the past and own positions of row i in one tensor, or nil if the tape does not record or there is no
// cache.
func (s *seen) whole(i int) *tensor.Tensor {
	if i >= len(s.wholes) {
		return nil
	}
	return s.wholes[i]
}

// past returns the number of positions that row i sees before its own.
func (s *seen) past(i int) int {
	switch whole := s.whole(i); {
	case whole != nil:
		return whole.Dim(0) - s.rows.Len(i)
	case i < len(s.caches) && s.caches[i] != nil:
		return s.caches[i].Len - s.rows.Len(i)
	}
	return 0
}

// run returns the positions that row i sees from the given position on, as far as they are contiguous, and their
// number. If the tape records, it returns all of them.
func (s *seen) run(i, position int) (x []float32, n int) {
	d := s.x.Dim(-1)
	switch whole := s.whole(i); {
	case whole != nil:
		return whole.Data()[position*d:], whole.Dim(0) - position
	case i < len(s.caches) && s.caches[i] != nil:
		page, at, n := s.caches[i].Run(position)
		return page.Data()[at*d:], n
	}
	return rowOf(s.x.Data(), s.rows, i)[position*d:], s.rows.Len(i) - position
}

// wants reports whether a gradient of the positions that the rows see is wanted.
func (s *seen) wants(eng *Engine) bool {
	record := eng.wants(s.x)
	for _, whole := range s.wholes {
		record = eng.wants(whole) || record
	}
	return record
}

// release drops the caches, because the operation stays in a pool and would keep them in memory.
func (s *seen) release() { s.caches = nil }

// grads returns the gradients of the positions that each row sees, nil if they are not wanted.
func (s *seen) grads(eng *Engine) [][]float32 {
	dx := eng.gradOf(s.x)
	s.shares = resize(s.shares, s.rows.Count())
	for i := range s.shares {
		switch whole := s.whole(i); {
		case whole != nil:
			s.shares[i] = eng.gradOf(whole)
		case dx != nil:
			s.shares[i] = rowOf(dx, s.rows, i)
		default:
			s.shares[i] = nil
		}
	}
	return s.shares
}

// appendRowsOp appends rows of x to caches: wholes[i] is pasts[i] followed by row i of x.
type appendRowsOp struct {
	x             *tensor.Tensor
	rows          *engine.Rows
	pasts, wholes []*tensor.Tensor // nil for a row without a cache
}

func (o *appendRowsOp) Backward(eng *Engine) {
	dx := eng.gradOf(o.x)
	for i, whole := range o.wholes {
		if whole == nil || whole.Grad() == nil {
			continue
		}
		dy, own := whole.Grad(), o.rows.Len(i)*o.x.Dim(-1)
		if dPast := eng.gradOf(o.pasts[i]); dPast != nil {
			kernel.Add(dPast, dy[:len(dPast)])
		}
		if dx != nil {
			kernel.Add(rowOf(dx, o.rows, i), dy[len(dy)-own:])
		}
	}
}

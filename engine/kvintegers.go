package engine

import (
	"iter"
	"math"

	"github.com/hippo-ssm/hippo/tensor"
)

// Integers is a tensor whose elements are integers of 8 bits times a factor for each row.
type Integers struct {
	Shape []int // rows are along the last axis
	// from returns consecutive rows from row j on, at least one, and their factors.
	from func(j int) (q []int8, factors []float32)
}

// Rows iterates over all rows in order, several at a time, with their factors. Neither may be changed.
func (x *Integers) Rows() iter.Seq2[[]int8, []float32] {
	rows := 1
	for _, n := range x.Shape[:len(x.Shape)-1] {
		rows *= n
	}
	return func(yield func([]int8, []float32) bool) {
		for j := 0; j < rows; {
			q, factors := x.from(j)
			if !yield(q, factors) {
				return
			}
			j += len(factors)
		}
	}
}

// Finite reports whether all elements are surely finite: whether each factor is finite when multiplied by the largest
// integer.
func (x *Integers) Finite() bool {
	for _, factors := range x.Rows() {
		for _, f := range factors {
			if !(f >= 0 && f <= math.MaxFloat32/128) {
				return false
			}
		}
	}
	return true
}

// Integers returns the keys (0) or values (1) of Tensors, (heads, n, head_dim), if they are stored as integers. The
// cache must not change while they are used. It returns nil for other caches, and if a row is NaN, because then there
// is no factor.
func (c *KVCache) Integers(which, n int) *Integers {
	n = min(n, c.Len)
	if n == 0 || !c.InIntegers() {
		return nil
	}
	x := &Integers{Shape: []int{c.heads, n, c.hd}, from: func(j int) ([]int8, []float32) {
		page, place, left := c.At(c.Len - n + j%n)
		return page.Rounded.Integers(which, j/n*page.Room+place, min(left, n-j%n))
	}}
	for _, factors := range x.Rows() {
		for _, f := range factors {
			if !(f <= math.MaxFloat32) {
				return nil
			}
		}
	}
	return x
}

// InIntegers reports whether the cache holds keys and values as integers of 8 bits with a factor for each row.
func (c *KVCache) InIntegers() bool { return c.Rounded != nil && c.Rounded.InIntegers() }

// FillIntegers is Fill with a tensor of the given shape whose elements are integers times the factors of their rows,
// for a cache that is InIntegers. They are not rounded.
func (c *KVCache) FillIntegers(which int, shape []int, q []int8, factors []float32) bool {
	x := tensor.Shaped(shape...) // without elements
	if !c.makeRoomOnce(x) {
		return false
	}
	n := c.Len
	c.runs(0, n, func(page *Page, place, done, m int) {
		for h := range c.heads {
			at := h*n + done
			page.Rounded.SetIntegers(which, h*page.Room+place, q[at*c.hd:][:m*c.hd], factors[at:][:m])
		}
	})
	return true
}

package onnx

import (
	"fmt"
	"slices"
)

// value returns elements as an array with the given shape.
func (c *Core) value(xs []elem, shape []int) Value {
	if isConstant(xs) {
		x := make([]float64, len(xs))
		for i, e := range xs {
			x[i] = e.c
		}
		return c.g.Floats(x, shape...)
	}
	if v, ok := c.strided(xs, shape); ok {
		return v
	}
	return c.gathered(xs, shape)
}

// flat returns the elements [from, to) of a result as a vector.
func (c *Core) flat(of int32, from, to int) Value {
	r := c.values[of]
	v := c.g.Reshape(r.name, -1)
	if from > 0 || to < r.n {
		v = c.g.Slice(v, 0, c.g.Ints(from), c.g.Ints(to))
	}
	return v
}

// strided is like value, for elements that all belong to one result and have regular strides into which the result can
// be divided. It returns a transposed slice of the result with more axes. It reports whether that is possible.
func (c *Core) strided(xs []elem, shape []int) (Value, bool) {
	type axis struct{ i, n, stride int }
	var axes []axis
	first, step := int(xs[0].at), 1
	for i := len(shape) - 1; i >= 0; i-- {
		if n := shape[i]; n > 1 {
			axes = append(axes, axis{i, n, int(xs[step].at) - first})
			step *= n
		}
	}
	for k, e := range xs { // check that the strides hold for every element
		want, rest := first, k
		for _, a := range axes {
			want += rest % a.n * a.stride
			rest /= a.n
		}
		if e.of != xs[0].of || int(e.at) != want {
			return "", false
		}
	}
	slices.Reverse(axes) // in the order of shape
	places := make([]int, len(axes))
	for k := range places {
		places[k] = k
	}
	slices.SortStableFunc(places, func(a, b int) int { return axes[b].stride - axes[a].stride })
	size, inner := c.values[xs[0].of].n, 1
	lengths, whole := []int{}, []int{} // lengths taken of the result's axes, and lengths of these axes
	for k, p := range places {
		a := axes[p]
		if a.stride < 1 {
			return "", false
		}
		inner = a.stride
		if k > 0 {
			before := axes[places[k-1]]
			if before.stride%a.stride != 0 || before.stride/a.stride < a.n {
				return "", false
			}
			whole = append(whole, before.stride/a.stride)
		}
		lengths = append(lengths, a.n)
	}
	if len(axes) == 0 {
		return c.g.Reshape(c.flat(xs[0].of, first, first+1), shape...), true
	}
	outer := axes[places[0]]
	for _, start := range []int{first, first - first%inner, first - first%outer.stride} {
		end := start + outer.n*outer.stride
		if end > size {
			continue
		}
		v, ok := c.cut(c.flat(xs[0].of, start, end), first-start, lengths, append(slices.Clone(whole), inner))
		if !ok {
			continue
		}
		if !slices.IsSorted(places) {
			v = c.g.Reshape(v, lengths...)
			v = c.g.With("Transpose", []Attr{{"perm", inverse(places)}}, v)
		}
		return c.g.Reshape(v, shape...), true
	}
	return "", false
}

// inverse returns the inverse of a permutation of 0 to n-1.
func inverse(p []int) []int {
	q := make([]int, len(p))
	for i, x := range p {
		q[x] = i
	}
	return q
}

// cut takes lengths elements along the axes of v, starting at index at. whole has the lengths of all axes but the
// first, and one more axis at the end, along which one element is taken.
func (c *Core) cut(v Value, at int, lengths, whole []int) (Value, bool) {
	digits, rest := make([]int, len(whole)), at
	partial := false
	for k := len(whole) - 1; k >= 0; k-- {
		digits[k] = rest % whole[k]
		rest /= whole[k]
		n := 1
		if k+1 < len(lengths) {
			n = lengths[k+1]
		}
		if digits[k]+n > whole[k] {
			return "", false
		}
		partial = partial || n != whole[k]
	}
	if rest != 0 {
		return "", false
	}
	if !partial {
		return v, true
	}
	v = c.g.Reshape(v, append([]int{lengths[0]}, whole...)...)
	var from, to, axes []int
	for k, d := range digits {
		n := 1
		if k+1 < len(lengths) {
			n = lengths[k+1]
		}
		from, to, axes = append(from, d), append(to, d+n), append(axes, k+1)
	}
	return c.g.Op("Slice", v, c.g.Ints(from...), c.g.Ints(to...), c.g.Ints(axes...)), true
}

// run is a sequence of adjacent elements of one result, or of constants.
type run struct {
	of      int32
	from, n int // in the result
	at      int // in the elements
}

// mostRuns is the maximum number of runs to concatenate. If there are more, the elements are gathered.
const mostRuns = 16

// gathered is like value, for any elements.
func (c *Core) gathered(xs []elem, shape []int) Value {
	var runs []run
	for i, e := range xs {
		if n := len(runs); n > 0 && runs[n-1].of == e.of && (e.of == 0 || runs[n-1].from+runs[n-1].n == int(e.at)) {
			runs[n-1].n++
			continue
		}
		runs = append(runs, run{e.of, int(e.at), 1, i})
	}
	if len(runs) <= mostRuns {
		var parts []Value
		for _, r := range runs {
			if r.of == 0 {
				parts = append(parts, c.value(xs[r.at:r.at+r.n], []int{r.n}))
			} else {
				parts = append(parts, c.flat(r.of, r.from, r.from+r.n))
			}
		}
		return c.g.Reshape(c.g.Concat(0, parts...), shape...)
	}
	b := 0 // length of the blocks that runs consist of; blocks start at multiples of it
	for _, r := range runs {
		b = gcd(b, r.n)
		if r.of != 0 {
			b = gcd(gcd(b, r.from), c.values[r.of].n)
		}
	}
	starts, total := map[string]int{}, 0 // starts of the sources to gather from, and their total length, in blocks
	var parts []Value
	add := func(key string, n int, v func() Value) int {
		at, ok := starts[key]
		if !ok {
			at = total
			starts[key], total = at, at+n
			parts = append(parts, c.g.Reshape(v(), -1, b))
		}
		return at
	}
	var places []int
	for k := 0; k < len(xs); k += b {
		e := xs[k]
		if e.of == 0 {
			places = append(places, add(fmt.Sprint(xs[k:k+b]), 1, func() Value { return c.value(xs[k:k+b], []int{b}) }))
			continue
		}
		r := c.values[e.of]
		places = append(places, int(e.at)/b+add(string(r.name), r.n/b, func() Value { return r.name }))
	}
	return c.g.Reshape(c.g.Gather(c.g.Concat(0, parts...), 0, places...), shape...)
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

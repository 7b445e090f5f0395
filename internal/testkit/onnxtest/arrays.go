package onnxtest

import (
	"fmt"
	"math"
	"slices"
)

// ints returns the numbers of a vector.
func (a Array) ints() (y []int) {
	for _, v := range a.X {
		y = append(y, int(v))
	}
	return y
}

// reshaped returns the shape for n numbers, with -1 replaced by the remaining length.
func reshaped(n int, shape []int) []int {
	shape = slices.Clone(shape)
	if i := slices.Index(shape, -1); i >= 0 {
		shape[i] = 1
		shape[i] = n / size(shape)
	}
	return shape
}

// places calls f with every index of a shape, in order.
func places(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range size(shape) {
		f(at)
		for i := len(at) - 1; i >= 0; i-- {
			if at[i]++; at[i] < shape[i] {
				break
			}
			at[i] = 0
		}
	}
}

// at returns the number at an index. Leading axes may be missing in a, and axes of length 1 are repeated.
func (a Array) at(place []int) float64 {
	k := 0
	place = place[len(place)-len(a.Shape):]
	for i, n := range a.Shape {
		p := place[i]
		if n == 1 {
			p = 0
		}
		k = k*n + p
	}
	return a.X[k]
}

// made returns an array of a shape whose elements f computes from their indices.
func made(typ int, shape []int, f func(at []int) float64) Array {
	y := Array{Shape: shape, typ: typ}
	places(shape, func(at []int) { y.X = append(y.X, f(at)) })
	return y
}

func broadcast(f func(v []float64) float64, in ...Array) Array {
	return made(0, common(in...), func(at []int) float64 {
		var v []float64
		for _, x := range in {
			v = append(v, x.at(at))
		}
		return f(v)
	})
}

// common returns the shape to which arrays are broadcast.
func common(in ...Array) []int {
	var shape []int
	for _, x := range in {
		for len(shape) < len(x.Shape) {
			shape = append([]int{1}, shape...)
		}
	}
	for _, x := range in {
		for i, n := range x.Shape {
			k := len(shape) - len(x.Shape) + i
			if n != 1 && shape[k] != 1 && n != shape[k] {
				panic(fmt.Sprintf("%v does not fit %v", x.Shape, shape))
			}
			shape[k] = max(shape[k], n)
		}
	}
	return shape
}

func (a Array) transposed(perm []int) Array {
	shape, from := make([]int, len(perm)), make([]int, len(perm))
	for i, p := range perm {
		shape[i] = a.Shape[p]
	}
	return made(a.typ, shape, func(at []int) float64 {
		for i, p := range perm {
			from[p] = at[i]
		}
		return a.at(from)
	})
}

func (a Array) sliced(starts, ends, axes []int) Array {
	for k, axis := range axes {
		n := a.Shape[axis]
		from, to := starts[k], ends[k]
		if from < 0 {
			from += n
		}
		if to < 0 {
			to += n
		}
		from, to = min(max(from, 0), n), min(max(to, 0), n)
		var at []float64
		for i := from; i < to; i++ {
			at = append(at, float64(i))
		}
		a = a.gathered(axis, Array{Shape: []int{len(at)}, X: at})
	}
	return a
}

// gathered returns the elements of an axis at the given indices, in the shape of the indices.
func (a Array) gathered(axis int, indices Array) Array {
	before, after := size(a.Shape[:axis]), size(a.Shape[axis+1:])
	y := Array{Shape: slices.Concat(a.Shape[:axis], indices.Shape, a.Shape[axis+1:]), typ: a.typ}
	for i := range before {
		for _, k := range indices.X {
			from := (i*a.Shape[axis] + int(k)) * after
			y.X = append(y.X, a.X[from:from+after]...)
		}
	}
	return y
}

func concat(axis int, in []Array) Array {
	y := Array{Shape: slices.Clone(in[0].Shape), typ: in[0].typ}
	y.Shape[axis] = 0
	for _, x := range in {
		y.Shape[axis] += x.Shape[axis]
		if x.typ != y.typ || len(x.Shape) != len(y.Shape) {
			panic(fmt.Sprintf("Concat of %d %v and %d %v", y.typ, y.Shape, x.typ, x.Shape))
		}
	}
	for i := range size(y.Shape[:axis]) {
		for _, x := range in {
			n := size(x.Shape[axis:])
			y.X = append(y.X, x.X[i*n:(i+1)*n]...)
		}
	}
	return y
}

// padded adds zeros before and after each axis.
func (a Array) padded(pads []int) Array {
	shape, from := slices.Clone(a.Shape), make([]int, len(a.Shape))
	for i := range shape {
		shape[i] += pads[i] + pads[len(shape)+i]
	}
	return made(a.typ, shape, func(at []int) float64 {
		for i := range at {
			if from[i] = at[i] - pads[i]; from[i] < 0 || from[i] >= a.Shape[i] {
				return 0
			}
		}
		return a.at(from)
	})
}

func product(a, b Array) Array {
	m, k, n := a.Shape[len(a.Shape)-2], a.Shape[len(a.Shape)-1], b.Shape[len(b.Shape)-1]
	if b.Shape[len(b.Shape)-2] != k || !slices.Equal(a.Shape[:len(a.Shape)-2], b.Shape[:len(b.Shape)-2]) {
		panic(fmt.Sprintf("MatMul of %v and %v", a.Shape, b.Shape))
	}
	y := Array{Shape: append(slices.Clone(a.Shape[:len(a.Shape)-1]), n), typ: a.typ}
	for i := range size(a.Shape[:len(a.Shape)-2]) {
		for r := range m {
			for c := range n {
				sum := 0.0
				for j := range k {
					sum += a.X[(i*m+r)*k+j] * b.X[(i*k+j)*n+c]
				}
				y.X = append(y.X, sum)
			}
		}
	}
	return y
}

func (a Array) reduced(op string, axis int, keep bool) Array {
	before, n, after := size(a.Shape[:axis]), a.Shape[axis], size(a.Shape[axis+1:])
	y := Array{Shape: slices.Delete(slices.Clone(a.Shape), axis, axis+1), typ: a.typ}
	if keep {
		y.Shape = slices.Insert(y.Shape, axis, 1)
	}
	for i := range before {
		for k := range after {
			sum, most := 0.0, math.Inf(-1)
			for j := range n {
				v := a.X[(i*n+j)*after+k]
				sum, most = sum+v, max(most, v)
			}
			switch op {
			case "ReduceMax":
				sum = most
			case "ReduceMean":
				sum /= float64(n)
			}
			y.X = append(y.X, sum)
		}
	}
	return y
}

// rows applies f to a copy of each row along the last axis.
func (a Array) rows(f func(row []float64)) Array {
	a.X = slices.Clone(a.X)
	n := a.Shape[len(a.Shape)-1]
	for i := 0; i < len(a.X); i += n {
		f(a.X[i : i+n])
	}
	return a
}

// conv returns the convolution of x (n, 1, length) with kernels (m, 1, k).
func conv(x, kernels Array, stride int) Array {
	n, l, m, k := x.Shape[0], x.Shape[2], kernels.Shape[0], kernels.Shape[2]
	y := Array{Shape: []int{n, m, (l-k)/stride + 1}, typ: x.typ}
	for i := range n {
		for c := range m {
			for t := range y.Shape[2] {
				sum := 0.0
				for j := range k {
					sum += x.X[i*l+t*stride+j] * kernels.X[c*k+j]
				}
				y.X = append(y.X, sum)
			}
		}
	}
	return y
}

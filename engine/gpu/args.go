//go:build gpu

package gpu

import (
	"encoding/binary"
	"math"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// args holds the arguments of a kernel, in the order in which the kernel declares them. Addresses come first, so that
// they are aligned.
type args struct {
	data [vulkan.PushBytes]byte
	n    int

	moved, flops int  // see Counts
	matrices     bool // flops are computed by cooperative matrices
}

// work sets the least number of bytes that the launch moves, and the number of its additions and multiplications. It
// returns a.
func (a *args) work(moved, flops int) *args {
	a.moved, a.flops = moved, flops
	return a
}

// extent returns approximately the number of different elements of a view.
func (a axes) extent(view int) int {
	distinct, span := 1, 1
	for i, n := range a.shape {
		if s := a.stride[view][i]; s != 0 {
			distinct *= n
			span += (n - 1) * max(s, -s)
		}
	}
	return min(distinct, span)
}

func (a *args) bytes() []byte { return a.data[:a.n] }

func (a *args) address(all ...uint64) *args {
	for _, x := range all {
		binary.LittleEndian.PutUint64(a.data[a.n:], x)
		a.n += 8
	}
	return a
}

func (a *args) int(all ...int) *args {
	for _, x := range all {
		binary.LittleEndian.PutUint32(a.data[a.n:], uint32(x))
		a.n += 4
	}
	return a
}

func (a *args) float(all ...float64) *args {
	for _, x := range all {
		binary.LittleEndian.PutUint32(a.data[a.n:], math.Float32bits(float32(x)))
		a.n += 4
	}
	return a
}

// flat returns a one-axis view of the first n numbers of a buffer.
func flat(b engine.Buffer, n int) engine.View {
	return engine.View{Of: b, Shape: []int{n}, Stride: []int{1}}
}

// at returns the address of the first element of a view, or 0 for a view without memory.
func at(v engine.View) uint64 {
	if v.Of == nil {
		return 0
	}
	return v.Of.(*buffer).at.address() + 4*uint64(v.At)
}

// axes holds the shape that several views share, and their strides.
type axes struct {
	shape  []int
	stride [][]int // of each view
}

// axesOf returns the axes of views, without those of length one. It merges neighboring axes that can be merged in all
// of the views. empty reports whether the views have no element.
func axesOf(views ...engine.View) (a axes, empty bool) {
	a.stride = make([][]int, len(views))
	for i, n := range views[0].Shape {
		if n == 0 {
			return a, true
		}
		if n == 1 {
			continue
		}
		last := len(a.shape) - 1
		one := last >= 0
		for k, v := range views {
			one = one && a.stride[k][last] == n*v.Stride[i]
		}
		if one {
			a.shape[last] *= n
		} else {
			a.shape, last = append(a.shape, n), last+1
		}
		for k, v := range views {
			if one {
				a.stride[k][last] = v.Stride[i]
			} else {
				a.stride[k] = append(a.stride[k], v.Stride[i])
			}
		}
	}
	return a, false
}

// pick returns the axes i of a for which keep returns true.
func (a axes) pick(keep func(i int) bool) (b axes) {
	b.stride = make([][]int, len(a.stride))
	for i, n := range a.shape {
		if keep(i) {
			b.shape = append(b.shape, n)
			for k := range a.stride {
				b.stride[k] = append(b.stride[k], a.stride[k][i])
			}
		}
	}
	return b
}

// len returns the number of elements.
func (a axes) len() int {
	n := 1
	for _, d := range a.shape {
		n *= d
	}
	return n
}

// shortest returns the shortest axis.
func (a axes) shortest() (axis int) {
	for i, n := range a.shape {
		if n < a.shape[axis] {
			axis = i
		}
	}
	return axis
}

// without calls f for each index along an axis, with the remaining axes and the bytes to add to the address of each
// view.
func (a axes) without(axis int, f func(rest axes, add []uint64)) {
	rest := a.pick(func(i int) bool { return i != axis })
	add := make([]uint64, len(a.stride))
	for i := range a.shape[axis] {
		for k := range add {
			add[k] = uint64(4 * i * a.stride[k][axis])
		}
		f(rest, add)
	}
}

// padded returns x extended at the front with fill to a length of n.
func padded(n, fill int, x []int) []int {
	out := make([]int, n)
	for i := range n - len(x) {
		out[i] = fill
	}
	copy(out[n-len(x):], x)
	return out
}

// plus returns the sums of the addresses all and the offsets add.
func plus(all, add []uint64) []uint64 {
	out := make([]uint64, len(all))
	for i := range all {
		out[i] = all[i] + add[i]
	}
	return out
}

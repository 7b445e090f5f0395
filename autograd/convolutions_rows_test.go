package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// transformed is a length for which the CPU's engine convolves by FFT, as it does from 97 on.
const transformed = 100

// convolved returns an operation over rows that has no state.
func convolved(name string, lens []int, along []int, params [][]int,
	op func(t *autograd.Tape, u, p ts, r *engine.Rows) *tensor.Tensor) *sequences {
	return &sequences{name: name, lens: lens, along: along, params: params,
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return ts{op(t, u, p, r)}, make([]ts, len(states))
		}}
}

// gatedConv returns GatedLongConv of d channels with kernels of the given length. The inputs are v, q, k, then K, and D
// if there is a skip.
func gatedConv(name string, lens []int, taps, d int, skip, q, k bool) *sequences {
	params := [][]int{{taps, d}, {d}}
	if !skip {
		params = params[:1]
	}
	along := []int{d}
	if q || k {
		along = []int{d, d, d}
	}
	name = "GatedLongConv/" + name
	return convolved(name, lens, along, params, func(t *autograd.Tape, u, p ts, r *engine.Rows) *tensor.Tensor {
		g := engine.Gates{V: u[0]}
		if q {
			g.Q = u[1]
		}
		if k {
			g.K = u[2]
		}
		var through *tensor.Tensor
		if skip {
			through = p[1]
		}
		return t.GatedLongConv(g, p[0], through, r)
	})
}

// longConvSequences cover GatedLongConv.
func longConvSequences() []sequences {
	const far = transformed
	build := func(name string, skip, q, k bool, lens []int, taps, d int, bigLens []int, bigTaps, bigD int) sequences {
		s := gatedConv(name, lens, taps, d, skip, q, k)
		s.big = gatedConv(name, bigLens, bigTaps, bigD, skip, q, k)
		return *s
	}
	whole, mixed := []int{300, 300}, []int{300, 7, 96, 200, 300, 1, 290, 97, 40}
	return []sequences{
		build("plain", true, false, false, []int{9, 9}, 9, 3, whole, 300, 40),
		build("short_kernel", true, false, false, []int{11, 11}, 4, 2, []int{600, 600}, 9, 64),
		build("no_skip", false, false, false, []int{8}, 8, 2, whole, 300, 40),
		build("two_tiles", true, false, false, []int{5, 5}, 5, 18, []int{400, 400}, 150, 18),
		build("one", true, false, false, []int{1}, 1, 1, repeated(256, []int{1}), 1, 512),
		build("long_kernel", true, false, false, []int{6}, 9, 2, []int{200}, 290, 33),
		build("ages", true, false, false, []int{9, 1, 5}, 9, 3, mixed, 300, 40),
		build("ages_both", true, true, true, []int{2, far, 7, far + 1}, far, 1, mixed, 300, 40),
		build("ages_short_kernel", false, false, true, []int{9, 1, 5}, 3, 3, mixed, 90, 40),
		build("transformed", true, false, false, []int{far}, far, 2, repeated(5, []int{far}), far, 17),
		build("transformed_short_kernel", false, false, false, []int{far}, far-1, 1, []int{500}, far, 17),
		build("q", true, true, false, []int{7}, 7, 2, []int{96, 96}, 96, 128),
		build("k", true, false, true, []int{7}, 7, 2, []int{96, 96}, 96, 128),
		build("both", true, true, true, []int{7, 7}, 7, 2, []int{96, 96}, 96, 128),
		build("q_transformed", true, true, false, []int{far}, far, 1, whole, 300, 40),
		build("k_transformed", true, false, true, []int{far}, far, 1, whole, 300, 40),
		build("both_transformed", true, true, true, []int{far}, far, 2, whole, 300, 40),
	}
}

// bothWays returns BothWays. The inputs are u, k, ahead, and D if there is a skip.
func bothWays(name string, lens []int, taps, ahead, d int, skip bool) *sequences {
	params := [][]int{{taps, d}, {ahead, d}, {d}}
	if !skip {
		params = params[:2]
	}
	name = "BothWays/" + name
	return convolved(name, lens, []int{d}, params, func(t *autograd.Tape, u, p ts, r *engine.Rows) *tensor.Tensor {
		var through *tensor.Tensor
		if skip {
			through = p[2]
		}
		return t.BothWays(u[0], p[0], p[1], through, r)
	})
}

// bothWaysSequences cover BothWays.
func bothWaysSequences() []sequences {
	with := func(s, big *sequences) sequences {
		s.big = big
		return *s
	}
	whole := bothWays("whole", []int{250, 250}, 250, 250, 37, true)
	mixed := bothWays("mixed", []int{250, 3, 256, 1, 190, 250}, 256, 200, 37, true)
	return []sequences{
		with(bothWays("plain", []int{9, 9}, 9, 9, 3, true), whole),
		with(bothWays("ages", []int{9, 1, 6, 8, 2}, 9, 8, 3, true), mixed),
		with(bothWays("short_kernels", []int{11, 11}, 4, 2, 2, true), bothWays("", []int{250, 250}, 100, 40, 37, true)),
		with(bothWays("long_kernels", []int{6}, 9, 8, 2, true), bothWays("", []int{200}, 300, 210, 37, true)),
		with(bothWays("two_tiles", []int{5, 5}, 5, 5, 18, true), whole),
		with(bothWays("one", []int{1}, 1, 1, 1, true), bothWays("", repeated(64, []int{1}), 1, 1, 512, true)),
		with(bothWays("two", []int{2}, 2, 2, 1, true), bothWays("", repeated(32, []int{2}), 2, 2, 512, true)),
		with(bothWays("full", []int{16}, 16, 16, 2, true), bothWays("", []int{256}, 256, 256, 64, true)),
		with(bothWays("no_skip", []int{9, 9}, 9, 9, 3, false), bothWays("", []int{250, 250}, 250, 250, 37, false)),
	}
}

// kernelRowsSequences cover KernelRows of kernels that are rows already. Kernels in an engine's layout are tested with
// the systems that generate them.
func kernelRowsSequences() []sequences {
	build := func(lens []int, taps, d int) *sequences {
		op := func(t *autograd.Tape, u, p ts, r *engine.Rows) *tensor.Tensor {
			return t.GatedLongConv(engine.Gates{V: u[0]}, t.KernelRows(p[0], p[0].Dim(1)), nil, r)
		}
		return convolved("KernelRows", lens, []int{d}, [][]int{{taps, d}}, op)
	}
	s := build([]int{9, 9}, 9, 3)
	s.big = build([]int{300, 300}, 300, 40)
	return []sequences{*s}
}

func init() {
	registerSequences(longConvSequences)
	registerSequences(bothWaysSequences)
	registerSequences(kernelRowsSequences)
}

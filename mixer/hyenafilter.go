package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// hyenaFilter is an implicit filter: a small network that maps a lag to the taps of all channels at that lag
// (arXiv:2302.10866, §3.3),
//
//	k[i] = window(i) ⊙ W_n sin(f ⊙ (… sin(f ⊙ (W_0 z[i] + b_0)) …))
//
// with positional features z[i] = (τ, cos(ω_1 i), …, -sin(ω_1 i), …), τ = i/(l_max-1), ω_j = 2π f_j/l_max and f_j from
// 10⁻⁴ to bands-1 in equal steps. The window is e^(-τ|δ_c|) + shift, with rates δ from slow to fast over the channels,
// or there is none. The filter has l_max taps.
type hyenaFilter struct {
	D       *nn.Param // skips of the convolutions, concatenated
	Z, T    *nn.Param // features (1, l_max, emb_dim), perhaps trained; τ (1, l_max, 1)
	Freq    *nn.Param // f (1, filter_order), shared by all layers
	Layers  []*nn.Linear
	Deltas  *nn.Param // δ (1, 1, channels)
	lMax, d int       // d is the number of channels of one convolution
	window  bool
	shift   float32

	cached atomic.Pointer[cachedKernels]
}

// cachedKernels holds the kernels for unchanged parameters, so that decoding does not compute them for every token.
type cachedKernels struct {
	engine   string // of the tensors
	versions []uint64
	k        []*tensor.Tensor
}

// newHyenaFilter returns the filter of n convolutions over d channels each.
func newHyenaFilter(d, n int, o *hyenaOptions) *hyenaFilter {
	slow, fast := math.Log(o.Target)/o.SlowDecay, math.Log(o.Target)/o.FastDecay
	f := &hyenaFilter{
		D:      nn.NewParam(nn.SSM, nn.Normal(1), n*d),
		Z:      nn.NewBuffer(positionalFeatures(o.LMax, o.EmbDim), 1, o.LMax, o.EmbDim),
		T:      nn.NewBuffer(linspace(0, 1), 1, o.LMax, 1),
		Freq:   nn.NewParam(nn.SSMSystem, nn.Constant(float32(o.W)), 1, o.FilterOrder),
		Deltas: nn.NewBuffer(linspace(slow, fast), 1, 1, n*d),
		lMax:   o.LMax, d: d, window: o.Modulate, shift: float32(o.Shift),
	}
	f.Z.SetNeedsGrad(o.TrainPosEmb)
	in := o.EmbDim
	for range 1 + o.InnerMLPs {
		f.Layers = append(f.Layers, filterLayer(in, o.FilterOrder))
		in = o.FilterOrder
	}
	last := filterLayer(in, n*d)
	last.Bias = nil
	f.Layers = append(f.Layers, last)
	return f
}

// filterLayer returns a Linear without weight decay. The releases never decay parameters of filters.
func filterLayer(in, out int) *nn.Linear {
	m := nn.NewLinear(in, out, nn.InitStd)
	m.Weight.Role, m.Bias.Role = nn.SSMSystem, nn.SSMSystem
	m.Weight.Product = false // kernels are computed from it and kept
	return m
}

// step returns number i of n numbers from lo to hi in equal steps. If n is 1, it returns lo.
func step(lo, hi float64, n, i int) float64 {
	if n == 1 {
		return lo
	}
	return lo + (hi-lo)*float64(i)/float64(n-1)
}

func linspace(lo, hi float64) func(*rand.Rand, []float32) {
	return func(_ *rand.Rand, x []float32) {
		for i := range x {
			x[i] = float32(step(lo, hi, len(x), i))
		}
	}
}

// positionalFeatures returns an Init of the features z (l, dim).
func positionalFeatures(l, dim int) func(*rand.Rand, []float32) {
	bands := (dim - 1) / 2
	return func(_ *rand.Rand, z []float32) {
		for i := range l {
			row := z[i*dim:][:dim]
			row[0] = float32(step(0, 1, l, i))
			for j := range bands {
				sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(l) * step(1e-4, float64(bands-1), bands, j))
				row[1+j], row[1+bands+j] = float32(cos), float32(-sin)
			}
		}
	}
}

// kernels returns the kernels of all convolutions, (taps, d) each. There are n taps, or more if t does not record, so
// that decoding can continue with them, and at most l_max.
func (f *hyenaFilter) kernels(t *autograd.Tape, n int) []*tensor.Tensor {
	if t.Recording() {
		return f.split(t, f.generate(t, min(n, f.lMax)))
	}
	n = min(n+t.Ahead(), f.lMax)
	v := f.versions()
	if c := f.cached.Load(); c != nil && c.engine == t.Engine() && slices.Equal(c.versions, v) && c.k[0].Dim(0) >= n {
		return c.k
	}
	room := 64
	for room < n {
		room *= 2
	}
	own := t.Another()
	c := &cachedKernels{engine: t.Engine(), versions: v}
	for _, k := range f.split(own, f.generate(own, min(room, f.lMax))) {
		c.k = append(c.k, k.Clone()) // usable by any number of goroutines, and after the tape
	}
	f.cached.Store(c)
	return c.k
}

func (f *hyenaFilter) versions() []uint64 {
	var v []uint64
	f.params("", func(_ string, p *nn.Param) { v = append(v, p.Version()) })
	return v
}

// generate computes the first n taps (n, channels), in float32 whatever the precision of the tape, since the
// frequencies f amplify rounding errors in the arguments of sines.
func (f *hyenaFilter) generate(t *autograd.Tape, n int) *tensor.Tensor {
	precision := t.Precision()
	t.SetPrecision(engine.Float32)
	defer t.SetPrecision(precision)
	h, last := t.Slice(f.Z.Tensor, 0, n), len(f.Layers)-1
	for _, layer := range f.Layers[:last] {
		h = t.Sine(layer.Forward(t, h), f.Freq.Tensor)
	}
	h = f.Layers[last].Forward(t, h)
	if !f.window {
		return h
	}
	return t.DecayWindow(h, f.T.Tensor, f.Deltas.Tensor, f.shift)
}

// split splits the last axis into one part for each convolution.
func (f *hyenaFilter) split(t *autograd.Tape, x *tensor.Tensor) []*tensor.Tensor {
	if x.Dim(-1) == f.d {
		return []*tensor.Tensor{x}
	}
	return t.Split(x, widths(x.Dim(-1)/f.d, f.d)...)
}

// widths returns n times d.
func widths(n, d int) []int {
	w := make([]int, n)
	for i := range w {
		w[i] = d
	}
	return w
}

// params visits the parameters under their official names, without additional names of the frequencies.
func (f *hyenaFilter) params(prefix string, visit nn.Visitor) {
	visit(prefix+"bias", f.D)
	visit(prefix+"pos_emb.z", f.Z)
	visit(prefix+"pos_emb.t", f.T)
	for i, layer := range f.Layers {
		layer.Params(fmt.Sprintf("%simplicit_filter.%d.", prefix, 2*i), visit)
		if i == 0 {
			visit(prefix+"implicit_filter.1.freq", f.Freq)
		}
	}
	visit(prefix+"modulation.deltas", f.Deltas)
}

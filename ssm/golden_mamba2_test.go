package ssm

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// mamba2Config is the configuration of a Mamba-2 block: one group and a norm unless the case says otherwise.
type mamba2Config struct {
	DState         int `json:"d_state"`
	HeadDim        int `json:"headdim"`
	Expand         int
	NGroups        int
	RMSNorm        bool
	NormBeforeGate bool `json:"norm_before_gate"`
	DConv          int  `json:"d_conv"`
}

// TestGoldenMamba2Block computes a whole Mamba-2 block in plain sums around SSD: projection to z, x, B, C and dt, a
// short convolution, SSD per head, gate, norm, projection. The tokens that a case decodes continue the same sequence.
func TestGoldenMamba2Block(t *testing.T) {
	golden.Run(t, "12_mamba2_block", func(t *testing.T, c golden.Case) {
		config := mamba2Config{NGroups: 1, RMSNorm: true}
		c.Config(&config)
		shape := c.Shape("in/x")
		batch, l, d := shape[0], shape[1], shape[2]
		more := 0
		if c.Has("in/x_next") {
			more = c.Shape("in/x_next")[1]
		}
		var y, ySteps, prefill, final, conv []float64
		for b := range batch {
			x := slices.Collect(slices.Chunk(row(c.F64("in/x"), b, l*d), d))
			if more > 0 {
				x = append(x, slices.Collect(slices.Chunk(row(c.F64("in/x_next"), b, more*d), d))...)
			}
			out, convState, states := mamba2Block(c, config, x, l)
			y, ySteps = append(y, flat(out[:l])...), append(ySteps, flat(out[l:])...)
			prefill, final = append(prefill, states[0]...), append(final, states[1]...)
			conv = append(conv, convState...)
		}
		golden.Close(t, "y", y, c.F64("out/y"), tolLayer)
		if more > 0 {
			golden.Close(t, "y_steps", ySteps, c.F64("out/y_steps"), tolLayer)
			golden.Close(t, "prefill_ssm_state", prefill, c.F64("out/prefill_ssm_state"), tolLayer)
			golden.Close(t, "final_ssm_state", final, c.F64("out/final_ssm_state"), tolLayer)
			golden.Close(t, "prefill_conv_state", conv, c.F64("out/prefill_conv_state"), tolLayer)
		}
	})
}

// mamba2Block returns the block's output for one sequence x, the inputs in the convolution's window (channels, d_conv)
// after l steps, and the states of all heads after l steps and at the end.
func mamba2Block(c golden.Case, config mamba2Config, x [][]float64, l int) (out [][]float64,
	conv []float64, states [2][]float64) {
	inner := config.Expand * len(x[0])
	heads, bc := inner/config.HeadDim, config.NGroups*config.DState
	z, xBC, dt := make([][]float64, len(x)), make([][]float64, len(x)), make([][]float64, len(x))
	for k, xk := range x {
		p := linear(c, "param/in_proj", xk)
		z[k], xBC[k], dt[k] = p[:inner], p[inner:2*inner+2*bc], p[2*inner+2*bc:]
	}

	mixed := zeroRows(len(x), inner+2*bc)
	for ch, w := range slices.Collect(slices.Chunk(c.F64("param/conv1d.weight"), config.DConv)) {
		signal := make([]float64, len(x))
		for k := range signal {
			signal[k] = xBC[k][ch]
		}
		conv = append(conv, signal[l-config.DConv:l]...)
		slices.Reverse(w)
		for k, v := range Convolve(w, signal) {
			mixed[k][ch] = silu(v + c.F64("param/conv1d.bias")[ch])
		}
	}

	y := zeroRows(len(x), inner)
	for h := range heads {
		group := h / (heads / config.NGroups)
		s := &SSD{}
		a := -math.Exp(c.F64("param/A_log")[h])
		var in [][]float64
		for k, m := range mixed {
			step := math.Log1p(math.Exp(dt[k][h] + c.F64("param/dt_bias")[h]))
			s.LogDecay = append(s.LogDecay, a*step)
			s.B = append(s.B, row(m[inner:], group, config.DState))
			s.C = append(s.C, row(m[inner+bc:], group, config.DState))
			head := slices.Clone(row(m, h, config.HeadDim))
			floats.Scale(step, head)
			in = append(in, head)
		}
		state := zeroRows(config.HeadDim, config.DState)
		whole := s.Scan(state, in)
		states[1] = append(states[1], flat(state)...)
		state = zeroRows(config.HeadDim, config.DState)
		s.Chunked(state, in[:l], config.DConv)
		states[0] = append(states[0], flat(state)...)
		for k, yk := range whole {
			head := row(y[k], h, config.HeadDim)
			copy(head, yk)
			floats.AddScaled(head, c.F64("param/D")[h], row(mixed[k], h, config.HeadDim))
		}
	}

	for k, yk := range y {
		gate := z[k]
		for i, v := range gate {
			gate[i] = silu(v)
		}
		if config.RMSNorm && config.NormBeforeGate {
			rmsNorm(yk, config.NGroups, c.F64("param/norm.weight"))
		}
		floats.Mul(yk, gate)
		if config.RMSNorm && !config.NormBeforeGate {
			rmsNorm(yk, config.NGroups, c.F64("param/norm.weight"))
		}
		out = append(out, linear(c, "param/out_proj", yk))
	}
	return out, conv, states
}

// rmsNorm divides each group of x by its root mean square and multiplies by weight, in place.
func rmsNorm(x []float64, groups int, weight []float64) {
	for g := range slices.Chunk(x, len(x)/groups) {
		floats.Scale(1/math.Sqrt(floats.Dot(g, g)/float64(len(g))+1e-5), g)
	}
	floats.Mul(x, weight)
}

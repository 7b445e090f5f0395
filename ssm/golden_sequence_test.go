package ssm

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const (
	tolDSS       = 1e-8
	tolGSS       = 1e-8
	tolScan      = 1e-9
	tolAttention = 1e-10
)

func TestGoldenDSS(t *testing.T) {
	golden.Run(t, "03_dss", func(t *testing.T, c golden.Case) {
		var config struct {
			Version string
			Epsilon float64
		}
		c.Config(&config)
		shape := c.Shape("out/K")
		rows, channels, l := shape[0], shape[1], shape[2]
		var lambda []complex128
		if c.Has("param/Lambda") {
			lambda = pairs(c, "param/Lambda")
		} else {
			im := c.F64("param/Lambda_im")
			for i, re := range c.F64("param/Lambda_log_neg_re") {
				lambda = append(lambda, complex(-math.Exp(re), im[i]))
			}
		}
		logDt, w := c.F64("param/log_dt"), pairs(c, "param/W")
		var k []float64
		for r := range rows * channels {
			h := r % channels
			dt := row(logDt, h, len(logDt)/channels) // one step, or one for each part of Λ
			s := &DSS{Lambda: lambda, W: row(w, r, len(lambda)), DtRe: math.Exp(dt[0]), DtIm: math.Exp(dt[len(dt)-1])}
			switch config.Version {
			case "softmax":
				k = append(k, s.SoftmaxKernel(l, config.Epsilon)...)
			case "exp":
				k = append(k, s.ExpKernel(l)...)
			case "exp-no-scale":
				k = append(k, s.UnscaledKernel(l)...)
			default:
				t.Fatalf("unknown version %q", config.Version)
			}
		}
		golden.Close(t, "K", k, c.F64("out/K"), tolDSS)
	})
}

// TestGoldenGSS computes the kernel of GSS inside the plain layer around it: y = x + out(gate(conv(norm(gelu(v)))) ⊙
// gelu(u)).
func TestGoldenGSS(t *testing.T) {
	golden.Run(t, "06_gss", func(t *testing.T, c golden.Case) {
		x, shape := c.F64("in/x"), c.Shape("in/x")
		batch, l, d := shape[0], shape[1], shape[2]
		var config struct {
			ImagExp bool `json:"dss_kernel_lambda_imag_exp"`
		}
		c.Config(&config)
		var lambda []complex128
		im := c.F64("param/dss.Lambda_imag")
		for i, re := range c.F64("param/dss.Lambda_real") {
			if config.ImagExp {
				im[i] = math.Exp(im[i])
			}
			lambda = append(lambda, complex(-math.Exp(re), im[i]))
		}
		re, im := c.F64("param/dss.C_real"), c.F64("param/dss.C_imag")
		channels := c.Shape("param/dss.C_real")[0]
		skip := c.F64("param/dss.param_D")

		var y []float64
		for b := range batch {
			var u, v [][]float64
			for k := range l {
				z := layerNorm(c, "param/norm", row(x, b*l+k, d))
				u = append(u, gelu(linear(c, "param/to_u.0", z)))
				v = append(v, layerNorm(c, "param/dss.norm", gelu(linear(c, "param/to_v.0", z))))
			}
			for h := range channels {
				s := &DSS{Lambda: lambda, W: make([]complex128, len(lambda)), DtRe: 1, DtIm: 1}
				for i := range s.W {
					s.W[i] = complex(re[h*len(s.W)+i], im[h*len(s.W)+i])
				}
				in := make([]float64, l)
				for k := range in {
					in[k] = v[k][h]
				}
				for k, yk := range Convolve(s.ExpKernel(l), in) {
					v[k][h] = yk + skip[h]*in[k]
				}
			}
			for k := range l {
				gate := linear(c, "param/to_gate", v[k])
				floats.Mul(gate, u[k])
				out := linear(c, "param/to_out", gate)
				floats.Add(out, row(x, b*l+k, d))
				y = append(y, out...)
			}
		}
		golden.Close(t, "y", y, c.F64("out/y"), tolGSS)
	})
}

// linear returns W x + bias, if there is a bias, of the layer called name.
func linear(c golden.Case, name string, x []float64) []float64 {
	w := c.F64(name + ".weight")
	y := make([]float64, len(w)/len(x))
	if c.Has(name + ".bias") {
		copy(y, c.F64(name+".bias"))
	}
	for i := range y {
		y[i] += floats.Dot(row(w, i, len(x)), x)
	}
	return y
}

// gelu computes x Φ(x) in place, with the exact normal distribution.
func gelu(x []float64) []float64 {
	for i, v := range x {
		x[i] = v * 0.5 * math.Erfc(-v/math.Sqrt2)
	}
	return x
}

// silu returns x times its sigmoid.
func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

func layerNorm(c golden.Case, name string, x []float64) []float64 {
	y := slices.Clone(x)
	floats.AddConst(-floats.Sum(y)/float64(len(y)), y)
	floats.Scale(1/math.Sqrt(floats.Dot(y, y)/float64(len(y))+1e-5), y)
	floats.Mul(y, c.F64(name+".weight"))
	floats.Add(y, c.F64(name+".bias"))
	return y
}

// selectiveChannel returns channel d of sequence b of a selective scan. B and C are (d, n), or (b, n, l), or (b,
// groups, n, l). For complex ones, real and imaginary parts alternate along l.
func selectiveChannel(c golden.Case, b, d int) *Selective {
	shape := c.Shape("in/u")
	channels, l := shape[1], shape[2]
	var config struct {
		Softplus bool `json:"delta_softplus"`
	}
	c.Config(&config)
	s := &Selective{Pairs: c.Has("in/A_re"), Dt: slices.Clone(row(c.F64("in/delta"), b*channels+d, l))}
	if c.Has("in/D") {
		s.D = c.F64("in/D")[d]
	}
	if c.Has("in/delta_bias") {
		floats.AddConst(c.F64("in/delta_bias")[d], s.Dt)
	}
	if config.Softplus {
		for k, v := range s.Dt {
			s.Dt[k] = math.Log1p(math.Exp(v))
		}
	}
	numbers, name := reals, "in/A"
	if s.Pairs {
		numbers, name = complexes, "in/A_re"
	}
	n := c.Shape(name)[1]
	s.A = row(numbers(c, "in/A"), d, n)
	s.B, s.C = overTime(c, "in/B", b, d, channels, n, l, s.Pairs), overTime(c, "in/C", b, d, channels, n, l, s.Pairs)
	return s
}

// overTime returns B or C of a channel as (l, n).
func overTime(c golden.Case, name string, b, d, channels, n, l int, complexPairs bool) [][]complex128 {
	shape := c.Shape(name)
	at := func(i, k int) complex128 { return reals(c, name)[d*n+i] }
	if len(shape) > 2 {
		groups := 1
		if len(shape) == 4 {
			groups = shape[1]
		}
		first := (b*groups + d/(channels/groups)) * n
		numbers := reals(c, name)
		if complexPairs {
			numbers = pairs(c, name)
		}
		at = func(i, k int) complex128 { return numbers[(first+i)*l+k] }
	}
	x := make([][]complex128, l)
	for k := range x {
		for i := range n {
			x[k] = append(x[k], at(i, k))
		}
	}
	return x
}

func TestGoldenSelectiveScan(t *testing.T) {
	golden.Run(t, "06_mamba_scan", func(t *testing.T, c golden.Case) {
		shape := c.Shape("in/u")
		batch, channels, l := shape[0], shape[1], shape[2]
		var y, gate []float64
		var last []complex128
		for r := range batch * channels {
			s := selectiveChannel(c, r/channels, r%channels)
			x := make([]complex128, len(s.A))
			y = append(y, s.Scan(x, row(c.F64("in/u"), r, l))...)
			last = append(last, x...)
			if c.Has("in/z") {
				for _, z := range row(c.F64("in/z"), r, l) {
					gate = append(gate, silu(z))
				}
			}
		}
		if gate != nil {
			floats.Mul(y, gate)
		}
		golden.Close(t, "y", y, c.F64("out/y"), tolScan)
		if c.Has("out/last_state") {
			golden.Close(t, "state", realParts(last), c.F64("out/last_state"), tolScan)
		} else {
			golden.Close(t, "state", ReIm(last), ReIm(complexes(c, "out/last_state")), tolScan)
		}
	})
}

// headRows returns the rows (l, size) of head h of sequence b in a tensor (b, l, heads, size).
func headRows(c golden.Case, name string, b, h int) [][]float64 {
	x, shape := c.F64(name), c.Shape(name)
	rows := make([][]float64, shape[1])
	for k := range rows {
		rows[k] = slices.Clone(row(x, (b*shape[1]+k)*shape[2]+h, shape[3]))
	}
	return rows
}

// byTime returns the heads (l, size) of every sequence as (b, l, heads, size).
func byTime(heads [][][]float64, count int) (x []float64) {
	for b := 0; b < len(heads); b += count {
		for k := range heads[b] {
			for _, h := range heads[b : b+count] {
				x = append(x, h[k]...)
			}
		}
	}
	return x
}

func TestGoldenSSD(t *testing.T) {
	golden.Run(t, "06_mamba2_ssd", func(t *testing.T, c golden.Case) {
		var config struct {
			Block int `json:"block_len"`
		}
		c.Config(&config)
		shape, n := c.Shape("in/X"), c.Shape("in/B")[3]
		batch, l, heads, p := shape[0], shape[1], shape[2], shape[3]
		var y, fromState0 [][][]float64
		var final, finalFromState0 []float64
		for r := range batch * heads {
			b, h := r/heads, r%heads
			s := &SSD{LogDecay: make([]float64, l), B: headRows(c, "in/B", b, h), C: headRows(c, "in/C", b, h)}
			for k := range s.LogDecay {
				s.LogDecay[k] = c.F64("in/A")[(b*l+k)*heads+h]
			}
			x := headRows(c, "in/X", b, h)
			zero := slices.Collect(slices.Chunk(make([]float64, p*n), n))
			state0 := slices.Collect(slices.Chunk(slices.Clone(row(c.F64("in/state0"), r, p*n)), n))
			y = append(y, s.Scan(zero, x))
			fromState0 = append(fromState0, s.Chunked(state0, x, config.Block))
			final, finalFromState0 = append(final, flat(zero)...), append(finalFromState0, flat(state0)...)
		}
		golden.Close(t, "y", byTime(y, heads), c.F64("out/y"), tolScan)
		golden.Close(t, "state", final, c.F64("out/final_state"), tolScan)
		golden.Close(t, "y from state0", byTime(fromState0, heads), c.F64("out/y_from_state0"), tolScan)
		golden.Close(t, "state from state0", finalFromState0, c.F64("out/final_state_from_state0"), tolScan)
	})
}

func TestGoldenLinearAttention(t *testing.T) {
	golden.Run(t, "07_linear_attention", func(t *testing.T, c golden.Case) {
		var config struct{ Eps float64 }
		c.Config(&config)
		a := &LinearAttention{Phi: ELU1, Epsilon: config.Eps}
		shape, m := c.Shape("in/q"), c.Shape("in/v")[3]
		batch, heads, e := shape[0], shape[2], shape[3]
		var parallel, recurrent [][][]float64
		var S, Z []float64
		for r := range batch * heads {
			q, k, v := headRows(c, "in/q", r/heads, r%heads), headRows(c, "in/k", r/heads, r%heads),
				headRows(c, "in/v", r/heads, r%heads)
			state, z := slices.Collect(slices.Chunk(make([]float64, e*m), m)), make([]float64, e)
			parallel = append(parallel, a.Attend(q, k, v))
			recurrent = append(recurrent, a.Scan(state, z, q, k, v))
			S, Z = append(S, flat(state)...), append(Z, z...)
		}
		golden.Close(t, "y", byTime(parallel, heads), c.F64("out/y"), tolAttention)
		golden.Close(t, "y_recurrent", byTime(recurrent, heads), c.F64("out/y_recurrent"), tolAttention)
		golden.Close(t, "state_S", S, c.F64("out/state_S"), tolAttention)
		golden.Close(t, "state_Z", Z, c.F64("out/state_Z"), tolAttention)
	})
}

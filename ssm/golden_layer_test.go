package ssm

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const tolLayer = 1e-8

// layerModel is the state-space model of one channel with one row of C: a Diagonal or a DPLR.
type layerModel interface {
	kernel(l int) []float64
	scan(u []float64) (y []float64, state []complex128)
}

type diagonalModel struct{ *Diagonal }

func (m diagonalModel) kernel(l int) []float64 { return m.Kernel(Bilinear, l) }
func (m diagonalModel) scan(u []float64) ([]float64, []complex128) {
	x := make([]complex128, len(m.A))
	return m.Scan(Bilinear, x, u), x
}

// dplrModel holds C~, the trained parameter, for the kernel, and the corresponding C for the recurrence.
type dplrModel struct {
	trained, recurrent *DPLR
	length             int // the length of C~'s kernel
}

// kernel returns the kernel of the whole system. C~ gives its first length positions, and the recurrence any number.
func (m dplrModel) kernel(l int) []float64 {
	if l > m.length {
		return m.recurrent.Kernel(l)
	}
	return m.trained.CauchyKernel(m.length)[:l]
}

func (m dplrModel) scan(u []float64) ([]float64, []complex128) {
	x := make([]complex128, len(m.recurrent.Lambda))
	y := m.recurrent.Scan(x, u)
	return y, withConjugates(x)
}

// layerChannel returns channel h of an S4 layer with row r of C.
func layerChannel(t *testing.T, c golden.Case, r, h int) layerModel {
	const at = "param/kernel.kernel."
	shape := c.Shape(at + "C") // rows of C, channels, modes, 2
	channels, modes := shape[1], shape[2]
	re, im := at+"inv_A_real", at+"A_imag"
	if !c.Has(re) {
		re, im = at+"inv_w_real", at+"w_imag"
	}
	A := make([]complex128, modes)
	for i := range A {
		A[i] = complex(-math.Exp(c.F64(re)[h*modes+i]), c.F64(im)[h*modes+i])
	}
	B, C := row(pairs(c, at+"B"), h, modes), row(pairs(c, at+"C"), r*channels+h, modes)
	dt := math.Exp(c.F64(at + "log_dt")[h])
	if !c.Has(at + "P") {
		return diagonalModel{&Diagonal{A: A, B: B, C: C, Dt: dt, Pairs: true}}
	}
	s := &DPLR{Lambda: A, B: B, C: C, Dt: dt}
	for k := range c.Shape(at + "P")[0] {
		s.P = append(s.P, row(pairs(c, at+"P"), k*channels+h, modes))
	}
	recurrent, length := *s, int(c.I64(at + "L")[0])
	var err error
	recurrent.C, err = s.UntruncatedC(length)
	check(t, err)
	return dplrModel{s, &recurrent, length}
}

// TestGoldenS4Layer computes a whole S4 layer in plain sums: convolution and skip per channel and row of C, GELU, a
// linear map, and, if the case has them, a gated linear unit, a second direction, or the gates of GSS around it.
// Recurrent steps must give the same results.
func TestGoldenS4Layer(t *testing.T) {
	golden.Run(t, "11_s4_layer", func(t *testing.T, c golden.Case) {
		var config struct {
			Postact       string
			Bidirectional bool
			Gate          int
		}
		c.Config(&config)
		shape := c.Shape("in/x")
		batch, d, l := shape[0], shape[1], shape[2]
		inner, rows := c.Shape("param/D")[1], c.Shape("param/D")[0]
		skip := c.F64("param/D")

		var y, ySteps []float64
		var final []complex128
		for b := range batch {
			x := slices.Collect(slices.Chunk(transposed(row(c.F64("in/x"), b, d*l), d), d)) // (l, d)
			u := x
			if config.Gate > 0 {
				u = make([][]float64, l)
				for k, z := range x {
					u[k] = gelu(linear(c, "param/input_linear.0", z))
				}
			}
			convolved, stepped := zeroRows(l, rows*inner), zeroRows(l, rows*inner)
			for r := range rows * inner {
				model := layerChannel(t, c, r/inner, r%inner)
				in := make([]float64, l)
				for k := range in {
					in[k] = u[k][r%inner]
				}
				out := Convolve(model.kernel(l), in)
				if config.Bidirectional {
					out = ConvolveBothWays(model.kernel(l), layerChannel(t, c, rows+r/inner, r%inner).kernel(l), in)
				}
				steps, state := model.scan(in)
				if r < inner { // the state does not depend on the row of C
					final = append(final, state...)
				}
				for k := range l {
					convolved[k][r] = out[k] + skip[r]*in[k]
					stepped[k][r] = steps[k] + skip[r]*in[k]
				}
			}
			finish := func(h [][]float64) []float64 {
				var out []float64
				for k, z := range h {
					out = append(out, layerOutput(c, config.Gate > 0, config.Postact == "glu", gelu(z), x[k])...)
				}
				return transposed(out, l)
			}
			y, ySteps = append(y, finish(convolved)...), append(ySteps, finish(stepped)...)
		}
		golden.Close(t, "y", y, c.F64("out/y"), tolLayer)
		if c.Has("out/y_steps") {
			golden.Close(t, "y_steps", ySteps, c.F64("out/y_steps"), tolLayer)
			golden.Close(t, "final_state", ReIm(final), ReIm(complexes(c, "out/final_state")), tolLayer)
		}
	})
}

// transposed turns x (rows, columns) into (columns, rows).
func transposed(x []float64, rows int) []float64 {
	columns := len(x) / rows
	y := make([]float64, len(x))
	for i, v := range x {
		y[i%columns*rows+i/columns] = v
	}
	return y
}

// layerOutput computes the rest of the layer after the state-space model, at one step. z (channels) is the model's
// output after GELU, and x (d) the layer's input.
func layerOutput(c golden.Case, gate, glu bool, z, x []float64) []float64 {
	if gate {
		z = linear(c, "param/output_linear", z)
		floats.Mul(z, gelu(linear(c, "param/input_gate.0", x)))
		return linear(c, "param/output_gate", z)
	}
	z = linear(c, "param/output_linear.0", z)
	if glu { // the second half, through a sigmoid, gates the first
		half := len(z) / 2
		for i := range half {
			z[i] /= 1 + math.Exp(-z[half+i])
		}
		z = z[:half]
	}
	return z
}

// TestGoldenH3Heads computes a whole H3 layer by its heads: in the order in which the official code flattens their
// outputs, and in the other one.
func TestGoldenH3Heads(t *testing.T) {
	golden.Run(t, "04_h3_layer", func(t *testing.T, c golden.Case) {
		var config struct {
			HeadDim int `json:"head_dim"`
		}
		c.Config(&config)
		shape, p, modes := c.Shape("in/x"), config.HeadDim, c.Shape("param/kernel.kernel.A_imag")[1]
		batch, l, d := shape[0], shape[1], shape[2]
		n := c.Shape("param/ssm_k_kernel.kernel.B")[1]
		var y, yHD []float64
		for b := range batch {
			var q, k, v [][]float64
			for t := range l {
				x := row(c.F64("in/x"), b*l+t, d)
				q, k, v = append(q, linear(c, "param/q_proj", x)), append(k, linear(c, "param/k_proj", x)),
					append(v, linear(c, "param/v_proj", x))
			}
			dh, hd := zeroRows(l, d), zeroRows(l, d)
			for h := range d / p {
				channels := func(x [][]float64) [][]float64 { // of this head
					part := make([][]float64, l)
					for t := range part {
						part[t] = row(x[t], h, p)
					}
					return part
				}
				for t, step := range h3Head(c, h, p, n, modes).Steps(channels(q), channels(k), channels(v)) {
					for i, value := range step.Y {
						dh[t][i*(d/p)+h], hd[t][h*p+i] = value, value
					}
				}
			}
			for t := range l {
				y = append(y, linear(c, "param/output_linear", dh[t])...)
				yHD = append(yHD, linear(c, "param/output_linear", hd[t])...)
			}
		}
		golden.Close(t, "y", y, c.F64("out/y"), tolLayer)
		if c.Has("out/y_hd_layout") {
			golden.Close(t, "y in (h d) order", yHD, c.F64("out/y_hd_layout"), tolLayer)
		}
	})
}

// h3Head returns head h of an H3 layer.
func h3Head(c golden.Case, h, p, n, modes int) *H3 {
	const at = "param/kernel.kernel."
	s := &Diagonal{
		A: make([]complex128, modes), B: row(pairs(c, at+"B"), h, modes), C: row(pairs(c, at+"C"), h, modes),
		Dt: math.Exp(c.F64(at + "log_dt")[h]), Pairs: true,
	}
	for i := range s.A {
		s.A[i] = complex(-math.Exp(c.F64(at + "inv_A_real")[h*modes+i]), c.F64(at + "A_imag")[h*modes+i])
	}
	head := &H3{ShiftD: row(c.F64("param/ssm_k_D"), h, p), Diag: s, D: c.F64("param/D")[h], Method: Bilinear}
	for i := h * p; i < (h+1)*p; i++ {
		head.Shift = append(head.Shift, &Shift{
			B: row(c.F64("param/ssm_k_kernel.kernel.B"), i, n), C: row(c.F64("param/ssm_k_kernel.kernel.C"), i, n),
		})
	}
	return head
}

package mixer

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// officialRow returns the official parameter that contains ours, by a function of our parameter's name without its
// number, and the index of the row that is ours: C_1 is the second row of C.
func officialRow(name string, rename func(string) string) (official string, row int) {
	base, number, some := strings.Cut(name, "_1")
	if some && number == "" {
		name, row = base, 1
	}
	return rename(name), row
}

func same(name string) string { return name }

// fillRows sets the parameters of m to those of the case, row by row.
func fillRows(t *testing.T, c golden.Case, m nn.Module, rename func(string) string) {
	t.Helper()
	m.Params("", func(name string, p *nn.Param) {
		official, row := officialRow(name, rename)
		p.CopyFrom(c.F32("param/" + official)[row*p.Len():][:p.Len()])
	})
}

func checkRowGrads(
	t *testing.T, tape *autograd.Tape, c golden.Case, m nn.Module, rename func(string) string, tol float64,
) {
	t.Helper()
	m.Params("", func(name string, p *nn.Param) {
		official, row := officialRow(name, rename)
		golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor),
			c.F64("grad/" + official)[row*p.Len():][:p.Len()], tol)
	})
}

// checkLayer checks y, the gradients and, if there are any, the steps of a whole layer. Its sequences are (b, h, l).
func checkLayer(t *testing.T, c golden.Case, m Mixer, rename func(string) string, tol, gradTol float64) {
	t.Helper()
	fillRows(t, c, m, rename)
	if whole := "param/kernel.kernel.A"; c.Has(whole) { // A once more, as numbers
		re, im := c.F64("param/kernel.kernel.inv_A_real"), c.F64("param/kernel.kernel.A_imag")
		var a []float64
		for i := range re {
			a = append(a, -math.Exp(re[i]), im[i])
		}
		golden.Close(t, "A", a, c.F64(whole), 1e-6)
	}
	x := transpose(c.F32("in/x"), c.Shape("in/x"))
	x.SetNeedsGrad(true)
	tape := recording()
	b, l := c.Shape("in/x")[0], c.Shape("in/x")[2]
	y := m.Forward(tape, x, equalRows(b, l))
	golden.Close(t, "y", read(transposeBack(y, b)), c.F64("out/y"), tol)
	tape.BackwardFrom(y, tensor.FromSlice(read(transpose(c.F32("in/dy"), c.Shape("in/dy"))), y.Shape()...))
	dx := tensor.FromSlice(gradient(tape, x), x.Shape()...)
	golden.Close(t, "gradient of x", read(transposeBack(dx, b)), c.F64("grad/in/x"), tol)
	checkRowGrads(t, tape, c, m, rename, gradTol)
	if !c.Has("out/y_steps") {
		return
	}
	s := begin(m, b)
	steps := s.forward(newTape(), x)
	golden.Close(t, "y, stepped", read(transposeBack(steps, b)), c.F64("out/y_steps"), tol)
	want := interleave(c, "out/final_state")
	pairs := 0
	s.states[0].Tensors(func(_ string, state *tensor.Tensor) { pairs = 2 * state.Dim(1) })
	for name, got := range s.parts() {
		all := len(want) / (len(got) / pairs) // S4's release also keeps the conjugates, after the others
		var half []float64
		for at := 0; at < len(want); at += all {
			half = append(half, want[at:at+pairs]...)
		}
		golden.Close(t, "state "+name, got, half, tol)
	}
}

// TestGoldenS4Layer compares with the whole official layers around S4 and S4D, and GSS.
func TestGoldenS4Layer(t *testing.T) {
	golden.Of(t, "s4")
	golden.Run(t, "11_s4_layer", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel        int     `json:"d_model"`
			DState        int     `json:"d_state"`
			LMax          int     `json:"l_max"`
			DtMin         float64 `json:"dt_min"`
			DtMax         float64 `json:"dt_max"`
			Mode, Measure string
			Channels      int
			Bidirectional bool
			Gate          int
		}
		c.Config(&cfg)
		build, mc := S4Info.New, Config{DModel: cfg.DModel, DState: cfg.DState, DtMin: cfg.DtMin, DtMax: cfg.DtMax,
			Measure: cfg.Measure}
		mc.Options = Options{"channels": strconv.Itoa(max(1, cfg.Channels)),
			"bidirectional": strconv.FormatBool(cfg.Bidirectional)}
		rename := same
		switch {
		case cfg.Gate > 0:
			checkGSSLayer(t, c)
			return
		case cfg.Mode == "nplr":
			mc.Options["l_max"] = strconv.Itoa(cfg.LMax)
		default:
			build = S4DInfo.New
			mc.Options["disc"], mc.Options["train_b"] = "bilinear", "true" // as in the third version of the release
			rename = officialDiagonal
		}
		m, err := build(mc)
		if err != nil {
			t.Fatal(err)
		}
		checkLayer(t, c, m, rename, 1e-4, 1e-4) // the golden file's own float32 tolerance
	})
}

// officialDiagonal returns the name of an S4D parameter in the whole official layer.
func officialDiagonal(name string) string {
	if rest, ok := strings.CutPrefix(name, "kernel."); ok {
		name = "kernel.kernel." + strings.Replace(rest, "log_A_real", "inv_A_real", 1)
	}
	return name
}

// kernelParam reads a parameter of a kernel times a sign: the S4 repository has A = -exp(A_real) - i·A_imag.
func kernelParam(c golden.Case, name string, sign float32) *tensor.Tensor {
	x := c.F32("param/" + name)
	for i := range x {
		x[i] *= sign
	}
	return leaf(x, c.Shape("param/"+name)...)
}

// checkKernelGrad compares a gradient with the official one.
func checkKernelGrad(t *testing.T, c golden.Case, name string, got []float32, sign, tol float64) {
	t.Helper()
	want := c.F64("grad/" + name)
	for i := range want {
		want[i] *= sign
	}
	golden.Close(t, "gradient of "+name, got, want, tol)
}

// TestGoldenS4Kernels compares with S4's kernels by the Cauchy algorithm, with all gradients, and with its recurrence.
func TestGoldenS4Kernels(t *testing.T) {
	golden.Run(t, "03_s4_dplr", func(t *testing.T, c golden.Case) {
		s := c.Shape("out/K") // (channels, h, l)
		h, l := s[1], s[2]
		tol := 1e-4 // the golden file's own float32 tolerances
		if l > 64 {
			tol = 1e-3
		}
		if s[0] != 1 {
			t.Fatalf("%d rows of C, want 1", s[0])
		}
		p := &engine.DPLRParams{LogDt: kernelParam(c, "inv_dt", 1), InvAReal: kernelParam(c, "A_real", 1),
			AImag: kernelParam(c, "A_imag", -1),
			B:     kernelParam(c, "B", 1), P: kernelParam(c, "P", 1), Ct: kernelParam(c, "C", 1), L: l}
		tape := recording()
		k := tape.KernelRows(tape.DPLRKernel(tape.DPLRSystem(p), l), h)
		golden.Close(t, "K", read(transposeBack(tensor.FromSlice(read(k), l, h), 1)), c.F64("out/K"), tol)
		tape.BackwardFrom(k, tensor.FromSlice(read(transpose(c.F32("G"), s)), k.Shape()...))
		for name, g := range map[string][]float32{
			"inv_dt": gradient(tape, p.LogDt), "A_real": gradient(tape, p.InvAReal), "B": gradient(tape, p.B),
			"P": gradient(tape, p.P), "C": gradient(tape, p.Ct),
		} {
			checkKernelGrad(t, c, name, g, 1, tol)
		}
		checkKernelGrad(t, c, "A_imag", gradient(tape, p.AImag), -1, tol)

		u := transpose(c.F32("in/u"), c.Shape("in/u"))
		for _, record := range []bool{false, true} { // stepping, and convolving
			tape = newTape()
			tape.Record(record)
			b := c.Shape("in/u")[0]
			rows, zero := engine.EqualRows(b, u.Rows()/b), tensor.New(b, h, p.InvAReal.Dim(1), 2)
			y := tape.DPLRSSM(u, tape.DPLRSystem(p), nil, rows, slots(b, zero))
			golden.Close(t, "y", read(transposeBack(y, b)), c.F64("out/y_step"), tol)
			next := slots(b, complexTensor(c, "in/state0"))
			y = tape.DPLRSSM(u, tape.DPLRSystem(p), nil, rows, next)
			golden.Close(t, "state after u from state0", after(next),
				interleave(c, "out/state_after_u_from_state0"), tol)
			want := c.F64("out/y_step")
			for i, v := range c.F64("out/K_state") {
				want[i] += v
			}
			golden.Close(t, "y from state0", read(transposeBack(y, b)), want, tol)
		}
	})
}

// TestGoldenS4DKernels compares with the official kernels for every start, both discretizations, several rows of C, and
// real modes.
func TestGoldenS4DKernels(t *testing.T) {
	for _, prefix := range []string{"03_s4d_inv", "03_s4d_legs", "03_s4d_lin", "03_s4d_real"} {
		golden.Run(t, prefix, func(t *testing.T, c golden.Case) {
			var cfg struct {
				Disc string
				Real bool `json:"is_real"`
			}
			c.Config(&cfg)
			s := c.Shape("out/K")
			h, l := s[1], s[2]
			tol := 1e-4 // the reference itself loses as much in some gradients: see float32_reference_deviation
			disc := engine.ZOH
			if cfg.Disc == "bilinear" {
				disc = engine.Bilinear
			}
			logDt, re, b := kernelParam(c, "inv_dt", 1), kernelParam(c, "A_real", 1), kernelParam(c, "B", 1)
			im := tensor.New(re.Shape()...)
			if !cfg.Real {
				im = kernelParam(c, "A_imag", -1)
			}
			all, g := c.F32("param/C"), c.F32("G")
			row := len(all) / s[0]
			var dC []float32
			tape := recording() // gradients of shared parameters accumulate on it
			for i := range s[0] {
				tape.Reset()
				ct := leaf(all[i*row:][:row], append([]int{1}, c.Shape("param/C")[1:]...)...)
				p := &engine.DiagParams{LogDt: logDt, InvAReal: re, AImag: im, B: b, C: ct, Disc: disc}
				if cfg.Real {
					p.B, p.C = tape.RealPairs(b), tape.RealPairs(ct)
				}
				k := tape.KernelRows(tape.DiagKernel(tape.DiagSystem(p), l), h)
				golden.Close(t, "K", read(transposeBack(tensor.FromSlice(read(k), l, h), 1)),
					c.F64("out/K")[i*h*l:][:h*l], 1e-5)
				tape.BackwardFrom(k, tensor.FromSlice(read(transpose(g[i*h*l:][:h*l], []int{1, h, l})), k.Shape()...))
				dC = append(dC, gradient(tape, ct)...)
			}
			for name, g := range map[string][]float32{
				"inv_dt": gradient(tape, logDt), "A_real": gradient(tape, re), "B": gradient(tape, b), "C": dC,
			} {
				checkKernelGrad(t, c, name, g, 1, tol)
			}
			if !cfg.Real {
				checkKernelGrad(t, c, "A_imag", gradient(tape, im), -1, tol)
			}
		})
	}
}

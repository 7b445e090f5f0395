package mixer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// fillGolden sets the parameters of m to those of the golden case.
func fillGolden(t *testing.T, c golden.Case, m nn.Module) {
	t.Helper()
	m.Params("", func(name string, p *nn.Param) {
		x := c.F32("param/" + name)
		if len(x) != p.Len() {
			t.Fatalf("%s: golden has shape %v, the mixer %v", name, c.Shape("param/"+name), p.Shape())
		}
		p.CopyFrom(x)
	})
}

func newTape() *autograd.Tape { return autograd.NewTape(cpu.Backend{}) }

func read(x *tensor.Tensor) []float32 {
	out := make([]float32, x.Len())
	x.CopyTo(out)
	return out
}

// leaf returns an input that requires a gradient.
func leaf(x []float32, shape ...int) *tensor.Tensor {
	u := tensor.FromSlice(slices.Clone(x), shape...)
	u.SetNeedsGrad(true)
	return u
}

func recording() *autograd.Tape {
	tape := newTape()
	tape.Record(true)
	return tape
}

// gradient returns a copy of the gradient of x on a tape, or nil if there is none.
func gradient(tape *autograd.Tape, x *tensor.Tensor) []float32 {
	if g := tape.Grad(x); g != nil {
		return read(g)
	}
	return nil
}

func checkGrads(t *testing.T, tape *autograd.Tape, c golden.Case, m nn.Module, tol float64) {
	t.Helper()
	m.Params("", func(name string, p *nn.Param) {
		golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/"+name), tol)
	})
}

type h3Config struct {
	DModel  int `json:"d_model"`
	HeadDim int `json:"head_dim"`
	DState  int `json:"d_state"`
}

func goldenH3(t *testing.T, c golden.Case, order string) *H3 {
	var cfg h3Config
	c.Config(&cfg)
	m, err := H3Info.New(Config{DModel: cfg.DModel, HeadDim: cfg.HeadDim, DState: cfg.DState, HeadOrder: order,
		DtMin: 1e-3,
		DtMax: 0.1, Measure: "diag-lin"})
	if err != nil {
		t.Fatal(err)
	}
	fillGolden(t, c, m)
	return m.(*H3)
}

// TestGoldenH3Layer compares with the official H3 layer: outputs, gradients, states after prefill, and decoding.
func TestGoldenH3Layer(t *testing.T) {
	golden.Of(t, "h3")
	const tol = 1e-4 // of max|y|: the golden file's own float32 tolerance
	golden.Run(t, "04_h3_layer", func(t *testing.T, c golden.Case) {
		m := goldenH3(t, c, "dh")
		s := c.Shape("in/x")
		x, rows := leaf(c.F32("in/x"), s[0]*s[1], s[2]), equalRows(s[0], s[1])
		tape := recording()
		y := m.Forward(tape, x, rows)
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad/in/x"), tol)
		checkGrads(t, tape, c, m, tol)
		if c.Has("out/y_hd_layout") {
			hd := goldenH3(t, c, "hd").Forward(newTape(), x, rows)
			golden.Close(t, "y in (h d) order", read(hd), c.F64("out/y_hd_layout"), tol)
		}

		plain := newTape()
		st := begin(m, s[0])
		st.forward(plain, x)
		checkH3State(t, c, st, m, "out/prefill_state_", s[0])
		next := c.Shape("in/x_next")
		all := c.F32("in/x_next")
		var steps []float32
		for i := range next[1] {
			u := tensor.New(next[0], next[2])
			var one []float32
			for b := range next[0] {
				one = append(one, all[(b*next[1]+i)*next[2]:][:next[2]]...)
			}
			u.CopyFrom(one)
			plain.Reset()
			steps = append(steps, read(st.forward(plain, u))...)
		}
		golden.Close(t, "decoded y", steps, swapBatchTime(c.F64("out/y_steps"), next), tol)
		checkH3State(t, c, st, m, "out/final_state_", s[0])
	})
}

// swapBatchTime converts (b, l, d) to (l, b, d).
func swapBatchTime(x []float64, s []int) []float64 {
	out := make([]float64, 0, len(x))
	for i := range s[1] {
		for b := range s[0] {
			out = append(out, x[(b*s[1]+i)*s[2]:][:s[2]]...)
		}
	}
	return out
}

// checkH3State compares a state with the official one, whose diagonal part is ((b d1 d2), h, n).
func checkH3State(t *testing.T, c golden.Case, st *several, m *H3, prefix string, batch int) {
	t.Helper()
	for name, x := range st.parts() {
		if name == "shift" {
			golden.Close(t, prefix+name, x, c.F64(prefix+"shift"), 1e-4)
			continue
		}
		re, im := c.F64(prefix+"diag_re"), c.F64(prefix+"diag_im")
		pp, n := m.cfg.HeadDim*m.cfg.HeadDim, m.cfg.DState/2
		heads := m.cfg.DModel / m.cfg.HeadDim
		want := make([]float64, len(x))
		for b := range batch {
			for h := range heads {
				for ij := range pp {
					for k := range n {
						from, to := ((b*pp+ij)*heads+h)*n+k, ((b*heads+h)*pp+ij)*n+k
						want[2*to], want[2*to+1] = re[from], im[from]
					}
				}
			}
		}
		golden.Close(t, prefix+name, x, want, 1e-4)
	}
}

// TestGoldenH3Kernels compares with H3's two SSM kernels, with gradients, and with steps and states from a given state.
func TestGoldenH3Kernels(t *testing.T) {
	golden.Run(t, "04_h3_diag_kernel", func(t *testing.T, c golden.Case) {
		s := c.Shape("out/K")
		h, l := s[1], s[2]
		param := func(name string) *tensor.Tensor {
			return leaf(c.F32("param/kernel."+name), c.Shape("param/kernel."+name)...)
		}
		p := &engine.DiagParams{LogDt: param("log_dt"), InvAReal: param("inv_A_real"), AImag: param("A_imag"),
			B: param("B"), C: param("C")}
		tape := recording()
		k := tape.KernelRows(tape.DiagKernel(tape.DiagSystem(p), l), h)
		// Tolerance: the reference itself loses up to 1.4e-5 (float32_reference_deviation).
		golden.Close(t, "K", read(transpose(read(k), []int{1, l, h})), c.F64("out/K"), 1e-5)
		tape.BackwardFrom(k, tensor.FromSlice(read(transpose(c.F32("G"), []int{1, h, l})), k.Shape()...))
		for name, x := range map[string]*tensor.Tensor{"log_dt": p.LogDt, "inv_A_real": p.InvAReal, "A_imag": p.AImag,
			"B": p.B, "C": p.C} {
			golden.Close(t, "gradient of "+name, gradient(tape, x), c.F64("grad/kernel."+name), 2e-5)
		}

		u, skip := transpose(c.F32("in/u"), c.Shape("in/u")), tensor.New(h)
		for _, record := range []bool{false, true} { // stepping or convolving, by length, and always convolving
			tape = newTape()
			tape.Record(record)
			b := c.Shape("in/u")[0]
			next := slots(b, complexTensor(c, "in/state0"))
			y := tape.DiagSSM(engine.Gates{V: u}, tape.DiagSystem(p), skip, engine.EqualRows(b, u.Rows()/b), next)
			golden.Close(t, fmt.Sprint("y from state0, recording ", record), read(transposeBack(y, b)),
				c.F64("out/y_step_from_state0"), 1e-5)
			golden.Close(t, "final state", after(next), interleave(c, "out/state_final"), 1e-5)
		}
	})
	golden.Run(t, "04_shift_kernel", func(t *testing.T, c golden.Case) {
		s := c.Shape("out/K")
		h, l := s[1], s[2]
		bw, cw, skip := leaf(c.F32("param/kernel.B"), c.Shape("param/kernel.B")...),
			leaf(c.F32("param/kernel.C"), c.Shape("param/kernel.C")...), tensor.New(h)
		// The response to an impulse is the kernel, so its gradient for the cotangent G is that of the kernel.
		impulse := tensor.New(l, h)
		x := make([]float32, l*h)
		for i := range h {
			x[i] = 1
		}
		impulse.CopyFrom(x)
		tape := recording()
		y := tape.ShiftSSM(impulse, bw, cw, skip, engine.NewRows(l), nil)
		golden.Close(t, "K", read(transposeBack(y, 1)), c.F64("out/K"), 1e-5)
		tape.BackwardFrom(y, tensor.FromSlice(read(transpose(c.F32("G"), []int{1, h, l})), y.Shape()...))
		golden.Close(t, "gradient of B", gradient(tape, bw), c.F64("grad/kernel.B"), 1e-5)
		golden.Close(t, "gradient of C", gradient(tape, cw), c.F64("grad/kernel.C"), 1e-5)

		b := c.Shape("in/u")[0]
		next := slots(b, leaf(c.F32("in/state0"), c.Shape("in/state0")...))
		u := transpose(c.F32("in/u"), c.Shape("in/u"))
		y = newTape().ShiftSSM(u, bw, cw, skip, engine.EqualRows(b, u.Rows()/b), next)
		golden.Close(t, "y from state0", read(transposeBack(y, b)), c.F64("out/y_step_from_state0"), 1e-5)
		golden.Close(t, "final state", after(next), c.F64("out/state_final"), 1e-5)
	})
}

// transpose converts the official (b, h, l) to (b·l, h).
func transpose(x []float32, s []int) *tensor.Tensor {
	out := make([]float32, len(x))
	for b := range s[0] {
		for h := range s[1] {
			for i := range s[2] {
				out[(b*s[2]+i)*s[1]+h] = x[(b*s[1]+h)*s[2]+i]
			}
		}
	}
	return tensor.FromSlice(out, s[0]*s[2], s[1])
}

// transposeBack converts (b·l, h) to (b·h, l).
func transposeBack(x *tensor.Tensor, b int) *tensor.Tensor {
	return transpose(read(x), []int{b, x.Dim(0) / b, x.Dim(1)}) // swapping the last two axes is its own inverse
}

func interleave(c golden.Case, name string) []float64 {
	re, im := c.F64(name+"_re"), c.F64(name+"_im")
	out := make([]float64, 0, 2*len(re))
	for i := range re {
		out = append(out, re[i], im[i])
	}
	return out
}

func complexTensor(c golden.Case, name string) *tensor.Tensor {
	x := interleave(c, name)
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return tensor.FromSlice(out, append(c.Shape(name+"_re"), 2)...)
}

// TestGoldenS4DLayer compares with the official minimal S4D layer and its gradients. Its input is (b, h, l).
func TestGoldenS4DLayer(t *testing.T) {
	golden.Of(t, "s4d")
	golden.Run(t, "03_s4d_layer", func(t *testing.T, c golden.Case) {
		// Where the reference itself, run in float32, loses more than 1e-5, no better result is required (README of the
		// golden files): its gradient of A_imag is off by 1.5e-4.
		const tol, gradTol = 1e-5, 1.5e-4
		var cfg struct{ H, N int }
		c.Config(&cfg)
		mix, err := S4DInfo.New(Config{DModel: cfg.H, DState: cfg.N, DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin"})
		if err != nil {
			t.Fatal(err)
		}
		m := mix.(*S4D)
		fillGolden(t, c, m)
		x := transpose(c.F32("in/x"), c.Shape("in/x"))
		x.SetNeedsGrad(true)
		tape := recording()
		b, l := c.Shape("in/x")[0], c.Shape("in/x")[2]
		y := m.Forward(tape, x, equalRows(b, l))
		golden.Close(t, "y", read(transposeBack(y, b)), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(read(transpose(c.F32("in/dy"), c.Shape("in/dy"))), y.Shape()...))
		dx := tensor.FromSlice(gradient(tape, x), x.Shape()...)
		golden.Close(t, "gradient of x", read(transposeBack(dx, b)), c.F64("grad/in/x"), tol)
		checkGrads(t, tape, c, m, gradTol)
	})
}

// TestGoldenRotary compares queries and keys with the official rotary embedding, full and partial, with an offset, in
// every case of the file, which is named dim8_offset5_xpos0 and so on. Attention caches the rotated keys. The queries
// are checked through the scores, which values that are one-hot rows read out.
func TestGoldenRotary(t *testing.T) {
	golden.Run(t, "12_rotary", func(t *testing.T, c golden.Case) {
		var cfg struct{ Base float64 }
		c.Config(&cfg)
		s := c.Shape("in/qkv") // (b, l, 3, heads, head_dim)
		b, l, heads, hd := s[0], s[1], s[3], s[4]
		cases := 0
		for _, name := range c.Names() {
			name, ok := strings.CutSuffix(name, "/out")
			if !ok {
				continue
			}
			cases++
			rotary, offset := engine.Rotary{Base: cfg.Base}, 0
			if _, err := fmt.Sscanf(name, "dim%d_offset%d_xpos%g", &rotary.Dim, &offset, &rotary.XPos); err != nil {
				t.Fatalf("case %q: found %v, want dim, offset and xpos with numbers", name, err)
			}
			golden.Close(t, name+"/inv_freq", rotary.InvFreq(), c.F64(name+"/inv_freq"), 1e-6)
			want := c.F64(name + "/out")
			row := func(x []float64, bi, i, three, h int) []float64 { return x[(((bi*l+i)*3+three)*heads+h)*hd:][:hd] }

			caches := make([]*engine.KVCache, b)
			before, rows := &engine.Rows{}, &engine.Rows{}
			for i := range caches {
				caches[i] = &engine.KVCache{}
				before.Add(max(1, offset), 0)
				rows.Add(l, offset)
			}
			tape := newTape()
			opt := engine.AttentionOptions{Heads: heads, Rotary: rotary}
			if offset > 0 {
				tape.Attention(tensor.New(b*offset, 3*heads*hd), before, caches, opt)
			}
			qkv := tensor.FromSlice(c.F32("in/qkv"), b*l, 3*heads*hd)
			y := read(tape.Attention(qkv, rows, caches, opt))
			for bi := range b {
				k, _ := caches[bi].Tensors(offset + l)
				keys := read(k)
				for h := range heads {
					for i := range l {
						got := keys[(h*(offset+l)+offset+i)*hd:][:hd]
						if rotary.XPos > 0 { // official positions are relative to the middle
							for j := range rotary.Dim {
								zeta := (float64(2*(j%(rotary.Dim/2)))/float64(rotary.Dim) + 0.4) / 1.4
								got[j] *= float32(math.Pow(zeta, float64((offset+l)/2)/rotary.XPos))
							}
						}
						golden.Close(t, name+" key", got, row(want, bi, i, 1, h), 1e-5)
						attended := attend(want, row, bi, i, h, offset, hd)
						golden.Close(t, name+" output", y[((bi*l+i)*heads+h)*hd:][:hd], attended, 1e-5)
					}
				}
			}
		}
		if cases == 0 {
			t.Error("no case in the file")
		}
	})
}

// attend computes softmax attention over the official rotated queries and keys. The offset's positions have zero keys
// and values.
func attend(x []float64, row func([]float64, int, int, int, int) []float64, b, i, h, offset, hd int) []float64 {
	out := make([]float64, hd)
	sum := float64(offset) // e^0 each
	for j := range i + 1 {
		w := 0.0
		for k, q := range row(x, b, i, 0, h) {
			w += q * row(x, b, j, 1, h)[k]
		}
		w = math.Exp(w / math.Sqrt(float64(hd)))
		sum += w
		for k, v := range row(x, b, j, 2, h) {
			out[k] += w * v
		}
	}
	for k := range out {
		out[k] /= sum
	}
	return out
}

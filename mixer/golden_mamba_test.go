package mixer

import (
	"slices"
	"strconv"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/tensor"
)

// mambaTol is the float32 tolerance of Mamba's golden files, relative to each tensor's largest element.
const mambaTol = 1e-5

// options returns options of an entry in a list of layers.
func options(values map[string]int) Options {
	o := Options{}
	for name, v := range values {
		o[name] = strconv.Itoa(v)
	}
	return o
}

// TestGoldenMambaBlock compares with the official Mamba block, with gradients, states and decoding.
func TestGoldenMambaBlock(t *testing.T) {
	golden.Of(t, "mamba")
	golden.Run(t, "06_mamba_block", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel int `json:"d_model"`
			DState int `json:"d_state"`
			DConv  int `json:"d_conv"`
			Expand int `json:"expand"`
			DtRank int `json:"dt_rank"`
		}
		c.Config(&cfg)
		m, err := MambaInfo.New(Config{DModel: cfg.DModel, DtMin: 1e-3, DtMax: 0.1, Options: options(map[string]int{
			"d_state": cfg.DState, "d_conv": cfg.DConv, "expand": cfg.Expand, "dt_rank": cfg.DtRank})})
		if err != nil {
			t.Fatal(err)
		}
		checkBlock(t, c, m)
	})
}

// TestGoldenSelectiveScan compares with the official selective scan, real, complex, with groups, and with constant B
// and C, which is a group for each channel.
func TestGoldenSelectiveScan(t *testing.T) {
	golden.Run(t, "06_mamba_scan", func(t *testing.T, c golden.Case) {
		s := c.Shape("in/u") // (b, d, l)
		b, d, l := s[0], s[1], s[2]
		parts, ofA := 1, "in/A" // of a number
		if c.Has("in/A_re") {
			parts, ofA = 2, "in/A_re"
		}
		n := c.Shape(ofA)[1]
		groups, isConst := 1, len(c.Shape("in/B")) == 2
		switch {
		case isConst:
			groups = d
		case len(c.Shape("in/B")) == 4:
			groups = c.Shape("in/B")[1]
		}
		// at returns the index in the file for a part of B or C, given a group and a state at a position.
		at := func(bi, g, i, p, part int) int {
			if isConst {
				return g*n + i
			}
			return (((bi*groups+g)*n+i)*l+p)*parts + part
		}
		each := func(f func(half, to, from int)) {
			for bi := range b {
				for p := range l {
					for half := range 2 {
						for g := range groups {
							for i := range n {
								for part := range parts {
									f(half, ((((bi*l+p)*2+half)*groups+g)*n+i)*parts+part, at(bi, g, i, p, part))
								}
							}
						}
					}
				}
			}
		}
		packed, in := make([]float32, b*l*2*groups*n*parts), [2][]float32{c.F32("in/B"), c.F32("in/C")}
		each(func(half, to, from int) { packed[to] = in[half][from] })

		u, delta, z := transpose(c.F32("in/u"), s), transpose(c.F32("in/delta"), s), transpose(c.F32("in/z"), s)
		for _, x := range []*tensor.Tensor{u, delta, z} {
			x.SetNeedsGrad(true)
		}
		bc := leaf(packed, b*l, 2*groups*n*parts)
		a, skip, bias := aOf(c, d, n, parts), leaf(c.F32("in/D"), d), leaf(c.F32("in/delta_bias"), d)
		same := tensor.New(d, d)
		ones := make([]float32, d*d)
		for i := range d {
			ones[i*d+i] = 1
		}
		same.CopyFrom(ones)

		tape := recording()
		dt := tape.Linear(delta, same, bias, engine.Softplus)
		scan, last := tape.SelectiveScan, slots(b, tensor.New(b, d, n*parts))
		if parts == 2 {
			scan = tape.SelectiveScanComplex
		}
		y := scan(u, dt, a, bc, skip, groups, engine.EqualRows(b, l), last)
		y = tape.Gate(y, z, engine.SiLU)
		golden.Close(t, "y", read(transposeBack(y, b)), c.F64("out/y"), mambaTol)
		golden.Close(t, "last state", after(last), parted(c, "out/last_state", parts), mambaTol)
		tape.BackwardFrom(y, tensor.FromSlice(read(transpose(c.F32("in/dy"), s)), y.Shape()...))
		for name, x := range map[string]*tensor.Tensor{"u": u, "delta": delta, "z": z} {
			dx := tensor.FromSlice(gradient(tape, x), b*l, d)
			golden.Close(t, "gradient of "+name, read(transposeBack(dx, b)), c.F64("grad/in/"+name), mambaTol)
		}
		for name, x := range map[string]*tensor.Tensor{"D": skip, "delta_bias": bias} {
			golden.Close(t, "gradient of "+name, gradient(tape, x), c.F64("grad/in/"+name), mambaTol)
		}
		golden.Close(t, "gradient of A", gradient(tape, a), parted(c, "grad/in/A", parts), mambaTol)
		got := [2][]float32{make([]float32, len(in[0])), make([]float32, len(in[1]))}
		dbc := gradient(tape, bc)
		each(func(half, to, from int) { got[half][from] += dbc[to] })
		golden.Close(t, "gradient of B", got[0], c.F64("grad/in/B"), mambaTol)
		golden.Close(t, "gradient of C", got[1], c.F64("grad/in/C"), mambaTol)
	})
}

// aOf returns A of a case, (d, n) or (d, n, 2).
func aOf(c golden.Case, d, n, parts int) *tensor.Tensor {
	if parts == 1 {
		return leaf(c.F32("in/A"), d, n)
	}
	return leaf(read(complexTensor(c, "in/A")), d, n, parts)
}

// parted returns a tensor of numbers with one part, or with two parts side by side.
func parted(c golden.Case, name string, parts int) []float64 {
	if parts == 2 {
		return interleave(c, name)
	}
	return c.F64(name)
}

// TestGoldenMamba2Block compares with the official Mamba-2 blocks, with groups, either order of norm and gate, and
// without a norm.
func TestGoldenMamba2Block(t *testing.T) {
	golden.Of(t, "mamba2")
	golden.Run(t, "12_mamba2_block", func(t *testing.T, c golden.Case) {
		cfg := struct {
			DModel         int  `json:"d_model"`
			DState         int  `json:"d_state"`
			DConv          int  `json:"d_conv"`
			HeadDim        int  `json:"headdim"`
			Expand         int  `json:"expand"`
			Groups         int  `json:"ngroups"`
			RMSNorm        bool `json:"rmsnorm"`
			NormBeforeGate bool `json:"norm_before_gate"`
		}{Groups: 1, RMSNorm: true}
		c.Config(&cfg)
		o := options(map[string]int{"d_state": cfg.DState, "d_conv": cfg.DConv, "headdim": cfg.HeadDim,
			"expand": cfg.Expand, "ngroups": cfg.Groups})
		o["rmsnorm"], o["norm_before_gate"] = strconv.FormatBool(cfg.RMSNorm), strconv.FormatBool(cfg.NormBeforeGate)
		m, err := Mamba2Info.New(Config{DModel: cfg.DModel, DtMin: 1e-3, DtMax: 0.1, Options: o})
		if err != nil {
			t.Fatal(err)
		}
		checkBlock(t, c, m)
	})
}

// TestGoldenSSD compares with the official minimal SSD, also from a state. Its A is the log decay and its X the input
// times dt. So A is -1 here, dt is the decay, x is its X/dt, and a head is a group.
func TestGoldenSSD(t *testing.T) {
	golden.Run(t, "06_mamba2_ssd", func(t *testing.T, c golden.Case) {
		s := c.Shape("in/X") // (b, l, h, p)
		b, l, h, p := s[0], s[1], s[2], s[3]
		n := c.Shape("in/B")[3]
		x, decay, bb, cc := c.F32("in/X"), c.F32("in/A"), c.F32("in/B"), c.F32("in/C")
		width := h * (p + 2*n)
		packed, dts := make([]float32, b*l*width), make([]float32, b*l*h)
		for r := range b * l {
			for i := range h {
				dt := -decay[r*h+i]
				dts[r*h+i] = dt
				for j := range p {
					packed[r*width+i*p+j] = x[(r*h+i)*p+j] / dt
				}
				copy(packed[r*width+h*p+i*n:], bb[(r*h+i)*n:][:n])
				copy(packed[r*width+h*(p+n)+i*n:], cc[(r*h+i)*n:][:n])
			}
		}
		a := tensor.New(h)
		a.CopyFrom(slices.Repeat([]float32{-1}, h))
		run := func(state *tensor.Tensor,
			record bool) (tape *autograd.Tape, xbc, dt, y *tensor.Tensor, last []float32) {
			tape = newTape()
			tape.Record(record)
			xbc, dt = leaf(packed, b*l, width), leaf(dts, b*l, h)
			s := slots(b, state)
			y = tape.SSD(xbc, dt, a, tensor.New(h), p, h, engine.EqualRows(b, l), s)
			return tape, xbc, dt, y, after(s)
		}
		tape, xbc, dt, y, last := run(tensor.New(b, h, p, n), true)
		golden.Close(t, "y", read(y), c.F64("out/y"), mambaTol)
		golden.Close(t, "final state", last, c.F64("out/final_state"), mambaTol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		dxbc, ddt := gradient(tape, xbc), gradient(tape, dt)
		gradX, gradA := make([]float32, len(x)), make([]float32, len(decay))
		gradB, gradC := make([]float32, len(bb)), make([]float32, len(cc))
		for r := range b * l {
			for i := range h {
				through := 0.0 // part of the gradient of dt that flows through X
				for j := range p {
					g := dxbc[r*width+i*p+j] / dts[r*h+i]
					gradX[(r*h+i)*p+j] = g
					through += float64(g) * float64(packed[r*width+i*p+j])
				}
				gradA[r*h+i] = float32(through - float64(ddt[r*h+i]))
				copy(gradB[(r*h+i)*n:], dxbc[r*width+h*p+i*n:][:n])
				copy(gradC[(r*h+i)*n:], dxbc[r*width+h*(p+n)+i*n:][:n])
			}
		}
		for name, g := range map[string][]float32{"X": gradX, "B": gradB, "C": gradC} {
			golden.Close(t, "gradient of "+name, g, c.F64("grad/in/"+name), mambaTol)
		}
		// the difference of two larger numbers
		golden.Close(t, "gradient of A", gradA, c.F64("grad/in/A"), 5*mambaTol)
		_, _, _, y, last = run(tensor.FromSlice(c.F32("in/state0"), b, h, p, n), false)
		golden.Close(t, "y from a state", read(y), c.F64("out/y_from_state0"), mambaTol)
		golden.Close(t, "final state from a state", last, c.F64("out/final_state_from_state0"), mambaTol)
	})
}

package mixer

import (
	"strconv"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGoldenDSSKernels compares with all kernels of the release and their gradients, including modes that read the
// signal from its end.
func TestGoldenDSSKernels(t *testing.T) {
	golden.Of(t, "dss")
	golden.Run(t, "03_dss", func(t *testing.T, c golden.Case) {
		var cfg struct{ Version string }
		c.Config(&cfg)
		s := c.Shape("out/K")
		h, l := s[1], s[2]
		n := c.Shape("param/W")[2]
		p := &engine.DSSParams{LogDt: kernelParam(c, "log_dt", 1), W: kernelParam(c, "W", 1),
			Scale: dssScales[cfg.Version], L: l, HoldMax: true}
		if c.Has("param/Lambda") {
			all := c.F32("param/Lambda")
			p.Re, p.Im = leaf(every(all, 2, 0), n), leaf(every(all, 2, 1), n)
		} else {
			p.Re, p.Im, p.LogNegRe = kernelParam(c, "Lambda_log_neg_re", 1), kernelParam(c, "Lambda_im", 1), true
		}
		tape := recording()
		k := tape.KernelRows(tape.DSSKernel(p, l), h)
		const tol = 1e-4 // the golden file's own float32 tolerance
		gradTol := tol
		if l > 64 {
			gradTol = 2.3e-3 // the reference loses as much in float32: dt and Λ are multiplied by a thousand steps
		}
		golden.Close(t, "K", read(transposeBack(tensor.FromSlice(read(k), l, h), 1)), c.F64("out/K"), tol)
		tape.BackwardFrom(k, tensor.FromSlice(read(transpose(c.F32("G"), s)), k.Shape()...))
		checkKernelGrad(t, c, "log_dt", gradient(tape, p.LogDt), 1, gradTol)
		checkKernelGrad(t, c, "W", gradient(tape, p.W), 1, gradTol)
		if !c.Has("param/Lambda") {
			checkKernelGrad(t, c, "Lambda_log_neg_re", gradient(tape, p.Re), 1, gradTol)
			checkKernelGrad(t, c, "Lambda_im", gradient(tape, p.Im), 1, gradTol)
			return
		}
		dRe, dIm := gradient(tape, p.Re), gradient(tape, p.Im)
		both := make([]float32, 0, 2*n)
		for i := range n {
			both = append(both, dRe[i], dIm[i])
		}
		checkKernelGrad(t, c, "Lambda", both, 1, gradTol)
	})
}

// every returns each step-th element, starting at index at.
func every(x []float32, step, at int) (out []float32) {
	for i := at; i < len(x); i += step {
		out = append(out, x[i])
	}
	return out
}

// TestGoldenGSSLayer compares with the gated layer of the S4 repository.
func TestGoldenGSSLayer(t *testing.T) {
	golden.Of(t, "gss")
	golden.Run(t, "11_s4_layer_gss", checkGSSLayer)
}

// checkGSSLayer checks y and the gradients of the gated layer.
func checkGSSLayer(t *testing.T, c golden.Case) {
	var cfg struct {
		DModel           int `json:"d_model"`
		DState           int `json:"d_state"`
		Gate, Bottleneck int
	}
	c.Config(&cfg)
	m, err := GSSInfo.New(Config{DModel: cfg.DModel, DState: cfg.DState, Measure: "diag-lin",
		Options: Options{"gate": strconv.Itoa(cfg.Gate), "bottleneck": strconv.Itoa(cfg.Bottleneck)}})
	if err != nil {
		t.Fatal(err)
	}
	checkLayer(t, c, m, same, 1e-4, 1e-4)
}

// TestGoldenGSSKernel compares with the third-party layer around the paper's kernel, DSS with dt = 1, composed of the
// same operations:
//
//	y = x + W_o( W_g ssm(norm(gelu(W_v z))) ⊙ gelu(W_u z) ),  z = norm(x)
func TestGoldenGSSKernel(t *testing.T) {
	golden.Run(t, "06_gss", func(t *testing.T, c golden.Case) {
		var cfg struct {
			ImagExp bool `json:"dss_kernel_lambda_imag_exp"` // Λ has e^Lambda_imag
		}
		c.Config(&cfg)
		leaves := map[string]*tensor.Tensor{}
		param := func(name string) *tensor.Tensor {
			leaves[name] = kernelParam(c, name, 1)
			return leaves[name]
		}
		tape := recording()
		s := c.Shape("in/x")
		x := leaf(c.F32("in/x"), s[0]*s[1], s[2])
		_, z := tape.AddLayerNorm(x, nil, param("norm.weight"), param("norm.bias"), 1e-5)
		u := tape.Linear(z, param("to_u.0.weight"), nil, engine.None)
		v := tape.Linear(z, param("to_v.0.weight"), nil, engine.GeluErf)
		_, v = tape.AddLayerNorm(v, nil, param("dss.norm.weight"), param("dss.norm.bias"), 1e-5)

		re, im := param("dss.C_real"), param("dss.C_imag")
		w := tape.Add(tape.RealPairs(re), swapPairs(tape, tape.RealPairs(im)))
		p := &engine.DSSParams{Re: param("dss.Lambda_real"), Im: param("dss.Lambda_imag"), W: w, LogNegRe: true,
			LogIm: cfg.ImagExp, Scale: engine.DSSExp}
		v = tape.DiagSSM(engine.Gates{V: v}, tape.DSSSystem(p), param("dss.param_D"), engine.EqualRows(s[0], s[1]), nil)

		v = tape.Gate(tape.Linear(v, param("to_gate.weight"), nil, engine.None), u, engine.GeluErf)
		y := tape.Add(x, tape.Linear(v, param("to_out.weight"), param("to_out.bias"), engine.None))
		const tol = 1e-4 // the golden file's own float32 tolerance
		golden.Close(t, "y", read(y), c.F64("out/y"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad/in/x"), tol)
		for name, p := range leaves {
			checkKernelGrad(t, c, name, gradient(tape, p), 1, tol)
		}
	})
}

// swapPairs converts pairs (x, 0) to (0, x).
func swapPairs(tape *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	return tape.Linear(x, tensor.FromSlice([]float32{0, 1, 1, 0}, 2, 2), nil, engine.None)
}

package autograd

import (
	"math"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/tensor"
)

// DSSScale is what the weights W of DSS stand for.
type DSSScale int

// The three kernels of the release.
const (
	DSSPlain   DSSScale = iota // K_k = Re Σ_i W_i exp(z_i k)
	DSSExp                     // W_i times (exp(z_i) - 1)/Λ_i: zero-order hold with B = 1
	DSSSoftmax                 // W_i/Λ_i times the softmax of z_i k over k < L
)

// DSSParams are the parameters of h channels of diagonal state spaces (Gupta et al., arXiv:2203.14343), which have n complex
// modes Λ in common, without conjugates:
//
//	z_i = dt_re·Re Λ_i + i·dt_im·Im Λ_i,  dt = exp(LogDt)
//
// Re, Im (n), LogDt (h, 2) or nil for dt = 1, W (h, n, 2). Re Λ is Re, or -exp(Re) if LogNegRe is set; Im Λ is Im, or exp(Im) if
// LogIm is set. With dt = 1 and both set this is GSS (arXiv:2206.13947, §3.2). The system is kept while the parameters stay
// as they are.
type DSSParams struct {
	Re, Im, LogDt, W *tensor.Tensor
	LogNegRe, LogIm  bool
	Scale            DSSScale
	L                int // of the softmax
	// HoldMax takes what the softmax subtracts from the exponents of a mode with Re Λ > 0, z·(L-1), for a constant in the
	// backward. That is not the gradient, but what the release trains with.
	HoldMax bool

	cached [2]atomic.Pointer[cachedDSS]
}

type cachedDSS struct {
	versions [4]uint64
	params   *DiagParams
}

// DSSSystem is the diagonal system with the kernel of p, for all modes with Re Λ < 0: others have none that runs forwards.
func (t *Tape) DSSSystem(p *DSSParams) *DiagSystem { return t.DiagSystem(t.dssParams(p, false)) }

// DSSKernel generates the kernels K of p, in tiles (⌈h/16⌉, L, 16). With the softmax modes with Re Λ > 0 are allowed: they read the other end of the
// signal.
func (t *Tape) DSSKernel(p *DSSParams, l int) *tensor.Tensor {
	k := t.DiagKernel(t.DSSSystem(p), l)
	if p.LogNegRe {
		return k
	}
	if p.Scale != DSSSoftmax || l != p.L {
		shapePanic("DSSKernel", p.Re, p.W)
	}
	return t.Add(k, t.Reverse(t.DiagKernel(t.DiagSystem(t.dssParams(p, true)), l), 0))
}

// dssParams are the parameters of the diagonal system with the kernel of p, sampled by zero-order hold with dt = B = 1:
// A = z and 2 C (exp(z) - 1)/z = w, w being W as it is scaled. Mirrored, it has the modes with Re Λ > 0, as -z, backwards in time.
func (t *Tape) dssParams(p *DSSParams, mirrored bool) *DiagParams {
	n := p.Re.Len()
	h := p.W.Len() / (2 * n)
	if p.Im.Len() != n || p.W.Len() != 2*h*n || p.LogDt != nil && p.LogDt.Len() != 2*h || p.Scale == DSSSoftmax && p.L < 1 {
		shapePanic("DSS", p.Re, p.Im, p.LogDt, p.W)
	}
	record := t.wants(p.Re, p.Im, p.LogDt, p.W)
	var versions [4]uint64
	cached := &p.cached[0]
	if mirrored {
		cached = &p.cached[1]
	}
	if !record {
		for i, x := range p.tensors() {
			if x != nil {
				versions[i] = x.Version()
			}
		}
		if c := cached.Load(); c != nil && c.versions == versions {
			return c.params
		}
	}
	alloc := tensor.New
	if record {
		alloc = t.New
	}
	d := &DiagParams{LogDt: alloc(h), InvAReal: alloc(h, n), AImag: alloc(h, n), C: alloc(h, n, 2), Disc: ZOH}
	d.LogDt.Zero()
	op := dssOp{p: p, d: d, mirrored: mirrored}
	for i := range h * n {
		m := op.mode(i)
		d.InvAReal.Data()[i], d.AImag.Data()[i] = float32(math.Log(-real(m.z))), float32(imag(m.z))
		setPair(d.C.Data(), i, m.w*m.phi/2)
	}
	if !record {
		cached.Store(&cachedDSS{versions, d})
		return d
	}
	o := take[dssOp](t)
	*o = op
	t.push(o)
	return d
}

func (p *DSSParams) tensors() [4]*tensor.Tensor { return [4]*tensor.Tensor{p.Re, p.Im, p.LogDt, p.W} }

package cpu

import (
	"math"
	"math/cmplx"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// dplrSystem is this engine's form of an engine.DPLRSystem. Slices have h·n elements, and so has each p[r].
type dplrSystem struct {
	engine.DPLRSystem
	ct       []complex128
	dct      []complex128
	wantGrad bool
	lowRank  // λ, b and p
	grad     lowRank
	all, dp  []complex128 // the p of all ranks side by side, and their gradients
	store    [4]complexes // the storage of the tensors Lambda, B, P and Ct
	steps    dplrSteps
	given    atomic.Pointer[tensor.Tensor] // the last kernels computed for a system without gradients
}

// publish creates the tensors of the engine.DPLRSystem, over the memory of s.
func (s *dplrSystem) publish() {
	s.Private = s
	for i, part := range []struct {
		x       **tensor.Tensor
		v, grad []complex128
	}{{&s.Lambda, s.lambda, s.grad.lambda}, {&s.B, s.b, s.grad.b}, {&s.P, s.all, s.dp}, {&s.Ct, s.ct, s.dct}} {
		s.store[i] = complexes{x: part.v}
		if s.wantGrad {
			s.store[i].grad = part.grad
		}
		switch x := *part.x; {
		case len(part.v) == 0:
			*part.x = nil
			continue
		case x == nil || x.Len() != 2*len(part.v) || x.Dim(-3) != s.H:
			if *part.x = tensor.Shaped(s.H, s.N, 2); i == 2 {
				*part.x = tensor.Shaped(s.Rank, s.H, s.N, 2)
			}
		}
		(*part.x).SetStorage(&s.store[i])
	}
}

// dplrOf returns this engine's form of a system.
func dplrOf(s *engine.DPLRSystem) *dplrSystem { return s.Private.(*dplrSystem) }

// lowRank holds λ, b and p, or their gradients.
type lowRank struct {
	lambda, b []complex128
	p         [engine.MaxRank][]complex128
}

// DPLRSystem computes λ, b and p in float64. Unless gradients are wanted, it caches the result with the parameters.
func (eng *Engine) DPLRSystem(p *engine.DPLRParams) *engine.DPLRSystem {
	h, rank := p.LogDt.Len(), p.Rank()
	n := p.InvAReal.Len() / h
	params := p.Tensors()
	if !eng.wants(params[:]...) {
		if s, ok := p.Cache.Load(kind, params[:]...).(*dplrSystem); ok {
			return &s.DPLRSystem
		}
		s := &dplrSystem{}
		s.scale(p, h, n, rank)
		s.publish()
		p.Cache.Store(kind, s, params[:]...)
		return &s.DPLRSystem
	}
	op := take[dplrSystemOp](eng)
	op.params = p
	s := &op.sys
	s.scale(p, h, n, rank)
	s.wantGrad = true
	s.dp = resize(s.dp, rank*h*n)
	clear(s.dp)
	for r := range rank {
		s.grad.p[r] = s.dp[r*h*n:][:h*n]
	}
	for _, g := range []*[]complex128{&s.grad.lambda, &s.grad.b, &s.dct} {
		*g = resize(*g, h*n)
		clear(*g)
	}
	s.publish()
	eng.push("DPLRSystem", op, s.Lambda, s.B, s.P, s.Ct)
	return &s.DPLRSystem
}

func (s *dplrSystem) scale(p *engine.DPLRParams, h, n, rank int) {
	s.H, s.N, s.L, s.Rank, s.wantGrad = h, n, p.L, rank, false
	s.steps.ready.Store(false)
	s.given.Store(nil)
	for _, x := range []*[]complex128{&s.lambda, &s.b, &s.ct} {
		*x = resize(*x, h*n)
	}
	s.all = resize(s.all, rank*h*n)
	for r := range rank {
		s.p[r] = s.all[r*h*n:][:h*n]
	}
	parallel.For(h, 16, func(lo, hi int) {
		for i := lo * n; i < hi*n; i++ {
			half := math.Exp(float64(p.LogDt.Data()[i/n])) / 2
			s.lambda[i] = complex(-half*math.Exp(float64(p.InvAReal.Data()[i])), half*float64(p.AImag.Data()[i]))
			s.b[i] = pair(p.B.Data(), i) * complex(half, 0)
			s.ct[i] = pair(p.Ct.Data(), i)
			for r := range rank {
				s.p[r][i] = pair(p.P.Data(), r*h*n+i) * complex(math.Sqrt(half), 0)
			}
		}
	})
}

// channel returns the part of channel h of x.
func (x *lowRank) channel(h, n, rank int) (c lowRank) {
	c.lambda, c.b = x.lambda[h*n:][:n], x.b[h*n:][:n]
	for r := range rank {
		c.p[r] = x.p[r][h*n:][:n]
	}
	return c
}

// inner returns Re Σ conj(x)·y, the inner product of two halves of states as real vectors.
func inner(x, y []complex128) (sum float64) {
	y = y[:len(x)]
	for i, v := range x {
		sum += real(v)*real(y[i]) + imag(v)*imag(y[i])
	}
	return sum
}

// apply sets y to (I + A)x, or to its transpose as a real matrix.
func (c *lowRank) apply(y, x []complex128, rank int, transposed bool) {
	for i, v := range x {
		lambda := c.lambda[i]
		if transposed {
			lambda = cmplx.Conj(lambda)
		}
		y[i] = v + lambda*v
	}
	for r := range rank {
		q := complex(2*inner(c.p[r], x), 0)
		for i, p := range c.p[r] {
			y[i] -= p * q
		}
	}
}

// bilinearGrad adds to g the gradients of λ and p in y = scale·A x, where dy is the gradient of y.
func (c *lowRank) bilinearGrad(g *lowRank, dy, x []complex128, rank int, scale float64) {
	for i, d := range dy {
		g.lambda[i] += complex(scale, 0) * cmplx.Conj(x[i]) * d
	}
	for r := range rank {
		px, pd := complex(2*scale*inner(c.p[r], x), 0), complex(2*scale*inner(c.p[r], dy), 0)
		for i, d := range dy {
			g.p[r][i] -= d*px + pd*x[i]
		}
	}
}

type dplrSystemOp struct {
	params *engine.DPLRParams
	sys    dplrSystem
}

// Backward propagates the gradients, to which all users of the system have added, to the parameters.
func (o *dplrSystemOp) Backward(eng *Engine) {
	p, s := o.params, &o.sys
	var g [6][]float32
	for i, x := range p.Tensors() {
		g[i] = eng.gradOf(x)
	}
	dLogDt, dInvA, dAImag, dB, dCt, dP := g[0], g[1], g[2], g[3], g[4], g[5]
	parallel.For(s.H, 16, func(lo, hi int) {
		for h := lo; h < hi; h++ {
			half := math.Exp(float64(p.LogDt.Data()[h])) / 2
			root, at := math.Sqrt(half), h*s.N
			c, d := s.channel(h, s.N, s.Rank), s.grad.channel(h, s.N, s.Rank)
			for i, dl := range d.lambda {
				if dInvA != nil {
					dInvA[at+i] += float32(real(dl) * real(c.lambda[i]))
				}
				if dAImag != nil {
					dAImag[at+i] += float32(imag(dl) * half)
				}
				addPair(dB, at+i, d.b[i]*complex(half, 0))
				addPair(dCt, at+i, s.dct[at+i])
				for r := range s.Rank {
					addPair(dP, r*s.H*s.N+at+i, d.p[r][i]*complex(root, 0))
				}
			}
			if dLogDt != nil {
				sum := inner(d.lambda, c.lambda) + inner(d.b, c.b)
				for r := range s.Rank {
					sum += inner(d.p[r], c.p[r]) / 2
				}
				dLogDt[h] += float32(sum)
			}
		}
	})
}

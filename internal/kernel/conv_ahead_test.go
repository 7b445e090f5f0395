package kernel

import (
	"math/rand/v2"
	"testing"
)

// TestConvBothWays checks, at every level, that a kernel that also looks ahead adds the sum over later positions, and
// that its gradient is the sum of products.
func TestConvBothWays(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 1))
		for _, l := range convLengths(5000) {
			p := NewConvPlan(l)
			n, v := p.N(), l%Lanes
			x, k, a, dy := normals(rng, l*Lanes), normals(rng, l*Lanes), normals(rng, l*Lanes), normals(rng, l*Lanes)
			turned := make([]float32, n*Lanes)
			for j := range l - 1 {
				copy(turned[(n-1-j)*Lanes:], a[j*Lanes:][:Lanes])
			}
			khat, u, y := spectrumOf(p, k), spectrumOf(p, x), make([]float32, l*Lanes)
			p.AddAhead(khat, spectrumOf(p, turned))
			p.Convolve(u, khat, true)
			p.End(to{Rows{y, Lanes}, Written}, l, u, Spectrum{})
			lx, la, ldy := lane(x, v), lane(a, v), lane(dy, v)
			want, wantA := directConv(lx, lane(k, v)), make([]float64, l)
			for j := range l - 1 {
				for t := range l - 1 - j {
					want[t] += la[j] * lx[t+1+j]
					wantA[j] += ldy[t] * lx[t+1+j]
				}
			}
			both := append(lane(k, v), la...)
			compareLane(t, "y", y, v, want, lx, both, n)

			dr, da := spectrumOf(p, x), make([]float32, n*Lanes)
			sum := spectrumOf(p, x)
			p.Transpose(spectrumOf(p, dy), sum, khat, sum, Transposed{First: true, Ready: true, Last: true})
			p.GradAhead(dr, sum)
			p.End(to{Rows{da, Lanes}, Written}, n, dr, Spectrum{})
			got := make([]float32, l*Lanes)
			for j := range l - 1 {
				copy(got[j*Lanes:], da[(n-1-j)*Lanes:][:Lanes])
			}
			compareLane(t, "da", got, v, wantA, lx, ldy, n)
		}
	})
}

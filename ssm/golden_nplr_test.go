package ssm

import (
	"math"
	"math/cmplx"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

const tolNPLR = 1e-9

// TestGoldenNPLR compares NPLR with the reference. Eigenvectors are defined up to a phase each. |P|, |B| and B conj(P)
// do not depend on it. The other values are compared after ours are rotated by the phase between ours and theirs.
func TestGoldenNPLR(t *testing.T) {
	golden.Run(t, "01_nplr", func(t *testing.T, c golden.Case) {
		compared := 0
		for _, name := range c.Names() { // measure/n/w_re
			base, found := strings.CutSuffix(name, "/w_re")
			if !found {
				continue
			}
			measure, size, _ := strings.Cut(base, "/")
			n, err := strconv.Atoi(size)
			check(t, err)
			s, v, err := NPLR(measure, n)
			check(t, err)
			low, err := LowRank(measure, n)
			check(t, err)
			for len(low) < c.Shape(base + "/P_real")[0] { // the reference fills up with rows of zeros
				low, s.P = append(low, make([]float64, n)), append(s.P, make([]complex128, n/2))
			}
			var absP, crossed []float64
			for _, p := range s.P {
				for k, pk := range p {
					absP = append(absP, cmplx.Abs(pk))
					crossed = append(crossed, ReIm([]complex128{s.B[k] * cmplx.Conj(pk)})...)
				}
			}
			absB := make([]float64, n/2)
			for k, b := range s.B {
				absB[k] = cmplx.Abs(b)
			}
			golden.Close(t, base+"/w", ReIm(s.Lambda), ReIm(complexes(c, base+"/w")), tolNPLR)
			golden.Close(t, base+"/P_real", flat(low), c.F64(base+"/P_real"), tolNPLR)
			golden.Close(t, base+"/inv/absB", absB, c.F64(base+"/inv/absB"), tolNPLR)
			golden.Close(t, base+"/inv/absP", absP, c.F64(base+"/inv/absP"), tolNPLR)
			golden.Close(t, base+"/inv/BconjP", crossed, ReIm(complexes(c, base+"/inv/BconjP")), tolNPLR)

			turned := make([][]complex128, len(s.P)+2) // rows of P, B, and B as the release clips it
			theirs := complexes(c, base+"/V")
			var vectors, wantVectors []complex128
			for k, own := range v {
				var phase complex128
				for i, x := range own {
					phase += cmplx.Conj(x) * theirs[i*n/2+k]
				}
				if d := cmplx.Abs(phase) - 1; math.Abs(d) > tolNPLR {
					if s.Lambda[k] == 0 || measure == "fout" && k == n/2-1 {
						continue // the reference has a vector of its own for fout's eigenvalue 0
					}
					t.Errorf("%s: eigenvector %d is another", base, k)
				}
				for i, x := range own {
					vectors, wantVectors = append(vectors, x*phase), append(wantVectors, theirs[i*n/2+k])
				}
				for r, p := range s.P {
					turned[r] = append(turned[r], p[k]*cmplx.Conj(phase))
				}
				b := s.B[k] * cmplx.Conj(phase)
				turned[len(s.P)] = append(turned[len(s.P)], b)
				turned[len(s.P)+1] = append(turned[len(s.P)+1], complex(real(b), min(2, max(-2, imag(b)))))
			}
			golden.Close(t, base+"/V", ReIm(vectors), ReIm(wantVectors), tolNPLR)
			modes := len(turned[0])
			var wantP []complex128
			for r := range s.P {
				wantP = append(wantP, row(complexes(c, base+"/P"), r, n/2)[:modes]...)
			}
			golden.Close(t, base+"/P", ReIm(flat(turned[:len(s.P)])), ReIm(wantP), tolNPLR)
			golden.Close(t, base+"/B", ReIm(turned[len(s.P)]), ReIm(complexes(c, base+"/B")[:modes]), tolNPLR)
			golden.Close(t, base+"/B_clipped", ReIm(turned[len(s.P)+1]),
				ReIm(complexes(c, base+"/B_clipped")[:modes]), tolNPLR)

			a, _, err := HiPPO(measure, n)
			check(t, err)
			golden.Close(t, base+"/A from its parts", composed(s, v, low).RawMatrix().Data, a.RawMatrix().Data, tolNPLR)
			compared++
		}
		if compared == 0 {
			t.Error("no tensor is named measure/n/w_re")
		}
	})
}

// composed returns 2 Re(V Λ V^H) - Σ P Pᵀ.
func composed(s *DPLR, v [][]complex128, low [][]float64) *mat.Dense {
	n := len(v[0])
	a := mat.NewDense(n, n, nil)
	for i := range n {
		for j := range n {
			var sum complex128
			for k, lambda := range s.Lambda {
				sum += v[k][i] * lambda * cmplx.Conj(v[k][j])
			}
			a.Set(i, j, 2*real(sum))
		}
	}
	for _, p := range low {
		a.RankOne(a, -1, mat.NewVecDense(n, p), mat.NewVecDense(n, p))
	}
	return a
}

package kernel

import (
	"math"
	"math/big"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// near reports whether got is within a few rounding errors of want.
func near(got, want complex128, size float64) bool {
	return cmplx.Abs(got-want) <= 2e-15*size || cmplx.IsNaN(got) && cmplx.IsNaN(want)
}

// TestNegExp checks that the error is a rounding or two, and that results beyond float64 are limited to its bounds.
func TestNegExp(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(1, 6))
		x := make([]float64, 1<<12)
		for i := range x {
			x[i] = 20 * rng.NormFloat64() * math.Pow(2, float64(rng.IntN(6)))
		}
		copy(x, []float64{0, -1e30, 1e30, math.Inf(-1), math.NaN(), 700, -700})
		got := append([]float64{}, x...)
		NegExp(got)
		for i, x := range x {
			want := -math.Exp(min(max(x, -708), 709))
			if x > 709 || x < -708 {
				if !(got[i] <= want || got[i] >= want && got[i] <= 0) {
					t.Errorf("-e^%v = %v", x, got[i])
				}
			} else if !(math.Abs(got[i]-want) <= 4e-16*math.Abs(want)) && !(math.IsNaN(x) && math.IsNaN(got[i])) {
				t.Errorf("-e^%v = %v, want %v", x, got[i], want)
			}
		}
	})
}

// TestDiscretize checks the kernels against the formulas in complex128, at small and large angles.
func TestDiscretize(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(2, 6))
		for round := range 200 {
			n := ModeLanes * (1 + round%3)
			dt := math.Exp(-7 + 5*rng.Float64())
			a, b, da, db := make(Modes, 2*n), make(Modes, 2*n), make(Modes, 2*n), make(Modes, 2*n)
			for i := range n {
				a.set(i, complex(-math.Exp(2*rng.NormFloat64()), 30*rng.NormFloat64()*math.Pow(10, float64(round%5))))
				for _, x := range []Modes{b, da, db} {
					x.set(i, complex(rng.NormFloat64(), rng.NormFloat64()))
				}
			}
			abar, bbar, ga, gb, ddt := make(Modes, 2*n), make(Modes, 2*n), make(Modes, 2*n),
				make(Modes, 2*n), make([]float64, n)
			step := complex(dt, 0)
			check := func(what string, i int, got, want complex128, size float64) {
				if !near(got, want, size) {
					t.Errorf("%s of A=%v dt=%v: %v, want %v", what, a.at(i), dt, got, want)
				}
			}
			d := Discretization{A: a, B: b, Dt: dt, Abar: abar, Bbar: bbar}
			grad := DiscretizationGrad{A: ga, B: gb, Dt: ddt, Abar: da, Bbar: db}
			d.Bilinear()
			d.BilinearGrad(&grad)
			for i := range n {
				den := 1 - step*a.at(i)/2
				check("Ābar", i, abar.at(i), (1+step*a.at(i)/2)/den, 1)
				check("B̄", i, bbar.at(i), b.at(i)*step/den, cmplx.Abs(b.at(i)*step/den))
				dz := da.at(i)*cmplx.Conj(1/(den*den)) + db.at(i)*cmplx.Conj(b.at(i)*step/2/(den*den))
				size := cmplx.Abs(da.at(i)/(den*den)) + cmplx.Abs(db.at(i)*b.at(i)*step/2/(den*den))
				check("dA", i, ga.at(i), dz*step, size*dt)
				check("dB", i, gb.at(i), db.at(i)*cmplx.Conj(step/den), cmplx.Abs(db.at(i)*step/den))
				want := realConj(dz, a.at(i)) + realConj(db.at(i), b.at(i)/den)
				check("ddt", i, complex(ddt[i], 0), complex(want, 0),
					size*cmplx.Abs(a.at(i))+cmplx.Abs(db.at(i)*b.at(i)/den))
			}
			d.ZOH()
			d.ZOHGrad(&grad)
			for i := range n {
				e := expZ(dt, a.at(i))
				check("exp", i, abar.at(i), e, 1)
				over := (e - 1) / a.at(i)
				size := 1 / cmplx.Abs(a.at(i)) // e - 1 cancels
				check("B̄", i, bbar.at(i), b.at(i)*over, size*cmplx.Abs(b.at(i)))
				dz := da.at(i)*cmplx.Conj(e) + db.at(i)*cmplx.Conj(b.at(i)/a.at(i)*e)
				sizeZ := cmplx.Abs(da.at(i)) + cmplx.Abs(db.at(i)*b.at(i)/a.at(i))
				check("dA", i, ga.at(i), dz*step-db.at(i)*cmplx.Conj(b.at(i)*over/a.at(i)), sizeZ*(dt+size))
				check("dB", i, gb.at(i), db.at(i)*cmplx.Conj(over), size*cmplx.Abs(db.at(i)))
				check("ddt", i, complex(ddt[i], 0), complex(realConj(dz, a.at(i)), 0), sizeZ*cmplx.Abs(a.at(i)))
			}
		}
	})
}

// expZ returns exp(dt·a) with the angle dt·Im a, rounded as in the kernels, reduced by 2π in 200 bits.
func expZ(dt float64, a complex128) complex128 {
	x := new(big.Float).SetPrec(200).SetFloat64(dt * imag(a))
	turn, _, err := big.ParseFloat("6.28318530717958647692528676655900576839433879875021164194988918",
		10, 200, big.ToNearestEven)
	if err != nil {
		panic(err) // it is a number
	}
	turns, _ := new(big.Float).Quo(x, turn).Int(nil)
	x.Sub(x, new(big.Float).SetPrec(200).Mul(turn, new(big.Float).SetInt(turns)))
	angle, _ := x.Float64()
	return cmplx.Rect(math.Exp(dt*real(a)), angle)
}

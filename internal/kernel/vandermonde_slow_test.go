package kernel

import (
	"math"
	"math/cmplx"
	"math/rand/v2"
	"testing"
)

// slowGroups returns groups of modes, c normal and z = e^λ with |Im λ| up to turn[g] and -Re λ up to decay[g].
func slowGroups(rng *rand.Rand, turn, decay []float64) (c, z []complex128) {
	for g := range turn {
		for range ModeLanes {
			c = append(c, complex(rng.NormFloat64(), rng.NormFloat64()))
			z = append(z, cmplx.Exp(complex(-decay[g]*rng.Float64(), turn[g]*(2*rng.Float64()-1))))
		}
	}
	return c, z
}

// slowCases lists modes by groups: how far they turn and how fast they decay.
var slowCases = []struct {
	name        string
	turn, decay []float64
	halvings    int // of the slowest
}{
	{"fast", []float64{3}, []float64{1e-3}, 0},
	{"at half", []float64{0.67}, []float64{0.02}, 1},
	{"at a quarter", []float64{0.33}, []float64{1e-3}, 2},
	{"at an 8th", []float64{0.165}, []float64{1e-4}, 3},
	{"at a 16th", []float64{0.08}, []float64{1e-3}, 4},
	{"real", []float64{0}, []float64{3e-3}, 4},
	{"alike", []float64{0.16, 0.16}, []float64{1e-3, 1e-3}, 3},
	{"two speeds", []float64{0.16, 0.6}, []float64{1e-3, 1e-3}, 3},
	{"three speeds", []float64{3, 0.08, 0.3}, []float64{0.05, 1e-3, 1e-3}, 4},
	{"dying at two speeds", []float64{3, 3, 0.3}, []float64{0.2, 1e-4, 0.01}, 2},
	{"turning slowly, dying fast", []float64{0.01}, []float64{1}, 0},
}

// TestVandermondeOfSlowModes checks that values computed at only some positions are as exact as the rest, with some
// modes 0.
func TestVandermondeOfSlowModes(t *testing.T) { atLevels(t, testVandermondeOfSlowModes) }

func testVandermondeOfSlowModes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var v Vandermonde
	for _, g := range slowCases {
		for _, l := range []int{1, 40, 127, 128, 500, 1024, 1025, 2047, 4098, 8191} {
			c, z := slowGroups(rng, g.turn, g.decay)
			z[3], z[len(z)-1] = 0, 0
			zm, cm := asModes(z), asModes(c)
			poison(&v)
			v.Set(zm, l)
			if l == 8191 && v.top() != g.halvings {
				t.Errorf("%s: %d halvings, want %d", g.name, v.top(), g.halvings)
			}
			k, padded := make([]float32, l), make([]float32, l+VandermondePad)
			v.Apply(k, cm)
			v.Apply(padded, cm)
			dk := normals(rng, l)
			s, ds := make(Modes, len(zm)), make(Modes, len(zm))
			v.Sums(s, ds, dk)
			want := directSums(c, z, dk)
			for at := range l {
				if !(math.Abs(float64(k[at])-want.k[at]) <= 1e-6*want.size[at]+float64(len(z))*4*negligible) ||
					padded[at] != k[at] {
					t.Fatalf("%s, l=%d: k[%d] = %v, with room %v, want %v of %v", g.name, l, at, k[at],
						padded[at], want.k[at], want.size[at])
				}
			}
			for m := range z {
				if e := cmplx.Abs(s.at(m) - want.s[m]); !(e <= 5e-7*want.sizeS[m]) {
					t.Errorf("%s, l=%d: s[%d] = %v, want %v of %v", g.name, l, m, s.at(m), want.s[m], want.sizeS[m])
				}
				if e := cmplx.Abs(ds.at(m) - want.ds[m]); !(e <= 5e-7*want.sizeDs[m]) {
					t.Errorf("%s, l=%d: ds[%d] = %v, want %v of %v", g.name, l, m, ds.at(m), want.ds[m], want.sizeDs[m])
				}
			}
		}
	}
}

// vandermondeSums holds the kernel and both sums by definition, each with the sum of the magnitudes of its terms.
type vandermondeSums struct {
	k, size, sizeS, sizeDs []float64
	s, ds                  []complex128
}

// directSums computes vandermondeSums by stepping in float64.
func directSums(c, z []complex128, dk []float32) vandermondeSums {
	w := vandermondeSums{k: make([]float64, len(dk)), size: make([]float64, len(dk))}
	for m, z := range z {
		var s, ds complex128
		sizeS, sizeDs := 1.0, 1.0
		power, before := complex(1, 0), complex(0, 0)
		for at, d := range dk {
			w.k[at] += real(c[m] * power)
			w.size[at] += cmplx.Abs(c[m] * power)
			x, y := complex(float64(d), 0)*power, complex(float64(d)*float64(at), 0)*before
			s, ds = s+x, ds+y
			sizeS, sizeDs = sizeS+cmplx.Abs(x), sizeDs+cmplx.Abs(y)
			before, power = power, power*z
		}
		w.s, w.ds = append(w.s, s), append(w.ds, ds)
		w.sizeS, w.sizeDs = append(w.sizeS, sizeS), append(w.sizeDs, sizeDs)
	}
	return w
}

package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// wantSame fails unless two slices have the same bits.
func wantSame(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i, v := range want {
		if math.Float32bits(got[i]) != math.Float32bits(v) {
			t.Fatalf("%s: element %d is %v, want %v", name, i, got[i], v)
		}
	}
}

// TestDecays checks that exponents are sums of the steps in between, in order, that exponentials are those of ExpShift,
// and that there are zeros above the diagonal, for every size around those of vectors.
func TestDecays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	atLevels(t, func(t *testing.T) {
		for q := range 70 {
			steps := make([]float32, q)
			for i := range steps {
				steps[i] = -float32(math.Exp(3 * rng.NormFloat64()))
			}
			want := make([]float32, q*q)
			for s := range q {
				sum := float32(0)
				for i := range q {
					switch {
					case i < s:
						want[i*q+s] = float32(math.Inf(-1))
					case i > s:
						sum += steps[i]
						fallthrough
					default:
						want[i*q+s] = sum
					}
				}
			}
			ExpShift(want, 0, 1)
			got := normals(rng, q*q)
			Decays(got, steps)
			wantSame(t, "decays", got, want)
		}
	})
}

// TestRowsTimes checks that multiplying each row by a number, and carrying a state on, give the same as operations on
// single rows, and that nothing else is written.
func TestRowsTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 10))
	atLevels(t, func(t *testing.T) {
		for range 100 {
			rows, n, ss := 1+rng.IntN(9), 1+rng.IntN(70), rng.IntN(3)
			xs, ys := n+rng.IntN(5), n+rng.IntN(5)
			x, y, s := normals(rng, rows*xs), normals(rng, rows*ys), normals(rng, 1+rows*ss)
			scaled, added := append([]float32(nil), y...), append([]float32(nil), y...)
			wantScaled, wantAdded := append([]float32(nil), y...), append([]float32(nil), y...)
			for r := range rows {
				copy(wantScaled[r*ys:][:n], x[r*xs:])
				Scale(wantScaled[r*ys:][:n], s[r*ss])
				Axpy(s[r*ss], x[r*xs:][:n], wantAdded[r*ys:][:n])
			}
			ScaleRows(scaled, ys, x, xs, s, ss, rows, n)
			AxpyRows(added, ys, x, xs, s, ss, rows, n)
			wantSame(t, "scaled", scaled, wantScaled)
			wantSame(t, "added", added, wantAdded)

			state, more := normals(rng, n), normals(rng, n)
			before, next := append([]float32(nil), state...), append([]float32(nil), state...)
			Scale(next, s[0])
			Add(next, more)
			CarryState(state, more, s[0])
			wantSame(t, "state", state, next)
			wantSame(t, "state before", more, before)
		}
	})
}

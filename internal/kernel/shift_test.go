package kernel

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

// shiftCase is a shift SSM with d channels and a sequence (l, d).
type shiftCase struct {
	d, n, l          int
	b, c, skip, x, s []float32 // b, c and s are (d, n)
}

func drawShift(t *rapid.T) shiftCase {
	k := shiftCase{d: rapid.IntRange(1, 3).Draw(t, "d"), n: rapid.IntRange(1, 9).Draw(t, "n"),
		l: rapid.IntRange(1, 20).Draw(t, "l")}
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	k.b, k.c, k.s = normals(rng, k.d*k.n), normals(rng, k.d*k.n), normals(rng, k.d*k.n)
	k.skip, k.x = normals(rng, k.d), normals(rng, k.l*k.d)
	return k
}

// stepped runs s ← shift(s) + B x, y = C·s + D x position by position in float64.
func (k shiftCase) stepped() (y, s []float64) {
	s = wide(k.s)
	for t := range k.l {
		for ch := range k.d {
			st := s[ch*k.n:][:k.n]
			copy(st[1:], slices.Clone(st[:k.n-1]))
			st[0] = 0
			x := float64(k.x[t*k.d+ch])
			out := float64(k.skip[ch]) * x
			for j := range st {
				st[j] += float64(k.b[ch*k.n+j]) * x
				out += float64(k.c[ch*k.n+j]) * st[j]
			}
			y = append(y, out)
		}
	}
	return y, s
}

// filter returns the filter of the first m taps.
func (k shiftCase) filter(m int) *ShiftFilter {
	return &ShiftFilter{B: k.b, C: k.c, D: k.d, N: k.n, M: m}
}

// chunk processes the positions [lo, hi) as autograd does: taps, filter, carry in place.
func (k shiftCase) chunk(s []float32, lo, hi int) []float32 {
	l := hi - lo
	m := min(k.n, l)
	taps, y, x := make([]float32, m*k.d), make([]float32, l*k.d), k.x[lo*k.d:hi*k.d]
	k.filter(m).Taps(taps, 0, k.d)
	FIR(y, x, taps, k.skip, k.d, m, 0, l)
	for ch := range k.d {
		st := s[ch*k.n:][:k.n]
		carry := ShiftCarry{B: k.b[ch*k.n:][:k.n], C: k.c[ch*k.n:][:k.n], S: st, X: x[ch:], L: l, Step: k.d}
		carry.Run(st, y[ch:])
	}
	return y
}

// TestShiftChunks checks that filter and carry give the result of the recurrence, however a sequence is split.
func TestShiftChunks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawShift(rt)
		wantY, wantS := k.stepped()
		s := slices.Clone(k.s)
		var y []float32
		for lo := 0; lo < k.l; {
			hi := lo + rapid.IntRange(1, k.l-lo).Draw(rt, "chunk")
			y = append(y, k.chunk(s, lo, hi)...)
			lo = hi
		}
		within(rt, "y", y, wantY, 3e-6)
		within(rt, "state", s, wantS, 3e-6)
	})
}

// TestFIRRowsAreIndependent checks that rows and taps have the same bits whether computed in pieces or at once.
func TestFIRRowsAreIndependent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawShift(rt)
		m := min(k.n, k.l)
		cut, tap := rapid.IntRange(0, k.l).Draw(rt, "row"), rapid.IntRange(0, m).Draw(rt, "tap")
		at := func(n int, f func(out []float32)) []float32 {
			out := make([]float32, n)
			f(out)
			return out
		}
		taps := at(m*k.d, func(o []float32) { k.filter(m).Taps(o, 0, k.d) })
		same := func(what string, whole, parts []float32) {
			if !slices.Equal(whole, parts) {
				rt.Errorf("%s: %v at once, %v in pieces", what, whole, parts)
			}
		}
		same("FIR", at(len(k.x), func(o []float32) { FIR(o, k.x, taps, k.skip, k.d, m, 0, k.l) }),
			at(len(k.x), func(o []float32) {
				FIR(o, k.x, taps, k.skip, k.d, m, cut, k.l)
				FIR(o, k.x, taps, k.skip, k.d, m, 0, cut)
			}))
		same("FIRGrad", at(len(k.x), func(o []float32) { FIRGrad(o, k.x, taps, k.skip, k.d, m, k.l, 0, k.l) }),
			at(len(k.x), func(o []float32) {
				FIRGrad(o, k.x, taps, k.skip, k.d, m, k.l, cut, k.l)
				FIRGrad(o, k.x, taps, k.skip, k.d, m, k.l, 0, cut)
			}))
		dy := k.chunk(slices.Clone(k.s), 0, k.l)
		same("FIRTapsGrad", at(m*k.d, func(o []float32) { FIRTapsGrad(o, dy, k.x, k.d, k.l, 0, m) }),
			at(m*k.d, func(o []float32) {
				FIRTapsGrad(o, dy, k.x, k.d, k.l, tap, m)
				FIRTapsGrad(o, dy, k.x, k.d, k.l, 0, tap)
			}))
	})
}

// TestShiftCarryGrad checks the gradients of ShiftCarry.Run. What it adds to y is bilinear in (C, s), and the state it
// leaves is linear in s and bilinear in (B, x), so the products of each gradient with its argument are known sums.
func TestShiftCarryGrad(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawShift(rt)
		k.d = 1
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		b, c, s, x := k.b[:k.n], k.c[:k.n], k.s[:k.n], k.x[:k.l]
		dy, dnext := normals(rng, k.l), normals(rng, k.n)
		echo, shifted := make([]float32, k.l), make([]float32, k.n)
		none := ShiftCarry{B: b, C: c, S: make([]float32, k.n), X: make([]float32, k.l), L: k.l, Step: 1}
		ofState, ofInput, whole := none, none, none
		ofState.S, ofInput.X, whole.S, whole.X = s, x, s, x
		ofState.Run(shifted, echo)
		entered := make([]float32, k.n)
		ofInput.Run(entered, make([]float32, k.l))

		ds, dx, db, dc := make([]float32, k.n), make([]float32, k.l), make([]float32, k.n), make([]float32, k.n)
		whole.Grad(ShiftCarryGrads{B: db, C: dc, S: ds, X: dx}, dnext, dy)
		equal := func(what string, got, want float64) {
			if d := got - want; d > 1e-4 || d < -1e-4 { // for sums of some hundred terms around 1
				rt.Errorf("%s: %v, want %v", what, got, want)
			}
		}
		fromY, fromNext, fromX := dot64(dy, echo), dot64(dnext, shifted), dot64(dnext, entered)
		equal("ds·s", dot64(ds, s), fromY+fromNext)
		equal("dC·C", dot64(dc, c), fromY)
		equal("dx·x", dot64(dx, x), fromX)
		equal("dB·B", dot64(db, b), fromX)

		// Without ds and a gradient of the state, the other gradients are the same.
		dc2 := make([]float32, k.n)
		whole.Grad(ShiftCarryGrads{B: make([]float32, k.n), C: dc2, X: make([]float32, k.l)}, nil, dy)
		if !slices.Equal(dc, dc2) {
			rt.Errorf("dC depends on what else is asked for: %v, %v", dc, dc2)
		}
	})
}

// TestShiftTapsGrad checks that dB·B = dC·C = dtaps·taps, since taps are bilinear in B and C.
func TestShiftTapsGrad(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := drawShift(rt)
		m := min(k.n, k.l)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 2))
		taps, g := make([]float32, m*k.d), normals(rng, m*k.d)
		k.filter(m).Taps(taps, 0, k.d)
		db, dc := make([]float32, k.d*k.n), make([]float32, k.d*k.n)
		k.filter(m).Grad(db, dc, g, 0, k.d)
		want := dot64(g, taps)
		for what, got := range map[string]float64{"dB·B": dot64(db, k.b), "dC·C": dot64(dc, k.c)} {
			if d := got - want; d > 1e-4 || d < -1e-4 {
				rt.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	})
}

func dot64(x, y []float32) float64 {
	var s float64
	for i, v := range x {
		s += float64(v) * float64(y[i])
	}
	return s
}

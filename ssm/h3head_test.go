package ssm

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"
)

// TestH3HeadIsAnAttention checks that y_t = Σ_{s≤t} K_diag[t-s] (q_t · key_s) v_s + D (q_t · key_t) v_t: a head is an
// attention whose weights are a product of a key's fit and its age.
func TestH3HeadIsAnAttention(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l, p := rapid.IntRange(1, 9).Draw(t, "l"), rapid.IntRange(1, 3).Draw(t, "p")
		h := &H3{
			Diag: &Diagonal{A: []complex128{-0.5, -0.2 + 2i}, B: complexNormals(rng, 2), C: complexNormals(rng, 2),
				Dt: 0.3, Pairs: true},
			ShiftD: normals(rng, p), D: rng.NormFloat64(), Method: drawMethod(t),
		}
		for range p {
			h.Shift = append(h.Shift, &Shift{B: normals(rng, 4), C: normals(rng, 4)})
		}
		draw := func() [][]float64 {
			x := make([][]float64, l)
			for i := range x {
				x[i] = normals(rng, p)
			}
			return x
		}
		q, k, v := draw(), draw(), draw()
		diag := h.Diag.Kernel(h.Method, l)
		diag[0] += h.D
		for at, step := range h.Steps(q, k, v) {
			want := make([]float64, p)
			for s := range at + 1 {
				key := make([]float64, p)
				for i := range key {
					key[i] = h.ShiftD[i] * k[s][i]
					for j, w := range h.Shift[i].Kernel(s + 1) {
						key[i] += w * k[s-j][i]
					}
				}
				floats.AddScaled(want, diag[at-s]*floats.Dot(q[at], key), v[s])
			}
			near(t, "y", step.Y, want, 1e-9)
		}
	})
}

// TestRecallerCountsSuccessors checks that the head counts the tokens that have followed each token, weighted by age if
// there is a decay.
func TestRecallerCountsSuccessors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const p = 3
		tokens := rapid.SliceOfN(rapid.IntRange(0, p-1), 1, 20).Draw(t, "tokens")
		decay := rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "decay")
		x := make([][]float64, len(tokens))
		for i, id := range tokens {
			x[i] = Delta(id, p)
		}
		for at, step := range Recaller(p, decay).Steps(x, x, x) {
			want := make([]float64, p)
			for s := 1; s <= at; s++ {
				if tokens[s-1] == tokens[at] {
					want[tokens[s]] += math.Exp(-decay * float64(at-s))
				}
			}
			near(t, "y", step.Y, want, 1e-12)
		}
	})
}

func TestH3HeadOfNothing(t *testing.T) {
	if got := Recaller(2, 0).Steps(nil, nil, nil); got != nil {
		t.Errorf("found %v steps, want none", got)
	}
}

// TestScanTree checks that the tree has the states of the recurrence, at most 2 log₂ l rounds, and fewer than 2 l
// compositions.
func TestScanTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l := rapid.IntRange(1, 40).Draw(t, "l")
		s := &Selective{A: []complex128{-1, -0.5 + 1i}, Dt: make([]float64, l)}
		for k := range l {
			s.B, s.C = append(s.B, complexNormals(rng, 2)), append(s.C, complexNormals(rng, 2))
			s.Dt[k] = math.Exp(rng.NormFloat64())
		}
		u := normals(rng, l)
		nodes, prefix := s.ScanTree(u)
		_, states := s.ParallelScan(make([]complex128, 2), u)
		rounds := 0
		for k, at := range prefix {
			node := nodes[at]
			if node.From != 0 || node.To != k+1 {
				t.Fatalf("prefix %d goes from %d to %d", k, node.From, node.To)
			}
			near(t, "state", ReIm(node.Add), ReIm(states[k]), 1e-12)
			rounds = max(rounds, node.Round)
		}
		for i, node := range nodes[l:] {
			left, right := nodes[node.Left], nodes[node.Right]
			if left.To != right.From || left.From != node.From || right.To != node.To || node.Round <= left.Round {
				t.Fatalf("node %d joins %+v and %+v into %+v", l+i, left, right, node)
			}
		}
		if joins := len(nodes) - l; joins >= 2*l {
			t.Errorf("found %d compositions for %d steps", joins, l)
		}
		if most := 2 * math.Ceil(math.Log2(float64(l))); float64(rounds) > most {
			t.Errorf("found %d rounds for %d steps, want at most %v", rounds, l, most)
		}
	})
}

// TestScanPieces checks that processing piece by piece, with the state passed on, gives the result of one scan.
func TestScanPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		s := &Diagonal{A: []complex128{-0.5, -0.1 + 3i}, B: complexNormals(rng, 2), C: complexNormals(rng, 2), Dt: 0.2,
			Pairs: rapid.Bool().Draw(t, "pairs")}
		u := normals(rng, rapid.IntRange(1, 30).Draw(t, "l"))
		size, m := rapid.IntRange(1, 35).Draw(t, "size"), drawMethod(t)
		own, past, states := s.ScanPieces(m, u, size)
		near(t, "y", floats.AddTo(make([]float64, len(u)), own, past), s.Scan(m, nil, u), 1e-9)
		if want := (len(u) + size - 1) / size; len(states) != want {
			t.Errorf("found %d states, want %d", len(states), want)
		}
	})
}

// TestDiagonalFrequencyResponse checks that the response is the transform of a kernel that has decayed.
func TestDiagonalFrequencyResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		s := &Diagonal{A: []complex128{-0.5, -1 + 2i}, B: complexNormals(rng, 2), C: complexNormals(rng, 2), Dt: 0.2,
			Pairs: rapid.Bool().Draw(t, "pairs")}
		m, theta := drawMethod(t), rapid.Float64Range(-4, 4).Draw(t, "theta")
		var want complex128
		for l, k := range s.Kernel(m, 600) {
			sin, cos := math.Sincos(-theta * float64(l))
			want += complex(k*cos, k*sin)
		}
		near(t, "H", ReIm([]complex128{s.FrequencyResponse(m, theta)}), ReIm([]complex128{want}), 1e-6)
	})
}

func TestPoles(t *testing.T) {
	spring := Spring{Mass: 1, Friction: 2, Stiffness: 10} // s² + 2s + 10 = 0
	poles, err := Poles(spring.System().A)
	check(t, err)
	near(t, "poles", ReIm(poles), []float64{-1, -3, -1, 3}, 1e-12)
	legs, _ := LegS(5)
	poles, err = Poles(legs)
	check(t, err)
	near(t, "poles of LegS", ReIm(poles), []float64{-5, 0, -4, 0, -3, 0, -2, 0, -1, 0}, 1e-9)
	legs.Set(1, 1, math.NaN())
	if _, err := Poles(legs); err == nil {
		t.Error("found no error for a matrix with NaN")
	}
}

func TestCirculant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := drawRNG(t)
		l := rapid.IntRange(1, 12).Draw(t, "l")
		kernel, u := normals(rng, rapid.IntRange(1, l).Draw(t, "kernel")), normals(rng, l)
		padded := append(slices.Clone(kernel), make([]float64, l-len(kernel))...)
		near(t, "C u", mulVec(Circulant(kernel, l), u), ConvolveCircular(padded, u), 1e-12)
	})
}

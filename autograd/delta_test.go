package autograd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestDeltaOddities checks that decays of 0 and 1 and keys of length zero give the results of the definition, forward
// and backward, in blocks, their parts and steps.
func TestDeltaOddities(t *testing.T) {
	inf := math.Inf(-1)
	for _, f := range deltaForms {
		for name, odd := range map[string]func(input, i int, x float64) float64{
			"forgets": func(_, i int, x float64) float64 { return []float64{x, inf, -1e30, x, -200}[i%5] },
			"forgets late": func(_, i int, x float64) float64 {
				if i%12 == 11 {
					return inf
				}
				return x
			},
			"never fades": func(_, _ int, _ float64) float64 { return 0 },
			"fades fast":  func(_, _ int, x float64) float64 { return 30 * x },
		} {
			s := deltaSequences(f.name, []int{70, 33, 3, 1}, []bool{true, false, true, true}, f, 2, 1, 3, 2)
			of := s.of
			s.of = func(input, i int, x float64) float64 {
				if x = of(input, i, x); input == 3 {
					return odd(input, i, x)
				}
				if input == 1 && i/3%4 == 1 {
					return 0 // a key of length zero
				}
				return x
			}
			r := s.row()
			t.Run(f.name+"/"+name, func(t *testing.T) {
				in := r.random(s.shapes(), 5)
				r.agree(t, s.shapes(), in, false)
				// Without recording, short rows are stepped.
				want, _ := r.onReference(s.shapes(), in, nil)
				tape := autograd.NewTape(engines["cpu"])
				for i, y := range r.op(tape, r.tensors(s.shapes(), in)) {
					near(t, fmt.Sprintf("stepped: output %d", i), numbers(y), want[i], r.tolerance())
				}
			})
		}
	}
}

// TestDeltaForgetsWhatIsNotFinite checks that a decay of 0 removes NaN, whether it was in the state before a row or
// came from a value, in blocks and in steps. With free a and b a state is read before it decays, so NaN remains.
func TestDeltaForgetsWhatIsNotFinite(t *testing.T) {
	const forgets = 3 // position with a decay of 0
	for _, f := range deltaForms {
		for _, l := range []int{5, 40, 100} {
			if f.free {
				continue
			}
			for _, record := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%d/record=%v", f.name, l, record), func(t *testing.T) {
					s := deltaSequences(f.name, []int{l}, []bool{true}, f, 1, 1, 3, 2)
					r := s.row()
					in := r.random(s.shapes(), 6)
					g := in[3]
					for i := range g {
						if i/(len(g)/l) == forgets {
							g[i] = math.Inf(-1)
						}
					}
					want := runDelta(r, r.tensors(s.shapes(), in), record)
					value, state := [2]int{2, 2*(forgets-2) + 1}, [2]int{len(in) - 1, 1}
					for name, at := range map[string][2]int{"value": value, "state": state} {
						x := r.random(s.shapes(), 6)
						x[3] = g
						x[at[0]][at[1]] = math.NaN()
						got := runDelta(r, r.tensors(s.shapes(), x), record)
						if !slices.ContainsFunc(got[0][:2*forgets], func(v float32) bool { return v != v }) {
							t.Errorf("%s: NaN changes nothing", name)
						}
						for i := range got {
							from := 2 * forgets * (1 - i) // the states are all after that position
							near(t, name, got[i][from:], wide(want[i][from:]), 1e-5)
						}
					}
				})
			}
		}
	}
}

func runDelta(r row, x ts, record bool) (out [][]float32) {
	tape := autograd.NewTape(engines["cpu"])
	tape.Record(record)
	for _, y := range r.op(tape, x) {
		out = append(out, numbers(y))
	}
	return out
}

// TestDeltaLong checks that the state after a million positions, computed in blocks, agrees with the definition. The
// decays are so close to 1 that the state depends on all positions, and float32 hardly resolves a single decay.
func TestDeltaLong(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 100_000
	}
	const d = 2
	rng := rand.New(rand.NewPCG(7, 8))
	random := func(w int, f func(x float64) float64) *tensor.Tensor {
		x := make([]float32, n*w)
		for i := range x {
			x[i] = float32(f(rng.NormFloat64()))
		}
		return tensor.FromSlice(x, n, w)
	}
	same := func(x float64) float64 { return x / 100 }
	x := engine.Delta{Q: random(d, same), K: random(d, same), V: random(d, same),
		G: random(1, func(x float64) float64 { return -1e-6 * math.Exp(x) }), Heads: 1, KeyHeads: 1}
	s := make([]float64, d*d)
	for i := range s {
		s[i] = 1
	}
	state := tensor.FromSlice([]float32{1, 1, 1, 1}, 1, d, d)
	k, v, g := numbers(x.K), numbers(x.V), numbers(x.G)
	for t := range n {
		for i := range d {
			for j := range d {
				s[i*d+j] = math.Exp(float64(g[t]))*s[i*d+j] + float64(k[t*d+i])*float64(v[t*d+j])
			}
		}
	}
	tape := autograd.NewTape(engines["cpu"])
	tape.DeltaRule(x, engine.NewRows(n), engine.Slots{&engine.Slot{X: state}})
	near(t, "state", numbers(state), s, 1e-4)
}

// TestDeltaLongBackward checks the gradients of long rows. Forward stores the first state of each segment. Some rows
// have several segments, some end with a segment, and some end one block after it.
func TestDeltaLongBackward(t *testing.T) {
	for _, f := range []deltaForm{deltaForms[0], deltaForms[len(deltaForms)-1]} {
		s := deltaSequences("long "+f.name, []int{1200, 512, 530, 1, 1025}, []bool{true, true, false, true, true}, f, 4,
			2, 2, 1)
		r := s.row()
		r.agree(t, s.shapes(), r.random(s.shapes(), 4), false)
	}
}

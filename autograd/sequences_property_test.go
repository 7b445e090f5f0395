package autograd_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/tensor"
	"pgregory.net/rapid"
)

// TestAnyRows checks that all engines compute the same, forward and backward, for any rows of 1 to 70 positions, with
// and without states and in any order, and that a row has the same bits alone as with others.
func TestAnyRows(t *testing.T) {
	operations := map[string][]sequences{}
	for _, s := range allSequences {
		if !s.fixed && s.starts == nil {
			name, _, _ := strings.Cut(s.name, "/")
			operations[name] = append(operations[name], s)
		}
	}
	length := rapid.OneOf(rapid.Just(1), rapid.IntRange(1, 6), rapid.IntRange(1, 70))
	for name, variants := range operations {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			s := variants[rapid.IntRange(0, len(variants)-1).Draw(t, "variant")]
			s.lens = rapid.SliceOfN(length, 1, 5).Draw(t, "lengths")
			for i, l := range s.lens {
				if s.most > 0 {
					s.lens[i] = 1 + (l-1)%s.most
				}
			}
			s.big = nil
			if len(s.states) > 0 {
				s.keeps = rapid.SliceOfN(rapid.Bool(), len(s.lens), len(s.lens)).Draw(t, "states")
			} else if len(s.keeps) > 0 {
				s.keeps = repeated(len(s.lens), s.keeps)
			}
			r := s.row()
			in := r.random(s.shapes(), rapid.Uint64().Draw(t, "seed"))
			want, wantGrad := r.onReference(s.shapes(), in, cotangents)
			record := rapid.Bool().Draw(t, "record")
			for engine := range engines {
				out, grad := r.on(engine, s.shapes(), in, cotangents(want))
				for i := range want {
					nearOrOne(t, fmt.Sprintf("%s, %s: output %d", engine, s.name, i), out[i], want[i],
						loose*r.tolerance())
				}
				for i := range in {
					nearOrOne(t, fmt.Sprintf("%s, %s: gradient of input %d", engine, s.name, i), grad[i], wantGrad[i],
						loose*r.tolerance())
				}
				s.alone(t, engine, record)
			}
		}))
	}
}

// loose is the ratio of the tolerance of TestAnyRows to that of the table. The test looks for errors in some rows, not
// for rounding errors, and some of many random inputs are close to a division by zero.
const loose = 50

// nearOrOne is near with a tolerance relative to at least 1: sums of random numbers of that size may happen to be
// small.
func nearOrOne(t rapid.TB, what string, got []float32, want []float64, tol float64) {
	t.Helper()
	near(t, what, append(slices.Clone(got), 1), append(slices.Clone(want), 1), tol)
}

// TestRowsSeeNoOthers checks that the contents of one row and its state, even NaN, do not affect the results, states
// and gradients of all other rows.
func TestRowsSeeNoOthers(t *testing.T) {
	for _, s := range allSequences {
		t.Run(s.name, func(t *testing.T) {
			heard, tried := false, false
			for _, s := range []*sequences{&s, s.big} {
				if s != nil && len(s.lens) > 1 {
					heard, tried = s.poisoned(t, "cpu", 0, len(s.lens)/2) || heard, true
				}
			}
			if len(s.lens) > 1 {
				s.poisoned(t, "small", 0)
			}
			if tried && !heard {
				t.Error("NaN changes nothing in its own row either")
			}
		})
	}
}

// poisoned sets, one at a time, each of the rows bads to NaN, and fails unless all other rows keep their results,
// states and gradients. It reports whether one of the rows bads itself changed.
func (s *sequences) poisoned(t *testing.T, on string, bads ...int) (heard bool) {
	t.Helper()
	r, rows, shapes := s.row(), s.engineRows(-1), s.shapes()
	in := r.random(shapes, 12)
	// part returns the elements of row i in x.
	part := func(x []float32, i int) []float32 {
		width := len(x) / rows.Total()
		return x[rows.From(i)*width:][:rows.Len(i)*width]
	}
	// run returns everything that each row has: results, the states after it, and gradients. It sets row bad to NaN,
	// unless bad is -1.
	run := func(bad int) (of [][][]float32) {
		tape, x := autograd.NewTape(engines[on]), r.tensors(shapes, in)
		tape.Record(true)
		along, params, states := s.parts(x)
		if bad >= 0 {
			for _, u := range along {
				all := numbers(u)
				fill(part(all, bad))
				u.CopyFrom(all)
			}
			for _, u := range states[bad] {
				u.Fill(float32(math.NaN()))
			}
		}
		y, next := s.op(tape, along, params, rows, states)
		of = make([][][]float32, len(s.lens))
		results := ramp(len(y), func(k int) []float32 { return numbers(y[k]) })
		for i := range of {
			for _, o := range results {
				of[i] = append(of[i], part(o, i))
			}
			for _, o := range next[i] {
				of[i] = append(of[i], numbers(o))
				tape.Seed(o, tensor.FromSlice(repeated(o.Len(), []float32{1, 0.5, -1}), o.Shape()...))
			}
		}
		for _, o := range y {
			tape.Seed(o, tensor.FromSlice(repeated(o.Len(), []float32{1, 0.5, -1}), o.Shape()...))
		}
		tape.BackwardSeeded()
		grads := gradients(tape, along)
		for i := range of {
			for _, g := range grads {
				of[i] = append(of[i], part(g, i))
			}
			of[i] = append(of[i], gradients(tape, states[i])...)
		}
		return of
	}
	want := run(-1)
	for _, bad := range bads {
		got := run(bad)
		for i := range want {
			if i != bad && !same(got[i], want[i]) {
				t.Errorf("%s: row %d is not what it is when row %d has no NaN", on, i, bad)
			}
		}
		heard = heard || !same(got[bad], want[bad])
	}
	return heard
}

// fill sets all elements to NaN.
func fill(x []float32) {
	for i := range x {
		x[i] = float32(math.NaN())
	}
}

package autograd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// sequences describes an operation over rows for the table. Its row of the table has as inputs first those along the
// sequences, then the parameters, then the states of the sequences that have some.
type sequences struct {
	name   string
	lens   []int   // lengths of the rows
	starts []int   // positions at which the rows begin; nil for 0
	along  []int   // widths of the inputs along the sequences
	params [][]int // shapes of the other inputs
	states [][]int // shapes of the states of a sequence
	keeps  []bool  // which rows have states; nil for none
	trains bool    // whether there is dropout
	most   int     // length of the longest row that the parameters allow; 0 for any
	fixed  bool    // whether the states fit only rows of these lengths

	// op returns the results along the sequences and the states after them. states[i] holds the states of row i, or
	// nil.
	op func(t *autograd.Tape, along, params ts, r *engine.Rows, states []ts) (y ts, next []ts)

	big   *sequences // the large shapes, of the same op
	scale []float64
	of    func(input, i int, x float64) float64
	tol   float64
}

func (s *sequences) total() int {
	n := 0
	for _, l := range s.lens {
		n += l
	}
	return n
}

func (s *sequences) keep(i int) bool { return s.keeps != nil && s.keeps[i] }

// shapes returns the shapes of the inputs of the row of the table.
func (s *sequences) shapes() [][]int {
	var all [][]int
	for _, w := range s.along {
		all = append(all, []int{s.total(), w})
	}
	all = append(all, s.params...)
	for i := range s.lens {
		if s.keep(i) {
			all = append(all, s.states...)
		}
	}
	return all
}

// engineRows returns the rows, or only row i if i is not negative.
func (s *sequences) engineRows(i int) *engine.Rows {
	r := &engine.Rows{}
	var seeds []uint64
	for j, l := range s.lens {
		if i >= 0 && j != i {
			continue
		}
		start := 0
		if s.starts != nil {
			start = s.starts[j]
		}
		r.Add(l, start)
		seeds = append(seeds, uint64(100+j))
	}
	if s.trains {
		r.Train(seeds)
	}
	return r
}

// parts splits the inputs of the row of the table into those that op takes.
func (s *sequences) parts(in ts) (along, params ts, states []ts) {
	along, params, rest := in[:len(s.along)], in[len(s.along):][:len(s.params)], in[len(s.along)+len(s.params):]
	states = make([]ts, len(s.lens))
	for i := range s.lens {
		if s.keep(i) {
			states[i], rest = append(ts(nil), rest[:len(s.states)]...), rest[len(s.states):]
		}
	}
	return along, params, states
}

// run calls op with all inputs of the row of the table.
func (s *sequences) run(t *autograd.Tape, in ts) ts {
	along, params, states := s.parts(in)
	y, next := s.op(t, along, params, s.engineRows(-1), states)
	for _, x := range next {
		y = append(y, x...)
	}
	return y
}

// row returns the operation's row of the table.
func (s *sequences) row() row {
	big := s.big
	if big == nil {
		big = s
	}
	small := s.shapes()
	return row{name: s.name, in: small, big: big.shapes(), scale: s.scale, of: s.of, tol: s.tol,
		op: func(t *autograd.Tape, in ts) ts {
			if in[0].Rows() == small[0][0] {
				return s.run(t, in)
			}
			return big.run(t, in)
		}}
}

// allSequences holds the operations over rows that registerSequences has added.
var allSequences []sequences

// registerSequences adds operations over rows to the table and to the tests of this file.
func registerSequences(all func() []sequences) {
	allSequences = append(allSequences, all()...)
	register(func() []row {
		var rows []row
		for _, s := range all() {
			rows = append(rows, s.row())
		}
		return rows
	})
}

// withSlots turns an operation that takes a list of Slots for each of n states into one that returns the states after
// it.
func withSlots(states []ts, n int, op func(slots []engine.Slots) *tensor.Tensor) (y ts, next []ts) {
	slots := make([]engine.Slots, n)
	for k := range slots {
		for _, s := range states {
			var slot *engine.Slot
			if s != nil {
				slot = &engine.Slot{X: s[k]}
			}
			slots[k] = append(slots[k], slot)
		}
	}
	y = ts{op(slots)}
	for i, s := range states {
		var after ts
		for k := range s {
			after = append(after, slots[k][i].X)
		}
		next = append(next, after)
	}
	return y, next
}

// TestRowsAlone checks that the results of a row and the states after it have the same bits alone as with all others,
// with and without recording, in each precision, at small and large shapes.
func TestRowsAlone(t *testing.T) {
	for _, s := range allSequences {
		for size, s := range map[string]*sequences{"small": &s, "large": s.big} {
			if s == nil {
				continue
			}
			for _, record := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/record=%v", s.name, size, record), func(t *testing.T) {
					s.alone(t, "cpu", record)
					if size == "small" {
						s.alone(t, "small", record)
					}
				})
			}
		}
	}
}

func (s *sequences) alone(t rapid.TB, on string, record bool) {
	s.aloneAt(t, on, engine.Float32, record)
	if on == "cpu" { // others compute in one precision
		s.aloneAt(t, on, engine.BF16, record)
	}
}

func (s *sequences) aloneAt(t rapid.TB, on string, p engine.Precision, record bool) {
	r, shapes, rows := row{scale: s.scale, of: s.of}, s.shapes(), s.engineRows(-1)
	in := r.random(shapes, 9)
	along, params, _ := s.parts(r.tensors(shapes, in)) // shared by all runs, which change only states
	values := ramp(len(along), func(k int) []float32 { return numbers(along[k]) })
	run := func(only int) (y [][]float32, next [][][]float32) {
		tape, along := autograd.NewTape(engines[on]), slices.Clone(along)
		tape.SetPrecision(p)
		tape.Record(record)
		states, at := make([]ts, 0, len(s.lens)), len(s.along)+len(s.params)
		for i := range s.lens {
			var own ts
			n, mine := len(s.states), only < 0 || i == only
			if s.keep(i) && mine {
				own = r.tensors(shapes[at:][:n], in[at:][:n])
			}
			if s.keep(i) {
				at += n
			}
			if mine {
				states = append(states, own)
			}
		}
		if only >= 0 {
			for k, w := range s.along {
				own := slices.Clone(values[k][rows.From(only)*w:][:s.lens[only]*w])
				along[k] = tensor.FromSlice(own, s.lens[only], w)
				along[k].SetNeedsGrad(true)
			}
		}
		out, after := s.op(tape, along, params, s.engineRows(only), states)
		for _, o := range out {
			y = append(y, numbers(o))
		}
		for _, a := range after {
			var one [][]float32
			for _, o := range a {
				one = append(one, numbers(o))
			}
			next = append(next, one)
		}
		return y, next
	}
	all, states := run(-1)
	for i := range s.lens {
		y, next := run(i)
		for k := range y {
			width := len(all[k]) / rows.Total()
			if !same([][]float32{y[k]}, [][]float32{all[k][rows.From(i)*width:][:rows.Len(i)*width]}) {
				t.Errorf("%s, %v: row %d: output %d is not what it is alone", on, p, i, k)
			}
		}
		if s.keep(i) && !same(next[0], states[i]) {
			t.Errorf("%s, %v: row %d: a state after it is not what it is alone", on, p, i)
		}
	}
}

// randomLengths returns n lengths from 1 to most.
func randomLengths(n, most int) []int {
	rng := rand.New(rand.NewPCG(11, 12))
	return ramp(n, func(int) int { return 1 + rng.IntN(most) })
}

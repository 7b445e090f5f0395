package autograd_test

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// movesRows cover the operations that only copy elements or add some up, but not along rows.
func movesRows() []row {
	return []row{
		{
			name: "Join", in: [][]int{{2, 3}, {2, 3}, {2, 3}}, big: [][]int{{1024, 256}, {1024, 256}, {1024, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Join(in...)} },
		},
		{
			name: "Join/widths", in: [][]int{{2, 3}, {2, 1}, {2, 5}}, big: [][]int{{1024, 256}, {1024, 8}, {1024, 600}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Join(in...)} },
		},
		{
			name: "Split", in: [][]int{{6, 7}}, big: [][]int{{256, 1024}},
			op: func(t *autograd.Tape, in ts) ts {
				d := in[0].Dim(-1)
				return t.Split(in[0], d/7, d-d/7-d/3, d/3)
			},
		},
		{
			name: "Slice", in: [][]int{{10, 3}}, big: [][]int{{1024, 256}},
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Slice(in[0], 3, in[0].Rows()/2)} },
		},
		{
			name: "Append", in: [][]int{{5, 4}, {6, 4}}, big: [][]int{{1000, 128}, {1200, 128}},
			op: func(t *autograd.Tape, in ts) ts {
				n, m := in[0].Rows()/5, in[1].Rows()/6
				return ts{t.Append(in[0], in[1], engine.NewRows(n, 3*n, n), engine.NewRows(m, m, 4*m))}
			},
		},
	}
}

// mover is an operation whose results have rows of other lengths. It returns these rows.
type mover func(t *autograd.Tape, x *tensor.Tensor, r *engine.Rows) (*tensor.Tensor, *engine.Rows)

// movedRows returns an operation that copies elements, or adds some up, of rows of d elements per position. Results of
// a row are returned as the states after it, because they have a length of their own.
func movedRows(name string, lens []int, d int, move mover) sequences {
	return sequences{name: name, lens: lens, keeps: repeated(len(lens), []bool{true}), along: []int{d},
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			all, rows := move(t, u[0], r)
			for i := range rows.Count() {
				next = append(next, ts{t.Slice(all, rows.From(i), rows.Len(i))})
			}
			return nil, next
		}}
}

// middles returns pieces of rows, of at least one position.
func middles(r *engine.Rows) (at, lengths []int) {
	for i := range r.Count() {
		at, lengths = append(at, r.Len(i)/3), append(lengths, (r.Len(i)+1)/2)
	}
	return at, lengths
}

func init() {
	register(movesRows)
	registerSequences(func() []sequences {
		equal, mixed := []int{256, 256, 256, 256}, []int{1, 700, 3, 1, 150}
		var all []sequences
		for _, lag := range []int{0, 1, 7} {
			build := func(name string, lens []int, d int) sequences {
				return sequences{name: fmt.Sprintf("Reverse/%s_%d", name, lag), lens: lens, along: []int{d},
					op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
						return ts{t.Reverse(u[0], lag, r)}, make([]ts, len(states))
					}}
			}
			all = append(all, withBig([]sequences{build("equal", []int{5, 5}, 3), build("mixed", []int{2, 9, 1}, 3)},
				build("equal", equal, 256), build("mixed", mixed, 257))...)
		}
		move := func(name string, f mover) {
			all = append(all, withBig([]sequences{
				movedRows(name+"_equal", []int{5, 5}, 3, f), movedRows(name+"_mixed", []int{2, 9, 1}, 3, f),
			}, movedRows(name+"_equal", equal, 256, f), movedRows(name+"_mixed", mixed, 257, f))...)
		}
		one := func(y *tensor.Tensor) (*tensor.Tensor, *engine.Rows) { return y, engine.EqualRows(y.Rows(), 1) }
		mean := func(t *autograd.Tape, x *tensor.Tensor, r *engine.Rows) (*tensor.Tensor, *engine.Rows) {
			return one(t.MeanPositions(x, r))
		}
		move("MeanPositions/mean", mean)
		move("Cut/last", func(t *autograd.Tape, x *tensor.Tensor, r *engine.Rows) (*tensor.Tensor, *engine.Rows) {
			return one(t.Last(x, r))
		})
		move("Cut/middle", func(t *autograd.Tape, x *tensor.Tensor, r *engine.Rows) (*tensor.Tensor, *engine.Rows) {
			at, lengths := middles(r)
			return t.Cut(x, r, at, lengths), engine.NewRows(lengths...)
		})
		move("Append/middle", func(t *autograd.Tape, x *tensor.Tensor, r *engine.Rows) (*tensor.Tensor, *engine.Rows) {
			at, lengths := middles(r)
			past, both := engine.NewRows(lengths...), &engine.Rows{}
			for i, n := range lengths {
				both.Add(n+r.Len(i), 0)
			}
			return t.Append(t.Cut(x, r, at, lengths), x, past, r), both
		})
		return all
	})
}

package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// cachedConv returns CachedLongConv of rows that each have past inputs before them, or none if the row keeps no cache.
// The inputs are u, k, D, and the caches. A window of 0 stands for the length of the kernel.
func cachedConv(name string, window, past int, lens []int, keeps []bool, taps, d int) *sequences {
	if keeps == nil {
		keeps = repeated(len(lens), []bool{true})
	}
	most := taps // for a row without a cache, and for one whose window is longer than the kernel
	if window > taps {
		most -= past
	}
	return &sequences{name: "CachedLongConv/" + name, lens: lens, keeps: keeps, most: most, along: []int{d},
		params: [][]int{{taps, d}, {d}}, states: [][]int{{past, d}},
		op: func(t *autograd.Tape, u, p ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			caches := make([]*engine.ConvCache, len(states))
			for i, s := range states {
				if s != nil {
					caches[i] = &engine.ConvCache{U: s[0], Len: past, Window: max(window, taps)}
				}
			}
			y = ts{t.CachedLongConv(u[0], p[0], p[1], r, caches)}
			for _, c := range caches {
				var after ts
				if c != nil {
					after = ts{t.Slice(c.U, c.Len-c.Past(), c.Past())}
				}
				next = append(next, after)
			}
			return y, next
		}}
}

// cachedConvSequences cover CachedLongConv.
func cachedConvSequences() []sequences {
	with := func(s, big *sequences) sequences {
		s.big = big
		return *s
	}
	mixed := []int{200, 1, 97, 96, 200, 1, 5}
	keeps := []bool{true, true, false, true, true, false, true}
	return []sequences{
		with(cachedConv("plain", 400, 5, []int{4, 4}, nil, 9, 3),
			cachedConv("", 400, 150, []int{200, 200}, nil, 350, 40)),
		with(cachedConv("window", 0, 4, []int{3, 3}, nil, 3, 2), cachedConv("", 0, 150, []int{90, 90}, nil, 70, 64)),
		with(cachedConv("one", 20, 3, []int{1}, nil, 4, 2),
			cachedConv("", 0, 300, repeated(4, []int{1}), nil, 250, 256)),
		// Without recording, this one is summed ahead.
		with(cachedConv("one_of_many", 0, 140, []int{1}, nil, 141, 1),
			cachedConv("", 0, 300, []int{1, 1}, nil, 300, 40)),
		with(cachedConv("ages", 20, 3, []int{1, 5, 2}, []bool{true, false, true}, 9, 2),
			cachedConv("", 400, 150, mixed, keeps, 350, 40)),
		with(cachedConv("transformed", 400, 60, []int{transformed}, nil, 170, 1),
			cachedConv("", 400, 60, []int{200, 200}, nil, 260, 33)),
	}
}

// cachedChunks returns CachedLongConv of two rows in three pieces each.
func cachedChunks() row {
	return row{
		name: "CachedLongConv/chunks",
		in:   [][]int{{14, 3}, {7, 3}, {3}}, big: [][]int{{600, 40}, {300, 40}, {40}},
		op: func(t *autograd.Tape, in ts) ts {
			l, out := in[1].Dim(0), ts{}
			whole := engine.EqualRows(2, l)
			caches := []*engine.ConvCache{{Window: l}, {Window: l}}
			for lo, hi := 0, 0; lo < l; lo = hi {
				hi = min(lo+(l+2)/3, l)
				piece := t.Cut(in[0], whole, []int{lo, lo}, []int{hi - lo, hi - lo})
				out = append(out, t.CachedLongConv(piece, in[1], in[2], engine.EqualRows(2, hi-lo), caches))
			}
			return out
		},
	}
}

func init() {
	registerSequences(cachedConvSequences)
	register(func() []row { return []row{cachedChunks()} })
}

// TestRowWithoutCache checks that rows whose caches are nil have the bits of LongConv, whatever the other rows are.
func TestRowWithoutCache(t *testing.T) {
	const d, taps = 20, 300
	s := cachedConv("", 0, 150, []int{200, 1, 97, 96, 200, 1, 5}, []bool{true, false, false, true, false, true, false},
		taps, d)
	in := (&row{}).random(s.shapes(), 4)
	for _, record := range []bool{false, true} {
		tape, x := autograd.NewTape(cpu.Backend{}), (&row{}).tensors(s.shapes(), in)
		tape.Record(record)
		rows := s.engineRows(-1)
		got, want := numbers(s.run(tape, x)[0]), numbers(tape.LongConv(x[0], x[1], x[2], rows))
		for i := range s.lens {
			if s.keep(i) {
				continue
			}
			lo, hi := rows.From(i)*d, (rows.From(i)+rows.Len(i))*d
			if !same([][]float32{got[lo:hi]}, [][]float32{want[lo:hi]}) {
				t.Errorf("record %v: row %d is not what LongConv gives", record, i)
			}
		}
	}
}

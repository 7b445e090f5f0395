package autograd_test

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// trapezoidSequences returns Trapezoid of h heads and the given number of ranks, with n components of keys and p of
// values.
func trapezoidSequences(name string, lens []int, keeps []bool, h, ranks, n, p int) sequences {
	unit := 1 / math.Sqrt(float64(n))
	return sequences{name: "Trapezoid/" + name, lens: lens, keeps: keeps,
		along: []int{ranks * h * n, ranks * h * n, ranks * h * p, h, h, h}, params: [][]int{{h}},
		states: [][]int{{h, n, p}, {ranks, h, n}, {ranks, h, p}},
		of: func(input, _ int, x float64) float64 {
			switch input {
			case 0, 1:
				return 2 * unit * x
			case 3:
				return -math.Exp(x)
			case 4:
				return math.Log1p(math.Exp(x - 1))
			case 5:
				return 1 / (1 + math.Exp(-x))
			}
			return x
		},
		op: func(t *autograd.Tape, u, w ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 3, func(slots []engine.Slots) *tensor.Tensor {
				return t.Trapezoid(engine.Trapezoid{Q: u[0], K: u[1], V: u[2], A: u[3], Dt: u[4], Lambda: u[5], D: w[0],
					Heads: h, Ranks: ranks}, r, engine.TrapezoidSlots{S: slots[0], K: slots[1], V: slots[2]})
			})
		}}
}

// phaseSequences returns Phase of h heads and a rates.
func phaseSequences(name string, lens []int, keeps []bool, h, a int) sequences {
	return sequences{name: "Phase/" + name, lens: lens, keeps: keeps, along: []int{a, h}, states: [][]int{{h, a}},
		of: func(input, _ int, x float64) float64 {
			if input == 0 {
				return 3 * math.Tanh(x)
			}
			return math.Abs(x)
		},
		op: func(t *autograd.Tape, u, _ ts, r *engine.Rows, states []ts) (y ts, next []ts) {
			return withSlots(states, 1, func(slots []engine.Slots) *tensor.Tensor {
				return t.Phase(u[0], u[1], r, slots[0])
			})
		}}
}

// TestPhaseOfAMillionPositions checks that an angle is as exact after a million positions as after one, to float32.
func TestPhaseOfAMillionPositions(t *testing.T) {
	const l, rate, dt = 1_000_000, float32(1.234), float32(0.567)
	rates, steps := tensor.New(l, 1), tensor.New(l, 1)
	rates.Fill(rate)
	steps.Fill(dt)
	y := numbers(autograd.NewTape(cpu.Backend{}).Phase(rates, steps, engine.NewRows(l), nil))
	for _, n := range []int{1, 1000, l} {
		want := math.Mod(float64(n)*float64(rate)*float64(dt), 2*math.Pi)
		if off := math.Abs(float64(y[n-1]) - want); off > 5e-7 {
			t.Errorf("after %d positions the angle is %v, want %v", n, y[n-1], want)
		}
	}
}

// turnRows cover both kinds of pairs, angles for some and for all of them, groups and ranks.
func turnRows() []row {
	turn := func(name string, angles int, by engine.Turning) row {
		shapes := func(l, n, angles int) [][]int {
			return [][]int{{l, by.Ranks * by.Groups * n}, {by.Ranks * by.Heads, n}, {l, by.Heads * angles}}
		}
		return row{name: "Turn/" + name, in: shapes(5, 6, angles), big: shapes(300, 24, 4*angles),
			op: func(t *autograd.Tape, in ts) ts { return ts{t.Turn(in[0], in[1], in[2], by)} }}
	}
	return []row{
		turn("pairs", 3, engine.Turning{Ranks: 2, Groups: 1, Heads: 2}),
		turn("some", 1, engine.Turning{Ranks: 2, Groups: 2, Heads: 4}),
		turn("halves", 2, engine.Turning{Ranks: 4, Groups: 1, Heads: 3, Halves: true}),
	}
}

// The CPU's engine works in chunks of 64 keys, or fewer positions with several ranks. Without recording, it steps rows
// of up to eight positions that have a state.
func init() {
	register(turnRows)
	registerSequences(func() []sequences {
		all, few := []bool{true, true}, []bool{true, true, true, false, false}
		ages, mixed := []int{1, 70, 2, 1, 6}, []int{1, 150, 3, 1, 33, 64, 1, 2}
		most := []bool{true, true, true, false, false, true, true, true}
		phases := withBig([]sequences{
			phaseSequences("plain", []int{5, 5}, nil, 2, 3), phaseSequences("state", []int{5, 1}, all, 2, 3),
			phaseSequences("ages", ages, few, 3, 2), phaseSequences("one_position", []int{1, 1}, all, 2, 1),
		}, phaseSequences("equal", []int{300, 300}, all, 20, 16), phaseSequences("mixed", mixed, most, 20, 48))
		scans := withBig([]sequences{
			trapezoidSequences("plain", []int{5, 5}, nil, 2, 1, 3, 4),
			trapezoidSequences("state", []int{5, 5}, all, 2, 1, 3, 2),
			trapezoidSequences("chunks", []int{131}, all[:1], 2, 1, 2, 1),
			trapezoidSequences("chunks_from_zero", []int{66}, nil, 1, 1, 2, 3),
			trapezoidSequences("one_position", []int{1, 1}, all, 2, 1, 3, 2),
			trapezoidSequences("ages", ages, few, 2, 1, 2, 2),
		}, trapezoidSequences("equal", []int{150, 150}, all, 6, 1, 24, 20),
			trapezoidSequences("mixed", mixed, most, 6, 1, 20, 24))
		ranks := withBig([]sequences{
			trapezoidSequences("ranks", []int{5, 5}, nil, 2, 3, 2, 4),
			trapezoidSequences("ranks/state", []int{5, 1}, all, 2, 2, 3, 2),
			trapezoidSequences("ranks/chunks", []int{45}, all[:1], 1, 3, 2, 1),
			trapezoidSequences("ranks/ages", ages, few, 1, 2, 2, 2),
		}, trapezoidSequences("ranks/equal", []int{70, 70}, all, 4, 3, 24, 20),
			trapezoidSequences("ranks/mixed", mixed, most, 4, 4, 20, 24))
		return append(append(phases, scans...), ranks...)
	})
}

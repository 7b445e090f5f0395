package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/cluster"
)

// shared is a toy whose shards other machines can compute: a shard itself determines its targets.
type shared struct {
	*toy
	took, reads int
}

func (w *shared) Read(step int) (int, error) {
	if step != w.reads {
		return 0, fmt.Errorf("found a read of update %d after %d", step, w.reads)
	}
	n, err := w.toy.Read(step)
	if err == nil {
		w.reads++
	}
	return n, err
}

func (w *shared) Place(string) (any, error) { return w.reads, nil }

func (w *shared) Return(place []byte, _ string) error { return json.Unmarshal(place, &w.reads) }

func (w *shared) Rows(s Shard) []byte { return fmt.Append(nil, s) }
func (w *shared) Take(s Shard, rows []byte) error {
	w.took++
	if want := fmt.Sprint(s); string(rows) != want {
		return fmt.Errorf("found the rows %s, want %s", rows, want)
	}
	return nil
}

// islandsPlan has two islands of two shards each, which meet every 3 of 10 updates.
func islandsPlan(t *testing.T, bits int) Plan {
	p := toyPlan(t)
	p.Shards, p.Islands = 4, Islands{N: 2, Every: 3, Bits: bits, LR: 0.7, Momentum: 0.9}
	return p
}

// TestIslandsByHand checks the weights of two islands against the formulas of AdamW and DiLoCo in float64.
func TestIslandsByHand(t *testing.T) {
	p, w := islandsPlan(t, 32), &shared{toy: newToy()}
	l, err := New(p, w)
	if err != nil {
		t.Fatal(err)
	}
	weights, velocity := [2]float64{3, -2}, [2]float64{}
	var m, v [2][2]float64 // of each island
	for start := 0; start < p.Steps; start += 3 {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		end := min(start+3, p.Steps)
		var mean [2]float64
		for i := range 2 {
			own := weights
			for step := start; step < end; step++ {
				rate := p.Optim.LR * l.schedule.At(float64(step))
				for j := range own {
					g := 0.
					for first := 2 * i; first < 2*i+2; first++ { // the loss is the mean square of two numbers
						g += (own[j] - float64(w.wanted(Shard{Step: step, First: first, End: first + 1})[j])) / 2
					}
					m[i][j] = 0.9*m[i][j] + 0.1*g
					v[i][j] = 0.99*v[i][j] + 0.01*g*g
					n := float64(step + 1)
					own[j] -= rate * m[i][j] / (1 - math.Pow(0.9, n)) /
						(math.Sqrt(v[i][j]/(1-math.Pow(0.99, n))) + 1e-8)
				}
			}
			for j := range own {
				mean[j] += (weights[j] - own[j]) / 2
			}
		}
		for j := range weights {
			velocity[j] = 0.9*velocity[j] + mean[j]
			weights[j] -= 0.7 * (mean[j] + 0.9*velocity[j])
			if got := float64(w.w.Elements()[j]); math.Abs(got-weights[j]) > 1e-5 {
				t.Fatalf("after %d updates weight %d is %v, want %v", end, j, got, weights[j])
			}
		}
		if l.step != end || l.opt.Steps() != end {
			t.Fatalf("found %d and %d updates, want %d", l.step, l.opt.Steps(), end)
		}
	}
	if w.took != 4*p.Steps {
		t.Errorf("%d shards were computed, want 4 of each update", w.took)
	}
}

// TestIslandsDropNothing checks that the rounding error of a difference is added to the next one. So the sum of all
// sent differences is exact but for one rounding error.
func TestIslandsDropNothing(t *testing.T) {
	for _, bits := range []int{16, 8} {
		l, err := New(islandsPlan(t, bits), &shared{toy: newToy()})
		if err != nil {
			t.Fatal(err)
		}
		s, rounded := l.islands, false
		var exact, sent [2]float64
		for range 4 {
			was, before := s.state(0), flat(l.opt.Tensors())
			if _, _, err := l.Step(); err != nil {
				t.Fatal(err)
			}
			after := flat(l.opt.Tensors())
			s.weights[was.step] = before
			for step := was.step; step < l.step; step++ {
				for _, shard := range l.shards(s.examples, step) {
					s.rows[updateShard{step, shard.Index}] = s.work.Rows(shard)
				}
			}
			state, q, _, err := s.round(0, was)
			if err != nil || !slices.Equal(state.values, s.state(0).values) {
				t.Fatalf("again: %v, %v, want %v", err, state, s.state(0))
			}
			own := flat(l.opt.Tensors())
			for j := range q {
				exact[j] += float64(before[j] - own[j])
				sent[j] += float64(q[j])
				left := float64(state.values[4+j])
				if math.Abs(sent[j]+left-exact[j]) > 1e-6 {
					t.Errorf("%d bits: sent %v and kept %v, want %v in all", bits, sent[j], left, exact[j])
				}
				rounded = rounded || left != 0
			}
			spread(after, l.opt.Tensors())
			s.forget(0, l.step)
		}
		if !rounded {
			t.Errorf("%d bits: nothing was rounded", bits)
		}
	}
}

// TestRoundGivenUp checks that a round that is interrupted, whose examples cannot be read or whose loss is not finite
// leaves the run as it was at the last meeting, so that it can be saved and resumed.
func TestRoundGivenUp(t *testing.T) {
	p := islandsPlan(t, 8)
	whole := &shared{toy: newToy()}
	l, err := New(p, whole)
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
	}
	lost := errors.New("the disk is gone")
	for _, way := range []string{"stopped", "unread", "broken"} {
		p := islandsPlan(t, 8)
		w := &shared{toy: newToy()}
		l, err := New(p, w)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
		before, places := w.w.Elements(), w.reads
		ctx, stop := context.WithCancel(t.Context())
		l.islands.ctx = ctx
		w.read = func(step int) error {
			if way == "unread" && step == 4 {
				return lost
			}
			return nil
		}
		w.fails = func(s Shard) error {
			if way == "stopped" && s.Step == 4 {
				stop()
			}
			if way == "broken" && s.Step == 5 {
				w.fixed = []float32{float32(math.Inf(1)), 0}
			}
			return nil
		}
		_, _, err = l.Step()
		var broke *NonFiniteError
		if !errors.Is(err, map[string]error{"stopped": context.Canceled, "unread": lost}[way]) && !(way == "broken" &&
			errors.As(err, &broke) && broke.Step == 6) {
			t.Errorf("%s: found %v", way, err)
		}
		if l.step != 3 || l.opt.Steps() != 3 || w.reads != places || !slices.Equal(w.w.Elements(), before) {
			t.Errorf("%s: found update %d, %d read, weights %v, want 3, %d, %v", way, l.step, w.reads, w.w.Elements(),
				places, before)
		}
		w.read, w.fails, w.fixed, l.islands.ctx = nil, nil, nil, t.Context()
		for range 3 {
			if _, _, err := l.Step(); err != nil {
				t.Fatalf("%s: %v", way, err)
			}
		}
		if !slices.Equal(w.w.Elements(), whole.w.Elements()) {
			t.Errorf("%s: ends with %v, want %v", way, w.w.Elements(), whole.w.Elements())
		}
	}
}

// TestIslandMessages checks that invalid messages about islands are errors, both from and to a leader.
func TestIslandMessages(t *testing.T) {
	l, err := New(islandsPlan(t, 8), &shared{toy: newToy()})
	if err != nil {
		t.Fatal(err)
	}
	s := l.islands
	numbers := func(n int) []byte { return make([]byte, 4*n) }
	for name, m := range map[string][]byte{
		"nothing": nil, "half a head": messageOf(stateOf, 0, 0)[:16], "another kind": messageOf(3, 0, 0),
		"a later round": messageOf(rowsOf, 3, 0), "before the first": messageOf(rowsOf, -1, 0),
		"another shard": messageOf(rowsOf, 0, 4), "a place before": messageOf(stateOf, 0, -1),
		"the middle":         append(messageOf(stateOf, 0, 2), numbers(2)...),
		"too many numbers":   append(messageOf(stateOf, 0, 0), numbers(7)...),
		"part of a number":   append(messageOf(stateOf, 0, 0), 1, 2, 3),
		"too many weights":   append(messageOf(weightsOf, 0, 0), numbers(3)...),
		"weights at the end": append(messageOf(weightsOf, 0, 2), numbers(1)...),
	} {
		if err := s.Take(0, m); err == nil {
			t.Errorf("%s: no error", name)
		}
		if whole, err := s.Keep(0, m); err == nil || whole {
			t.Errorf("%s: is kept", name)
		}
	}
	state := append(messageOf(stateOf, 0, 0), numbers(6)...)
	for i, want := range map[int]bool{-1: false, 0: true, 1: true, 2: false} {
		if err := s.Take(i, state); (err == nil) != want {
			t.Errorf("of island %d: %v", i, err)
		}
	}
	if whole, err := s.Keep(0, state); err != nil || !whole {
		t.Errorf("a state: %v, %v", whole, err)
	}
	if _, err := s.Keep(0, append(messageOf(stateOf, 1, 0), numbers(6)...)); err == nil {
		t.Error("a state of another update is kept")
	}
	if _, _, _, err := s.advance(0, 3); err == nil {
		t.Error("an island is computed without weights")
	}
}

// TestStatesGoToTheLeader checks that a run with other machines saves, and so collects all states, when the most rounds
// to compute again are reached, and not by time.
func TestStatesGoToTheLeader(t *testing.T) {
	l, err := New(islandsPlan(t, 32), &shared{toy: newToy()})
	if err != nil {
		t.Fatal(err)
	}
	l.pace.saved = time.Time{} // long ago
	if !l.saves() {
		t.Error("alone it is not time to save")
	}
	l.group = &group{}
	for round := range mostRounds + 1 {
		if l.saves() != (round == mostRounds) {
			t.Errorf("with %d rounds to compute again: %t", round, l.saves())
		}
		l.islands.weights[round] = nil
	}
}

// TestIslandsKept checks that a leader of other machines keeps the weights and rows of as many rounds as its memory
// estimate counts.
func TestIslandsKept(t *testing.T) {
	plan := func() Plan {
		p := islandsPlan(t, 32)
		p.Steps, p.SaveEvery = 1000, 1000
		return p
	}
	p, n := plan(), cluster.NewLocal()
	defer n.Close()
	l, err := New(p, &shared{toy: newToy()})
	if err != nil {
		t.Fatal(err)
	}
	team, _ := teamOf(t, n, l, 1, func() (*Training, error) { return New(plan(), &shared{toy: newToy()}) })
	for !l.saves() {
		if _, _, err := l.Step(); err != nil {
			t.Fatal(err)
		}
	}
	rounds := p.Islands.Rounds(p.SaveEvery)
	if s := l.islands; rounds != 8 || len(s.weights) != rounds || len(s.rows) != rounds*p.Islands.Every*p.Shards {
		t.Errorf("found weights of %d rounds and %d rows, want those of %d", len(s.weights), len(s.rows), rounds)
	}
	if err := team.End(cluster.Finished); err != nil {
		t.Error(err)
	}
	for every, want := range map[int]int{1: 1, 3: 1, 4: 2, 6: 2, 24: 8, 99: 8} {
		if got := p.Islands.Rounds(every); got != want {
			t.Errorf("a checkpoint after %d updates: found %d rounds, want %d", every, got, want)
		}
	}
}

package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"sync/atomic"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/optim"
	"github.com/hippo-ssm/hippo/tensor"
)

// Islands holds the settings of islands, which train alone and meet now and then, by DiLoCo (arXiv:2311.08105).
type Islands struct {
	N            int // number of islands, 0 for none
	Every        int // updates of each island between two meetings
	Bits         int // bits of a number that they send: 32, 16 or 8
	LR, Momentum float64
}

// islands trains N models that begin each round of Every updates with the same weights W. In a round island i updates
// by its part of each update's shards, with its own moments, and ends with weights θ_i. Then (arXiv:2311.08105,
// algorithm 1)
//
//	q_i = round(W - θ_i + e_i),  e_i ← W - θ_i + e_i - q_i,  Δ = Σ q_i / N
//
// and Nesterov momentum moves W by Δ. e_i is the rounding error (Seide et al. 2014, doi 10.21437/Interspeech.2014-274);
// with 32 bits there is none. Rounds end at multiples of Every and at the end of the run.
//
// An island is a shard of a round, whichever machine computes it: the q_i are added in the tree of shards. The leader
// keeps the weights and rows of all rounds since the states that it has, so that lost states can be computed again.
type islands struct {
	Islands
	loop     *Training
	work     SharedWork
	ctx      context.Context // of the run; ends a round if this machine trains alone
	left     atomic.Int64    // updates of this round left on this machine, if there are others
	outer    optim.Nesterov
	have     map[int]*island // states after the last round here; if missing, those before the first update
	next     map[int]*island // states after this round
	partly   map[int]*island // states received in part
	weights  map[int][]float32
	rows     map[updateShard][]byte
	examples int // number of examples of an update
	sum      *shardSum
	whole    *autograd.Gradients // the sum of all differences, if all were computed here
}

// island is the state of an island before an update: its moments, followed by the rounding errors.
type island struct {
	step   int
	values []float32
}

// updateShard identifies a shard of an update.
type updateShard struct{ step, shard int }

// mostRounds is the most rounds kept for computing lost states again. After so many a checkpoint is saved, which has
// all states.
const mostRounds = 8

// StateBytes returns the size in bytes of an island's state, given the number of trained parameters.
func (p Islands) StateBytes(trained int) int {
	if p.Bits < 32 {
		return 12 * trained
	}
	return 8 * trained
}

// Saves returns the number of updates between two checkpoints on several machines. The states are sent to the leader
// for each.
func (p Islands) Saves(every int) int { return max(p.Every, min(mostRounds*p.Every, every)) }

// Rounds returns the number of rounds between two checkpoints on several machines. The leader keeps their weights and
// rows.
func (p Islands) Rounds(every int) int { return (p.Saves(every) + p.Every - 1) / p.Every }

func newIslands(l *Training) (*islands, error) {
	p := l.Plan.Islands
	w, ok := l.work.(SharedWork)
	if !ok {
		return nil, fmt.Errorf("islands: found a %s, which they cannot train", l.Plan.Kind)
	}
	if p.N < 1 || p.Every < 1 || l.Plan.Shards%p.N != 0 {
		return nil, fmt.Errorf("islands: found %d, of %d updates, of %d shards, want numbers from 1, and as many "+
			"shards for each", p.N, p.Every, l.Plan.Shards)
	}
	velocity := make([]float32, length(l.opt.Tensors()))
	return &islands{Islands: p, loop: l, work: w, ctx: context.Background(), sum: newShardSum(l.opt),
		outer: optim.Nesterov{LR: float32(p.LR), Momentum: float32(p.Momentum), Velocity: velocity},
		have:  map[int]*island{}, partly: map[int]*island{}, weights: map[int][]float32{},
		rows: map[updateShard][]byte{}}, nil
}

// follows reports whether another machine leads.
func (s *islands) follows() bool { return s.loop.group != nil && !s.loop.group.leads }

// end returns the step at which the round ends that contains the update after the given step.
func (s *islands) end(step int) int {
	return min((step/s.Every+1)*s.Every, max(s.loop.Plan.Steps, step+1))
}

// step trains one round. It returns the mean loss of its updates and the norm of Δ. After an error the state is
// unchanged.
func (s *islands) step() (loss, norm float64, err error) {
	l := s.loop
	nothing := math.NaN()
	back, err := s.wayBack()
	if err != nil {
		return nothing, nothing, err
	}
	defer s.answer()()
	before := flat(l.opt.Tensors())
	s.weights[l.step], s.next, s.whole = before, map[int]*island{}, nil
	end := s.end(l.step)
	defer func() {
		if err == nil {
			return
		}
		spread(before, l.opt.Tensors())
		l.opt.SetSteps(l.step)
		s.forget(l.step, end)
		err = errors.Join(err, back())
	}()
	for step := l.step; step < end; step++ {
		if s.examples, err = s.read(step); err != nil {
			return nothing, nothing, err
		}
	}
	delta, loss, err := s.differences()
	if err != nil {
		return loss, nothing, err
	}
	for i, d := range delta {
		delta[i] = d / float32(s.N)
		norm += float64(delta[i]) * float64(delta[i])
	}
	if norm = math.Sqrt(norm); !isFinite(norm) {
		return loss, norm, &NonFiniteError{Step: l.step + 1, What: "step of all islands", Value: norm,
			Where: "the mean of their differences"}
	}
	after := append([]float32(nil), before...)
	s.outer.Step(after, delta)
	spread(after, l.opt.Tensors())
	s.arrive(end)
	l.history.LossSum, l.history.LossN = l.history.LossSum+loss, l.history.LossN+1
	return loss, norm, nil
}

// answer arranges that an interrupt in this round is answered at once: a note says that the round goes on, as others
// take part, and how many updates are left.
func (s *islands) answer() (stop func() bool) {
	l := s.loop
	if s.left.Store(int64(s.end(l.step) - l.step)); l.group == nil || s.ctx.Err() != nil {
		return func() bool { return false }
	}
	resumes := "the others compute its islands again"
	switch {
	case s.follows():
	case l.savedStep > 0:
		resumes = fmt.Sprintf("the last checkpoint is of step %d", l.savedStep)
	default:
		resumes = "the run has no checkpoint yet"
	}
	return context.AfterFunc(s.ctx, func() {
		what := "the others compute"
		if n := s.left.Load(); n > 0 {
			what = fmt.Sprintf("%d updates are left here", n)
		}
		l.Note(fmt.Sprintf("interrupted: the round of islands ends first, as others take part: %s. Ctrl-C again stops "+
			"now: %s", what, resumes))
	})
}

// wayBack returns a function that sets the work back to its current place in its data.
func (s *islands) wayBack() (func() error, error) {
	if s.follows() {
		return func() error { return nil }, nil
	}
	place, err := s.work.Place("") // there are no files, as no state is carried over
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(place)
	return func() error { return s.work.Return(text, "") }, err
}

// read reads the examples of an update and stores their rows for the islands.
func (s *islands) read(step int) (examples int, err error) {
	examples, err = s.work.Read(step)
	if err != nil || s.follows() {
		return examples, err
	}
	for _, shard := range s.loop.shards(examples, step) {
		s.rows[updateShard{step, shard.Index}] = s.work.Rows(shard)
	}
	return examples, nil
}

// differences returns the sum of all q_i and the mean loss.
func (s *islands) differences() (sum []float32, loss float64, err error) {
	l := s.loop
	s.sum.begin(s.N)
	if l.group != nil {
		out, err := l.group.step(s.N, s)
		if err != nil || !out.Alone {
			s.sum.drop()
			return l.group.values, float64(out.Loss), err
		}
		loss = float64(out.Loss)
	} else {
		all := make([]cluster.Result, s.N)
		for i := range all {
			if all[i], err = s.Compute(i, nil); err != nil {
				return nil, all[i].Mean, err
			}
		}
		loss, _ = cluster.Total(all)
	}
	if s.apart() {
		leaves := maps.Clone(s.sum.waiting)
		clear(s.sum.waiting)
		for i := range s.N {
			s.whole = s.sum.put(i, leaves[cluster.Leaf(i, s.N)])
		}
	}
	sum = flat(s.whole.Each())
	s.whole.Zero()
	s.sum.giveBack(s.whole)
	return sum, loss, nil
}

// arrive ends a round at the given step.
func (s *islands) arrive(step int) {
	l := s.loop
	if s.follows() {
		s.have = s.next
	}
	for i, state := range s.next {
		s.have[i] = state
	}
	s.next, l.step, l.factor = nil, step, l.schedule.At(float64(step-1))
	l.opt.SetSteps(step)
	l.average.add((step + s.Every - 1) / s.Every)
	oldest := step
	for i := 0; i < s.N && !s.follows(); i++ {
		oldest = min(oldest, s.state(i).step)
	}
	s.forget(0, oldest)
}

// state returns the latest state of an island on this machine.
func (s *islands) state(i int) *island {
	if have := s.have[i]; have != nil {
		return have
	}
	return &island{values: make([]float32, s.size())}
}

// size returns the number of values in a state.
func (s *islands) size() int { return s.StateBytes(len(s.outer.Velocity)) / 4 }

// apart reports whether differences are rounded. Then they must be sent one by one, as their sums would need more bits.
func (s *islands) apart() bool { return s.Islands.Bits < 32 }

// forget drops the weights and rows of the updates from one step to before another.
func (s *islands) forget(from, to int) {
	for step := range s.weights {
		if step >= from && step < to {
			delete(s.weights, step)
		}
	}
	for at := range s.rows {
		if at.step >= from && at.step < to {
			delete(s.rows, at)
		}
	}
}

// gather collects the states of all islands on this machine. Other machines send theirs, and those of lost machines are
// computed again.
func (s *islands) gather() error {
	l := s.loop
	if l.group != nil {
		if err := l.group.team.Fetch(s); err != nil {
			return err
		}
	}
	now := flat(l.opt.Tensors())
	defer func() {
		spread(now, l.opt.Tensors())
		l.opt.SetSteps(l.step)
		s.forget(0, l.step)
	}()
	for i := range s.N {
		state, _, _, err := s.advance(i, l.step)
		if err != nil {
			return err
		}
		s.have[i] = state
	}
	return nil
}

// tensors visits all values that the next round depends on besides the weights, by their names in a checkpoint. This
// machine must have all states.
func (s *islands) tensors(visit func(name string, shape []int, values []float32)) {
	part := func(values *[]float32, name string, x *tensor.Tensor) {
		visit(name, x.Shape(), (*values)[:x.Len()])
		*values = (*values)[x.Len():]
	}
	params := func(values []float32, prefix, suffix string) {
		s.loop.opt.Moments(func(name string, x *tensor.Tensor) {
			if name, first := strings.CutSuffix(name, ".exp_avg"); first {
				part(&values, prefix+name+suffix, x)
			}
		})
	}
	params(s.outer.Velocity, "outer.", ".momentum")
	for i := range s.N {
		values, prefix := s.have[i].values, fmt.Sprintf("islands.%d.", i)
		s.loop.opt.Moments(func(name string, x *tensor.Tensor) { part(&values, prefix+name, x) })
		if s.apart() {
			params(values, prefix, ".dropped")
		}
	}
}

// saved returns the tensors for a checkpoint.
func (s *islands) saved() (all []checkpoint.Tensor) {
	s.tensors(func(name string, shape []int, values []float32) {
		all = append(all, checkpoint.NewTensor(name, shape, values))
	})
	return all
}

// setStates returns a function that sets the states from the tensors of a checkpoint made at the given step.
func (s *islands) setStates(step int) func(get func(name string) ([]float32, error)) error {
	return func(get func(name string) ([]float32, error)) (err error) {
		for i := range s.N {
			s.have[i] = &island{step, make([]float32, s.size())}
		}
		s.tensors(func(name string, _ []int, into []float32) {
			if err != nil {
				return
			}
			var v []float32
			if v, err = get(name); err == nil && len(v) != len(into) {
				err = fmt.Errorf("%s: found %d values, want %d", name, len(v), len(into))
			}
			copy(into, v)
		})
		return err
	}
}

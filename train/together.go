package train

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// SharedWork is a Work whose shards can be computed by other machines.
type SharedWork interface {
	Work
	// Rows returns the data of a shard's examples that Loss needs, besides the model. Take stores it as if the examples
	// had been read.
	Rows(s Shard) []byte
	Take(s Shard, rows []byte) error
}

// group is this machine's membership in a team.
type group struct {
	ctx    context.Context
	team   *cluster.Team
	work   SharedWork
	leads  bool
	values []float32 // of a sum
	shards []Shard   // of the update
	whole  *autograd.Gradients
	loop   *Training
	carry  *carrying // nil if no states are carried over
}

// join makes the run compute its updates with a team.
func (l *Training) join(ctx context.Context, t *cluster.Team, leads bool) error {
	w, ok := l.work.(SharedWork)
	if !ok {
		return fmt.Errorf("found a %s, which cannot be trained on several machines", l.Plan.Kind)
	}
	values := make([]float32, length(l.opt.Tensors()))
	l.group = &group{ctx: ctx, team: t, work: w, leads: leads, values: values, loop: l}
	if c, ok := w.(CarriedWork); ok && c.Carries() {
		l.group.carry = &carrying{group: l.group, work: c}
	}
	if l.Plan.Split {
		l.split = newSplit(l, leads)
		t.Keep(l.split)
	}
	return nil
}

// Lead makes the run compute its updates with team t, whose leader this machine is.
func (l *Training) Lead(t *cluster.Team) error { return l.join(context.Background(), t, true) }

// Follow makes updates as the leader directs, until the run ends. The model and the moments must be the leader's at the
// given step. When ctx is done it leaves after the current update or round of islands.
func (l *Training) Follow(ctx context.Context, t *cluster.Team, step int, ev Events) error {
	if err := l.join(ctx, t, false); err != nil {
		return err
	}
	l.opt.SetSteps(step)
	if l.step, l.ev = step, ev; l.islands != nil {
		l.islands.ctx = ctx
	}
	for {
		loss, norm, err := l.Step()
		var ended *cluster.EndedError
		switch {
		case errors.As(err, &ended) && ended.Why == cluster.Finished:
			return nil
		case err != nil:
			return err
		case ev.Step != nil:
			ev.Step(l.progress(loss, norm))
		}
	}
}

// step computes the given number of parts of a step with the team.
func (g *group) step(parts int, w cluster.Work) (cluster.Outcome, error) {
	out, err := g.team.Step(g.ctx, g.loop.step, parts, g.loop.factor, w, g.values)
	var bad *cluster.LossError
	if errors.As(err, &bad) {
		out.Loss = cluster.Float(bad.Loss)
		err = &NonFiniteError{Step: g.loop.step + 1, What: "loss", Value: bad.Loss, Where: "a shard of " + bad.Member}
	} else if err != nil {
		out.Loss = cluster.Float(math.NaN())
		err = g.explain(err)
	}
	return out, err
}

// explain adds to an error about lost moments from where the run can continue.
func (g *group) explain(err error) error {
	if lost := (*cluster.LostPartsError)(nil); errors.As(err, &lost) {
		return fmt.Errorf("%w%s", err, g.loop.goesOn())
	}
	return err
}

// goesOn returns a text that says from where a run that ends can continue.
func (l *Training) goesOn() string {
	if l.savedStep == 0 {
		return "; the run has no checkpoint yet"
	}
	return fmt.Sprintf("; --resume %s goes on from the checkpoint of step %d", l.Plan.Out, l.savedStep)
}

// together computes Gradient with a team.
func (l *Training) together(shards []Shard) (loss, count float64, sum *autograd.Gradients, err error) {
	g := l.group
	g.shards, g.whole = shards, nil
	var w cluster.Work = g
	if g.carry != nil {
		g.carry.begin()
		w = g.carry
	}
	out, err := g.step(len(shards), w)
	switch {
	case err != nil:
		return float64(out.Loss), 0, nil, err
	case out.Alone:
		sum = g.whole
	default:
		l.sum.drop()
		sum = l.sum.take()
		spread(g.values, sum.Each())
	}
	l.factor = float64(out.Factor)
	return float64(out.Loss), float64(out.Count), sum, nil
}

// Rows returns the data that a shard of the update needs.
func (g *group) Rows(shard int, _ bool) [][]byte { return [][]byte{g.work.Rows(g.shards[shard])} }

// Take stores the data that a shard of the next update needs.
func (g *group) Take(shard int, rows []byte) error {
	if shard < 0 || shard >= len(g.shards) {
		return fmt.Errorf("rows: found those of shard %d, want a number below %d", shard, len(g.shards))
	}
	return g.work.Take(g.shards[shard], rows)
}

// Compute computes a shard. A follower sends a loss that is not finite to the leader, which reports it.
func (g *group) Compute(shard int, ready func(lo, hi int)) (cluster.Result, error) {
	l := g.loop
	into := l.sum.take()
	if ready != nil && !l.long() {
		l.sum.watch(shard, into, ready)
	}
	mean, weight, err := l.shard(l.tape, g.shards[shard], len(g.shards) == 1, into)
	var broke *NonFiniteError
	if errors.As(err, &broke) && broke.What == "loss" && !g.leads {
		mean, weight, err = broke.Value, 1, nil
	}
	if err != nil {
		return cluster.Result{}, err
	}
	g.whole = l.sum.put(shard, into)
	return cluster.Result{Mean: mean, Weight: weight}, nil
}

// Failed returns the error of this machine's device, if it failed. Its numbers must not be used then.
func (g *group) Failed() error { return g.loop.failed() }

// Values copies elements of a node to dst.
func (g *group) Values(n cluster.Node, at int, dst []float32) { g.loop.sum.values(n, at, dst) }

// length returns the total number of elements of tensors.
func length(xs []*tensor.Tensor) (n int) {
	for _, x := range xs {
		n += x.Len()
	}
	return n
}

// flat returns the elements of tensors, one after the other.
func flat(xs []*tensor.Tensor) []float32 {
	values := make([]float32, length(xs))
	rest := values
	for _, x := range xs {
		rest = rest[x.CopyTo(rest):]
	}
	return values
}

// spread copies values into tensors, one after the other.
func spread(values []float32, xs []*tensor.Tensor) {
	for _, x := range xs {
		x.CopyFrom(values[:x.Len()])
		values = values[x.Len():]
	}
}

// state returns the tensors that the next update depends on: the parameters, and the moments of the trained ones or,
// with islands, the momentum of the outer step.
func (l *Training) state() (all []*tensor.Tensor, err error) {
	l.work.Params("", func(name string, p *nn.Param) {
		if p.Packed() != nil { // frozen: each machine reads them from the model's file
			return
		}
		if p.Bytes() == 0 && p.Len() > 0 && err == nil {
			err = fmt.Errorf("found no elements of %s, want %d", name, p.Len())
		}
		all = append(all, p.Tensor)
	})
	if s := l.islands; s != nil {
		return append(all, tensor.FromSlice(s.outer.Velocity, len(s.outer.Velocity))), err
	}
	if l.Plan.Split { // the leader distributes the moments
		return all, err
	}
	l.opt.Moments(func(_ string, x *tensor.Tensor) { all = append(all, x) })
	return all, err
}

// State returns the values that a joining machine needs: the elements of the parameters and of the moments.
func (l *Training) State() ([]float32, error) {
	all, err := l.state()
	if err != nil {
		return nil, err
	}
	return flat(all), nil
}

// SetState replaces the state of this machine by that of another, as State returned it.
func (l *Training) SetState(values []float32) error {
	all, err := l.state()
	if err == nil {
		spread(values, all)
	}
	return err
}

package train

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/cluster"
	"github.com/hippo-ssm/hippo/tensor"
)

var _ cluster.Lasting = (*islands)(nil)

// Again returns nil: any machine can compute the rounds of a lost island again.
func (s *islands) Again(int) error { return nil }

// Bits returns the number of bits of a number that an island sends.
func (s *islands) Bits() int { return s.Islands.Bits }

// Compute makes the updates of an island in this round, and those of earlier rounds that are missing here. A follower
// sends a loss that is not finite to the leader, which reports it. ready is not used: no value is final before the
// round ends.
func (s *islands) Compute(i int, _ func(lo, hi int)) (cluster.Result, error) {
	end := s.end(s.loop.step)
	if g := s.loop.group; g != nil {
		s.left.Store(int64(g.team.Left()*(end-s.loop.step) + s.loop.step - s.state(i).step))
	}
	state, diff, result, err := s.advance(i, end)
	var broke *NonFiniteError
	if errors.As(err, &broke) && broke.What == "loss" && s.follows() {
		state, diff = s.state(i), make([]float32, len(s.outer.Velocity))
		result, err = cluster.Result{Mean: broke.Value, Weight: 1}, nil
	}
	if err != nil {
		return result, err
	}
	s.next[i] = state
	g := s.sum.take()
	spread(diff, g.Each())
	if s.apart() {
		s.sum.mu.Lock()
		s.sum.waiting[cluster.Leaf(i, s.N)] = g
		s.sum.mu.Unlock()
	} else {
		s.whole = s.sum.put(i, g)
	}
	return result, nil
}

// advance computes rounds of an island up to step to. It returns its state there, and the difference and loss of the
// last round.
func (s *islands) advance(i, to int) (state *island, diff []float32, result cluster.Result, err error) {
	state = s.state(i)
	for err == nil && state.step < to {
		state, diff, result, err = s.round(i, state)
	}
	return state, diff, result, err
}

// round computes one round of an island from a state.
func (s *islands) round(i int, was *island) (state *island, diff []float32, result cluster.Result, err error) {
	l := s.loop
	weights := s.weights[was.step]
	if len(weights) != len(s.outer.Velocity) {
		return nil, nil, result, fmt.Errorf("island %d: found no weights of step %d", i, was.step)
	}
	state = &island{s.end(was.step), slices.Clone(was.values)}
	spread(weights, l.opt.Tensors())
	rest := state.values
	moments := func(do func(x *tensor.Tensor, values []float32)) {
		rest = state.values
		l.opt.Moments(func(_ string, x *tensor.Tensor) {
			do(x, rest[:x.Len()])
			rest = rest[x.Len():]
		})
	}
	moments(func(x *tensor.Tensor, values []float32) { x.CopyFrom(values) })
	l.opt.SetSteps(was.step)
	ForUpdates(l.tape, l.precision)
	var all []cluster.Result
	for step := was.step; step < state.step; step++ {
		if err := s.ctx.Err(); err != nil && l.group == nil {
			return nil, nil, result, err
		}
		loss, count, err := s.update(i, step)
		s.left.Add(-1)
		if result.Mean = loss; err != nil {
			return nil, nil, result, err
		}
		all = append(all, cluster.Result{Mean: loss, Weight: count})
	}
	result.Mean, result.Weight = cluster.Total(all)
	moments(func(x *tensor.Tensor, values []float32) { x.CopyTo(values) })
	diff = flat(l.opt.Tensors())
	for j, w := range weights {
		if diff[j] = w - diff[j]; !isFinite(float64(diff[j])) {
			return nil, nil, result, &NonFiniteError{Step: state.step, What: "weights", Value: float64(diff[j]),
				Where: fmt.Sprintf("island %d", i)}
		}
	}
	if dropped := rest; s.apart() {
		for j := range diff {
			diff[j] += dropped[j]
		}
		copy(dropped, diff)
		cluster.RoundTo(diff, s.Islands.Bits)
		for j := range diff {
			dropped[j] -= diff[j]
		}
	}
	return state, diff, result, nil
}

// update makes one update of an island from its part of the update's shards.
func (s *islands) update(i, step int) (loss, count float64, err error) {
	l := s.loop
	shards := l.shards(s.examples, step)
	n := len(shards) / s.N
	l.sum.begin(n)
	var sum *autograd.Gradients
	all := make([]cluster.Result, n)
	for k, shard := range shards[i*n : (i+1)*n] {
		rows, there := s.rows[updateShard{step, shard.Index}]
		if !there {
			return math.NaN(), 0, fmt.Errorf("island %d: found no rows of shard %d of step %d", i, shard.Index, step)
		}
		if err := s.work.Take(shard, rows); err != nil {
			return math.NaN(), 0, err
		}
		g := l.sum.take()
		mean, weight, err := l.shard(l.tape, shard, n == 1, g)
		if err != nil {
			return mean, 0, err
		}
		all[k] = cluster.Result{Mean: mean, Weight: weight}
		sum = l.sum.put(k, g)
	}
	loss, count = cluster.Total(all)
	_, err = l.apply(sum, step, count, l.schedule.At(float64(step)))
	return loss, count, err
}

// A message about an island has a header of 17 bytes: its kind (1 byte), the step (8 bytes), and the index of its first
// number or of the shard in the update (8 bytes). The payload is numbers or rows.
const (
	stateOf   = iota // numbers of a state before an update
	weightsOf        // numbers of the weights at the beginning of an earlier round
	rowsOf           // the rows of a shard

	messageHead = 17
	mostNumbers = 1 << 20 // in a message
)

func messageOf(what byte, step, at int) []byte {
	le := binary.LittleEndian
	return le.AppendUint64(le.AppendUint64([]byte{what}, uint64(step)), uint64(at))
}

// numbers returns the messages that hold values.
func numbers(what byte, step int, values []float32) (all [][]byte) {
	for at := 0; at < len(values); at += mostNumbers {
		m := messageOf(what, step, at)
		for _, v := range values[at:min(at+mostNumbers, len(values))] {
			m = binary.LittleEndian.AppendUint32(m, math.Float32bits(v))
		}
		all = append(all, m)
	}
	return all
}

// State returns the state of an island, as messages.
func (s *islands) State(i int) [][]byte {
	if have := s.have[i]; have != nil {
		return numbers(stateOf, have.step, have.values)
	}
	return nil
}

// Rows returns the rows of an island in this round. If the receiver did not compute the previous round, they are
// preceded by the latest state on this machine and the weights and rows of the rounds since.
func (s *islands) Rows(i int, anew bool) (all [][]byte) {
	from := s.loop.step
	if anew {
		all, from = s.State(i), s.state(i).step
	}
	n := s.loop.Plan.Shards / s.N
	for step := from; step < s.end(s.loop.step); step++ {
		if weights := s.weights[step]; step < s.loop.step {
			all = append(all, numbers(weightsOf, step, weights)...)
		}
		for shard := i * n; shard < (i+1)*n; shard++ {
			all = append(all, append(messageOf(rowsOf, step, shard), s.rows[updateShard{step, shard}]...))
		}
	}
	return all
}

// Take stores a message of Rows.
func (s *islands) Take(i int, text []byte) (err error) {
	what, step, at, rest, err := s.parse(i, text)
	switch {
	case err != nil:
	case what == stateOf:
		_, err = s.keep(i, step, at, rest)
	case what == weightsOf:
		s.weights[step], err = s.add(s.weights[step], at, len(s.outer.Velocity), rest)
	default:
		s.rows[updateShard{step, at}] = rest
	}
	return err
}

// Keep stores a message of State and reports whether the state is complete.
func (s *islands) Keep(i int, text []byte) (whole bool, err error) {
	what, step, at, rest, err := s.parse(i, text)
	if err == nil && (what != stateOf || step != s.loop.step) {
		err = fmt.Errorf("island %d: found a message of kind %d of step %d, want the state of step %d", i, what, step,
			s.loop.step)
	}
	if err != nil {
		return false, err
	}
	return s.keep(i, step, at, rest)
}

// parse reads the header of a message.
func (s *islands) parse(i int, text []byte) (what byte, step, at int, rest []byte, err error) {
	if len(text) >= messageHead {
		le := binary.LittleEndian
		what, step, at, rest = text[0], int(le.Uint64(text[1:])), int(le.Uint64(text[9:])), text[messageHead:]
	}
	if len(text) < messageHead || i < 0 || i >= s.N || what > rowsOf || step < 0 || step >= s.end(s.loop.step) ||
		at < 0 || what == rowsOf && at >= s.loop.Plan.Shards {
		err = fmt.Errorf("found a message of %d bytes about island %d, of kind %d, step %d and place %d, of %d islands",
			len(text), i, what, step, at, s.N)
	}
	return what, step, at, rest, err
}

// keep appends numbers to a state. When the state is complete, it is put into s.have.
func (s *islands) keep(i, step, at int, text []byte) (whole bool, err error) {
	state := s.partly[i]
	if at == 0 || state == nil {
		state = &island{step: step}
		s.partly[i] = state
	}
	if state.values, err = s.add(state.values, at, s.size(), text); err != nil || len(state.values) < s.size() {
		return false, err
	}
	delete(s.partly, i)
	s.have[i] = state
	return true, nil
}

// add appends numbers from place at on to values, which must not exceed n in all.
func (s *islands) add(values []float32, at, n int, text []byte) ([]float32, error) {
	if at != len(values) || len(text)%4 != 0 || len(text)/4 > n-at {
		return nil, fmt.Errorf("found %d bytes at number %d of %d, after %d numbers", len(text), at, n, len(values))
	}
	for ; len(text) > 0; text = text[4:] {
		values = append(values, math.Float32frombits(binary.LittleEndian.Uint32(text)))
	}
	return values, nil
}

// Failed returns the error of this machine's device, if it failed.
func (s *islands) Failed() error { return s.loop.failed() }

// Values copies elements of a node to dst.
func (s *islands) Values(n cluster.Node, at int, dst []float32) { s.sum.values(n, at, dst) }

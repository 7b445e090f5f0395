package text

import (
	"cmp"
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// Values of Loop.Gradients.
const (
	gradientsExact   = "exact"
	gradientsStopped = "stopped"
)

var _ train.LongWork = (*Work)(nil)

// checkChunks adds the problems of the settings for chunks.
func (t *Loop) checkChunks(p *config.Problems) {
	if t.Chunk < 0 {
		p.Addf("train.chunk", "found %d, want tokens, or 0 for whole sequences", t.Chunk)
	}
	if t.Recompute && (t.Chunk > 0 || t.CarryState) {
		p.Addf("train.recompute", "found it together with train.chunk or train.carry_state, want one of them")
	}
	p.OneOf("train.gradients", cmp.Or(t.Gradients, gradientsExact), []string{gradientsExact, gradientsStopped})
}

// held returns the number of tokens of a sequence whose activations are held at once.
func (t *Loop) held() int {
	if t.Chunk > 0 {
		return min(t.Chunk, t.SeqLen)
	}
	return t.SeqLen
}

// chunkTimes returns the time of a sequence as a multiple of that of a chunk. With exact gradients the forward pass of
// each chunk is computed twice. A backward pass takes about twice as long as a forward pass.
func (t *Loop) chunkTimes() float64 {
	n := float64(t.SeqLen) / float64(t.held())
	if n > 1 && t.Gradients != gradientsStopped {
		n *= 4. / 3
	}
	return n
}

// statesBetween returns the memory of the states before all chunks of a shard, which are kept for exact gradients.
func (c *Config) statesBetween(shape model.Config) int {
	t := &c.Train
	if t.held() == t.SeqLen || t.Gradients == gradientsStopped {
		return 0
	}
	m, err := model.New(shape)
	if err != nil {
		return 0 // reported elsewhere
	}
	return t.BatchSize * (t.SeqLen/t.held() + 1) * m.NewState().Size()
}

// chunked returns an error if the model cannot be trained in chunks, or with recomputation, as the settings say.
func (t *Loop) chunked(m *model.Model) error {
	if t.Recompute && m.SharesBlocks() {
		return fmt.Errorf("train.recompute: found layers that share a block, want a model without them")
	}
	if t.Chunk == 0 || t.Chunk >= t.SeqLen || t.Gradients == gradientsStopped {
		return nil
	}
	if ok, layer, kind := m.Recurrent(); !ok {
		return fmt.Errorf("train.gradients: found %s with layer %d, %s, "+
			"which has no state of fixed size to pass a gradient through; want %s", gradientsExact, layer, kind,
			gradientsStopped)
	}
	return nil
}

// StateBytes returns the memory of the states between the chunks of a shard.
func (tr *Work) StateBytes() int { return tr.Config.statesBetween(tr.Model.Config) }

// Long reports whether the activations of a shard are not all held at once.
func (tr *Work) Long() bool {
	c := &tr.Config.Train
	return c.Recompute || c.Chunk > 0 && c.Chunk < c.SeqLen
}

// Through processes the sequences of a shard chunk by chunk and passes their states on.
//
// With exact gradients it first runs a forward pass over all chunks and keeps only the states before each chunk. Then
// it goes from the last chunk to the first: it computes the chunk again from its state, and the backward pass gives the
// gradient of that state. The backward pass of the chunk before starts from this gradient and from its own loss. So the
// gradient is that of the whole sequence, and memory is that of one chunk and of the states (Gruslys et al.,
// arXiv:1606.03401, with one level).
//
// With stopped gradients (truncated back-propagation through time) it makes one forward pass, and a loss has no
// gradient beyond the start of its chunk.
func (tr *Work) Through(t *autograd.Tape, s train.Shard, weigh func(int) float64,
	check func(float64) error) (mean float64, targets int, err error) {
	if tr.Config.Train.Recompute {
		return tr.byLayers(t, s, weigh, check)
	}
	p := tr.newPassage(t, s)
	targets = countAsked(tr.targets[s.First*p.length : s.End*p.length])
	weight := weigh(targets) / float64(max(1, targets))
	if tr.Config.Train.Gradients == gradientsStopped {
		for i := range p.count() {
			loss, n, err := p.back(i, p.states, nil, weight, check)
			if err != nil {
				return loss, targets, err
			}
			mean += loss * float64(n) / float64(max(1, targets))
			for _, state := range p.states {
				state.Detach()
				state.Keep(p.chunk)
			}
		}
		p.end()
		return mean, targets, nil
	}
	before := make([][]*model.State, p.count())
	for i := range before {
		for _, state := range p.states {
			before[i] = append(before[i], state.Clone())
		}
		t.Reset()
		t.Record(false)
		rows, inputs, _ := p.rows(i, p.states)
		tr.Model.Forward(t, inputs, rows)
	}
	p.end()
	var gradients []*tensor.Tensor // gradients of the states after the chunk
	for i := p.count() - 1; i >= 0; i-- {
		var leaves []*tensor.Tensor
		if i > 0 {
			for _, state := range before[i] {
				leaves = append(leaves, state.Leaves()...)
			}
		}
		for _, x := range leaves {
			x.SetNeedsGrad(true)
		}
		loss, n, err := p.back(i, before[i], gradients, weight, check)
		if err != nil {
			return loss, targets, err
		}
		mean += loss * float64(n) / float64(max(1, targets))
		gradients = gradients[:0]
		for _, x := range leaves {
			gradients = append(gradients, takeGradient(t, x))
		}
		before[i] = nil
	}
	return mean, targets, nil
}

// passage is a shard that is processed in chunks.
type passage struct {
	tr            *Work
	t             *autograd.Tape
	s             train.Shard
	length, chunk int
	seeds         []uint64
	precision     engine.Precision
	states        []*model.State // states of the sequences after the chunk computed last
}

func (tr *Work) newPassage(t *autograd.Tape, s train.Shard) *passage {
	c := &tr.Config.Train
	p := &passage{tr: tr, t: t, s: s, length: c.SeqLen, chunk: c.Chunk, precision: t.Precision(),
		seeds: engine.RowSeeds(tr.Config.Seed, s.Step, s.First, s.End-s.First)}
	for k := s.First; k < s.End; k++ {
		state := tr.Model.NewState()
		if tr.carried != nil {
			state = tr.carried[k]
		}
		p.states = append(p.states, state)
	}
	return p
}

// count returns the number of chunks.
func (p *passage) count() int { return (p.length + p.chunk - 1) / p.chunk }

// end stores the states after the last chunk if states are carried over.
func (p *passage) end() {
	if p.tr.carried != nil {
		copy(p.tr.carried[p.s.First:p.s.End], p.states)
	}
}

// rows returns the rows of chunk i of all sequences, which continue from states. It updates states: a document that
// starts in the chunk replaces the state with its own.
func (p *passage) rows(i int, states []*model.State) (rows *model.Rows, inputs, targets []int32) {
	rows = &model.Rows{}
	lo := i * p.chunk
	hi := min(lo+p.chunk, p.length)
	var seeds []uint64
	for k := range states {
		borders := within(p.tr.borders[p.s.First+k], lo, hi)
		before := rows.Count()
		states[k] = rows.AddDocuments(p.tr.Model, hi-lo, borders, states[k])
		for piece := range rows.Count() - before {
			seeds = append(seeds, engine.PieceSeed(engine.PieceSeed(p.seeds[k], i), piece))
		}
		at := (p.s.First + k) * p.length
		inputs = append(inputs, p.tr.inputs[at+lo:at+hi]...)
		targets = append(targets, p.tr.targets[at+lo:at+hi]...)
	}
	rows.Train(seeds...)
	return rows, inputs, targets
}

// within returns the borders in [lo, hi), relative to lo.
func within(borders []int, lo, hi int) (some []int) {
	for _, at := range borders {
		if at >= lo && at < hi {
			some = append(some, at-lo)
		}
	}
	return some
}

// back computes chunk i from states, advances them past the chunk, and runs the backward pass from the chunk's loss and
// from the gradients of the states after it, nil for none. It returns the mean loss and the number of targets.
func (p *passage) back(i int, states []*model.State, gradients []*tensor.Tensor, weight float64,
	check func(float64) error) (mean float64, targets int, err error) {
	t, m := p.t, p.tr.Model
	t.Reset()
	train.ForUpdates(t, p.precision)
	rows, inputs, wanted := p.rows(i, states)
	out := m.Loss(t, m.Forward(t, inputs, rows), wanted)
	mean, targets = out.Value(), countAsked(wanted)
	if err := check(mean); err != nil {
		return mean, targets, err
	}
	if len(gradients) > 0 {
		n := 0
		for _, state := range states {
			for _, x := range state.Leaves() {
				t.Seed(x, gradients[n])
				n++
			}
		}
	}
	t.BackwardTimes(out, float32(weight*float64(targets)))
	return mean, targets, nil
}

// windowChunks processes the rows of a batch of windows in chunks without gradients, and returns the mean loss over
// their targets.
func windowChunks(t *autograd.Tape, m *model.Model, w data.Batch, chunk int) (mean float64) {
	states := newStates(m, w.Rows)
	all := countAsked(w.Targets)
	for lo := 0; lo < w.Len; lo += chunk {
		hi := min(lo+chunk, w.Len)
		t.Reset()
		rows := &model.Rows{}
		var inputs, targets []int32
		for k := range states {
			states[k] = rows.AddDocuments(m, hi-lo, within(w.Borders[k], lo, hi), states[k])
			inputs = append(inputs, w.Inputs[k*w.Len+lo:k*w.Len+hi]...)
			targets = append(targets, w.Targets[k*w.Len+lo:k*w.Len+hi]...)
		}
		loss := m.Loss(t, m.Forward(t, inputs, rows), targets).Value()
		mean += loss * float64(countAsked(targets)) / float64(max(1, all))
	}
	return mean
}

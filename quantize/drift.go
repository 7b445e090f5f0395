package quantize

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
)

// DriftPart measures how far other models are from a model over a part of a text, which all have read from its start.
type DriftPart struct {
	From, To int     // the positions From to To-1
	Loss     float64 // of the model, nats per token
	Others   []Drift
}

// Drift measures how far one model is from another: means over the positions of a part, and the states at its end.
type Drift struct {
	// Logits is the root mean square of the differences of logits, divided by that of the logits. The mean over the
	// vocabulary is first subtracted from both, since probabilities do not depend on it.
	Logits float64 `json:"logits"`
	KL     float64 `json:"kl"`        // Σ p log(p/q), nats: next-token distributions p of the model, q of the other
	More   float64 `json:"more_loss"` // loss minus that of the model, nats per token
	// State is the root mean square of the relative errors of a recurrence's tensors: the length of the difference
	// divided by the length of the model's tensor. Worst is the largest error, that of the tensor Where.
	State float64 `json:"state"`
	Worst float64 `json:"state_worst"`
	Where string  `json:"state_where,omitzero"`
}

// DriftOptions specifies how MeasureDrift reads the text.
type DriftOptions struct {
	Piece    int                   // number of positions to read at once
	Progress func(done, total int) // counts positions; may be nil
}

// mostCompared is the maximum number of a model's logits to compare. If the text has more, only every second, third or
// later position is compared.
const mostCompared = 1 << 31

// DriftEvery returns the distance between the positions that MeasureDrift compares in a text of n positions.
func DriftEvery(m *model.Model, n int) int { return 1 + n*m.Config.VocabSize/mostCompared }

// MeasureDrift compares a model with others on a text. All read the text piece by piece and carry their state from the
// start to the end, so errors of a state can add up or decay. Parts end after 1,000, 3,000, 10,000, 30,000 positions
// and so on. The last part ends with the text. The last token is only predicted.
func MeasureDrift(ctx context.Context, m *model.Model, others []*model.Model, ids []int32,
	o DriftOptions) ([]DriftPart, error) {
	total := len(ids) - 1
	if total < 1 {
		return nil, fmt.Errorf("found %d tokens, want at least 2", len(ids))
	}
	first, readers := newDrifting(m), []*drifting{}
	for _, other := range others {
		r := newDrifting(other)
		if a, b := m.Config.VocabSize, other.Config.VocabSize; a != b {
			return nil, fmt.Errorf("found vocabularies of %d and %d tokens, want models that differ in weights only", a,
				b)
		}
		if !maps.EqualFunc(first.shapes, r.shapes, slices.Equal) {
			return nil, errors.New("found states of other layers, want models that differ in weights only")
		}
		readers = append(readers, r)
	}
	every := DriftEvery(m, total)
	var parts []DriftPart
	for from := 0; from < total; {
		part := DriftPart{From: from, To: min(driftMark(len(parts)), total), Others: make([]Drift, len(others))}
		sums, count := make([]driftSums, len(others)), 0
		for from < part.To {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			n := min(o.Piece, part.To-from)
			var at []int32
			for i := range n {
				if (from+i)%every == every-1 {
					at = append(at, int32(i))
				}
			}
			count += len(at)
			first.read(ids[from : from+n])
			for _, r := range readers {
				r.read(ids[from : from+n])
			}
			first.compareAll(readers, at, ids[from+1:], sums)
			from += n
			if o.Progress != nil {
				o.Progress(from, total)
			}
		}
		for i := range part.Others {
			if err := part.finish(i, sums[i], count); err != nil {
				return nil, err
			}
			part.Others[i].compareStates(first.state, readers[i].state, first.shapes)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// driftMark returns the position at which part i ends: 1,000, 3,000, 10,000, 30,000 and so on.
func driftMark(i int) int {
	n := 1000
	for range i / 2 {
		n *= 10
	}
	return n * (1 + i%2*2)
}

// drifting is a model that reads the text.
type drifting struct {
	m      *model.Model
	tape   *autograd.Tape
	state  *model.State
	hidden []float32        // for the piece that was read (positions, d_model)
	shapes map[string][]int // shapes of the tensors of recurrences in the state
}

func newDrifting(m *model.Model) *drifting {
	r := &drifting{m: m, tape: m.NewTape(), state: m.NewState(), shapes: map[string][]int{}}
	r.tape.Record(false)
	r.state.Parts(func(p model.StatePart) {
		if p.Name != model.PositionName && p.Kind == mixer.Numbers && !slices.Contains(p.Shape(), 0) {
			r.shapes[p.Name] = p.Shape()
		}
	})
	return r
}

// read reads the next tokens.
func (r *drifting) read(ids []int32) {
	r.tape.Reset()
	r.hidden = r.m.Forward(r.tape, ids, model.OneRow(len(ids), r.state)).Floats()
}

// logits returns the logits at some positions of the piece.
func (r *drifting) logits(at []int32) []float32 {
	r.tape.Reset()
	return r.m.LogitsAt(r.tape, rowsOf(r.m, r.hidden), at).Floats()
}

// driftSums holds sums over positions.
type driftSums struct {
	seen
	off, spread float64 // sums of squares of differences of logits, and of logits
}

// compareAll adds to sums the comparisons of the readers' predictions at some positions of the piece. next has the
// targets of the piece's positions.
func (r *drifting) compareAll(readers []*drifting, at, next []int32, sums []driftSums) {
	vocab, padded := r.m.Config.VocabSize, r.m.Config.PaddedVocab()
	for some := range slices.Chunk(at, max(1, logitsAtOnce/padded)) {
		p := r.logits(some)
		for i, other := range readers {
			q, each := other.logits(some), make([]driftSums, len(some))
			parallel.For(len(some), 1, func(lo, hi int) {
				for j := lo; j < hi; j++ {
					a, b := p[j*padded:][:vocab], q[j*padded:][:vocab]
					each[j].seen = compare(a, b, int(next[some[j]]))
					each[j].off, each[j].spread = squares(a, b)
				}
			})
			for _, s := range each {
				to := &sums[i]
				to.kl, to.before, to.after = to.kl+s.kl, to.before+s.before, to.after+s.after
				to.off, to.spread = to.off+s.off, to.spread+s.spread
			}
		}
	}
}

// squares returns the sums of squares of q - p and of p, each after its mean is subtracted.
func squares(p, q []float32) (off, spread float64) {
	var meanOff, mean float64
	for i := range p {
		meanOff += float64(q[i]) - float64(p[i])
		mean += float64(p[i])
	}
	meanOff, mean = meanOff/float64(len(p)), mean/float64(len(p))
	for i := range p {
		d, x := float64(q[i])-float64(p[i])-meanOff, float64(p[i])-mean
		off, spread = off+d*d, spread+x*x
	}
	return off, spread
}

// finish sets the means of reader i from sums over n positions.
func (part *DriftPart) finish(i int, s driftSums, n int) error {
	if n == 0 {
		return nil
	}
	count := float64(n)
	part.Loss = s.before / count
	d := Drift{Logits: math.Sqrt(s.off / max(s.spread, math.SmallestNonzeroFloat64)), KL: s.kl / count,
		More: (s.after - s.before) / count}
	if sum := d.Logits + d.KL + d.More; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("found a divergence of %v at positions %d to %d, want a finite one: the weights are not "+
			"usable", d.KL, part.From, part.To)
	}
	part.Others[i] = d
	return nil
}

// compareStates compares the tensors in shapes of two states.
func (d *Drift) compareStates(a, b *model.State, shapes map[string][]int) {
	values := map[string][]float32{}
	a.Parts(func(p model.StatePart) {
		if shapes[p.Name] != nil {
			_, values[p.Name] = p.Values()
		}
	})
	sum, count := 0.0, 0
	b.Parts(func(p model.StatePart) {
		want, ok := values[p.Name]
		if !ok {
			return
		}
		_, got := p.Values()
		var off, size float64
		for i, x := range want {
			e := float64(got[i]) - float64(x)
			off, size = off+e*e, size+float64(x)*float64(x)
		}
		if size == 0 {
			return // an empty tensor
		}
		sum, count = sum+off/size, count+1
		if e := math.Sqrt(off / size); e > d.Worst {
			d.Worst, d.Where = e, p.Name
		}
	})
	if count > 0 {
		d.State = math.Sqrt(sum / float64(count))
	}
}

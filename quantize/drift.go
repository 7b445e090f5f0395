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

// DriftPart is how far other models are from a model in a part of a text, which all have read from its start.
type DriftPart struct {
	From, To int     // positions from the first on, and before the last
	Loss     float64 // of the model, nats per token
	Others   []Drift
}

// Drift is how far a model is from another: means over the positions of a part, and the states at its end.
type Drift struct {
	// Logits is the root mean square of differences of logits, divided by that of logits. Of both the mean over the
	// vocabulary is taken off first, which no probability depends on.
	Logits float64 `json:"logits"`
	KL     float64 `json:"kl"`        // Σ p log(p/q), nats, with q for the next token's distribution p of the model
	More   float64 `json:"more_loss"` // loss than the model has, nats per token
	// State is the root mean square, over the tensors of recurrences, of the relative error of each: the length of the
	// difference divided by that of the model's. Worst is the largest, that of the tensor Where.
	State float64 `json:"state"`
	Worst float64 `json:"state_worst"`
	Where string  `json:"state_where,omitzero"`
}

// DriftOptions say how MeasureDrift reads.
type DriftOptions struct {
	Piece    int                   // positions read at once
	Progress func(done, total int) // of positions; nil for nothing
}

// mostCompared bounds the logits that are compared of a model: if the text has more, every second position is compared,
// or every third, and so on.
const mostCompared = 1 << 31

// DriftEvery is the distance of the positions that MeasureDrift compares in a text of n positions.
func DriftEvery(m *model.Model, n int) int { return 1 + n*m.Config.VocabSize/mostCompared }

// MeasureDrift has a model and others read a text piece by piece, each with its state carried from the start to the
// end, and compares them: errors of a state add up or are forgotten. Parts end after 1,000, 3,000, 10,000, 30,000
// positions and so on, the last with the text. The last token is only predicted.
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

// driftMark is the position at which part i ends: 1,000, 3,000, 10,000, 30,000 and so on.
func driftMark(i int) int {
	n := 1000
	for range i / 2 {
		n *= 10
	}
	return n * (1 + i%2*2)
}

// drifting is a model that reads.
type drifting struct {
	m      *model.Model
	tape   *autograd.Tape
	state  *model.State
	hidden []float32        // of the piece that was read (positions, d_model)
	shapes map[string][]int // of the tensors of recurrences in the state
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

// read goes on by some tokens.
func (r *drifting) read(ids []int32) {
	r.tape.Reset()
	r.hidden = r.m.Forward(r.tape, ids, model.OneRow(len(ids), r.state)).Floats()
}

// logits are those after some positions of the piece.
func (r *drifting) logits(at []int32) []float32 {
	r.tape.Reset()
	return r.m.LogitsAt(r.tape, rowsOf(r.m, r.hidden), at).Floats()
}

// driftSums are sums over positions.
type driftSums struct {
	seen
	off, spread float64 // squares of differences of logits, and of logits
}

// compareAll adds to sums what the readers predict after some positions of the piece, whose targets are next.
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

// squares are the sums of squares of q - p and of p, each without its mean.
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

// finish makes means of sums over n positions.
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

// compareStates compares the tensors of two states that have one of the shapes.
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
			return // it has had nothing to hold
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

package text

import (
	"math"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/data"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// PositionLoss is the loss of tokens at a range of positions in their windows, counted from 1.
type PositionLoss struct {
	From       int     `json:"from"`
	To         int     `json:"to"`
	Tokens     int     `json:"tokens"`
	Loss       float64 `json:"loss"`       // nats per token
	Perplexity float64 `json:"perplexity"` // e^loss
}

// positionLosses sums losses by position: up to first, up to 2·first, up to 4·first, and so on.
type positionLosses struct {
	first int
	sums  []PositionLoss // Loss holds the sum of losses
}

// add adds the losses of a batch of windows, and returns their mean.
func (p *positionLosses) add(t *autograd.Tape, m *model.Model, hidden *tensor.Tensor, w data.Batch) (mean float64) {
	all := countAsked(w.Targets)
	for i, lo, hi := 0, 0, p.first; lo < w.Len; i, lo, hi = i+1, hi, 2*hi {
		var at, targets []int32
		for row := range w.Rows {
			for k := row*w.Len + lo; k < row*w.Len+min(hi, w.Len); k++ {
				at, targets = append(at, int32(k)), append(targets, w.Targets[k])
			}
		}
		if i == len(p.sums) {
			p.sums = append(p.sums, PositionLoss{From: lo + 1, To: min(hi, w.Len)})
		}
		n := countAsked(targets)
		sum := m.Loss(t, t.Embedding(hidden, at), targets).Value() * float64(n)
		p.sums[i].Tokens, p.sums[i].Loss = p.sums[i].Tokens+n, p.sums[i].Loss+sum
		mean += sum / float64(max(1, all))
	}
	return mean
}

// losses returns the mean losses.
func (p *positionLosses) losses() (all []PositionLoss) {
	for _, l := range p.sums {
		l.Loss /= float64(max(1, l.Tokens))
		l.Perplexity = math.Exp(l.Loss)
		all = append(all, l)
	}
	return all
}

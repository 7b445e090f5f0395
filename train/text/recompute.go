package text

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// stream is what a forward pass keeps before a layer: the residual stream, as residual + hidden, and the number of
// dropouts so far.
type stream struct {
	residual, hidden *tensor.Tensor // residual is nil before the first layer
	dropouts         uint64
}

// layerwise computes a shard layer by layer, each on a tape that holds only that layer.
type layerwise struct {
	m    *model.Model
	t    *autograd.Tape
	rows *model.Rows
	*copies

	at     []stream       // before each layer, and after the last
	handed *tensor.Tensor // the tensor that a layer has handed to all later ones, or nil
	giver  int            // the layer that handed it on
}

// copies holds what a layerwise keeps besides its tape. The next shard reuses the memory. As garbage it would remain
// until there is as much garbage as live memory.
type copies struct {
	streams    []*tensor.Tensor
	used       int
	dr, dh, dv *tensor.Tensor // gradients
}

// copyInto copies the tensor x (rows, channels) to to, an earlier copy, if the shapes match, else to new memory.
func copyInto(to, x *tensor.Tensor) *tensor.Tensor {
	if to == nil || !to.SameShape(x) {
		return x.Clone()
	}
	tensor.CopyRows(to, 0, x, 0, x.Dim(-2))
	return to
}

// byLayers is Through, but holds the activations of one layer at a time.
func (tr *Work) byLayers(t *autograd.Tape, s train.Shard, weigh func(int) float64,
	check func(float64) error) (mean float64, targets int, err error) {
	l := tr.Config.Train.SeqLen
	wanted := tr.targets[s.First*l : s.End*l]
	targets = countAsked(wanted)
	w := &layerwise{m: tr.Model, t: t, rows: tr.rows(s), copies: &tr.copies}
	mean, err = w.through(tr.inputs[s.First*l:s.End*l], wanted, func() float64 { return weigh(targets) }, check)
	return mean, targets, err
}

// through computes the gradients of a shard (Chen et al., arXiv:1604.06174, with a segment for each layer). It runs a
// forward pass and keeps the stream before each layer. Then, from the last layer to the first, it computes each layer
// again with the same dropout, and its backward pass gives the gradient of its stream, from which the backward pass of
// the layer before starts. A tensor that a layer hands on is kept in the same way, and its gradient comes from all
// layers after it. The gradients have the same bits as without recomputation. It takes about a third more time.
func (w *layerwise) through(inputs, wanted []int32, weigh func() float64, check func(float64) error) (float64, error) {
	m, t := w.m, w.t
	w.used = 0
	w.begin(0)
	w.rows.Hand(nil)
	w.keep(nil, m.Begin(t, inputs, w.rows))
	for i := range m.Blocks {
		residual, hidden := w.stream(i)
		w.keep(m.Through(t, i, residual, hidden, w.rows))
		w.hand(i)
		if t.Asides() > 0 {
			return 0, fmt.Errorf("train.recompute: found layer %d, whose experts are balanced, want none", i)
		}
	}
	residual, hidden := w.stream(len(m.Blocks))
	out := m.Loss(t, m.End(t, residual, hidden), wanted)
	mean := out.Value()
	if err := check(mean); err != nil {
		return mean, err
	}
	t.BackwardTimes(out, float32(weigh()))
	first := m.FirstTrained()
	for i := len(m.Blocks) - 1; i >= first; i-- {
		w.dr, w.dh, w.dv = w.gradient(w.dr, residual), w.gradient(w.dh, hidden), w.gradient(w.dv, w.handed)
		residual, hidden = w.stream(i)
		w.rows.Hand(w.handed)
		r, h := m.Through(t, i, residual, hidden, w.rows)
		t.Seed(r, w.dr)
		t.Seed(h, w.dh)
		if w.handed != nil && i >= w.giver {
			t.Seed(w.rows.Handed(), w.dv)
		}
		t.BackwardSeeded()
	}
	w.dh = w.gradient(w.dh, hidden)
	w.dr = w.gradient(w.dr, residual)
	if first == 0 {
		w.begin(0)
		x := m.Begin(t, inputs, w.rows)
		t.Seed(x, w.dh)
		t.BackwardSeeded()
	}
	return mean, nil
}

// begin resets the tape for a part of the step, after the given number of dropouts.
func (w *layerwise) begin(dropouts uint64) {
	w.t.Reset()
	w.t.SkipDropouts(dropouts)
}

// keep stores a copy of the next stream.
func (w *layerwise) keep(residual, hidden *tensor.Tensor) {
	s := stream{hidden: w.leaf(hidden), dropouts: w.t.Dropouts()}
	if residual != nil {
		s.residual = w.leaf(residual)
	}
	w.at = append(w.at, s)
}

// hand stores a copy of the tensor that layer i hands on, if it is the first that does, and passes the copy to the
// layers after it.
func (w *layerwise) hand(i int) {
	if x := w.rows.Handed(); x != nil && w.handed == nil {
		w.handed, w.giver = w.leaf(x), i
		w.rows.Hand(w.handed)
	}
}

// stream resets the tape and returns the stream before layer i, which needs gradients.
func (w *layerwise) stream(i int) (residual, hidden *tensor.Tensor) {
	s := w.at[i]
	w.begin(s.dropouts)
	return s.residual, s.hidden
}

// leaf returns a copy of x that outlives the tape and needs a gradient.
func (w *layerwise) leaf(x *tensor.Tensor) *tensor.Tensor {
	if w.used == len(w.streams) {
		w.streams = append(w.streams, nil)
	}
	y := copyInto(w.streams[w.used], x)
	y.SetNeedsGrad(true)
	w.streams[w.used] = y
	w.used++
	return y
}

// gradient moves the gradient of a stream out of the tape, into the memory of an earlier one. It returns nil if x is
// nil, and zeros if nothing depends on the stream.
func (w *layerwise) gradient(to, x *tensor.Tensor) *tensor.Tensor {
	if x == nil {
		return nil
	}
	g := w.t.Grad(x)
	if g == nil {
		return tensor.NewBeside(x, x.Shape()...)
	}
	defer w.t.DropGrads(x)
	return copyInto(to, g)
}

// takeGradient moves the gradient of a leaf out of the tape. It returns zeros if nothing depends on the leaf.
func takeGradient(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	g := t.Grad(x)
	if g == nil {
		return tensor.NewBeside(x, x.Shape()...)
	}
	defer t.DropGrads(x)
	return g.Clone()
}

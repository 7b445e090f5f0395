package influence

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// GradientOptions specifies the prediction to attribute.
type GradientOptions struct {
	Token int   // token after which the prediction is made, counted from 0, LastToken for the last
	Next  int32 // predicted token, LikeliestToken for the likeliest
	// Progress, unless it is nil, is called with the number of layers that are done.
	Progress func(done, total int)
}

// Gradients attributes a prediction, log p of a token, to tokens and layers by gradient times input (arXiv:1605.01713).
// Nothing is held fixed, and it is exact to first order.
type Gradients struct {
	Tokens  int // number of tokens of the text
	Token   int // token after which the prediction is made
	Next    int32
	LogProb float64 // log p of Next
	Layers  []string
	// Precision is the precision of the weights.
	Precision engine.Precision
	// Stream[i][s] is Σ_c x_i[s,c] ∂ log p/∂x_i[s,c] for the residual stream x_i before layer i. The last row is after
	// the last layer.
	Stream [][]float64
	// Added[i][s] is the same for what layer i adds to the stream: Σ_c (x_{i+1}-x_i)[s,c] ∂ log p/∂x_{i+1}[s,c].
	Added [][]float64
}

// GradientsOf computes where the prediction after a token comes from when the model reads ids. The backward pass goes
// layer by layer, so it needs the memory of one layer and of the residual streams. It does not change the model. It
// returns an error for tokens that the model does not have, texts that it cannot read, weights that are not finite, and
// if ctx is done.
func GradientsOf(ctx context.Context, g *explain.Language, ids []int32, o GradientOptions) (*Gradients, error) {
	r := &Gradients{Tokens: len(ids), Token: o.Token, Next: o.Next}
	if r.Token == LastToken {
		r.Token = len(ids) - 1
	}
	if err := cmp.Or(g.Check(ids), checkPrediction(g, ids, r.Token, o.Next)); err != nil {
		return nil, err
	}
	if g.Model != nil {
		r.Precision = g.Model.Precision()
	}
	if g.Causal() { // later tokens have no effect
		ids = ids[:r.Token+1]
	}
	b := &back{g: g, r: r, t: g.Backbone.NewTape(), n: len(ids), d: g.Unembedding.Dim(1)}
	if err := b.read(ctx, ids); err != nil {
		return nil, err
	}
	if err := b.predict(); err != nil {
		return nil, err
	}
	for i := range g.Backbone.Blocks {
		r.Layers = append(r.Layers, g.LayerName(i))
	}
	total := len(r.Layers)
	r.Added = make([][]float64, total)
	for i := total - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := b.layer(i); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(total-i, total)
		}
	}
	return r, nil
}

// back is the state of the backward pass of a prediction through the layers.
type back struct {
	g       *explain.Language
	r       *Gradients
	t       *autograd.Tape
	n, d    int         // number of tokens, and width of the stream
	streams [][]float32 // residual streams before each layer and after the last
	dx      []float32   // gradient of the stream after the layers that are still to come
	first   []float32   // additional gradient of the initial stream, from blocks that layers share
}

// read stores the stream before each layer.
func (b *back) read(ctx context.Context, ids []int32) error {
	b.streams = make([][]float32, len(b.g.Backbone.Blocks)+1)
	r, err := b.g.Start(explain.Probe{Only: -1, Stream: func(layer, _ int, x []float32) {
		b.streams[layer] = append(b.streams[layer], x...)
	}})
	if err != nil {
		return err
	}
	if err := r.Read(ctx, ids, nil); err != nil {
		return err
	}
	for i, x := range b.streams {
		switch {
		case explain.Finite(x):
		case i == 0:
			return errors.New(
				"the embedding: found numbers that are not finite, want weights without NaN and infinities")
		default:
			return fmt.Errorf("layer %d (%s): %w", i-1, b.g.Backbone.Blocks[i-1].Kind, errNotFinite)
		}
	}
	return nil
}

// begin empties the tape. No parameter on it needs a gradient.
func (b *back) begin() {
	b.t.Reset()
	b.t.Record(true)
	b.t.Freeze(true)
}

// leaf returns a tensor that needs a gradient.
func (b *back) leaf(x []float32) *tensor.Tensor {
	leaf := b.t.New(len(x)/b.d, b.d)
	leaf.CopyFrom(x)
	leaf.SetNeedsGrad(true)
	return leaf
}

// gradient copies the gradient of a leaf. It is 0 if nothing depends on the leaf.
func (b *back) gradient(of *tensor.Tensor, to []float32) error {
	if g := b.t.Grad(of); g != nil {
		g.CopyTo(to)
	} else {
		clear(to)
	}
	if !explain.Finite(to) {
		return errors.New("gradient: found one that is not finite, want weights without NaN and infinities")
	}
	return nil
}

// predict goes back from the prediction to the stream after the last layer.
func (b *back) predict() error {
	b.begin()
	defer b.t.Reset()
	r, last := b.r, b.streams[len(b.streams)-1]
	at := b.leaf(last[r.Token*b.d:][:b.d])
	_, hidden := b.g.Backbone.LnF.AddForward(b.t, at, nil)
	scores := b.g.Head(b.t, hidden)
	if r.Next == LikeliestToken {
		all := scores.Floats()[:b.g.Vocab()]
		r.Next = 0
		for i, v := range all {
			if v > all[r.Next] {
				r.Next = int32(i)
			}
		}
	}
	loss := b.t.CrossEntropy(scores, []int32{r.Next})
	r.LogProb = -float64(loss.Floats()[0])
	b.t.Backward(loss)
	b.dx, b.first = make([]float32, b.n*b.d), make([]float32, b.n*b.d)
	row := b.dx[r.Token*b.d:][:b.d]
	if err := b.gradient(at, row); err != nil {
		return err
	}
	for i := range row { // gradient of the log-probability
		row[i] = -row[i]
	}
	r.Stream = make([][]float64, len(b.streams))
	r.Stream[len(b.streams)-1] = b.times(last)
	return nil
}

// layer goes back through a layer.
func (b *back) layer(i int) error {
	x, after := b.streams[i], b.streams[i+1]
	written := make([]float32, len(x))
	for j := range x {
		written[j] = after[j] - x[j]
	}
	b.r.Added[i] = b.times(written)
	b.begin()
	defer b.t.Reset()
	shared := b.g.Backbone.Shares()
	before, first := b.leaf(x), (*tensor.Tensor)(nil)
	if shared {
		first = b.leaf(b.streams[0])
	}
	m := model.Model{Backbone: b.g.Backbone}
	y := m.Layer(b.t, i, before, first, model.EqualRows(1, b.n))
	b.t.BackwardFrom(y, tensor.FromSlice(b.dx, y.Shape()...))
	if err := b.gradient(before, b.dx); err != nil {
		return err
	}
	if shared {
		more := make([]float32, len(x))
		if err := b.gradient(first, more); err != nil {
			return err
		}
		for j, v := range more {
			b.first[j] += v
		}
	}
	if i == 0 { // here the stream is the initial one
		for j, v := range b.first {
			b.dx[j] += v
		}
	}
	b.r.Stream[i] = b.times(x)
	b.streams[i+1] = nil
	return nil
}

// times returns Σ_c dx[s,c] x[s,c] for each token s of the text.
func (b *back) times(x []float32) []float64 {
	out := make([]float64, b.r.Tokens)
	for i, v := range x {
		out[i/b.d] += float64(b.dx[i]) * float64(v)
	}
	return out
}

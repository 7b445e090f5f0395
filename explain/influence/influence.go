// Package influence computes which tokens a prediction depends on, layer by layer and through all layers: by the
// operators of mixers (arXiv:2405.16504), attention rollout (arXiv:2005.00928) and gradient times input
// (arXiv:1605.01713).
package influence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/action"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Options specifies which influence of tokens on each other to compute.
type Options struct {
	Layers  []int  // empty for all
	Head    int    // head of these layers, AllHeads for all together
	Token   int    // token whose sources are shown, counted from 0, LastToken for the last
	Measure string // one of Measures
	// Gradient also requests gradients times inputs, which take about the time of a training step.
	Gradient bool
	// Next is the predicted token after Token whose log-probability the gradient is of, LikeliestToken for the
	// likeliest.
	Next int32
	// Progress, unless it is nil, is called with the number of layers that are done.
	Progress func(done, total int)
}

// AllHeads, LastToken and LikeliestToken are the usual options.
const (
	AllHeads       = action.AllHeads
	LastToken      = -1
	LikeliestToken = -1
)

// The measures of the contribution of position s to the output of a layer at t, C[t,s] of action.Action. b is the
// constant of action.Action.
const (
	// Share is the part of y[t] - b[t] that comes from s, ⟨C[t,s], y[t]-b[t]⟩/‖y[t]-b[t]‖². The shares of a row sum to
	// 1. A negative share opposes what the layer writes.
	Share = "share"
	// Mean is the mean of the matrices of all channels (arXiv:2405.16504, §3).
	Mean = "mean"
	// Norm is ‖C[t,s]‖. It takes about twenty times as long as the others: see action.Action.Norms.
	Norm = "norm"
)

// Measures lists all measures.
var Measures = []string{Share, Mean, Norm}

// maxTokens is the maximum number of tokens of a text: a layer has a square matrix of that size, one layer at a time.
const maxTokens = 8192

// Report describes which tokens depend on which in each layer, and through all layers.
type Report struct {
	Options Options
	Tokens  int
	Token   int // token whose sources are shown
	Layers  []Layer
	// Rollout is the share of each token in Token, before each layer and after the last. Row i is before layer i: the
	// first row is for the input, the last one is Token alone. It is empty unless all layers were measured.
	Rollout [][]float64
	// Sources is the first row of Rollout for every token instead of Token, (tokens, tokens). It is empty if Rollout
	// is, and for texts of more than figure.MostLinks tokens.
	Sources []float64
	// Gradients are those of the prediction after Token. They are nil if not requested.
	Gradients *Gradients
}

// Layer describes the dependence between tokens in a layer.
type Layer struct {
	Layer int
	Mixer string
	Held  []string  // names of what is held fixed
	Map   []float64 // (cells, cells): the measure, summed over the sources of a cell, averaged over its targets
	Cells int
	Step  int       // tokens in a cell; the last may have fewer
	Row   []float64 // the measure for target Token, by source
	// Reach is the mean distance to the sources, weighted by the magnitude of the measure, in tokens. Own is the mean
	// share of a position itself in its sources.
	Reach, Own float64
	// Writes is the mean size of what the layer writes relative to the stream: ‖y-b‖/(‖x‖+‖y-b‖).
	Writes float64
	Why    string // reason if the layer is left out; then Map and Row are empty
	// Shared describes the block that this layer shares with others (see mixer.Shared), nil for none: the sources of
	// what the block adds to the input of the mixer. The block reads the residual stream and the initial stream at the
	// same position.
	Shared *Layer
	Block  bool // this is such a block

	colors mapColors
}

// Of computes which tokens depend on which when the model reads ids. It returns an error for tokens, layers and heads
// that the model does not have, texts that it cannot read, weights that are not finite, and if ctx is done.
func Of(ctx context.Context, g *explain.Language, ids []int32, o Options) (*Report, error) {
	r := &Report{Options: o, Tokens: len(ids), Token: o.Token}
	if r.Token == LastToken {
		r.Token = len(ids) - 1
	}
	if err := check(g, ids, &o, r.Token); err != nil {
		return nil, err
	}
	layers := o.Layers
	if len(layers) == 0 {
		layers = numbersTo(len(g.Backbone.Blocks))
	}
	layers = slices.Compact(slices.Sorted(slices.Values(layers)))
	seen := inputs(ctx, g, ids, layers[len(layers)-1])
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := allFinite(seen); err != nil {
		return nil, err
	}
	through := newRollout(r, len(layers) == len(g.Backbone.Blocks) && o.Head == AllHeads)
	for done, i := range slices.Backward(layers) {
		l := &layerSums{r: r, in: &seen[i], cells: cellsOf(len(layers), len(ids))}
		err := l.run(ctx, g.Backbone.NewTape())
		if err == nil && l.lacks && (l.before == nil || l.before.lacks) {
			err = fmt.Errorf("head: found %d, want 0 to %d", o.Head, l.heads-1)
		}
		if err != nil {
			return nil, fmt.Errorf("layer %d (%s): %w", i, seen[i].block.Kind, err)
		}
		r.Layers = append(r.Layers, l.out)
		through.back(l)
		seen[i].u, seen[i].stream = nil, nil
		if o.Progress != nil {
			o.Progress(len(layers)-done, len(layers))
		}
	}
	slices.Reverse(r.Layers)
	through.end()
	if !o.Gradient {
		return r, nil
	}
	var err error
	r.Gradients, err = GradientsOf(ctx, g, ids, GradientOptions{Token: r.Token, Next: o.Next})
	return r, err
}

// numbersTo returns 0 to n-1.
func numbersTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// check returns an error unless the options and the text fit the model.
func check(g *explain.Language, ids []int32, o *Options, token int) error {
	if err := cmp.Or(g.Check(ids), g.CheckLayers(o.Layers...)); err != nil {
		return err
	}
	switch {
	case len(ids) > maxTokens:
		return fmt.Errorf("found a text of %d tokens, want at most %d: a layer has a matrix of all pairs of tokens",
			len(ids), maxTokens)
	case !slices.Contains(Measures, o.Measure):
		return fmt.Errorf("measure: found %q, want one of %v", o.Measure, Measures)
	case o.Head < AllHeads:
		return fmt.Errorf("head: found %d, want 0 or more, or %d for all", o.Head, AllHeads)
	case o.Head != AllHeads && o.Measure == Norm:
		return fmt.Errorf("head: found %d with the measure %s, want %s or %s", o.Head, Norm, Share, Mean)
	}
	return checkPrediction(g, ids, token, o.Next)
}

// checkPrediction returns an error unless the text has the token, and the model has the next token.
func checkPrediction(g *explain.Language, ids []int32, token int, next int32) error {
	if token < 0 || token >= len(ids) {
		return fmt.Errorf("token: found %d, want one of the text's, 0 to %d", token, len(ids)-1)
	}
	if next < LikeliestToken || int(next) >= g.Vocab() {
		return fmt.Errorf("next: found token %d, want 0 to %d", next, g.Vocab()-1)
	}
	return nil
}

// layerInput is the input of a layer.
type layerInput struct {
	number int
	block  *model.Block
	u      *tensor.Tensor // the mixer's input (l, d_model)
	sizes  []float64      // norms of the stream before the layer, by position
	// For a layer with a block that layers share, the stream before it, and the initial stream (l, d_model).
	stream, first *tensor.Tensor
}

// inputs runs the model up to the layer last and keeps the input of each layer. It does not stop when ctx is done, but
// checks ctx at each layer, because some contexts let other work run then.
func inputs(ctx context.Context, g *explain.Language, ids []int32, last int) []layerInput {
	seen := make([]layerInput, last+1)
	var blocks []*model.Block
	var first *tensor.Tensor
	for i, b := range g.Backbone.Blocks[:last+1] {
		seen[i].number, seen[i].block = i, b
		with := explain.ShowInput(b, i == last, func(alone *model.Block, u *tensor.Tensor) {
			seen[i].block = alone
			seen[i].u = tensor.FromSlice(u.Floats(), u.Shape()...)
		})
		stream := func(x *tensor.Tensor) {
			if ctx.Err() != nil {
				return
			}
			values := x.Floats()
			seen[i].sizes = rowSizes(values, x.Dim(-1))
			if i == 0 {
				first = tensor.FromSlice(values, x.Shape()...)
			}
			if b.Shared != nil {
				seen[i].stream, seen[i].first = tensor.FromSlice(values, x.Shape()...), first
			}
		}
		with.Norm1 = explain.ShownNorm{AddNorm: b.Norm1, Show: stream, Second: b.Shared != nil}
		blocks = append(blocks, with)
	}
	t := g.Backbone.NewTape()
	g.Forward(t, blocks, ids)
	t.Reset()
	return seen
}

// allFinite returns an error that names the part of the model with the first number that is not finite.
func allFinite(seen []layerInput) error {
	for i, in := range seen {
		if explain.Finite(in.u.Floats()) {
			continue
		}
		if i == 0 {
			return errors.New("the embedding or the first norm: found numbers that are not finite, " +
				"want weights without NaN and infinities")
		}
		return fmt.Errorf("layer %d (%s): %w", i-1, seen[i-1].block.Kind, errNotFinite)
	}
	return nil
}

var errNotFinite = errors.New("found an output that is not finite, want weights without NaN and infinities")

// rowSizes returns the norms of the rows of x (n, d).
func rowSizes(x []float32, d int) []float64 {
	out := make([]float64, len(x)/d)
	for i := range out {
		sum := 0.0
		for _, v := range x[i*d:][:d] {
			sum += float64(v) * float64(v)
		}
		out[i] = math.Sqrt(sum)
	}
	return out
}

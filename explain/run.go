package explain

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// PieceLen is the number of tokens that a causal model reads at a time. Only the streams of one such piece are stored.
const PieceLen = 256

// Place is the position of a hook in a layer.
type Place int

const (
	MixerOut   Place = iota // output of the mixer, which is added to the stream
	MLPOut                  // output of the feed-forward part, which is added to the stream
	MixerInner              // input of the mixer's last projection
)

// Hook observes, and may change, what a layer computes. See gets rows x (n, width) of the tokens from number at on, and
// reports whether it has changed them.
type Hook struct {
	Layer int
	Place Place
	See   func(at, width int, x []float32) (changed bool)
	Part  string // for MixerInner: which of several mixers
}

// Probe specifies how a run of the model is observed and changed. The zero value does neither.
type Probe struct {
	Hooks  []Hook
	Forget []int // layers whose mixers carry nothing from token to token
	// Stream, unless it is nil, is called with the residual stream (n, d_model) before each layer and, as the layer
	// after the last, before the final norm.
	Stream func(layer, at int, x []float32)
	// Only is the only layer whose stream is observed. If it is negative, all are.
	Only int
	// Cuts are functions to call after the given numbers of tokens.
	Cuts map[int]func(s *model.State)
	// From is the first layer that runs. Streams must then hold the streams of earlier layers.
	From    int
	Streams *Streams
}

// Streams holds the residual streams before all layers in an earlier run of a language model, for reuse in later runs.
type Streams struct {
	at     int // number of the first token
	layers [][]float32
}

// mostStreams is the maximum number of elements of streams that are stored.
const mostStreams = 1 << 26

// KeepStreams makes w store the streams of n tokens from number at on, and returns them. It returns nil if they are too
// large, if the model is not run by layers, or if its layers pass on data that are not in the stream.
func (g *Language) KeepStreams(w *Probe, at, n int) *Streams {
	layers := len(g.Backbone.Blocks)
	if g.Model == nil || g.Backbone.HandsOn() || layers*n > mostStreams/g.Unembedding.Dim(1) {
		return nil
	}
	s := &Streams{at, make([][]float32, layers+1)}
	w.Only, w.Stream = -1, func(layer, _ int, x []float32) { s.layers[layer] = append(s.layers[layer], x...) }
	return s
}

// put copies the stream before a layer, from a token on, into x (n, d).
func (s *Streams) put(x *tensor.Tensor, layer, at int) {
	x.CopyFrom(s.layers[layer][(at-s.at)*x.Dim(-1):][:x.Len()])
}

// Final returns w with an additional observer of the stream before the final norm.
func (w Probe) Final(g *Language, see func(x []float32)) Probe {
	last, told := len(g.Backbone.Blocks), w.Stream
	if told == nil {
		w.Only = last
	}
	w.Stream = func(layer, at int, x []float32) {
		if layer == last {
			see(x)
		}
		if told != nil {
			told(layer, at, x)
		}
	}
	return w
}

// Run reads a sequence with a model.
type Run struct {
	Of    *Language
	State *model.State // nil if the whole sequence must be read at once
	step  func(ids []int32) error
	Probe Probe
	At    int // number of tokens read
}

// Causal reports whether a sequence can be read in pieces.
func (g *Language) Causal() bool { return !g.Backbone.LooksAhead() }

// Start starts a run.
func (g *Language) Start(w Probe) (*Run, error) {
	r := &Run{Of: g, Probe: w}
	backbone, err := r.watched()
	if err != nil {
		return nil, err
	}
	if m := g.Model; m != nil {
		t := m.NewTape()
		with := &model.Model{Config: m.Config, Embedding: m.Embedding, Positions: m.Positions, Backbone: backbone}
		if g.Causal() {
			r.State = with.NewState()
		}
		r.step = func(ids []int32) error {
			t.Reset()
			rows := model.EqualRows(1, len(ids))
			if r.State != nil {
				rows = model.OneRow(len(ids), r.State)
			}
			if r.Probe.Streams == nil || r.Probe.From == 0 {
				with.Forward(t, ids, rows)
				return nil
			}
			d := g.Unembedding.Dim(1)
			stream, first := t.New(len(ids), d), t.New(len(ids), d)
			r.Probe.Streams.put(stream, r.Probe.From, r.At)
			r.Probe.Streams.put(first, 0, r.At)
			with.Rest(t, r.Probe.From, stream, first, rows)
			return nil
		}
		return r, nil
	}
	with := *g.Network
	with.Backbone = backbone
	if !g.Causal() {
		r.step = func(ids []int32) error {
			if err := with.Takes(len(ids)); err != nil {
				return err
			}
			with.Forward(with.NewTape(), model.Input{Lengths: []int{len(ids)}, Tokens: ids})
			return nil
		}
		return r, nil
	}
	stream, err := with.NewStream()
	if err != nil {
		return nil, err
	}
	r.State = stream.State()
	r.step = func(ids []int32) error {
		_, err := stream.Tokens(ids...)
		return err
	}
	return r, nil
}

// Check returns an error unless the model can read ids.
func (g *Language) Check(ids []int32) error {
	if len(ids) == 0 {
		return errors.New("found an empty text, want at least one token")
	}
	for i, id := range ids {
		if id < 0 || int(id) >= g.vocab {
			return fmt.Errorf("found token %d at place %d, want tokens from 0 to %d", id, i, g.vocab-1)
		}
	}
	if g.maxLength > 0 && len(ids) > g.maxLength {
		return fmt.Errorf("found %d tokens, but the model takes at most %d", len(ids), g.maxLength)
	}
	if g.Network != nil {
		return g.Network.Takes(len(ids))
	}
	return nil
}

// CheckWatched returns an error unless the model has these tokens.
func (g *Language) CheckWatched(ids []int32) error {
	for _, id := range ids {
		if id < 0 || int(id) >= g.vocab {
			return fmt.Errorf("watch: found token %d, want one from 0 to %d", id, g.vocab-1)
		}
	}
	return nil
}

// Read reads more tokens, in pieces, and calls after, unless it is nil, after each piece.
func (r *Run) Read(ctx context.Context, ids []int32, after func(at int, ids []int32) error) error {
	for len(ids) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := len(ids)
		if r.State != nil {
			n = min(n, PieceLen)
			for cut := range r.Probe.Cuts {
				if cut > r.At {
					n = min(n, cut-r.At)
				}
			}
		}
		if do := r.Probe.Cuts[r.At]; do != nil {
			do(r.State)
		}
		if err := r.step(ids[:n]); err != nil {
			return err
		}
		if after != nil {
			if err := after(r.At, ids[:n]); err != nil {
				return err
			}
		}
		r.At, ids = r.At+n, ids[n:]
	}
	return nil
}

// watched returns the backbone with its observers.
func (r *Run) watched() (model.Backbone, error) {
	bb := r.Of.Backbone
	bb.Blocks = nil
	for i, b := range r.Of.Backbone.Blocks {
		with := *b
		if err := r.hook(i, &with); err != nil {
			return bb, err
		}
		if see := r.streamOf(i); see != nil {
			with.Norm1 = ShownNorm{with.Norm1, see, b.Shared != nil}
		}
		bb.Blocks = append(bb.Blocks, &with)
	}
	if see := r.streamOf(len(bb.Blocks)); see != nil {
		bb.LnF = ShownNorm{bb.LnF, see, false}
	}
	return bb, nil
}

// streamOf returns the observer of the stream before a layer, nil for none.
func (r *Run) streamOf(layer int) func(x *tensor.Tensor) {
	if r.Probe.Stream == nil || r.Probe.Only >= 0 && r.Probe.Only != layer {
		return nil
	}
	return func(x *tensor.Tensor) { r.Probe.Stream(layer, r.At, x.Floats()) }
}

// hook adds the hooks of a layer to its block.
func (r *Run) hook(layer int, b *model.Block) error {
	of := map[Place][]Hook{}
	for _, h := range r.Probe.Hooks {
		if h.Layer == layer {
			of[h.Place] = append(of[h.Place], h)
		}
	}
	edit := func(hooks []Hook) func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
		return func(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor { return r.edited(t, x, hooks) }
	}
	byPart := map[string][]Hook{}
	for _, h := range of[MixerInner] {
		byPart[h.Part] = append(byPart[h.Part], h)
	}
	for part, hooks := range byPart {
		m, _, ok := mixer.Inside(b.Mixer, part, edit(hooks))
		if !ok {
			return fmt.Errorf("layer %d: found %s, want a single mixer to look into", layer, b.Kind)
		}
		b.Mixer = m
	}
	for _, l := range r.Probe.Forget {
		if l == layer {
			b.Mixer = forgetful{b.Mixer}
		}
	}
	if hooks := of[MixerOut]; len(hooks) > 0 {
		b.Mixer = editedMixer{b.Mixer, edit(hooks)}
	}
	if hooks := of[MLPOut]; len(hooks) > 0 && b.MLP != nil {
		b.MLP = editedMixer{b.MLP, edit(hooks)}
	}
	return nil
}

// edited returns x after the hooks.
func (r *Run) edited(t *autograd.Tape, x *tensor.Tensor, hooks []Hook) *tensor.Tensor {
	values, changed := x.Floats(), false
	for _, h := range hooks {
		changed = h.See(r.At, x.Dim(-1), values) || changed
	}
	if !changed {
		return x
	}
	y := t.New(x.Shape()...)
	y.CopyFrom(values)
	return y
}

// ShownNorm is a norm of the stream that shows the stream. If a mixer shares a block, the norm before it has more
// inputs than the stream, and the stream is the second one.
type ShownNorm struct {
	nn.AddNorm
	Show   func(x *tensor.Tensor)
	Second bool
}

// AddForward calls the norm and shows the stream.
func (m ShownNorm) AddForward(t *autograd.Tape, x, r *tensor.Tensor) (s, y *tensor.Tensor) {
	s, y = m.AddNorm.AddForward(t, x, r)
	if m.Second {
		m.Show(r)
	} else {
		m.Show(s)
	}
	return s, y
}

// editedMixer is a mixer, or a feed-forward part, whose outputs are changed.
type editedMixer struct {
	mixer.Mixer
	edit func(t *autograd.Tape, y *tensor.Tensor) *tensor.Tensor
}

// Forward runs the mixer and changes what it returns.
func (m editedMixer) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	return m.edit(t, m.Mixer.Forward(t, u, r))
}

// forgetful is a mixer that reads every token as the first of a sequence, at its position.
type forgetful struct{ mixer.Mixer }

// Forward processes each position of u separately.
func (m forgetful) Forward(t *autograd.Tape, u *tensor.Tensor, r *mixer.Rows) *tensor.Tensor {
	alone := &engine.Rows{}
	for i := range r.Count() {
		for j := range r.Len(i) {
			alone.Add(1, r.Start(i)+j)
		}
	}
	return m.Mixer.Forward(t, u, &mixer.Rows{Rows: alone, Handed: r.Handed})
}

// Pass reads ids with a new run.
func (g *Language) Pass(ctx context.Context, ids []int32, w Probe) error {
	r, err := g.Start(w)
	if err != nil {
		return err
	}
	return r.Read(ctx, ids, nil)
}

// Cut adds do to the functions to call after n tokens.
func (w *Probe) Cut(n int, do func(s *model.State)) {
	if before := w.Cuts[n]; before != nil {
		then := do
		do = func(s *model.State) { before(s); then(s) }
	}
	w.Cuts[n] = do
}

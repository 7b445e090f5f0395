package model

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Backbone is the part that language models and networks over labelled sequences have in common: pre-norm blocks of a
// mixer and an MLP, and a final norm.
type Backbone struct {
	Norm0  nn.AddNorm // after the embedding, or nil
	Blocks []*Block
	LnF    nn.AddNorm
	Tapes  *autograd.Tapes // for inference: sessions borrow a tape while they compute

	backend engine.Backend
	divided *divided            // nil if all layers compute on backend
	rounder engine.StateRounder // nil if states are float32: see SetStatePrecision
	spares  *tensor.Spares      // spare memory for states that have copies
}

// Warm prepares memory for states that will be copied. Each call does a part of the work, to be called when there is
// nothing else to do. It reports whether there is more to do. It does not affect results.
func (bb *Backbone) Warm() (more bool) { return bb.spares.Warm() }

// Backend returns the engine of the model: native.Backend unless Use has set another.
func (bb *Backbone) Backend() engine.Backend { return bb.backend }

// NewTape returns an empty tape on the engine of the model.
func (bb *Backbone) NewTape() *autograd.Tape { return autograd.NewTape(bb.backend) }

// use sets the engine of the tapes. From then on states are float32.
func (bb *Backbone) use(b engine.Backend) {
	bb.backend, bb.Tapes, bb.divided, bb.rounder = b, autograd.NewTapes(b), nil, nil
}

// Block is one layer: x + mixer(norm1(x)), then, if it has an MLP, x + mlp(norm2(x)). If the norms come after the mixer
// and the MLP, Norm1 and Norm2 are nn.Sum.
type Block struct {
	Kind         string // names of its mixers
	Mixer        mixer.Mixer
	Shared       *mixer.Shared // extends the mixer's input, or nil
	Norm1, Norm2 nn.AddNorm
	MLP          mixer.Mixer // nil for none, as is Norm2 then; except in RWKV-7, a mixer of single positions
	remembers    bool        // whether the MLP has a state
	scopes       [2]string
}

// newBackbone returns the blocks of a valid configuration. An encoder may have mixers that look ahead.
func newBackbone(cfg *Config, encoder bool) (Backbone, error) {
	plan, err := cfg.Plan()
	if err != nil {
		return Backbone{}, err
	}
	bb := Backbone{LnF: cfg.newNorm(), spares: new(tensor.Spares)}
	if cfg.EmbedNorm {
		bb.Norm0 = cfg.newNorm()
	}
	bb.use(native.Backend)
	shape, blocks := cfg.feedForwardShape(len(plan)), mixer.SharedBlocks{}
	shared := cfg.mixerConfig(len(plan))
	var mixers []mixer.Mixer
	for i, kind := range plan {
		l, err := cfg.newLayer(kind, shared, shape, blocks, encoder)
		if err != nil {
			return Backbone{}, err
		}
		shared.Earlier = append(shared.Earlier, l.kind)
		prefix := fmt.Sprintf("backbone.layers.%d.", i)
		norm := cfg.newNorm
		if l.after {
			norm = func() nn.AddNorm { return nn.Sum{} }
		}
		b := &Block{Kind: l.kind, Mixer: l.mixer, Shared: l.shared, Norm1: norm(),
			scopes: [2]string{prefix + "mixer", prefix + "mlp"}}
		if l.mlp != nil {
			b.Norm2, b.MLP = norm(), l.mlp
			b.remembers = len(mixer.StateParts(l.mlp.NewState())) > 0
		}
		bb.Blocks, mixers = append(bb.Blocks, b), append(mixers, b.Mixer)
	}
	return bb, mixer.CheckCascade(mixers)
}

// params visits the parameters under the names of a release.
func (bb *Backbone) params(prefix string, names naming, visit nn.Visitor) {
	if bb.Norm0 != nil {
		bb.Norm0.Params(prefix+embedNorm, visit)
	}
	for i, b := range bb.Blocks {
		b.params(fmt.Sprintf("%sbackbone.layers.%d.", prefix, i), names, visit)
	}
	bb.LnF.Params(prefix+names.finalNorm, visit)
}

func (b *Block) params(at string, names naming, visit nn.Visitor) {
	if b.Shared != nil {
		b.Shared.Params(at+"shared.", visit)
	}
	b.Mixer.Params(at+"mixer.", visit)
	b.Norm1.Params(at+names.norm, visit)
	if b.MLP != nil {
		b.MLP.Params(at+"mlp.", visit)
		b.Norm2.Params(at+names.mlpNorm, visit)
	}
}

// enter returns the stream before the first block: x (n, d_model) plus learned positions, if any, and normed if there
// is a Norm0.
func (bb *Backbone) enter(t *autograd.Tape, positions *nn.Embedding, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	x = addPositions(t, positions, x, &r.at)
	if bb.Norm0 != nil {
		_, x = bb.Norm0.AddForward(t, x, nil)
	}
	return x
}

// run passes a stream (n, d_model) through all blocks and the final norm, and updates the states of the rows.
func (bb *Backbone) run(t *autograd.Tape, hidden *tensor.Tensor, r *Rows, drop float64) *tensor.Tensor {
	return bb.runFrom(t, 0, hidden, hidden, r, drop)
}

// runFrom is run from block from on. first is the stream before the first block.
func (bb *Backbone) runFrom(t *autograd.Tape, from int, hidden, first *tensor.Tensor, r *Rows,
	drop float64) *tensor.Tensor {
	if from == 0 {
		r.handed = mixer.Handed{}
	}
	var residual *tensor.Tensor
	mark := t.Mark()
	free := !t.Recording() || !r.remember() // the states of a recording tape must outlive the layer
	r.advance()
	if !t.Recording() {
		r.makeRoom(bb.spares)
	}
	t.Over(&r.at)
	for i := from; i < len(bb.Blocks); i++ {
		if bb.divided != nil && i >= bb.divided.layers {
			residual, hidden = bb.onProcessor(t, i, residual, hidden, r, drop)
			break
		}
		residual, hidden = bb.Blocks[i].forward(t, residual, hidden, first, r.of(i), drop)
		if free {
			t.ReleaseSince(mark, r.keep(residual, hidden)...)
		}
	}
	t.Over(nil)
	t.Scope("backbone.ln_f")
	_, out := bb.LnF.AddForward(t, hidden, residual)
	t.Show("backbone.ln_f", out)
	return out
}

// forward takes the stream as residual + hidden, so that each sum is fused with the next norm. first is the stream
// before the first block.
func (b *Block) forward(t *autograd.Tape, residual, hidden, first *tensor.Tensor, rows *mixer.Rows,
	drop float64) (r, h *tensor.Tensor) {
	t.Scope(b.scopes[0])
	if b.Shared != nil {
		residual, hidden = b.share(t, residual, hidden, first, b.part(rows, sharedPart))
	} else {
		residual, hidden = b.Norm1.AddForward(t, hidden, residual)
	}
	hidden = mixer.Run(t, b.Mixer, hidden, b.part(rows, mixerPart))
	t.Show(b.scopes[0], hidden)
	hidden = t.Dropout(hidden, drop, rows.Rows)
	if b.MLP == nil {
		return residual, hidden
	}
	t.Scope(b.scopes[1])
	residual, hidden = b.Norm2.AddForward(t, hidden, residual)
	hidden = mixer.Run(t, b.MLP, hidden, b.part(rows, mlpPart))
	t.Show(b.scopes[1], hidden)
	return residual, t.Dropout(hidden, drop, rows.Rows)
}

// share returns the stream, and the input of the mixer: the norm of the sum of the stream and the shared block's
// output.
func (b *Block) share(t *autograd.Tape, residual, hidden, first *tensor.Tensor, rows *mixer.Rows) (r,
	h *tensor.Tensor) {
	if residual != nil {
		hidden = t.Add(residual, hidden)
	}
	_, seen := b.Norm1.AddForward(t, b.Shared.Forward(t, hidden, first, rows), hidden)
	return hidden, seen
}

// The parts of a block that may have states, in their order within the state of the block.
const (
	sharedPart = iota
	mixerPart
	mlpPart
)

// part returns rows with the states of part i. If only the mixer has a state, it is the state of the block itself.
func (b *Block) part(rows *mixer.Rows, i int) *mixer.Rows {
	switch {
	case b.Shared == nil && !b.Remembers(), i == mlpPart && !b.Remembers():
		return rows
	case b.Shared == nil:
		i--
	}
	return rows.Part(i)
}

// Remembers reports whether the MLP has a state.
func (b *Block) Remembers() bool { return b.remembers && b.MLP != nil }

// newState returns the state of the block before the first position.
func (b *Block) newState() mixer.State {
	names, parts := []string{"mixer"}, []mixer.State{b.Mixer.NewState()}
	if b.Shared != nil {
		names, parts = slices.Insert(names, 0, "shared"), slices.Insert(parts, 0, b.Shared.NewState())
	}
	if b.Remembers() {
		names, parts = append(names, "mlp"), append(parts, b.MLP.NewState())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return mixer.Together(names, parts)
}

// traits returns the traits of all parts.
func (b *Block) traits() mixer.Traits {
	all := b.Mixer.Traits()
	if b.Shared != nil {
		all = all.And(b.Shared.Traits())
	}
	if b.MLP != nil {
		all = all.And(b.MLP.Traits())
	}
	return all
}

// hand computes what layers before i hand on to layer i and later ones, for rows without states. first is the stream
// before the first layer. hand runs the layers up to the last one before i that hands something on.
func (bb *Backbone) hand(t *autograd.Tape, i int, first *tensor.Tensor, r *Rows) {
	giver := bb.giver(i)
	if giver < 0 {
		return
	}
	if r.remember() {
		panic("model: found rows with states from a layer on, which needs what earlier ones hand on")
	}
	r.handed = mixer.Handed{}
	var residual *tensor.Tensor
	hidden := first
	for j := range giver + 1 {
		residual, hidden = bb.Blocks[j].forward(t, residual, hidden, first, r.of(j), 0)
	}
}

// giver returns the last layer before i that hands something on to later ones, or -1.
func (bb *Backbone) giver(i int) int {
	for i--; i >= 0 && !mixer.Hands(bb.Blocks[i].Mixer); {
		i--
	}
	return i
}

// HandsOn reports whether a layer hands on values to later ones outside the stream.
func (bb *Backbone) HandsOn() bool { return bb.giver(len(bb.Blocks)) >= 0 }

// LooksAhead reports whether an output depends on later inputs, as in encoders.
func (bb *Backbone) LooksAhead() bool {
	for _, b := range bb.Blocks {
		if b.traits().LooksAhead {
			return true
		}
	}
	return false
}

// CountReads calls mixer.CountReads for all layers and reports whether any of them returned true.
func (bb *Backbone) CountReads(c *engine.SpAttenCounts) (some bool) {
	for i := range bb.Blocks {
		some = mixer.CountReads(bb.Blocks[i].Mixer, c) || some
	}
	return some
}

// Convolves reports whether the model reads pieces of a few hundred positions faster than pieces of a few dozen: see
// mixer.Traits.
func (bb *Backbone) Convolves() bool {
	return slices.ContainsFunc(bb.Blocks, func(b *Block) bool { return b.traits().Convolves })
}

// GoesBySteps reports whether a network of this shape can use the times of positions: see NetworkConfig.Steps.
func GoesBySteps(c Config) bool {
	bb, err := newBackbone(&c, true)
	return err == nil && bb.goesBySteps()
}

// goesBySteps reports whether a layer uses the times of positions.
func (bb *Backbone) goesBySteps() bool {
	return slices.ContainsFunc(bb.Blocks, func(b *Block) bool { return b.traits().Steps })
}

// maxLength returns the length of the longest sequence that all mixers take, or 0 if there is no limit.
func (bb *Backbone) maxLength() int {
	least := 0
	for _, b := range bb.Blocks {
		least = shorter(least, b.traits().MaxLength)
	}
	return least
}

// shorter returns the smaller of two maximum lengths. A length of 0 means no limit.
func shorter(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// numParams returns the number of trainable values of a module.
func numParams(m nn.Module) int {
	n := 0
	m.Params("", func(_ string, p *nn.Param) {
		if p.NeedsGrad() {
			n += p.Len()
		}
	})
	return n
}

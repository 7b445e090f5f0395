package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// SpAtten is causal softmax attention with cascade token and head pruning (arXiv:2012.09852): see autograd.SpAtten. Its
// state, the keys and values of the remaining tokens, is of fixed size. Wqkv's rows are ordered as in Attention.
//
// With cascade, tokens and heads that previous layers have pruned, which they report in Handed, are pruned here, too
// (§III-A, §III-B). Otherwise each layer prunes on its own.
type SpAtten struct {
	Wqkv, Out *nn.Linear
	opt       engine.SpAttenOptions
	d         int
	layer     int                 // index in the model
	above     []engine.SpAttenRow // pruned by the previous layer, for the one row of a sequence: see Given
}

// SpAttenInfo describes SpAtten.
var SpAttenInfo = Info{
	Name:  "spatten",
	Paper: "SpAtten: Efficient Sparse Attention Architecture with Cascade Token and Head Pruning, arXiv:2012.09852",
	Time:  "l·(keep + block)·d + l·d²", State: "2·(keep + block)·d",
	Causal: true, Recurrent: true, Builder: builder(spattenOptionsOf, newSpAtten),
	Tiny: Tiny{Options: "rotary_emb_dim=16,block=32,keep=128", DModel: 128, NLayer: 4, DInner: 576},
}

type spattenOptions struct {
	NumHeads  int  `json:"num_heads" help:"heads"`
	RotaryDim int  `json:"rotary_emb_dim" help:"rotated components of each head; 0 for none"`
	Block     int  `json:"block" help:"positions after which tokens and a head are pruned"`
	Keep      int  `json:"keep" help:"tokens that are left then"`
	KeepHeads int  `json:"keep_heads" help:"heads that are left in the end; 0 for all"`
	Values    int  `json:"values" min:"0" help:"values that a query reads, those of its largest weights; 0 for all"`
	Cascade   bool `json:"cascade" help:"prune what earlier layers have pruned, and by their importances too"`

	// Progressive quantizes keys to 8 bits at inference. Their lower 4 bits are read only where no weight reaches it.
	Progressive float64 `json:"progressive" min:"0" max:"1" help:"weight for 4-bit keys; 0: not quantized"`
}

func spattenOptionsOf(c Config) spattenOptions {
	return spattenOptions{NumHeads: c.NumHeads, RotaryDim: c.RotaryDim, Block: 64, Keep: 192}
}

// newSpAtten returns a SpAtten mixer whose parameters have no values yet.
func newSpAtten(cfg Config, o spattenOptions) (Mixer, error) {
	m, err := newAttention(cfg, attentionOptions{NumHeads: o.NumHeads, RotaryDim: o.RotaryDim}, plainHeads())
	switch {
	case err != nil:
		return nil, err
	case o.Block < 1 || o.Block > maxTokens:
		return nil, fmt.Errorf("block: found %d, want 1 to %d", o.Block, maxTokens)
	case o.Keep < 0 || o.Keep > maxTokens:
		return nil, fmt.Errorf("keep: found %d, want 0 to %d", o.Keep, maxTokens)
	case o.KeepHeads < 0 || o.KeepHeads > o.NumHeads:
		return nil, fmt.Errorf("keep_heads: found %d, want 0 to the %d heads", o.KeepHeads, o.NumHeads)
	case o.KeepHeads == 0:
		o.KeepHeads = o.NumHeads
	}
	return &SpAtten{Wqkv: m.Wqkv, Out: m.Out, d: cfg.DModel, layer: len(cfg.Earlier), opt: engine.SpAttenOptions{
		Heads: o.NumHeads, Rotary: m.opt.Rotary, Block: o.Block, Keep: o.Keep, KeepHeads: o.KeepHeads, Values: o.Values,
		Progressive: float32(o.Progressive), Cascade: o.Cascade,
	}}, nil
}

// maxTokens bounds the cost of a wrong configuration.
const maxTokens = 1 << 16

// Forward maps the rows of u (n, d_model) to y of the same shape.
func (m *SpAtten) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	before, opt := r.pruned(), m.opt
	if opt.Cascade {
		opt.Above, opt.Below = m.handed(r), make([]engine.SpAttenRow, r.Count())
	}
	y := t.SpAtten(m.Wqkv.Forward(t, u), opt, r.Rows, before)
	if opt.Cascade && r.Handed != nil {
		r.Handed.prune(m.layer, opt.Below)
	}
	for i, s := range before {
		if s != nil {
			r.States[i].(*spattenState).store()
		}
	}
	return m.Out.Forward(t, y)
}

// handed returns what the last layer before m has pruned in the rows, or nil for the first layer.
func (m *SpAtten) handed(r *Rows) []engine.SpAttenRow {
	if m.above == nil {
		return r.Handed.prunedBefore(m.layer)
	}
	var rows []engine.SpAttenRow
	for i := range r.Count() {
		rows = append(rows, m.above[0].Part(0, r.Start(i), r.Len(i)))
	}
	return rows
}

func (m *SpAtten) hands() bool { return m.opt.Cascade }

func (m *SpAtten) given(h *Handed) Mixer {
	c := *m
	c.above = h.prunedBefore(m.layer)
	return &c
}

// CheckCascade returns an error if layers that prune together count tokens or heads differently.
func CheckCascade(layers []Mixer) (err error) {
	var first *engine.SpAttenOptions
	for i, m := range layers {
		each(m, func(_ string, m Mixer) {
			s, ok := m.(*SpAtten)
			if !ok || !s.opt.Cascade || err != nil {
				return
			}
			if o := &s.opt; first == nil {
				first = o
			} else if o.Block != first.Block || o.Heads != first.Heads {
				err = fmt.Errorf("layer %d: found spatten with cascade of %d heads and a block of %d, want %d and %d "+
					"as in the layer that prunes first", i, o.Heads, o.Block, first.Heads, first.Block)
			}
		})
	}
	return err
}

// CountReads makes m's SpAtten mixers add their reads to c from now on, on an engine that counts; a nil c stops that.
// It reports whether m has any. m must not be in use.
func CountReads(m Mixer, c *engine.SpAttenCounts) (some bool) {
	each(m, func(_ string, m Mixer) {
		if m, ok := m.(*SpAtten); ok {
			m.opt.Counts, some = c, true
		}
	})
	return some
}

// NewState returns the state before the first position, with no head pruned.
func (m *SpAtten) NewState() State {
	h, n := m.opt.Heads, m.opt.Keep+m.opt.Block
	names, rows := []string{"k", "v", "importance", "heads", "position"}, []int{h, n, m.d / h}
	shapes, kinds := [][]int{rows, rows, {n}, {h}, {2}}, []PartKind{Numbers, Numbers, Scores, Scores, Position}
	if m.opt.Progressive > 0 {
		names, shapes, kinds = append(names, "k_low"), append(shapes, rows), append(kinds, Copied)
	}
	if m.opt.Cascade {
		names, shapes, kinds = append(names, "places"), append(shapes, []int{n}), append(kinds, Scores)
	}
	s := newFixedState(names, shapes...)
	Begin(s)
	return &spattenState{fixedState: fixedState{names: names, kinds: kinds, slots: s.slots}}
}

// Traits returns the traits of a recurrence.
func (m *SpAtten) Traits() Traits { return Traits{} }

// Params visits the parameters under the names of Attention's.
func (m *SpAtten) Params(prefix string, visit nn.Visitor) {
	m.Wqkv.Params(prefix+"Wqkv.", visit)
	m.Out.Params(prefix+"out_proj.", visit)
}

// spattenState holds the tensors of an engine.SpAttenState, in its order, without those that no option needs.
type spattenState struct {
	fixedState
	now engine.SpAttenState // in the form that the operation requires
}

// pruned returns the states of the rows, which must be spattenStates. They must be stored again after the operation.
func (r *Rows) pruned() []*engine.SpAttenState {
	return collect(r, &r.spatten, 0, func(s *spattenState, _ int) *engine.SpAttenState {
		parts := s.parts()
		for i := range s.slots {
			*parts[i] = s.slots[i].X
		}
		return &s.now
	})
}

// parts returns pointers to the operation's tensors.
func (s *spattenState) parts() (all [7]**tensor.Tensor) {
	x := &s.now
	all = [...]**tensor.Tensor{&x.K, &x.V, &x.Importance, &x.Heads, &x.Position, &x.Low, &x.Places}
	if len(s.names) > 5 && s.names[5] == "places" {
		all[5] = all[6]
	}
	return all
}

func (s *spattenState) store() {
	parts := s.parts()
	for i := range s.slots {
		s.slots[i].X = *parts[i]
	}
	s.now = engine.SpAttenState{}
}

func (s *spattenState) Clone() State {
	return &spattenState{fixedState: fixedState{names: s.names, kinds: s.kinds, slots: s.copies()}}
}

func (m *SpAtten) last() (**nn.Linear, Interior) { return &m.Out, Interior{Heads: m.opt.Heads} }

// stateRules returns the rules that k and v are not linear: which keys and values remain depends on all of them.
func (m *SpAtten) stateRules(*autograd.Tape) map[string]StateRule {
	return map[string]StateRule{"k": {NotLinear: true}, "v": {NotLinear: true}}
}

// Package memory follows the states of a model through a text: what is left of each token, how fast it fades, and what
// a linear map can read from them. It determines the rule of each part of a state by experiment, so that a new mixer
// needs no code here.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Options specifies which parts of a model's memory to examine.
type Options struct {
	Layers  []int // empty for all
	Cells   int   // maximum number of rows and columns of a map, 0 for as many as a page has room for
	ReadOut bool  // also fit what can be read from the states
}

// Report describes what the layers of a model remember of a text.
type Report struct {
	Tokens []int32
	Parts  []*Part    // for each layer the parts of its state, the one with the longest reach first
	Reads  []*ReadOut // for each layer with a state of fixed size
	Notes  []string

	shots int      // number of pictures of a state
	fit   *fitting // for the last layer, nil for none
}

// Part describes a part of one layer's state while the model reads a text:
//
//	S_t = Φ_t S_{t-1} + w_t      left(s, t) = |Φ_t … Φ_{s+1} w_s| / |w_s|
//
// with Φ_t as the model computes it at token t, including gates and decays. Since this is linear in what was written,
// the sum of Φ_t … Φ_{s+1} w_s over all s is the state itself.
type Part struct {
	Layer    int
	Mixer    string
	Name     string // name of the part in the state
	Rule     string // description of the rule from token to token
	Channels int
	Numbers  int // in all channels; if the part has a row for each token, in a row

	// Step is the number of tokens that a cell of Left combines. There are Cells cells.
	Step, Cells int
	// Left (cells, cells) is the share of what the tokens of cell s wrote that is left at the end of cell t: the root
	// of the sum of squares of what is left divided by that of what was written. It is NaN if s is later than t, and
	// everywhere if the part is not linear in itself.
	Left []float32
	// Written and Norm are |w_t| and |S_t| at each token, NaN if unknown.
	Written, Norm []float64
	// HalfLives are the numbers of tokens after which half of what was written is left, by norm, for each channel, or
	// for each number if those of a channel differ. They are in ascending order, with +Inf for never.
	HalfLives []float64
	// Rows and Heat show the sizes of the channels over time: the norms of Rows groups of channels at the end of each
	// cell, (rows, cells).
	Rows int
	Heat []float32
	// Shots are copies of the state at some tokens, with ShotRows channels and ShotCols numbers of each.
	ShotRows, ShotCols int
	ShotAt             []int
	Shots              [][]float32

	reach int  // how far back the part can reach: for sorting
	rows  bool // has a row for each token
}

// Linear reports whether it is known what is left of each token.
func (p *Part) Linear() bool { return p.Left != nil }

// maxTokens is the maximum number of tokens of a text.
const maxTokens = 16384

// Of runs the model over ids and follows what its states keep. It returns an error if no layer has a state, if a layer
// does not exist, if the text has less than 2 tokens or more than the model or a map supports, if weights are not
// numbers, and if ctx is done.
func Of(ctx context.Context, g *explain.Language, ids []int32, opt Options) (*Report, error) {
	if err := check(g, ids, opt); err != nil {
		return nil, err
	}
	out := &Report{Tokens: ids}
	layers, last := len(opt.Layers), len(g.Backbone.Blocks)-1
	if layers == 0 {
		layers = last + 1
	} else {
		last = slices.Max(opt.Layers)
	}
	out.shots = min(24, max(4, allShots/layers)) // the space of a page is limited
	cells := opt.Cells
	if cells == 0 {
		cells = min(256, int(math.Sqrt(1.5e6/float64(layers))))
	}
	step := (len(ids) + cells - 1) / cells
	var reader *readings
	if opt.ReadOut {
		reader = newReader(g, ids)
		out.Notes = append(out.Notes, reader.notes...)
	}
	var now *stateWalk
	t := g.Backbone.NewTape().Through(func(e engine.Engine) engine.Engine { return lookUp{e, &now} })
	var failed error
	g.Each(t, ids, last, func(layer int, b *model.Block, u *tensor.Tensor) {
		if failed != nil || len(opt.Layers) > 0 && !slices.Contains(opt.Layers, layer) {
			return
		}
		if failed = ctx.Err(); failed == nil {
			now = newWalk(t.Backend(), b.Mixer, u)
			now.products.whole = u
			failed = out.layer(ctx, layer, b, now, step, reader)
		}
	})
	if err := out.settle(); failed == nil {
		failed = err
	}
	if failed != nil {
		return nil, failed
	}
	if len(out.Parts) == 0 {
		return nil, errors.New("found no layer with a state, want one such as h3 or mamba")
	}
	steps := 1
	for _, p := range out.Parts {
		steps = max(steps, p.Step)
	}
	if steps > 1 {
		out.note(fmt.Sprintf("The text has %d tokens. A cell of a map stands for up to %d of them: "+
			"squares are summed over the tokens that wrote, at the time of the cell's last token.", len(ids), steps))
	}
	return out, nil
}

func check(g *explain.Language, ids []int32, opt Options) error {
	if g.Backbone.LooksAhead() {
		return errors.New("found an encoder, whose layers look ahead and have no state; want a model of causal layers")
	}
	if len(ids) < 2 || len(ids) > maxTokens {
		return fmt.Errorf("found a text of %d tokens, want 2 to %d", len(ids), maxTokens)
	}
	return cmp.Or(g.Check(ids), g.CheckLayers(opt.Layers...))
}

// layer follows the state of one layer.
func (m *Report) layer(ctx context.Context, layer int, b *model.Block, w *stateWalk, step int,
	reader *readings) error {
	for i, x := range w.u {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("layer %d, %s: found %v in its input at token %d, want finite numbers: "+
				"did the run that wrote the weights diverge?", layer, b.Kind, x, i/w.d)
		}
	}
	parts, err := w.partsOf()
	if err != nil {
		return fmt.Errorf("layer %d, %s: %w", layer, b.Kind, err)
	}
	if b.Shared != nil {
		m.note("The keys and values of shared blocks are left out: these are the states of the mixers after them.")
	}
	if b.Remembers() {
		m.note("The states of feed-forward parts are left out: these are those of the mixers before them.")
	}
	for _, p := range parts { // following g groups from cell to cell takes cells²·g/2 multiplications
		if g := p.groups(); g > 0 {
			most := max(32, int(math.Sqrt(3e8/float64(g))))
			step = max(step, (w.l+most-1)/most)
		}
	}
	f := &follow{w: w, step: step, cells: (w.l + step - 1) / step, shots: m.shots}
	for _, p := range parts {
		f.add(p)
	}
	if reader != nil {
		f.sketch = reader.sketch(parts)
	}
	if err := f.run(ctx); err != nil {
		return err
	}
	var found []*Part
	for _, x := range f.parts {
		one, err := x.memory(ctx, f)
		if err != nil {
			return err
		}
		one.Layer, one.Mixer = layer, b.Kind
		if !one.Linear() {
			m.note(fmt.Sprintf("%s: the part %q of the state is not linear in itself. Its size is shown, "+
				"but not what is left of each token.", b.Kind, one.Name))
		}
		found = append(found, one)
	}
	slices.SortStableFunc(found, func(a, b *Part) int { return b.reach - a.reach })
	m.Parts = append(m.Parts, found...)
	if f.sketch == nil || f.sketch.size == 0 {
		return nil
	}
	if err := m.settle(); err != nil { // of the previous layer: one fit at a time
		return err
	}
	fit, of := &fitting{done: make(chan struct{})}, f.sketch
	m.fit = fit
	go func() {
		defer close(fit.done)
		if fit.read, fit.err = reader.fit(ctx, of); fit.err == nil {
			fit.read.Layer, fit.read.Mixer = layer, b.Kind
		}
	}()
	return nil
}

// fitting is a read-out that is being fitted while the next layer is followed.
type fitting struct {
	done chan struct{}
	read *ReadOut
	err  error
}

// settle waits for the read-out that is being fitted, if there is one.
func (m *Report) settle() error {
	fit := m.fit
	if fit == nil {
		return nil
	}
	<-fit.done
	if m.fit = nil; fit.err == nil {
		m.Reads = append(m.Reads, fit.read)
	}
	return fit.err
}

// note adds a note unless it is already there.
func (m *Report) note(text string) {
	if !slices.Contains(m.Notes, text) {
		m.Notes = append(m.Notes, text)
	}
}

// Package paths compares the states of a model for two texts with the same beginning: where the states diverge, which
// token caused it, and, by causal tracing (arXiv:2202.05262), which layer and token make the predictions differ.
package paths

import (
	"context"
	"errors"
	"fmt"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/model"
)

// Report compares the states of a model for two texts with the same beginning. Distances between states a and b are
// relative,
//
//	‖a - b‖ / ((‖a‖ + ‖b‖)/2)
//
// which is 0 if they are equal, about 1.4 if they are unrelated, and 2 if one is the opposite of the other or one of
// them is zero.
type Report struct {
	IDs    [2][]int32
	Common int      // length of the common beginning
	Layers []string // names
	// At lists the numbers of tokens after which the states and the predictions are compared.
	At       []int
	Distance [][]float64 // for each layer's state, at each place
	// Channels holds the distances of each layer's channels, or of groups of adjacent ones: (groups, places) for each
	// layer.
	Channels []ChannelDistance
	// JS is the Jensen-Shannon divergence of the predictions at each place, in nats: 0 to log 2.
	JS []float64
	// Blame lists how much closer the end of the second path is to that of the first if one of its tokens is replaced
	// by that of the first. It is empty if the paths differ in length, or differ in one token or in very many.
	Blame    []Blame
	Exchange []Exchange
	// Next holds the scores after each path.
	Next [2][]float32
}

// ChannelDistance holds the distances of the channels or heads of each tensor of a layer's state.
type ChannelDistance struct {
	Names  []string
	Values [][]float64 // by group and place

	rows map[string]int // index by name
}

// Blame describes the effect of one token.
type Blame struct {
	Token int // its number
	// Distance is the mean relative distance of all layers' states after the paths, and JS that of the predictions, if
	// the token is made equal.
	Distance, JS float64
}

// Exchange is the prediction after the first path if one layer continues, before the last token, from the state of the
// second path.
type Exchange struct {
	Layer   int
	Skipped string // why the state cannot be exchanged, "" if it can
	// Scores are those after the last token of the first path.
	Scores []float32
	// FromFirst and FromSecond are KL(own ‖ exchanged) from the predictions of the two paths, in nats.
	FromFirst, FromSecond float64
}

const (
	maxPlaces   = 256     // at which states are compared
	beforeFork  = 8       // tokens shown before the paths diverge
	maxBlamed   = 32      // maximum number of tokens to make equal one by one
	maxCellsSum = 1 << 20 // cells of all maps of channels
)

// Compare compares the states of a model for a and b. It keeps the states at one place at a time. It returns an error
// for ids that the model cannot read, paths that do not diverge, a model that looks ahead, and if ctx is done.
func Compare(ctx context.Context, g *explain.Language, a, b []int32) (*Report, error) {
	rep, err := fork(g, a, b)
	if err != nil {
		return nil, err
	}
	w := &walk{g: g, rep: rep}
	for _, f := range []func(context.Context) error{w.along, w.blame, w.exchange} {
		if err := f(ctx); err != nil {
			return nil, err
		}
	}
	return rep, nil
}

// Common returns the length of the common prefix of two texts.
func Common(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// fork starts a report: it finds where two paths diverge.
func fork(g *explain.Language, a, b []int32) (*Report, error) {
	if !g.Causal() {
		return nil, errors.New("found a model that looks ahead, which has no state; want a causal one")
	}
	for i, ids := range [][]int32{a, b} {
		if err := g.Check(ids); err != nil {
			return nil, fmt.Errorf("path %d: %w", i+1, err)
		}
	}
	rep := &Report{IDs: [2][]int32{a, b}, Common: Common(a, b)}
	shorter := min(len(a), len(b))
	if rep.Common == shorter {
		return nil, fmt.Errorf(
			"found two paths with the same first %d tokens, where one ends: want paths that diverge before", shorter)
	}
	for i := range g.Backbone.Blocks {
		rep.Layers = append(rep.Layers, g.LayerName(i))
	}
	return rep, nil
}

// walker reads one of the paths.
type walker struct {
	*explain.Run
	s     *explain.Scorer
	final []float32
	next  []float32 // scores after the tokens read so far
	of    explain.Softmax
}

func newWalker(g *explain.Language, with explain.Probe) (*walker, error) {
	w := &walker{s: g.NewScorer()}
	var err error
	w.Run, err = g.Start(with.Final(g, func(x []float32) { w.final = x }))
	return w, err
}

// goOn reads ids and computes the scores after the last of them.
func (w *walker) goOn(ctx context.Context, ids []int32) error {
	if len(ids) == 0 {
		return nil
	}
	if err := w.Read(ctx, ids, nil); err != nil {
		return err
	}
	d := w.Of.Unembedding.Dim(1)
	z, _ := w.s.Scores(w.final[len(w.final)-d:])
	var ok bool
	if w.of, ok = explain.SoftmaxOf(z); !ok {
		return w.Of.Ruined(len(w.Of.Backbone.Blocks), w.At-1)
	}
	w.next = z
	return nil
}

// from continues from another position of a sequence.
func (w *walker) from(s *model.State) { *w.State, w.At = *s.Clone(), s.Position }

// walk compares two paths.
type walk struct {
	g    *explain.Language
	rep  *Report
	fork *model.State       // state where the paths diverge
	ends [2]*model.State    // states after the paths
	last [2]*model.State    // states before the last tokens
	of   [2]explain.Softmax // softmax of rep.Next
}

// along reads both paths in parallel.
func (w *walk) along(ctx context.Context) error {
	rep := w.rep
	var walkers [2]*walker
	for i := range walkers {
		var err error
		if walkers[i], err = newWalker(w.g, explain.Probe{}); err != nil {
			return err
		}
	}
	start := max(0, rep.Common-beforeFork)
	if err := walkers[0].goOn(ctx, rep.IDs[0][:start]); err != nil {
		return err
	}
	walkers[1].from(walkers[0].State)
	end := min(len(rep.IDs[0]), len(rep.IDs[1]))
	step := (end - start + maxPlaces - 1) / maxPlaces
	m := newMeter(w.g, (end-start+step-1)/step)
	for at := start; at < end; {
		if at == rep.Common {
			w.fork = walkers[0].State.Clone()
		}
		to := min(end, at+step)
		if at < rep.Common {
			to = min(to, rep.Common)
		}
		for i, p := range walkers {
			if err := p.goOn(ctx, rep.IDs[i][at:to]); err != nil {
				return fmt.Errorf("path %d: %w", i+1, err)
			}
		}
		rep.At = append(rep.At, to)
		rep.JS = append(rep.JS, explain.JensenShannon(walkers[0].next, walkers[1].next, walkers[0].of, walkers[1].of))
		m.measure(rep, walkers[0].State, walkers[1].State)
		at = to
	}
	for i, p := range walkers {
		if err := p.goOn(ctx, rep.IDs[i][end:]); err != nil {
			return fmt.Errorf("path %d: %w", i+1, err)
		}
		rep.Next[i], w.of[i], w.ends[i] = p.next, p.of, p.State
	}
	return nil
}

// blame makes the tokens of the second path equal to those of the first, one at a time.
func (w *walk) blame(ctx context.Context) error {
	a, b := w.rep.IDs[0], w.rep.IDs[1]
	if len(a) != len(b) {
		return nil
	}
	var other []int
	for i := w.rep.Common; i < len(a); i++ {
		if a[i] != b[i] {
			other = append(other, i)
		}
	}
	if len(other) < 2 || len(other) > maxBlamed {
		return nil
	}
	p, err := newWalker(w.g, explain.Probe{})
	if err != nil {
		return err
	}
	for _, at := range other {
		ids := append([]int32(nil), b[w.rep.Common:]...)
		ids[at-w.rep.Common] = a[at]
		p.from(w.fork)
		if err := p.goOn(ctx, ids); err != nil {
			return err
		}
		x := Blame{Token: at, JS: explain.JensenShannon(w.rep.Next[0], p.next, w.of[0], p.of)}
		for k := range w.g.Backbone.Blocks {
			x.Distance += layerDistance(w.g, w.ends[0], p.State, k) / float64(len(w.g.Backbone.Blocks))
		}
		w.rep.Blame = append(w.rep.Blame, x)
	}
	return nil
}

// exchange makes one layer of the first path at a time continue from the state of the second, before the last token.
func (w *walk) exchange(ctx context.Context) error {
	for i, ids := range w.rep.IDs {
		p, err := newWalker(w.g, explain.Probe{})
		if err != nil {
			return err
		}
		if w.fork != nil && len(ids) > w.rep.Common {
			p.from(w.fork)
		}
		if err := p.Read(ctx, ids[p.At:len(ids)-1], nil); err != nil {
			return err
		}
		w.last[i] = p.State
	}
	p, err := newWalker(w.g, explain.Probe{})
	if err != nil {
		return err
	}
	first := w.rep.IDs[0]
	for k := range w.g.Backbone.Blocks {
		x := Exchange{Layer: k}
		if len(first) != len(w.rep.IDs[1]) {
			if err := w.g.Movable(k, w.last[1]); err != nil {
				x.Skipped = err.Error()
				w.rep.Exchange = append(w.rep.Exchange, x)
				continue
			}
		}
		p.from(w.last[0])
		p.State.Mixers[k] = w.last[1].Mixers[k].Clone()
		if err := p.goOn(ctx, first[len(first)-1:]); err != nil {
			return err
		}
		x.Scores = append([]float32(nil), p.next...)
		x.FromFirst = explain.Divergence(w.rep.Next[0], p.next, w.of[0], p.of)
		x.FromSecond = explain.Divergence(w.rep.Next[1], p.next, w.of[1], p.of)
		w.rep.Exchange = append(w.rep.Exchange, x)
	}
	return nil
}

package lens

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/model"
)

// Values of Changes.At besides the number of a token.
const (
	AtEveryToken = "all"
	AtLastToken  = "last"
)

// Patch replaces a part by its value in the run of another text.
type Patch struct {
	Target explain.Target
	IDs    []int32 // the other text
}

// Changes specifies changes of a model as it reads a text.
type Changes struct {
	Ablate []explain.Target
	// Mean replaces ablated parts by their mean over the tokens of the text instead of zero. It is not for states.
	Mean  bool
	Patch []Patch
	// At is the token at which the change applies: its number from 0, AtLastToken or AtEveryToken. A state is changed
	// before that token is read. Empty means AtEveryToken, or AtLastToken for the patch of a state.
	At string
	// Watched lists tokens that the report always shows, regardless of their probability.
	Watched []int32
}

// ChangeReport compares a model's predictions with and without a change.
type ChangeReport struct {
	IDs    []int32
	Labels []string // of the changes
	// Before and After are the log-probabilities of the next token of the text, after each token except the last.
	Before, After []float64
	// NextBefore and NextAfter are the scores after the text.
	NextBefore, NextAfter []float32
	Watched               []int32
	// KL is Σ p (log p - log q) of the distributions after the text before (p) and after (q) the change, in nats.
	KL float64
}

// Change compares reading ids with and without changes. Both runs use the same pieces, so that a change without effect
// leaves every bit the same. If the model does not have a part, the error lists those that it has.
func Change(ctx context.Context, g *explain.Language, ids []int32, c Changes) (*ChangeReport, error) {
	if err := g.Check(ids); err != nil {
		return nil, err
	}
	if err := g.CheckWatched(c.Watched); err != nil {
		return nil, err
	}
	if len(c.Ablate)+len(c.Patch) == 0 {
		return nil, errors.New("found nothing to change, want a part to ablate or to patch")
	}
	rep := &ChangeReport{IDs: ids, Watched: c.Watched}
	plain, changed := explain.Probe{Cuts: map[int]func(*model.State){}},
		explain.Probe{Cuts: map[int]func(*model.State){}}
	for _, t := range c.Ablate {
		if err := ablate(ctx, g, ids, t, c, &changed); err != nil {
			return nil, fmt.Errorf("ablate %s: %w", t, err)
		}
		with := "zero"
		if c.Mean {
			with = "the mean"
		}
		rep.Labels = append(rep.Labels, fmt.Sprintf("%s replaced by %s", t, with))
	}
	for _, p := range c.Patch {
		if err := patch(ctx, g, ids, p, c, &changed); err != nil {
			return nil, fmt.Errorf("patch %s: %w", p.Target, err)
		}
		rep.Labels = append(rep.Labels, fmt.Sprintf("%s taken from the other text", p.Target))
	}
	for at := range changed.Cuts {
		plain.Cuts[at] = func(*model.State) {}
	}
	before, err := g.Predict(ctx, ids, plain)
	if err != nil {
		return nil, err
	}
	after, err := g.Predict(ctx, ids, changed)
	if err != nil {
		return nil, err
	}
	rep.Before, rep.After, rep.NextBefore, rep.NextAfter = before.LogP, after.LogP, before.Last, after.Last
	rep.KL = explain.Divergence(before.Last, after.Last, before.Softmax, after.Softmax)
	return rep, nil
}

// tokensAt returns the number of the first token that at selects, and that of the token after the last.
func tokensAt(at, otherwise string, n int) (from, to int, err error) {
	if at == "" {
		at = otherwise
	}
	switch at {
	case AtEveryToken:
		return 0, n, nil
	case AtLastToken:
		return n - 1, n, nil
	}
	i, err := strconv.Atoi(at)
	if err != nil || i < 0 || i >= n {
		return 0, 0, fmt.Errorf("at: found %q, want %s, %s or the number of a token from 0 to %d", at, AtEveryToken,
			AtLastToken, n-1)
	}
	return i, i + 1, nil
}

// ablate adds to w the hooks that ablate a part.
func ablate(ctx context.Context, g *explain.Language, ids []int32, t explain.Target, c Changes,
	w *explain.Probe) error {
	if err := g.CheckTarget(t); err != nil {
		return err
	}
	from, to, err := tokensAt(c.At, AtEveryToken, len(ids))
	if err != nil {
		return err
	}
	if t.Part == explain.StatePart {
		switch {
		case c.Mean:
			return errors.New("found a mean for a state, want zero: no text leads to the mean of states")
		case to-from == 1:
			empty := g.Backbone.NewState().Mixers[t.Layer]
			w.Cut(from, func(s *model.State) { s.Mixers[t.Layer] = empty.Clone() })
		case g.Backbone.Blocks[t.Layer].Shared != nil:
			return fmt.Errorf("found a layer with a shared block, whose state can be emptied only at one token: " +
				"give its number, or last")
		default:
			w.Forget = append(w.Forget, t.Layer)
		}
		return nil
	}
	sites := g.Sites(t)
	values := make([][]float32, len(sites)) // nil for zeros
	if c.Mean {
		if values, err = means(ctx, g, ids, sites); err != nil {
			return err
		}
	}
	for i, s := range sites {
		w.Hooks = append(w.Hooks, s.Read(func(token int, x []float32) bool {
			if token < from || token >= to {
				return false
			}
			if values[i] == nil {
				clear(x)
			} else {
				copy(x, values[i])
			}
			return true
		}))
	}
	return nil
}

// means returns, for each site, the mean over all tokens of its values as the model reads ids.
func means(ctx context.Context, g *explain.Language, ids []int32, sites []explain.Site) ([][]float32, error) {
	sums := make([][]float64, len(sites))
	var w explain.Probe
	for i, s := range sites {
		w.Hooks = append(w.Hooks, s.Read(func(_ int, x []float32) bool {
			if sums[i] == nil {
				sums[i] = make([]float64, len(x))
			}
			for j, v := range x {
				sums[i][j] += float64(v)
			}
			return false
		}))
	}
	if err := g.Pass(ctx, ids, w); err != nil {
		return nil, err
	}
	out := make([][]float32, len(sites))
	for i, sum := range sums {
		out[i] = make([]float32, len(sum))
		for j, v := range sum {
			out[i][j] = float32(v / float64(len(ids)))
		}
	}
	return out, nil
}

// patch adds to w the hooks that replace a part by its value in another text.
func patch(ctx context.Context, g *explain.Language, ids []int32, p Patch, c Changes, w *explain.Probe) error {
	t := p.Target
	if err := g.CheckTarget(t); err != nil {
		return err
	}
	if err := g.Check(p.IDs); err != nil {
		return fmt.Errorf("the other text: %w", err)
	}
	if t.Part == explain.StatePart {
		return patchState(ctx, g, ids, p, c, w)
	}
	from, to, err := tokensAt(c.At, AtEveryToken, len(ids))
	if err != nil {
		return err
	}
	shift := 0 // from the number of a token of the text to that of the other text
	switch {
	case to-from > 1 && len(p.IDs) != len(ids):
		return fmt.Errorf("found %d tokens in the other text, want %d as in the text, since each token is exchanged; "+
			"or choose one token, such as last", len(p.IDs), len(ids))
	case c.At == AtLastToken:
		shift = len(p.IDs) - len(ids)
	case from >= len(p.IDs):
		return fmt.Errorf("at: found %d, want a token that the other text has, 0 to %d", from, len(p.IDs)-1)
	}
	for _, s := range g.Sites(t) {
		others := map[int][]float32{}
		record := s.Read(func(token int, x []float32) bool {
			if at := token - shift; at >= from && at < to {
				others[at] = slices.Clone(x)
			}
			return false
		})
		if err := g.Pass(ctx, p.IDs, explain.Probe{Hooks: []explain.Hook{record}}); err != nil {
			return fmt.Errorf("the other text: %w", err)
		}
		w.Hooks = append(w.Hooks, s.Read(func(token int, x []float32) bool {
			other, ok := others[token]
			copy(x, other)
			return ok
		}))
	}
	return nil
}

// patchState replaces the state of a layer before a token by its state in another text: before the same token there, or
// before the last one.
func patchState(ctx context.Context, g *explain.Language, ids []int32, p Patch, c Changes, w *explain.Probe) error {
	from, to, err := tokensAt(c.At, AtLastToken, len(ids))
	switch {
	case err != nil:
		return err
	case to-from > 1:
		return errors.New("found a state to exchange at every token, want one token: a number, or last")
	}
	there := from
	if c.At == "" || c.At == AtLastToken {
		there = len(p.IDs) - 1
	}
	if there > len(p.IDs) {
		return fmt.Errorf("at: found %d, want a token that the other text has, 0 to %d", from, len(p.IDs)-1)
	}
	other, err := g.StateAfter(ctx, p.IDs[:there])
	if err != nil {
		return fmt.Errorf("the other text: %w", err)
	}
	if there != from {
		if err := g.Movable(p.Target.Layer, other); err != nil {
			return fmt.Errorf("%w: found one after %d tokens, want one after %d", err, there, from)
		}
	}
	w.Cut(from, func(s *model.State) { s.Mixers[p.Target.Layer] = other.Mixers[p.Target.Layer].Clone() })
	return nil
}

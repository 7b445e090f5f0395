package memory

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/influence"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestWalksRecallProducts: products that are made once of the whole sequence, and the last one left out, give every
// mixer the states that it has by itself, to the last bit: in pieces, token by token, and while the model goes on.
func TestWalksRecallProducts(t *testing.T) {
	recalling := 0
	for _, entry := range toymodel.Entries() {
		w, _ := walkOf(t, entry)
		plain := *w
		plain.tape, plain.seen = autograd.NewTape(cpu.Backend{}), map[int]mixer.State{}
		if len(w.products.of) > 0 && len(w.products.out) > 0 {
			recalling++
		}
		for _, at := range []int{1, 7, w.l} {
			sameState(t, entry, w.before(at), plain.before(at))
		}
		var steps [2][]mixer.State
		for i, walk := range []*stateWalk{w, &plain} {
			err := walk.steps(context.Background(), 8, func([]mixer.State) {}, nil,
				func(at []int, now, _ []mixer.State) {
					for _, s := range now {
						steps[i] = append(steps[i], s.Clone())
					}
				})
			if err != nil {
				t.Fatalf("%s: %v", entry, err)
			}
		}
		for i, s := range steps[0] {
			sameState(t, entry, s, steps[1][i])
		}
	}
	if recalling < 10 {
		t.Errorf("found %d mixers with products to recall and to leave out, want most", recalling)
	}
}

// sameState fails a test unless two states have the same bits.
func sameState(t *testing.T, entry string, a, b mixer.State) {
	t.Helper()
	names, shapes := shapesIn(b)
	for _, name := range names {
		x, y := readPart(a, name, nil), readPart(b, name, nil)
		if !slices.EqualFunc(x, y, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
			t.Fatalf("%s: part %s %v of the state is another", entry, name, shapes[name])
		}
	}
}

// TestWalksThatMayNotKeepMuch: a walk that may not keep products of the whole sequence makes them as they come.
func TestWalksThatMayNotKeepMuch(t *testing.T) {
	w, _ := walkOf(t, "mamba")
	full := newWalk(w.tape.Backend(), w.m, tensor.FromSlice(w.u, w.l, w.d))
	full.products.kept = mostRecalled
	sameState(t, "mamba", full.before(w.l), w.before(w.l))
	if len(full.products.of) > 0 || len(w.products.of) == 0 {
		t.Errorf("found %d products kept by a full walk and %d by another, want 0 and some", len(full.products.of),
			len(w.products.of))
	}
}

// TestLayersAreAloneWhatTheyAreAmongAll: views of some layers, behind which nothing is computed, have the bits that
// these have in a view of all, whatever the mixer.
func TestLayersAreAloneWhatTheyAreAmongAll(t *testing.T) {
	ctx := context.Background()
	for _, info := range model.MixerNames() {
		switch info {
		case "gmlp", "hyena":
			info += "(l_max=128)"
		}
		g, ids := explain.OfModel(toymodel.New(t, info+"*3", 20)), toymodel.Text(1, 33, 20)
		o := influence.Options{Head: influence.AllHeads, Token: influence.LastToken, Measure: influence.Share,
			Next: influence.LikeliestToken}
		all, err := influence.Of(ctx, g, ids, o)
		if err != nil {
			t.Fatalf("%s: %v", info, err)
		}
		o.Layers = []int{1}
		one, err := influence.Of(ctx, g, ids, o)
		if err != nil {
			t.Fatalf("%s: %v", info, err)
		}
		if !slices.Equal(one.Layers[0].Map, all.Layers[1].Map) || one.Rollout != nil {
			t.Errorf("%s: layer 1 alone draws on others than among all", info)
		}
		m, err := Of(ctx, g, ids, Options{})
		if err != nil {
			t.Fatalf("%s: %v", info, err)
		}
		alone, err := Of(ctx, g, ids, Options{Layers: []int{1}})
		if err != nil {
			t.Fatalf("%s: %v", info, err)
		}
		for _, p := range alone.Parts {
			i := slices.IndexFunc(m.Parts, func(q *Part) bool { return q.Layer == 1 && q.Name == p.Name })
			if i < 0 || !slices.EqualFunc(p.Written, m.Parts[i].Written,
				func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
				t.Errorf("%s: layer 1 alone writes otherwise than among all", info)
			}
		}
	}
}

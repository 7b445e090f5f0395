package lens

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestPartsOfSeveralMixers: a layer of several mixers has the heads of each. Without all heads of one, the other alone
// is left; own values change nothing.
func TestPartsOfSeveralMixers(t *testing.T) {
	g, ids := explain.OfModel(toymodel.New(t, "h3+attention*2", toymodel.Vocab)), toymodel.Text(1, 12, toymodel.Vocab)
	heads, err := g.HeadTargets(1)
	if err != nil || len(heads) != 8+2 || heads[9].String() != "layer1.attention.head1" {
		t.Fatalf("found the heads %v, %v", heads, err)
	}
	if r := change(t, g, ids, Changes{Patch: []Patch{{heads[9], ids}, {heads[3], ids}}}); !same(r) {
		t.Errorf("own values change log p by up to %g", r.most())
	}
	one, other := change(t, g, ids, Changes{Ablate: heads[8:]}), change(t, g, ids, Changes{Ablate: heads[:8]})
	both := change(t, g, ids, Changes{Ablate: heads})
	if same(one) || same(other) || slices.Equal(one.After, other.After) || slices.Equal(one.After, both.After) {
		t.Error("the heads of one mixer change what those of the other do")
	}
}

// targets are all kinds of parts that a layer has.
func targets(g *explain.Language, layer int) []explain.Target {
	var out []explain.Target
	for _, t := range []explain.Target{{}, {Part: explain.MixerPart}, {Part: explain.MLPPart},
		{Part: explain.HeadPart, Index: 1},
		{Part: explain.ChannelPart, Index: 3}, {Part: explain.StatePart}} {
		t.Layer = layer
		if g.CheckTarget(t) == nil {
			out = append(out, t)
		}
	}
	return out
}

func change(t *testing.T, g *explain.Language, ids []int32, c Changes) *ChangeReport {
	t.Helper()
	r, err := Change(context.Background(), g, ids, c)
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return r
}

// same tells whether a change has left every bit.
func same(r *ChangeReport) bool {
	return slices.Equal(r.Before, r.After) && slices.Equal(r.NextBefore, r.NextAfter) && r.KL == 0
}

// TestPatchByOwnValuesChangesNothing: what each part of each mixer is in the run of the same text, put in there, leaves
// every bit; what it is in that of another text does not, nor does zero.
func TestPatchByOwnValuesChangesNothing(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		g, ids, other := explain.OfModel(m), toymodel.Text(1, 20, toymodel.Vocab), toymodel.Text(2, 20, toymodel.Vocab)
		for _, target := range targets(g, 0) {
			for _, at := range []string{"", AtLastToken, "7"} {
				if r := change(t, g, ids, Changes{Patch: []Patch{{target, ids}}, At: at}); !same(r) {
					t.Errorf("%s at %q: own values change log p by up to %g", target, at, r.most())
				}
				if r := change(t, g, ids, Changes{Patch: []Patch{{target, other}}, At: at}); same(r) {
					t.Errorf("%s at %q: another text's values change nothing", target, at)
				}
				if target.Part == explain.StatePart && at == "" && m.Blocks[0].Shared != nil {
					_, err := Change(context.Background(), g, ids, Changes{Ablate: []explain.Target{target}})
					toymodel.WantError(t, err, "shared block", "only at one token")
					continue
				}
				if r := change(t, g, ids, Changes{Ablate: []explain.Target{target}, At: at}); same(r) {
					t.Errorf("%s at %q: zeros change nothing", target, at)
				}
			}
		}
	})
}

// most is the largest change of a log-probability.
func (r *ChangeReport) most() (x float64) {
	for i := range r.Before {
		x = max(x, math.Abs(r.After[i]-r.Before[i]))
	}
	return x
}

// TestAblateWholeLayer: a model without what a layer adds is the model without the layer; without all of them it is the
// embedding, as the lens sees it.
func TestAblateWholeLayer(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		g, ids := explain.OfModel(m), toymodel.Text(1, 20, toymodel.Vocab)
		lens, err := Of(context.Background(), g, ids)
		if err != nil {
			t.Fatal(err)
		}
		for k := range g.Backbone.Blocks {
			var rest []explain.Target
			for i := k; i < len(g.Backbone.Blocks); i++ {
				rest = append(rest, explain.Target{Layer: i})
			}
			for i, got := range change(t, g, ids, Changes{Ablate: rest}).After {
				if want := lens.LogP[k][i]; math.Abs(got-want) > 1e-5 {
					t.Fatalf("without the layers from %d on token %d has log p %g, want %g", k, i+1, got, want)
				}
			}
		}
	})
}

// TestAblateAllHeads: without any head, or any channel, a mixer adds what it adds to nothing at all.
func TestAblateAllHeads(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		g, ids := explain.OfModel(m), toymodel.Text(1, 12, toymodel.Vocab)
		last := len(g.Backbone.Blocks) - 1
		in, ok := g.Interior(last, "")
		if !ok {
			return
		}
		var channels, heads []explain.Target
		for i := range in.Channels {
			channels = append(channels, explain.Target{Layer: last, Part: explain.ChannelPart, Index: i})
		}
		for i := range in.Heads {
			heads = append(heads, explain.Target{Layer: last, Part: explain.HeadPart, Index: i})
		}
		one := change(t, g, ids, Changes{Ablate: channels})
		if in.Heads > 0 && !slices.Equal(one.After, change(t, g, ids, Changes{Ablate: heads}).After) {
			t.Error("without all heads there are other bits than without all channels")
		}
		if in.Heads > 1 && slices.Equal(one.After, change(t, g, ids, Changes{Ablate: heads[1:]}).After) {
			t.Error("the first head changes nothing")
		}
		// What is left is a bias, or nothing: it is the same at every token.
		var seen [][]float32
		r, err := g.Start(explain.Probe{Hooks: append(zeros(g, channels),
			explain.Site{Layer: last, Place: explain.MixerOut}.Read(
				func(_ int, x []float32) bool {
					seen = append(seen, slices.Clone(x))
					return false
				}))})
		if err == nil {
			err = r.Read(context.Background(), ids, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range seen[1:] {
			if !slices.Equal(x, seen[0]) {
				t.Fatal("without all channels the mixer adds something else at each token")
			}
		}
	})
}

// zeros are hooks that clear parts.
func zeros(g *explain.Language, parts []explain.Target) (hooks []explain.Hook) {
	for _, p := range parts {
		for _, s := range g.Sites(p) {
			hooks = append(hooks, s.Read(func(_ int, x []float32) bool { clear(x); return true }))
		}
	}
	return hooks
}

// TestAblateState: a layer that carries nothing sees each token as the first of a text. So a model whose only layer
// carries nothing predicts after each token what it predicts after it alone.
func TestAblateState(t *testing.T) {
	for _, info := range model.Mixers() {
		if !info.Causal {
			continue
		}
		g, ids := explain.OfModel(toymodel.New(t, info.Name, toymodel.Vocab)), toymodel.Text(1, 10, toymodel.Vocab)
		if g.Backbone.Blocks[0].Mixer.Traits().ByPosition {
			continue // such a token alone is not the first of a text
		}
		after := change(t, g, ids, Changes{Ablate: []explain.Target{{Part: explain.StatePart}}}).After
		once := change(t, g, ids, Changes{Ablate: []explain.Target{{Part: explain.StatePart}}, At: "4"}).After
		for i, got := range after {
			alone, err := g.Predict(context.Background(), ids[i:i+2], explain.Probe{})
			if err != nil {
				t.Fatal(err)
			}
			if want := alone.LogP[0]; math.Abs(got-want) > 1e-4 {
				t.Errorf("%s: token %d has log p %g, want %g", info.Name, i+1, got, want)
			}
			if i == 4 && math.Abs(once[i]-alone.LogP[0]) > 1e-4 {
				t.Errorf("%s: with an empty state before it token %d has log p %g, want %g", info.Name, i+1, once[i],
					alone.LogP[0])
			}
		}
	}
}

// TestMeanAblation: the mean of a part that is the same at every token changes nothing, and otherwise what is put in is
// the mean.
func TestMeanAblation(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "h3,mamba2,attention", toymodel.Vocab))
	alike := make([]int32, 1)
	for _, target := range []explain.Target{{Layer: 1}, {Layer: 1, Part: explain.HeadPart},
		{Layer: 2, Part: explain.ChannelPart, Index: 5}} {
		if r := change(t, g, alike, Changes{Ablate: []explain.Target{target}, Mean: true}); !same(r) {
			t.Errorf("%s: the mean of one token changes it by %g", target, r.KL)
		}
	}
	ids := toymodel.Text(1, 15, toymodel.Vocab)
	sites := g.Sites(explain.Target{Layer: 1, Part: explain.HeadPart})
	means, err := means(context.Background(), g, ids, sites)
	if err != nil {
		t.Fatal(err)
	}
	sum, n := 0.0, 0
	if err := g.Pass(context.Background(), ids,
		explain.Probe{Hooks: []explain.Hook{sites[0].Read(func(_ int, x []float32) bool {
			sum, n = sum+float64(x[2]), n+1
			return false
		})}}); err != nil {
		t.Fatal(err)
	}
	if want := sum / float64(n); n != len(ids) || math.Abs(float64(means[0][2])-want) > 1e-6 {
		t.Errorf("the mean of %d tokens is %g, want %g", n, means[0][2], want)
	}
}

// TestPatchFromLongerText: at one token the other text may have another length; a state that holds each token cannot
// come from elsewhere.
func TestPatchFromLongerText(t *testing.T) {
	g, ids, longer := explain.OfModel(toymodel.New(t, "h3,attention", toymodel.Vocab)),
		toymodel.Text(1, 9, toymodel.Vocab),
		toymodel.Text(2, 12, toymodel.Vocab)
	for _, target := range []explain.Target{{}, {Layer: 1, Part: explain.HeadPart, Index: 1},
		{Part: explain.StatePart}} {
		if r := change(t, g, ids, Changes{Patch: []Patch{{target, longer}}, At: AtLastToken}); same(r) {
			t.Errorf("%s of a longer text changes nothing", target)
		}
	}
	_, err := Change(context.Background(), g, ids,
		Changes{Patch: []Patch{{explain.Target{Layer: 1, Part: explain.StatePart}, longer}}})
	toymodel.WantError(t, err, "layer 1 · attention stores something of every token",
		"after 11 tokens, want one after 8")
	_, err = Change(context.Background(), g, ids, Changes{Patch: []Patch{{explain.Target{}, longer}}})
	toymodel.WantError(t, err, "found 12 tokens in the other text, want 9")
}

// TestChangeRefuses: what is not there, with what is.
func TestChangeRefuses(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "h3,s4d/none,swiglu,h3+attention", toymodel.Vocab))
	ids := []int32{1, 2, 3}
	for text, want := range map[string]string{
		"layer4":                    "found layer 4, want 0 to 3",
		"layer0.head8":              "layer 0 · h3: found head 8, want 0 to 7",
		"layer0.channel16":          "found channel 16, want 0 to 15",
		"layer1.head0":              "layer 1 · s4d: found no heads in it, want a channel from layer1.channel0",
		"layer1.mlp":                "layer 1 · s4d: found no MLP in it, want layer1 or layer1.mixer",
		"layer2.state":              "layer 2 · swiglu: found no state in it",
		"layer2.head0":              "found no single mixer",
		"layer3.channel0":           "layer 3 · h3+attention: found no single mixer to look into, want layer3.mixer",
		"layer3.rnn.channel0":       "or layer3.attention.channel0 and so on",
		"layer3.attention.head2":    "found head 2, want 0 to 1",
		"layer0.state@x":            `found "layer0.state@x", want layerN`,
		"layer99999999999999999999": "want a smaller number",
		"head3":                     "such as layer3.head2",
	} {
		target, err := explain.ParseTarget(text)
		if err == nil {
			if target.String() != text {
				t.Errorf("%s reads as %s", text, target)
			}
			_, err = Change(context.Background(), g, ids, Changes{Ablate: []explain.Target{target}})
		}
		toymodel.WantError(t, err, want)
	}
	for at, want := range map[string]string{"3": "want all, last or the number of a token from 0 to 2", "x": `"x"`,
		"-1": "from 0 to 2"} {
		_, err := Change(context.Background(), g, ids, Changes{Ablate: []explain.Target{{}}, At: at})
		toymodel.WantError(t, err, want)
	}
	_, err := Change(context.Background(), g, ids,
		Changes{Ablate: []explain.Target{{Part: explain.StatePart}}, Mean: true})
	toymodel.WantError(t, err, "found a mean for a state")
	_, err = Change(context.Background(), g, ids, Changes{})
	toymodel.WantError(t, err, "found nothing to change")
	_, err = Change(context.Background(), g, ids, Changes{At: AtEveryToken,
		Patch: []Patch{{explain.Target{Part: explain.StatePart}, ids}}})
	toymodel.WantError(t, err, "found a state to exchange at every token")
	ahead, err := explain.OfNetwork(toymodel.Network(t, "attention(bidirectional=true)"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Change(context.Background(), ahead, ids, Changes{Ablate: []explain.Target{{Part: explain.StatePart}}})
	toymodel.WantError(t, err, "looks ahead, which has no state")
	if r := change(t, ahead, ids, Changes{Ablate: []explain.Target{{Part: explain.HeadPart}}}); same(r) {
		t.Error("a head of an encoder changes nothing")
	}
}

// TestSweep: each part's line is that of the part ablated alone.
func TestSweep(t *testing.T) {
	g, ids := explain.OfModel(toymodel.New(t, "h3,attention", toymodel.Vocab)), toymodel.Text(1, 30, toymodel.Vocab)
	heads, err := g.HeadTargets(1)
	if err != nil || len(heads) != 2 {
		t.Fatalf("found the heads %v, %v", heads, err)
	}
	parts := append(g.LayerTargets(), heads...)
	r, err := Sweep(context.Background(), g, ids, parts, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, part := range parts {
		one := change(t, g, ids, Changes{Ablate: []explain.Target{part}})
		for i := range one.Before {
			if got, want := r.Change[k][i], one.After[i]-one.Before[i]; got != want {
				t.Fatalf("%s, token %d: %g, want %g", part, i, got, want)
			}
		}
	}
	states, err := Sweep(context.Background(), g, ids, g.StateTargets(), nil)
	if err != nil || len(states.Change) != 2 || states.Names[1] != "layer 1 · attention" {
		t.Errorf("states: %v, %v", states.Names, err)
	}
	toyfigure.Check(t, append(r.Figures("a", "layer", tokenizer.IDs(toymodel.Vocab)),
		states.Figures("b", "state", tokenizer.IDs(toymodel.Vocab))...))
	if want := "head 1"; r.Names[3] != want {
		t.Errorf("found the name %q, want %q", r.Names[3], want)
	}
	if channels, err := explain.OfModel(toymodel.New(t, "rnn", toymodel.Vocab)).HeadTargets(0); err != nil ||
		len(channels) != 16 ||
		channels[3] != (explain.Target{Part: explain.ChannelPart, Index: 3}) {
		t.Error(fmt.Sprint("an RNN has the channels ", channels, err))
	}
}

// TestH3HeadsAreThoseOfItsOperator: the part of a head that is taken away is what Operator says that the head adds, in
// both orders in which heads are flattened.
func TestH3HeadsAreThoseOfItsOperator(t *testing.T) {
	for _, layer := range []string{"h3(head_order=dh,head_dim=4)", "h3(head_order=hd,head_dim=4)", "attention"} {
		g, ids := explain.OfModel(toymodel.New(t, layer, toymodel.Vocab)), toymodel.Text(1, 9, toymodel.Vocab)
		d := g.Unembedding.Dim(1)
		outputs := func(hooks []explain.Hook) (y []float32) {
			hooks = append(hooks,
				explain.Hook{Layer: 0, Place: explain.MixerOut, See: func(_, _ int, x []float32) bool {
					y = slices.Clone(x)
					return false
				}})
			if err := g.Pass(context.Background(), ids, explain.Probe{Hooks: hooks}); err != nil {
				t.Fatal(err)
			}
			return y
		}
		whole, without := outputs(nil), outputs(zeros(g, []explain.Target{{Part: explain.HeadPart, Index: 1}}))
		tape := autograd.NewTape(cpu.Backend{})
		g.Each(tape, ids, len(g.Backbone.Blocks)-1, func(_ int, b *model.Block, u *tensor.Tensor) {
			op, _ := mixer.OperatorOf(tape, b.Mixer, u)
			w, unit, written := make([]float64, len(ids)*len(ids)), make([]float64, d*d), make([]float64, d*op.HeadDim)
			for i := range d {
				unit[i*d+i] = 1
			}
			op.Weights(1, w)
			op.Written(1, unit, written)
			for at := range ids {
				for i := range d {
					want := 0.0
					for s := range at + 1 {
						for j, v := range op.Value(1, s) {
							want += w[at*len(ids)+s] * written[i*op.HeadDim+j] * float64(v)
						}
					}
					if got := float64(whole[at*d+i] - without[at*d+i]); math.Abs(got-want) > 1e-3 {
						t.Fatalf("%s: head 1 adds %g to channel %d at token %d, want %g", layer, got, i, at, want)
					}
				}
			}
		})
	}
}

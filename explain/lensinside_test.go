package explain

import (
	"context"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestEveryMixerCanBeLookedInto: all mixers have channels in front of their last projection, those with heads whole
// ones.
func TestEveryMixerCanBeLookedInto(t *testing.T) {
	heads := map[string]int{}
	for _, info := range model.Mixers() {
		layer := info.Name
		if !info.Causal {
			layer += "(bidirectional=true)"
		}
		g, err := OfNetwork(network(t, layer))
		if err != nil {
			t.Fatal(err)
		}
		in, ok := g.interior(0, "")
		if !ok || in.Channels < 1 || in.Heads > 0 && in.Channels%in.Heads != 0 {
			t.Errorf("%s: found %d channels and %d heads, %v", layer, in.Channels, in.Heads, ok)
		}
		for h := range in.Heads {
			if n := len(in.Of(h)); n != in.Channels/in.Heads {
				t.Errorf("%s: head %d has %d channels of %d", layer, h, n, in.Channels)
			}
		}
		if in.Heads > 0 {
			heads[info.Name] = in.Heads
		}
	}
	want := map[string]int{"h3": 16, "attention": 2, "linear-attention": 2, "retention": 2, "window-attention": 2,
		"bigbird": 2, "sinkhorn": 2, "spatten": 2, "mamba2": 4, "block-recurrent": 4}
	if !maps.Equal(heads, want) {
		t.Errorf("found heads %v, want %v", heads, want)
	}
}

// TestH3HeadsAreThoseOfItsOperator: the part of a head that is taken away is what Operator says that the head adds, in
// both orders in which heads are flattened.
func TestH3HeadsAreThoseOfItsOperator(t *testing.T) {
	for _, layer := range []string{"h3(head_order=dh,head_dim=4)", "h3(head_order=hd,head_dim=4)", "attention"} {
		g, ids := OfModel(toymodel.New(t, layer, toyVocab)), toymodel.Text(1, 9, toyVocab)
		d := g.unembedding.Dim(1)
		outputs := func(hooks []hook) (y []float32) {
			hooks = append(hooks, hook{layer: 0, place: mixerOut, see: func(_, _ int, x []float32) bool {
				y = slices.Clone(x)
				return false
			}})
			if err := g.pass(context.Background(), ids, watch{hooks: hooks}); err != nil {
				t.Fatal(err)
			}
			return y
		}
		whole, without := outputs(nil), outputs(zeros(g, []Target{{Part: HeadPart, Index: 1}}))
		tape := autograd.NewTape()
		g.each(tape, ids, len(g.backbone.Blocks)-1, func(_ int, b *model.Block, u *tensor.Tensor) {
			op, _ := OperatorOf(tape, b.Mixer, u)
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

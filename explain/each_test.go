package explain

import (
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestEachMixerAlone checks that the mixers that Each returns compute the same as in the model, also if one passes data
// to later ones.
func TestEachMixerAlone(t *testing.T) {
	g := OfModel(toymodel.New(t, "h3,rwkv7,mamba+rwkv7/channel-mix,rwkv7(in_scale=0.5)", 20))
	ids := toymodel.Text(1, 23, 20)
	var want [][]float32
	tape := g.Backbone.NewTape()
	tape.Observe(func(name string, x *tensor.Tensor) {
		if strings.HasSuffix(name, ".mixer") {
			want = append(want, x.Floats())
		}
	})
	g.Model.Forward(tape, ids, model.EqualRows(1, len(ids)))
	last := len(g.Backbone.Blocks) - 1
	g.Each(g.Backbone.NewTape(), ids, last, func(layer int, b *model.Block, u *tensor.Tensor) {
		alone := tensor.FromSlice(u.Floats(), u.Shape()...)
		got := b.Mixer.Forward(g.Backbone.NewTape(), alone, &mixer.Rows{Rows: engine.NewRows(len(ids))})
		if !slices.Equal(got.Floats(), want[layer]) {
			t.Errorf("layer %d: the mixer alone computes something else", layer)
		}
	})
}

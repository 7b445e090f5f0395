package explain

import (
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
)

// TestEveryMixerCanBeLookedInto checks that all mixers have channels before their last projection, and that mixers with
// heads have whole heads.
func TestEveryMixerCanBeLookedInto(t *testing.T) {
	heads := map[string]int{}
	for _, info := range model.Mixers() {
		layer := info.Name
		if !info.Causal {
			layer += "(bidirectional=true)"
		}
		g, err := OfNetwork(toymodel.Network(t, layer))
		if err != nil {
			t.Fatal(err)
		}
		in, ok := g.Interior(0, "")
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
		"gated-attention": 2, "mla": 2, "bigbird": 2, "bucket-attention": 2, "spatten": 2, "mamba2": 4, "mamba3": 4,
		"mlstm": 2, "slstm": 2, "block-recurrent": 4}
	for _, name := range []string{"s4d", "mamba", "s4", "dss", "gss", "gmlp", "gau", "hyena", "rg-lru", "rnn", "lmu",
		"gated-conv"} {
		want[name] = 0
	}
	for name, n := range want { // the others report their number of heads
		if heads[name] != n {
			t.Errorf("%s: found %d heads, want %d", name, heads[name], n)
		}
	}
}

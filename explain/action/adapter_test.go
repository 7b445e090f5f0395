package action

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/nn"
)

// TestAdaptersAreTraced: what a mixer does with changes of low rank is told like what it does without.
func TestAdaptersAreTraced(t *testing.T) {
	for _, entry := range []string{"mamba", "h3", "attention(num_heads=2)"} {
		m := newMixer(t, entry)
		changed := 0
		m.Params("", func(name string, p *nn.Param) {
			if p.Dims() == 2 && (strings.HasSuffix(name, "proj.weight") || strings.HasSuffix(name, "Wqkv.weight") ||
				strings.HasSuffix(name, "linear.weight")) {
				p.Change = nn.NewLowRank(p.Dim(0), p.Dim(1), 2, 0.5)
				for _, x := range []*nn.Param{p.Change.A, p.Change.B} {
					x.SetData(make([]float32, x.Len()))
				}
				toymodel.Randomize(p.Change, 0.3)
				changed++
			}
		})
		if changed < 2 {
			t.Fatalf("%s: found %d products to change, want 2 or more", entry, changed)
		}
		exactly(t, m, most)
	}
}

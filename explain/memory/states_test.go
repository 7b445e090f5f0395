package memory

import (
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestStatesShowWhatTheModelHolds: the pictures have the numbers of the states, or their means where there are many,
// the bars their norms, and tokens the surprise that the session knows.
func TestStatesShowWhatTheModelHolds(t *testing.T) {
	m := toymodel.New(t, "h3,attention,mamba,mamba2", 256)
	x := session.New(m, tokenizer.Bytes(), session.Options{LogProbs: true})
	if err := x.AppendText(t.Context(), strings.Repeat("Call me Ishmael. ", 8)); err != nil {
		t.Fatal(err)
	}
	tokens := strings.Split(string(x.Text()), "")
	state := x.Snapshot().State
	p := States(&m.Backbone, state, tokens, x.LogProbs())
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	figures := map[string]*figure.Figure{}
	for _, f := range p.Figures {
		figures[f.Name] = f
	}
	text, norms := figures["text"].Frames[0].Panels[0].Text, figures["norms"].Frames[0].Panels[0].Bars
	if v := text.Values[5]; v != -float64(x.LogProbs()[5]) || v <= 0 || !math.IsNaN(text.Values[0]) {
		t.Errorf("found the surprise %g, want %g, and none of the first token", v, -x.LogProbs()[5])
	}
	summed := false
	for i, name := range []string{"state-0", "state-1", "state-2", "state-3"} {
		panels, at, square := figures[name].Frames[0].Panels, 0, 0.0
		state.Mixers[i].Tensors(func(part string, y *tensor.Tensor) {
			if y.Len() == 0 {
				return
			}
			values := make([]float32, y.Len())
			y.CopyTo(values)
			all, mean := panels[at].Map, 0.0
			for _, v := range values {
				square += float64(v) * float64(v)
				mean += float64(v) / float64(len(values))
			}
			if !strings.HasPrefix(panels[at].Title, part+" [") {
				t.Errorf("%s: found the title %q, want the name %s", name, panels[at].Title, part)
			}
			if all.RowStep*all.ColStep == 1 {
				for k, v := range values {
					if all.Values[k] != float64(v) {
						t.Fatalf("%s: %s: found %g, want %g", name, part, all.Values[k], v)
					}
				}
			} else if shape := y.Shape(); shape[0]%all.RowStep == 0 && len(values)/shape[0]%all.ColStep == 0 {
				got := 0.0
				for _, v := range all.Values {
					got += v / float64(len(all.Values))
				}
				if summed = true; math.Abs(got-mean) > 1e-9 {
					t.Errorf("%s: %s: found the mean %g of all cells, want %g", name, part, got, mean)
				}
			}
			at++
		})
		if got := norms.Series[0].Y[i]; at != len(panels) || math.Abs(got-math.Sqrt(square)) > 1e-9 {
			t.Errorf("%s: found %d parts and the norm %g, want %d and %g", name, len(panels), got, at,
				math.Sqrt(square))
		}
	}
	if !summed {
		t.Error("no state was summed up: the text is too short for this test")
	}
}

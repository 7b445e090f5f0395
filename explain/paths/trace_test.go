package paths

import (
	"context"
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/explain/lens"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// TestTraceIsPatching: of every mixer, what is exchanged is what Change patches, token by token; before the last token
// the state is that of the exchange of Paths; and where the paths part the states are the same.
func TestTraceIsPatching(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		g := explain.OfModel(m)
		a, b := twoPaths(14, 8, 11)
		r, err := Trace(context.Background(), g, a, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := Compare(context.Background(), g, a, b)
		if err != nil {
			t.Fatal(err)
		}
		p, q := paths.Next[0], paths.Next[1]
		toward := func(z []float32) float64 {
			return 1 - jensen(z, q)/jensen(p, q)
		}
		for k := range r.Layers {
			if r.State[k][0] != 0 {
				t.Errorf("layer %d: the states where the paths part move the prediction by %g", k, r.State[k][0])
			}
			for i, at := range []string{"8", "9", "13"} {
				c, err := lens.Change(context.Background(), g, a, lens.Changes{At: at,
					Patch: []lens.Patch{{Target: explain.Target{Layer: k}, IDs: b}}})
				if err != nil {
					t.Fatal(err)
				}
				token := []int{0, 1, 5}[i]
				if got, want := r.Added[k][token], toward(c.NextAfter); math.Abs(got-want) > 1e-2 {
					t.Errorf("layer %d at token %s: %g, want %g", k, at, got, want)
				}
			}
			if got, want := r.State[k][5], toward(paths.Exchange[k].Scores); math.Abs(got-want) > 1e-2 {
				t.Errorf("layer %d: the state before the last token moves the prediction by %g, want %g", k, got, want)
			}
		}
		toyfigure.Check(t, r.Figures(tokenizer.IDs(toymodel.Vocab)))
	})
}

func jensen(a, b []float32) float64 {
	x, _ := explain.SoftmaxOf(a)
	y, _ := explain.SoftmaxOf(b)
	return explain.JensenShannon(a, b, x, y)
}

// TestTraceRefuses: paths of other lengths, and very long ones.
func TestTraceRefuses(t *testing.T) {
	g := explain.OfModel(toymodel.New(t, "gated-conv", toymodel.Vocab))
	a, b := twoPaths(300, 8)
	for want, ids := range map[string][]int32{"paths of 300 and 299 tokens": b[:299], "found 292 tokens": b} {
		_, err := Trace(context.Background(), g, a, ids, nil)
		toymodel.WantError(t, err, want)
	}
	_, err := Trace(context.Background(), g, a[:100], b[:100], nil)
	toymodel.WantError(t, err, "the same prediction")
}

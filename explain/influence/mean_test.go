package influence

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain/action"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestMeanIsThatOfTheWeightsOfAllHeads puts the two ways beside each other by which the matrices of heads are found.
func TestMeanIsThatOfTheWeightsOfAllHeads(t *testing.T) {
	for _, entry := range []string{"h3", "h3(head_dim=4)", "attention(num_heads=3,rotary_emb_dim=4)",
		"attention(num_heads=4,kv_heads=2)", "bigbird(num_heads=2,block=4,random=1)"} {
		const l, d = 37, 24
		m := toymodel.Fresh(t, func(c *model.Config) { c.Layers = entry }).Blocks[0].Mixer
		toymodel.Randomize(m, 0.2)
		rng := rand.New(rand.NewPCG(1, 2))
		x := make([]float32, l*d)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		u, tape := tensor.FromSlice(x, l, d), autograd.NewTape(cpu.Backend{})
		op, _ := mixer.OperatorOf(tape, m, u)
		a, err := action.Of(tape, m, u)
		if err != nil {
			t.Fatal(err)
		}
		if a.Heads() != op.Heads {
			t.Errorf("%s: found %d heads, want %d", entry, a.Heads(), op.Heads)
		}
		mean, w := make([]float64, l*l), make([]float64, l*l)
		for h := range op.Heads {
			op.Weights(h, w)
			for i, v := range w {
				mean[i] += v / float64(op.Heads)
			}
			compareMaps(t, entry, a, h, w, op.Heads)
		}
		compareMaps(t, entry, a, AllHeads, mean, 1)
	}
}

// compareMaps compares the mean of an action's head with want/share.
func compareMaps(t *testing.T, entry string, a *action.Action, head int, want []float64, share int) {
	t.Helper()
	got, err := a.Mean(context.Background(), action.Select{Head: head})
	if err != nil {
		t.Fatal(err)
	}
	most, worst := 0.0, 0.0
	for i, v := range want {
		v /= float64(share)
		most, worst = max(most, math.Abs(v)), max(worst, math.Abs(v-float64(got[i])))
	}
	if worst > 1e-5*most {
		t.Errorf("%s, head %d: it differs by %g from weights of up to %g", entry, head, worst, most)
	}
}

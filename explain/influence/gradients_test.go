package influence

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// whole is gradient × input by one backward through the whole model, in which parameters get gradients, too.
func whole(m *model.Model, ids []int32, next int32) (out []float64) {
	t := autograd.NewTape(cpu.Backend{})
	rows := model.EqualRows(1, len(ids))
	stream := m.Embed(t, ids, rows).Floats()
	x := tensor.FromSlice(stream, len(ids), len(stream)/len(ids))
	x.SetNeedsGrad(true)
	t.Reset()
	t.Record(true)
	hidden := m.Rest(t, 0, x, x, rows)
	t.Backward(t.CrossEntropy(m.Logits(t, t.Slice(hidden, len(ids)-1, 1)), []int32{next}))
	dx := t.Grad(x).Floats()
	out = make([]float64, len(ids))
	for i, v := range dx {
		out[i/(len(stream)/len(ids))] -= float64(v) * float64(stream[i])
	}
	return out
}

// TestGradientsAreThoseOfTheWholeModel: going back a layer at a time gives what one backward does, for every mixer and
// for blocks that layers share.
func TestGradientsAreThoseOfTheWholeModel(t *testing.T) {
	layers := []string{"zamba2-shared(num_heads=2)>mamba2(d_state=8,headdim=8),zamba2-shared(num_heads=2)>" +
		"mamba2(d_state=8,headdim=8),h3", "rwkv7/channel-mix,attention,rwkv7,h3+rwkv7"}
	for _, info := range model.Mixers() {
		layers = append(layers, "attention,"+info.Name)
	}
	for _, of := range layers {
		m, ids := toymodel.New(t, of, 20), toymodel.Text(1, 23, 20)
		r, err := GradientsOf(t.Context(), explain.OfModel(m), ids,
			GradientOptions{Token: LastToken, Next: LikeliestToken})
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		want := whole(m, ids, r.Next)
		size := 0.0
		for _, v := range want {
			size = max(size, math.Abs(v))
		}
		for s, v := range r.Stream[0] {
			if math.Abs(v-want[s]) > 1e-3*size+1e-6 {
				t.Errorf("%s, token %d: found %g, want %g", of, s, v, want[s])
			}
		}
		last := r.Stream[len(r.Stream)-1]
		if i := slices.IndexFunc(last, func(v float64) bool { return v != 0 }); i != len(ids)-1 {
			t.Errorf("%s: behind the last layer found what moves the prediction at token %d, want %d", of, i,
				len(ids)-1)
		}
		m.Params("", func(name string, p *nn.Param) {
			if p.Role == nn.Weight && !p.NeedsGrad() {
				t.Errorf("%s: %s is not to be trained any more", of, name)
			}
		})
	}
}

// TestWhatLayersAddIsTheDerivative: by how much a layer's writing counts is how the log-probability changes when the
// layer writes a little more of it.
func TestWhatLayersAddIsTheDerivative(t *testing.T) {
	m, ids := toymodel.New(t, "h3,attention,mamba", 20), toymodel.Text(1, 17, 20)
	r, err := GradientsOf(t.Context(), explain.OfModel(m), ids, GradientOptions{Token: LastToken, Next: 3})
	if err != nil {
		t.Fatal(err)
	}
	logP := func(layer int, more float32) float64 {
		tape, rows := autograd.NewTape(cpu.Backend{}), model.EqualRows(1, len(ids))
		first := m.Embed(tape, ids, rows)
		x := first
		for i := range m.Blocks {
			y := m.Layer(tape, i, x, first, rows)
			if i == layer {
				before, after := x.Floats(), y.Floats()
				for j := range after {
					after[j] += more * (after[j] - before[j])
				}
				y = tensor.FromSlice(after, y.Shape()...)
			}
			x = y
		}
		hidden := m.End(tape, nil, x)
		return -float64(tape.CrossEntropy(m.Logits(tape, tape.Slice(hidden, len(ids)-1, 1)), []int32{3}).Floats()[0])
	}
	const h = 1e-2
	for i, row := range r.Added {
		got := 0.0
		for _, v := range row {
			got += v
		}
		if want := (logP(i, h) - logP(i, -h)) / (2 * h); math.Abs(got-want) > 0.02*math.Abs(want)+1e-3 {
			t.Errorf("layer %d: found %g, want %g by differences", i, got, want)
		}
	}
}

// TestGradientsOfPackedWeights: at float32 they are those of the weights in their places; in coarser precisions there
// are some, too.
func TestGradientsOfPackedWeights(t *testing.T) {
	ids := toymodel.Text(1, 23, 20)
	of := func(p *engine.Precision) *Gradients {
		m := toymodel.New(t, "h3,attention,mamba", 20)
		if p != nil {
			if err := m.Pack(*p); err != nil {
				t.Fatal(err)
			}
		}
		r, err := GradientsOf(t.Context(), explain.OfModel(m), ids, GradientOptions{Token: LastToken, Next: 3})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := of(nil)
	for p, off := range map[engine.Precision]float64{engine.Float32: 1e-4, engine.BF16: 0.1, engine.Int8: 0.3} {
		size, far := 0.0, 0.0
		for i, row := range of(&p).Stream {
			for s, v := range row {
				size, far = size+math.Abs(want.Stream[i][s]), far+math.Abs(v-want.Stream[i][s])
			}
		}
		if far > off*size {
			t.Errorf("%v: found gradients that are %g off, want at most %g", p, far/size, off)
		}
	}
}

// TestGradientsOfAnEarlierToken: what comes later is not in them. What there cannot be is said.
func TestGradientsOfAnEarlierToken(t *testing.T) {
	m, ids := toymodel.New(t, "h3,attention", 20), toymodel.Text(1, 23, 20)
	g := explain.OfModel(m)
	ask := func(ids []int32, token int, next int32) (*Gradients, error) {
		return GradientsOf(t.Context(), g, ids, GradientOptions{Token: token, Next: next})
	}
	early, err := ask(ids, 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := ask(ids[:8], LastToken, 3)
	if err != nil {
		t.Fatal(err)
	}
	if early.LogProb != alone.LogProb || len(early.Stream[0]) != len(ids) ||
		!slices.Equal(early.Stream[0][:8], alone.Stream[0]) || early.Stream[0][8] != 0 {
		t.Errorf("found %v, want %v and nothing behind", early, alone)
	}
	page := early.Page(make([]string, len(ids)), "x")
	if err := page.Check(); err != nil {
		t.Error(err)
	}
	spoiled := func(of func(m *model.Model) *nn.Param) (*Gradients, error) {
		m := toymodel.New(t, "attention,h3", 20)
		spoil(of(m))
		return GradientsOf(t.Context(), explain.OfModel(m), ids, GradientOptions{Token: 3, Next: 3})
	}
	for want, of := range map[string]func() (*Gradients, error){
		"empty text":           func() (*Gradients, error) { return ask(nil, LastToken, 3) },
		"token: found 23":      func() (*Gradients, error) { return ask(ids, 23, 3) },
		"next: found token 20": func() (*Gradients, error) { return ask(ids, 3, 20) },
		"the embedding: found": func() (*Gradients, error) {
			return spoiled(func(m *model.Model) *nn.Param { return m.Embedding.Weight })
		},
		"layer 0 (attention): found an output that is not finite": func() (*Gradients, error) {
			return spoiled(func(m *model.Model) *nn.Param { return attentionOf(m).Out.Bias })
		},
	} {
		if _, err := of(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found the error %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := GradientsOf(ctx, explain.OfModel(toymodel.New(t, "h3", 20)), ids,
		GradientOptions{Token: 3}); err == nil {
		t.Error("found no error though nobody wants it any more")
	}
}

package text

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// TestExtrapolatedMemory checks that the memory of a large step, extrapolated from small ones, is right within 5 %.
func TestExtrapolatedMemory(t *testing.T) {
	for _, shape := range []struct {
		layers         string
		d, vocab, b, l int
		freeze         [][]string
	}{
		{"h3*4,attention,h3", 64, 256, 3, 192, [][]string{nil, {"backbone.embeddings", "backbone.layers.0-2"}}},
		{"h3*3", 32, 5000, 1, 640, [][]string{nil, {"backbone.layers.0-1.mixer", "backbone.ln_f"}}},
		{"attention*2", 48, 256, 4, 100, [][]string{nil}},
	} {
		c := small(t)
		c.Model.Layers, c.Model.AttnIdx, c.Model.NLayer = shape.layers, nil, 0
		c.Model.DModel, c.Model.VocabSize = shape.d, shape.vocab
		c.Train.BatchSize, c.Train.SeqLen = shape.b, shape.l
		for _, freeze := range shape.freeze {
			c.Freeze = freeze
			run, err := c.probes(c.Model)
			if err != nil {
				t.Fatal(err)
			}
			whole, err := run.probe(c.Model, run.layers, shape.b, shape.l)
			if err != nil {
				t.Fatal(err)
			}
			got, err := run.extrapolateBytes(c.Model)
			if err != nil {
				t.Fatal(err)
			}
			if r := float64(got) / float64(whole.bytes); r < 0.95 || r > 1.05 {
				t.Errorf("%+v, frozen %q: extrapolated %d bytes of activations, a step takes %d", shape, freeze, got,
					whole.bytes)
			}
		}
	}
}

// TestEstimateFrozen checks that frozen parts have no gradients and moments, and that layers below the first trained
// one have no activations.
func TestEstimateFrozen(t *testing.T) {
	c := small(t)
	c.Model.NLayer, c.Model.AttnIdx, c.Model.VocabSize = 8, nil, 256
	all, err := c.Estimate(256)
	if err != nil {
		t.Fatal(err)
	}
	c.Freeze = []string{"backbone.embeddings", "backbone.layers.0-5"}
	some, err := c.Estimate(256)
	if err != nil {
		t.Fatal(err)
	}
	if some.Params != all.Params || some.Weights != all.Weights || some.Trained >= all.Trained/2 ||
		some.Moments != 8*some.Trained || some.Gradients*all.Trained != all.Gradients*some.Trained {
		t.Errorf("%+v, with all trained %+v", some, all)
	}
	if some.Activations > all.Activations*2/3 {
		t.Errorf("activations of %d bytes, with all trained %d", some.Activations, all.Activations)
	}
	if text := some.String(); !strings.Contains(text, fmt.Sprintf("; %d are trained, %d frozen", some.Trained,
		some.Params-some.Trained)) {
		t.Error(text)
	}
}

// TestProbesOfFrozenLayers checks that a probe trains the same parameters as the run, and that layers are in one class
// if the same parameters are frozen and they are on the same side of the first trained layer.
func TestProbesOfFrozenLayers(t *testing.T) {
	c := small(t)
	c.Model.NLayer, c.Model.AttnIdx, c.Model.VocabSize = 8, []int{1, 6}, 256
	c.Freeze = []string{"backbone.embeddings", "backbone.layers.0-4", "backbone.layers.7.mixer"}
	run, err := c.probes(c.Model)
	if err != nil {
		t.Fatal(err)
	}
	classes, more := run.classes()
	var first []int
	for _, l := range classes {
		first = append(first, l.index)
	}
	if !slices.Equal(first, []int{0, 1, 5, 6, 7}) || !slices.Equal(more, []int{3, 0, 0, 0, 0}) {
		t.Fatalf("the first layers of the classes are %d, others %d", first, more)
	}
	cost := map[int]float64{0: 1, 1: 2, 5: 30, 6: 40, 7: 20} // cost of a layer of each class
	got, err := run.addLayers(func(layers []layer) (float64, error) {
		sum := 100.0
		for _, l := range layers {
			sum += cost[l.index]
		}
		return sum, nil
	})
	if want := 100 + 4*1 + 2 + 30 + 40 + 20.0; err != nil || got != want {
		t.Errorf("all layers cost %g, %v, want %g", got, err, want)
	}

	shape := c.Model
	shape.Layers = entries(classes)
	m, err := model.New(shape)
	if err != nil {
		t.Fatal(err)
	}
	run.freeze(m, classes)
	m.Params("", func(name string, p *nn.Param) {
		want := false
		for _, prefix := range []string{"backbone.ln_f", "backbone.layers.2", "backbone.layers.3",
			"backbone.layers.4.mlp", "backbone.layers.4.norm"} {
			want = want || strings.HasPrefix(name, prefix)
		}
		if p.NeedsGrad() != want {
			t.Errorf("%s is trained: %v, want %v", name, p.NeedsGrad(), want)
		}
	})
}

// TestFrozenPartsTakeNoMemory checks that there are gradients and moments, in memory and in the checkpoint, only for
// trained parameters.
func TestFrozenPartsTakeNoMemory(t *testing.T) {
	c := small(t)
	c.Freeze = []string{"backbone.embeddings", "*.0.mixer"}
	r := newRun(t, c)
	if _, _, err := r.loop.Step(); err != nil {
		t.Fatal(err)
	}
	trained := map[string]int{}
	r.work.Model.Params("", func(name string, p *nn.Param) {
		if p.NeedsGrad() {
			trained[name] = p.Len()
		}
	})
	if err := r.loop.Save(); err != nil {
		t.Fatal(err)
	}
	saved, err := checkpoint.OpenSafetensors(filepath.Join(c.Out, model.LastDir, "optimizer.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	moments := map[string]int{}
	for _, name := range saved.Names() {
		x, _ := saved.Tensor(name)
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		moments[strings.TrimSuffix(strings.TrimSuffix(name, "_sq"), ".exp_avg")] += len(v)
	}
	for name, n := range moments {
		moments[name] = n / 2
	}
	gradients := 0
	_, _, sum, err := r.loop.Gradient(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range sum.Each() {
		gradients += g.Len()
	}
	if n := r.work.params.Trained; !maps.Equal(moments, trained) || gradients != n || n >= r.work.params.All {
		t.Errorf("%d of %d parameters are trained, with %d gradients and moments of %v", n, r.work.params.All,
			gradients,
			moments)
	}
}

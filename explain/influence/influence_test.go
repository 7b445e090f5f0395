package influence

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// usual are the options that say nothing.
func usual() Options {
	return Options{Head: AllHeads, Token: LastToken, Measure: Share, Next: LikeliestToken}
}

// TestSharesOfATokenAddUp: of what a layer writes, all shares together are the whole, whatever the mixer; nothing comes
// from later tokens; and what a token comes to through all layers is shared out without a rest.
func TestSharesOfATokenAddUp(t *testing.T) {
	for _, info := range model.Mixers() {
		g, ids := explain.OfModel(toymodel.New(t, "attention,"+info.Name, 20)), toymodel.Text(1, 23, 20)
		r, err := Of(context.Background(), g, ids, usual())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Layers {
			if l.Cells != len(ids) {
				t.Fatalf("%s: found %d cells, want one for each of %d tokens", l.Mixer, l.Cells, len(ids))
			}
			for i := range ids {
				sum := 0.0
				for s, v := range l.Map[i*len(ids):][:len(ids)] {
					sum += v
					if s > i && v != 0 {
						t.Errorf("%s: token %d draws %g from the later token %d", l.Mixer, i, v, s)
					}
				}
				if math.Abs(sum-1) > 5e-3 { // of y - b, which may be small beside y
					t.Errorf("%s: the shares of token %d come to %g, want 1", l.Mixer, i, sum)
				}
			}
		}
		if len(r.Rollout) != len(r.Layers)+1 {
			t.Fatalf("found %d rows of the rollout, want one before each of %d layers and one behind", len(r.Rollout),
				len(r.Layers))
		}
		for _, row := range r.Rollout {
			sum := 0.0
			for _, v := range row {
				sum += v
			}
			if math.Abs(sum-1) > 1e-6 {
				t.Errorf("a row of the rollout comes to %g, want 1", sum)
			}
		}
	}
}

// TestLayersOfEveryKind: a block that layers share has a map of its own; experts and what stands in the place of a
// mixer move nothing; what has no linear form is left out and said, with the reason.
func TestLayersOfEveryKind(t *testing.T) {
	m := toymodel.New(t, "zamba2-shared(num_heads=2,d_inner=24)>mamba2(d_state=8,headdim=8),h3/swiglu-experts,gelu,"+
		"spatten(block=4,keep=8,keep_heads=1),h3+attention/none", 20)
	ids := toymodel.Text(1, 23, 20)
	r, err := Of(context.Background(), explain.OfModel(m), ids, usual())
	if err != nil {
		t.Fatal(err)
	}
	page := r.Page(strings.Split("abcdefghijklmnopqrstuvw", ""), "")
	notes := strings.Join(page.Notes, " ")
	for _, want := range []string{
		"Layer 0 (zamba2-shared>mamba2) also sees the output", "(zamba2-shared) has its own map",
		"Layer 3 (spatten) is left out: it has no linear form", "keep_heads",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("found notes %q, want %q in them", notes, want)
		}
	}
	if l := r.Layers[2]; math.Abs(l.Own-1) > 1e-9 || l.Reach != 0 {
		t.Errorf("a feed-forward part draws on itself by %g, from %g tokens away; want 1 and 0", l.Own, l.Reach)
	}
	if len(r.Rollout) != 0 || len(r.Sources) != 0 {
		t.Error("found a rollout through a layer without a linear form")
	}
	var names []string
	for _, f := range page.Figures {
		names = append(names, f.Name)
	}
	for _, want := range []string{"influence-shared-0", "influence-layer-0", "drawn-shared-0", "drawn-layer-0"} {
		if !slices.Contains(names, want) {
			t.Errorf("found the figures %q, want %s among them", names, want)
		}
	}
}

// TestBlocksThatLayersShare: the shares of the block's own map add up, a rollout through it is a whole, also for every
// token that may be picked, and without the block another one.
func TestBlocksThatLayersShare(t *testing.T) {
	const mamba = "mamba2(d_state=8,headdim=8)"
	layer := "zamba2-shared(num_heads=2,d_inner=24,adapter_rank=2)>" + mamba
	g, ids := explain.OfModel(toymodel.New(t, mamba+","+layer+","+layer, 20)), toymodel.Text(1, 23, 20)
	r, err := Of(context.Background(), g, ids, usual())
	if err != nil {
		t.Fatal(err)
	}
	n := len(ids)
	whole := func(what string, v []float64, most float64) {
		t.Helper()
		sum := 0.0
		for _, x := range v {
			sum += x
		}
		if math.Abs(sum-1) > most {
			t.Errorf("%s comes to %g, want 1", what, sum)
		}
	}
	for _, l := range r.Layers {
		if (l.Shared != nil) != strings.Contains(l.Mixer, ">") {
			t.Errorf("layer %d (%s): found a shared block: %v", l.Layer, l.Mixer, l.Shared != nil)
		}
		if l.Shared == nil {
			continue
		}
		if l.Shared.Mixer != "zamba2-shared" || l.Shared.Why != "" || l.Shared.Writes <= 0 {
			t.Errorf("found the block %+v", l.Shared)
		}
		for i := range n {
			whole("a row of the block", l.Shared.Map[i*n:][:n], 5e-3)
		}
	}
	if len(r.Sources) != n*n {
		t.Fatalf("found %d shares of sources, want one for each pair of %d tokens", len(r.Sources), n)
	}
	for i := range n {
		whole("the rollout of a token", r.Sources[i*n:][:n], 1e-6)
	}
	if last := r.Sources[(n-1)*n:]; !slices.Equal(last, r.Rollout[0]) {
		t.Error("the rollout of the last token is another one among all")
	}
	o := usual()
	o.Head = 1
	o.Layers = []int{1}
	if r, err = Of(context.Background(), g, ids, o); err != nil || len(r.Layers[0].Shared.Map) == 0 {
		t.Errorf("one head of a shared block: %v", err)
	}
	o.Head = 99
	if _, err = Of(context.Background(), g, ids, o); err == nil || !strings.Contains(err.Error(), "found 99") {
		t.Errorf("found error %v, want one about the head", err)
	}
}

// TestMapsOfLongTextsKeepTheSums: a cell has the sum over its sources and the mean over its targets.
func TestMapsOfLongTextsKeepTheSums(t *testing.T) {
	g, ids := explain.OfModel(toymodel.New(t, "attention,h3", 20)), toymodel.Text(1, 1100, 20)
	o := usual()
	o.Layers = []int{1}
	r, err := Of(context.Background(), g, ids, o)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Layers[0]
	if l.Layer != 1 || l.Step != 3 || l.Cells != 367 {
		t.Fatalf("found layer %d, cells of %d tokens, %d of them; want 1, 3 and 367", l.Layer, l.Step, l.Cells)
	}
	for i := range l.Cells {
		sum := 0.0
		for _, v := range l.Map[i*l.Cells:][:l.Cells] {
			sum += v
		}
		if math.Abs(sum-1) > 1e-3 {
			t.Errorf("the shares of row %d come to %g, want 1", i, sum)
		}
	}
	if r.Rollout != nil {
		t.Error("found a rollout through layers that were not looked at")
	}
}

// TestGradientTimesInputIsTheDerivativeByTheInputsSize: for the sum over all tokens.
func TestGradientTimesInputIsTheDerivativeByTheInputsSize(t *testing.T) {
	m := toymodel.New(t, "h3,attention", 20)
	g, ids := explain.OfModel(m), toymodel.Text(1, 17, 20)
	o := usual()
	o.Gradient = true
	at := func(scale float64) *Report {
		m.Config.EmbedScale = scale
		r, err := Of(context.Background(), g, ids, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Next = r.Gradients.Next
		return r
	}
	r := at(1)
	got := 0.0
	for _, v := range r.Gradients.Stream[0] {
		got += v
	}
	const h = 1e-2
	want := (at(1+h).Gradients.LogProb - at(1-h).Gradients.LogProb) / (2 * h)
	if math.Abs(got-want) > 0.02*math.Abs(want)+1e-3 {
		t.Errorf("found %g, want %g by differences", got, want)
	}
}

// TestWhatInfluenceCannotShow: each error says what was found.
func TestWhatInfluenceCannotShow(t *testing.T) {
	m := toymodel.New(t, "attention,gmlp(l_max=32)", 20)
	ids := toymodel.Text(1, 8, 20)
	for want, change := range map[string]func(o *Options, ids *[]int32){
		"empty text":                       func(_ *Options, ids *[]int32) { *ids = nil },
		"found 40 tokens":                  func(_ *Options, ids *[]int32) { *ids = toymodel.Text(1, 40, 20) },
		"found layer 2":                    func(o *Options, _ *[]int32) { o.Layers = []int{2} },
		"token: found 8":                   func(o *Options, _ *[]int32) { o.Token = 8 },
		"measure: found \"size\"":          func(o *Options, _ *[]int32) { o.Measure = "size" },
		"head: found 2, want 0":            func(o *Options, _ *[]int32) { o.Head, o.Layers = 2, []int{0} },
		"next: found token 20":             func(o *Options, _ *[]int32) { o.Next = 20 },
		"found token 20 at place 1, want ": func(_ *Options, ids *[]int32) { *ids = []int32{1, 20} },
		"the embedding or the f":           func(_ *Options, _ *[]int32) { spoil(m.Embedding.Weight) },
		"layer 0 (attention): fou":         func(_ *Options, _ *[]int32) { spoil(attentionOf(m).Out.Bias) },
		"layer 1 (gmlp): found an":         func(_ *Options, _ *[]int32) { spoil(m.Blocks[1].Mixer.(*mixer.GMLP).B) },
	} {
		o, text := usual(), ids
		change(&o, &text)
		_, err := Of(context.Background(), explain.OfModel(m), text, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("found error %v, want one with %q", err, want)
		}
		m = toymodel.New(t, "attention,gmlp(l_max=32)", 20)
	}
}

// attentionOf is the mixer of the first layer.
func attentionOf(m *model.Model) *mixer.Attention { return m.Blocks[0].Mixer.(*mixer.Attention) }

// spoil puts NaN into a parameter.
func spoil(p *nn.Param) {
	x := p.Tensor.Floats()
	for i := range x {
		x[i] = float32(math.NaN())
	}
	p.CopyFrom(x)
}

// BenchmarkInfluence is that of all layers of a model of the shape of H3-125M, or of Mamba-130M, on 1,024 tokens.
func BenchmarkInfluence(b *testing.B) {
	for _, preset := range []string{"h3-125m", "mamba-130m"} {
		b.Run(preset, func(b *testing.B) {
			c, err := model.Preset(preset)
			if err != nil {
				b.Fatal(err)
			}
			m, err := model.New(c)
			if err != nil {
				b.Fatal(err)
			}
			m.Init(1)
			ids := toymodel.Text(1, 1024, c.VocabSize)
			for _, measure := range []string{Share, Norm} {
				b.Run(measure, func(b *testing.B) {
					o := usual()
					o.Measure = measure
					for b.Loop() {
						if _, err := Of(b.Context(), explain.OfModel(m), ids, o); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}

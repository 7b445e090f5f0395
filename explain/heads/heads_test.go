package heads

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestOperatorIsTheMixer puts the sum over heads and positions of an Operator beside the output of the layer.
func TestOperatorIsTheMixer(t *testing.T) {
	for _, entry := range []string{
		"h3", "h3(head_dim=4)", "h3(head_dim=4,head_order=hd)", "h3(head_dim=24)", "attention",
		"attention(num_heads=3,rotary_emb_dim=4)",
		"attention(num_heads=2,alibi=true)", "attention(num_heads=8)", "window-attention(num_heads=2,window=5)",
		"bigbird(num_heads=2,block=4,random=1)",
	} {
		t.Run(entry, func(t *testing.T) {
			const l, d = 37, 24
			m := toymodel.Fresh(t, func(c *model.Config) { c.Layers = entry }).Blocks[0].Mixer
			toymodel.Randomize(m, 0.2)
			rng := rand.New(rand.NewPCG(1, 2))
			u := tensor.New(l, d)
			x := make([]float32, l*d)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			u.CopyFrom(x)
			tape := autograd.NewTape(cpu.Backend{})
			want := m.Forward(tape, u, &mixer.Rows{Rows: engine.NewRows(l)}).Floats()
			op, ok := mixer.OperatorOf(tape, m, u)
			if !ok {
				t.Fatal("it has no heads")
			}
			got := applied(op, biasOf(m), d)
			worst, size := 0.0, 0.0
			for i := range want {
				worst = max(worst, math.Abs(got[i]-float64(want[i])))
				size = max(size, math.Abs(float64(want[i])))
			}
			if worst > 1e-4*size {
				t.Errorf("it differs by %g from outputs of up to %g", worst, size)
			}
		})
	}
}

// biasOf is the bias of the last projection of a mixer.
func biasOf(m mixer.Mixer) []float32 {
	switch m := m.(type) {
	case *mixer.H3:
		return m.Out.Bias.Tensor.Floats()
	case *mixer.Attention:
		return m.Out.Bias.Tensor.Floats()
	}
	return nil
}

// applied is b + Σ_h Σ_s W_h[t,s] O_h v_h[s].
func applied(op *mixer.Operator, bias []float32, d int) []float64 {
	l := op.Length
	identity := make([]float64, d*d)
	for i := range d {
		identity[i*d+i] = 1
	}
	y := make([]float64, l*d)
	for i := range y {
		y[i] = float64(bias[i%d])
	}
	w, o := make([]float64, l*l), make([]float64, d*op.HeadDim)
	for h := range op.Heads {
		op.Weights(h, w)
		op.Written(h, identity, o)
		for t := range l {
			for s := range l {
				for i := range d {
					for j, v := range op.Value(h, s) {
						y[t*d+i] += w[t*l+s] * o[i*op.HeadDim+j] * float64(v)
					}
				}
			}
		}
	}
	return y
}

// set makes the elements at (row, column) of p value, and all others 0.
func set(p *nn.Param, columns int, value float64, at ...[2]int) {
	x := make([]float32, p.Len())
	for _, i := range at {
		x[i[0]*columns+i[1]] = float32(value)
	}
	p.CopyFrom(x)
	p.Changed()
}

// diagonal are the n places from (row, column) downwards.
func diagonal(row, column, n int) (at [][2]int) {
	for i := range n {
		at = append(at, [2]int{row + i, column + i})
	}
	return at
}

// undo sets a norm so that it leaves a vector of so many ones among d as it is.
func undo(norm nn.AddNorm, ones, d int) {
	mean := float64(ones) / float64(d)
	n := norm.(*nn.LayerNorm)
	w, b := make([]float32, d), make([]float32, d)
	for i := range d {
		w[i], b[i] = float32(math.Sqrt(mean-mean*mean+n.Eps)), float32(mean)
	}
	n.Weight.CopyFrom(w)
	n.Bias.CopyFrom(b)
}

// handMadeAttention is a model of two layers: the first writes the token before each position beside that position's
// own, the second looks for the positions before which its own token stands, and writes the token there. The stream has
// a place for each position, for each token and for each token before.
func handMadeAttention(t *testing.T, tokens, positions int) *model.Model {
	const sharp = 1e4
	d := positions + 2*tokens
	own, before := positions, positions+tokens
	m := toymodel.Fresh(t, func(c *model.Config) {
		c.VocabSize, c.DModel, c.Layers, c.MaxPositions = tokens, d, "attention*2", positions
	})
	set(m.Embedding.Weight, d, 1, diagonal(0, own, tokens)...)
	set(m.Positions.Weight, d, 1, diagonal(0, 0, positions)...)
	for i, b := range m.Blocks {
		undo(b.Norm1, 2+i, d)
		a := b.Mixer.(*mixer.Attention)
		x := make([]float32, 3*d*d)
		put := func(value float32, at [][2]int) {
			for _, i := range at {
				x[i[0]*d+i[1]] = value
			}
		}
		if i == 0 {
			put(sharp, diagonal(0, 1, positions-1)) // the query of position t is t-1
			put(1, diagonal(d, 0, positions))
		} else {
			put(sharp, diagonal(0, own, tokens))
			put(1, diagonal(d, before, tokens))
			for i := range tokens { // nothing stands before position 0, which has written its own token
				put(-1, [][2]int{{d + i, 0}})
			}
		}
		put(1, diagonal(2*d, own, tokens))
		a.Wqkv.Weight.CopyFrom(x)
		a.Wqkv.Weight.Changed()
		to := own
		if i == 0 {
			to = before
		}
		set(a.Out.Weight, d, 1, diagonal(to, 0, tokens)...)
	}
	return m
}

// handMadeH3 is a model of one layer with one head: the shift delays the keys by a step, the diagonal system keeps all
// that came, and the state maps each token to those that followed it.
func handMadeH3(t *testing.T, tokens int) *model.Model {
	m := toymodel.Fresh(t, func(c *model.Config) {
		c.VocabSize, c.DModel, c.HeadDim, c.Layers = tokens, tokens, tokens, "h3"
	})
	set(m.Embedding.Weight, tokens, 1, diagonal(0, 0, tokens)...)
	undo(m.Blocks[0].Norm1, 1, tokens)
	h := m.Blocks[0].Mixer.(*mixer.H3)
	for _, p := range []*nn.Linear{h.Q, h.K, h.V, h.Out} {
		set(p.Weight, tokens, 1, diagonal(0, 0, tokens)...)
	}
	n := m.Config.DState
	var second [][2]int
	for i := range tokens {
		second = append(second, [2]int{i, 1})
	}
	set(h.Shift.C, n, 1, second...) // B is the first unit vector
	set(h.Shift.D, 1, 0)
	set(h.D, 1, 0)
	set(h.Diag.AImag, n/2, 0)
	set(h.Diag.LogDt, 1, 0)
	decay := make([]float32, n/2)
	for i := range decay {
		decay[i] = -30
	}
	h.Diag.InvAReal.CopyFrom(decay)
	h.Diag.InvAReal.Changed()
	set(h.Diag.C, 2, 0.5, [2]int{0, 0})
	return m
}

// find is the score of a head of a layer.
func find(t *testing.T, r *Report, layer, head int) Score {
	t.Helper()
	for _, s := range r.Scores {
		if s.Layer == layer && s.Head == head {
			return s
		}
	}
	t.Fatalf("no score of layer %d, head %d in %+v", layer, head, r)
	return Score{}
}

func mustScore(t *testing.T, g *explain.Language, o Options) *Report {
	t.Helper()
	r, err := Of(context.Background(), g, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInductionHeadsMadeByHandScoreOne(t *testing.T) {
	attention, h3 := handMadeAttention(t, 10, 40), handMadeH3(t, 12)
	for name, c := range map[string]struct {
		of     *model.Model
		layer  int
		tokens int
	}{"attention": {attention, 1, 10}, "h3": {h3, 0, 12}} {
		o := DefaultOptions()
		r := mustScore(t, explain.OfModel(c.of), o)
		if r.Options.Tokens != c.tokens || r.Options.Repeats != 4 {
			t.Errorf("%s: the strings are %+v", name, r.Options)
		}
		for _, head := range []int{WholeLayer, 0} {
			if s := find(t, r, c.layer, head); math.Abs(s.Prefix-1) > 1e-4 || math.Abs(s.Copying-1) > 1e-4 {
				t.Errorf("%s: head %d scores %.5f and %.5f, want 1 and 1", name, head, s.Prefix, s.Copying)
			}
		}
		o.At = []int{3, 5}
		if s := find(t, mustScore(t, explain.OfModel(c.of), o), c.layer, 0); math.Abs(s.Prefix-1) > 1e-4 {
			t.Errorf("%s: at two tokens it scores %.5f, want 1", name, s.Prefix)
		}
	}
	// The head of the first layer looks at the position before, and writes where nothing is predicted from.
	if s := find(t, mustScore(t, explain.OfModel(attention), DefaultOptions()), 0, 0); s.Prefix > 1e-4 ||
		s.Copying > 1e-4 {
		t.Errorf("the head that looks back by one scores %.5f and %.5f, want 0 and 0", s.Prefix, s.Copying)
	}
}

// A head with the same weights but a negative last projection looks at the same places, and lowers the token that it
// reads.
func TestAHeadThatLowersWhatItReadsDoesNotCopy(t *testing.T) {
	m := handMadeH3(t, 12)
	out := m.Blocks[0].Mixer.(*mixer.H3).Out
	set(out.Weight, 12, -1, diagonal(0, 0, 12)...)
	if s := find(t, mustScore(t, explain.OfModel(m), DefaultOptions()), 0, 0); math.Abs(s.Prefix-1) > 1e-4 ||
		s.Copying > 1e-4 {
		t.Errorf("it scores %.5f and %.5f, want 1 and 0", s.Prefix, s.Copying)
	}
}

func TestRandomHeadsScoreByChance(t *testing.T) {
	m := toymodel.Fresh(t, func(c *model.Config) {
		c.VocabSize, c.DModel, c.Layers, c.NumHeads = 500, 64, "attention*2,h3,mamba,attention(num_heads=1)", 4
	})
	o := DefaultOptions()
	o.Strings = 24
	r := mustScore(t, explain.OfModel(m), o)
	if len(r.Without) != 1 || r.Without[0] != 3 || len(r.Scores) != 2*5+65+2 {
		t.Fatalf("%d scores, without %v", len(r.Scores), r.Without)
	}
	if want := 0.028; math.Abs(r.Chance-want) > 0.004 { // the mean over t ≥ 25 of ⌊t/25⌋/(t+1), about 0.7/25
		t.Errorf("chance is %.4f, want about %.3f", r.Chance, want)
	}
	heads := 0.0
	for _, s := range r.Scores {
		if s.Mixer == "attention" && s.Head != WholeLayer {
			if math.Abs(s.Prefix-r.Chance) > 0.005 || s.Copying > 0.15 {
				t.Errorf("%+v, want a Prefix of about %.4f and a Copying of about %.4f", s, r.Chance, 1.0/25)
			}
		}
		if s.Mixer == "h3" && s.Head != WholeLayer {
			heads += s.Prefix / 64
		}
	}
	if heads > 2*r.Chance {
		t.Errorf("the mean Prefix of random heads of H3 is %.4f, want no more than twice %.4f", heads, r.Chance)
	}
	if again := mustScore(t, explain.OfModel(m), o); fmt.Sprint(again) != fmt.Sprint(r) {
		t.Error("the same options give other scores")
	}
}

func TestHeadsOfNetworks(t *testing.T) {
	c := model.NetworkConfig{Model: model.DefaultConfig(), Vocab: 9, Outputs: 9, Everywhere: true, Pool: "mean"}
	c.Model.DModel, c.Model.Layers, c.Model.MaxPositions = 8, "h3,attention", 20
	m, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	g, err := explain.OfNetwork(m)
	if err != nil {
		t.Fatal(err)
	}
	r := mustScore(t, g, DefaultOptions())
	if r.Options.Tokens != 9 || r.Options.Repeats != 2 || len(r.Scores) != 9+2 {
		t.Errorf("strings %+v, %d scores; want 9 tokens said twice, and 11 scores", r.Options, len(r.Scores))
	}
	c.Everywhere, c.Outputs = false, 2
	if m, err = model.NewNetwork(c); err != nil {
		t.Fatal(err)
	}
	if _, err := explain.OfNetwork(m); err == nil {
		t.Error("a classifier has scores")
	}
}

func TestHeadsSayWhatDoesNotFit(t *testing.T) {
	g := explain.OfModel(toymodel.Fresh(t, func(c *model.Config) { c.Layers = "h3" }))
	for want, change := range map[string]func(o *Options){
		"found 1 tokens":          func(o *Options) { o.Tokens = 1 },
		"repeated 1 times":        func(o *Options) { o.Repeats = 1 },
		"in 0 strings":            func(o *Options) { o.Strings = 0 },
		"at: found 10, want":      func(o *Options) { o.At = []int{10} },
		"at: found 2, want":       func(o *Options) { o.At = []int{2, 2} },
		"want at most the 2 of a": func(o *Options) { o.Tokens, o.At = 2, []int{1, 2, 3} },
	} {
		o := DefaultOptions()
		change(&o)
		if _, err := Of(context.Background(), g, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Of(ctx, g, DefaultOptions()); err == nil {
		t.Error("a canceled context gives scores")
	}
}

// TestLayersShowTheBestHeadsFirst: a layer's own score stands before those of its heads, which are in order of prefix.
func TestLayersShowTheBestHeadsFirst(t *testing.T) {
	g := explain.OfModel(toymodel.Fresh(t, func(c *model.Config) { c.Layers = "h3,mamba,attention" }))
	r := mustScore(t, g, DefaultOptions())
	layers, count := r.Layers(), 0
	for i, scores := range layers {
		if want := []int{0, 2}[i]; scores[0].Layer != want || scores[0].Head != WholeLayer {
			t.Errorf("place %d begins with %+v, want all of layer %d", i, scores[0], want)
		}
		for k, s := range scores[1:] {
			if s.Layer != scores[0].Layer || s.Head == WholeLayer || k > 0 && s.Prefix > scores[k].Prefix {
				t.Errorf("layer %d: %+v stands behind %+v", scores[0].Layer, s, scores[k])
			}
		}
		count += len(scores)
	}
	if len(layers) != 2 || count != len(r.Scores) {
		t.Errorf("%d scores in %d layers, want %d in 2", count, len(layers), len(r.Scores))
	}
}

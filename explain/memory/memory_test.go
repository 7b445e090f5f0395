package memory

import (
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

const memoryTokens = 33

// walkOf is a walk through the only layer of a toy model, and its parts.
func walkOf(t *testing.T, entry string) (*stateWalk, []*statePart) {
	t.Helper()
	m := toymodel.New(t, entry, 12)
	rng := rand.New(rand.NewPCG(1, 2))
	u := make([]float32, memoryTokens*16)
	for i := range u {
		u[i] = float32(rng.NormFloat64())
	}
	w := newWalk(m.Backend(), m.Blocks[0].Mixer, tensor.FromSlice(u, memoryTokens, 16))
	parts, err := w.partsOf()
	if err != nil {
		t.Fatal(err)
	}
	return w, parts
}

// awayFrom is |a - b|/|b|, or |a - b| where b is small.
func awayFrom(a, b []float64) float64 {
	d, n := 0.0, 0.0
	for i := range a {
		d += (a[i] - b[i]) * (a[i] - b[i])
		n += b[i] * b[i]
	}
	return math.Sqrt(d) / math.Max(math.Sqrt(n), 1e-3)
}

// TestStateIsTheSumOfWhatIsLeft: for every mixer, what each token wrote, carried on to the end, adds up to the state
// that the model has after reading the whole text at once. What a token writes is what the mixer puts into an empty
// state, and what a rule makes of any state is what the mixer makes of it.
func TestStateIsTheSumOfWhatIsLeft(t *testing.T) {
	for _, entry := range toymodel.Entries() {
		t.Run(entry, func(t *testing.T) {
			w, parts := walkOf(t, entry)
			end := w.begin()
			w.run([]mixer.State{end}, []int{0}, w.l)
			f := &follow{w: w, step: 1, cells: w.l, shots: 3}
			for _, p := range parts {
				f.add(p)
			}
			if err := f.run(context.Background()); err != nil {
				t.Fatal(err)
			}
			for _, x := range f.parts {
				if x.rule == ruleRows || x.rule == ruleUnknown {
					continue
				}
				t.Logf("%s: rule %d, fixed %v, same %v, direction %v", x.name, x.rule, x.fixed, x.same, x.b != nil)
				sum, left := x.replay(t, w)
				if d := awayFrom(sum, WideOf(readPart(end, x.name, nil))); d > 1e-5 {
					t.Errorf("%s: what is left of all tokens is %.2g away from the state", x.name, d)
				}
				got, err := x.memory(context.Background(), f)
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range got.Left {
					if d := math.Abs(float64(v) - left[i]); d > 2e-3 || math.IsNaN(left[i]) != math.IsNaN(float64(v)) {
						t.Fatalf("%s: the map has %g left of token %d at %d, want %g", x.name, v, i%w.l, i/w.l, left[i])
					}
				}
			}
		})
	}
}

// replay carries what each token wrote, which the mixer itself tells, to the end by the rule of a part. It returns the
// sum and the shares that are left, (l, l). On the way it compares the rule with what the mixer does to other states.
func (x *followed) replay(t *testing.T, w *stateWalk) (sum, left []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	n := x.size()
	left = unknowns(w.l * w.l)
	var wrote [][]float64
	var first []float64
	norm := func(v []float64) float64 { return math.Sqrt(dotOf(v, v)) }
	for at := range w.l {
		s := w.before(at)
		before := readPart(s, x.name, nil)
		some := make([]float32, n)
		for i := range some {
			some[i] = float32(rng.NormFloat64())
		}
		zero := make([]float32, n)
		other := zero
		if x.rule == ruleDecay && !x.fixed {
			other = slices.Repeat([]float32{probeScale}, n)
		}
		out, err := w.probe(at, s, x.name, x.shape, before, zero, some, other)
		if err != nil {
			t.Fatal(err)
		}
		now := out[0]
		x.other, x.scratch = [][]float32{out[3]}, [][]float64{make([]float64, n)}
		var a, g []float64
		switch {
		case x.rule == ruleTanh:
			g = x.gates(now)
		case x.rule == ruleDecay:
			a = x.decays(0, now, before)
		}
		carried := WideOf(before)
		x.carry(a, g, carried)
		w0 := make([]float64, n)
		for i := range w0 {
			w0[i] = float64(now[i]) - carried[i]
		}
		if x.rule != ruleTanh && !x.gate { // these are linear for the gates of this very state
			if d := awayFrom(w0, WideOf(out[1])); d > 2e-5*(1+norm(WideOf(now))/math.Max(1e-3, norm(w0))) {
				t.Errorf("%s: token %d writes something %.2g away from what it writes into nothing", x.name, at, d)
			}
			y := WideOf(some)
			x.carry(a, g, y)
			for i := range y {
				y[i] += float64(out[1][i])
			}
			if d := awayFrom(y, WideOf(out[2])); d > 1e-5 {
				t.Errorf("%s: at token %d the rule is %.2g away from the mixer", x.name, at, d)
			}
		}
		if x.rule == ruleTanh { // tanh(x) of an empty state tells x, of which the gates let g ⊙ x through
			for i := range w0 {
				in := float64(out[1][i])
				if i < x.tanhs {
					if math.Abs(in) > 0.99 {
						continue // float32 does not tell
					}
					in = math.Atanh(in)
				}
				if math.Abs(g[i]*in-w0[i]) > 1e-4*math.Max(1, math.Abs(in)) {
					t.Errorf("%s: token %d writes %g into number %d, want %g", x.name, at, w0[i], i, g[i]*in)
				}
			}
		}
		for _, v := range wrote {
			x.carry(a, g, v)
		}
		wrote, first = append(wrote, w0), append(first, norm(w0))
		for s, v := range wrote {
			if first[s] > 0 {
				left[at*w.l+s] = norm(v) / first[s]
			}
		}
	}
	sum = make([]float64, n)
	for _, v := range wrote {
		for i, y := range v {
			sum[i] += y
		}
	}
	return sum, left
}

// TestMemoryOfEveryMixer: a page comes out for each of them, of finite numbers.
func TestMemoryOfEveryMixer(t *testing.T) {
	names := make([]string, 80)
	for i := range names {
		names[i] = "w"
	}
	for _, entry := range toymodel.Entries() {
		if entry == "gmlp(l_max=64)" || entry == "hyena(l_max=64)" {
			entry = strings.Replace(entry, "64", "128", 1)
		}
		toy := toymodel.New(t, entry+"*2", 12)
		m, err := Of(context.Background(), explain.OfModel(toy), toymodel.Text(3, 80, 12),
			Options{ReadOut: true, Cells: 20})
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		for l := 2; l < 4; l++ { // the shortest texts
			if short, err := Of(context.Background(), explain.OfModel(toymodel.New(t, entry, 12)),
				toymodel.Text(3, l, 12),
				Options{ReadOut: true}); err != nil || len(short.Page(names[:l]).Figures) < 4 {
				t.Errorf("%s: a text of %d tokens: %v", entry, l, err)
			}
		}
		last := -1
		for _, p := range m.main() {
			last = p.Layer
			for i, v := range p.Left {
				if later := i%p.Cells > i/p.Cells; later != math.IsNaN(float64(v)) || v < 0 {
					t.Errorf("%s: %g is left in row %d of column %d", entry, v, i/p.Cells, i%p.Cells)
					break
				}
			}
			rules := mixer.StateRules(autograd.NewTape(toy.Backend()), toy.Blocks[p.Layer].Mixer)
			if p.Left == nil && !rules[p.Name].NotLinear {
				t.Errorf("%s: it is not known what is left in %s", entry, p.Name)
			}
		}
		if last != 1 {
			t.Errorf("%s: the last layer with a memory is %d, want 1", entry, last)
		}
		page := m.Page(names)
		if len(page.Figures) < 4 {
			t.Errorf("%s: there are %d figures", entry, len(page.Figures))
		}
		seen := map[string]bool{}
		for _, f := range page.Figures {
			if seen[f.Name] || len(f.Frames) == 0 {
				t.Errorf("%s: figure %q comes twice, or has no frames", entry, f.Name)
			}
			seen[f.Name] = true
		}
	}
}

// TestMemoryRefuses: what has no memory, or is not there, is said.
func TestMemoryRefuses(t *testing.T) {
	m := toymodel.New(t, "h3", 12)
	bad := toymodel.New(t, "h3*2", 12)
	w := bad.Embedding.Weight.Tensor.Floats()
	w[3] = float32(math.NaN())
	bad.Embedding.Weight.CopyFrom(w)
	alone := toymodel.New(t, "gelu", 12)
	done, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		m    *model.Model
		ctx  context.Context
		ids  []int32
		opt  Options
		want string
	}{
		{m, nil, []int32{1}, Options{}, "found a text of 1 tokens, want 2 to"},
		{m, nil, []int32{1, 12}, Options{}, "found token 12 at place 1, want tokens from 0 to 11"},
		{m, nil, []int32{1, 2}, Options{Layers: []int{1}}, "found layer 1, want 0 to 0"},
		{bad, nil, []int32{0, 2}, Options{}, "layer 0, h3: found NaN in its input at token 0"},
		{alone, nil, []int32{0, 2}, Options{}, "no layer with a state"},
		{m, done, []int32{0, 2}, Options{}, "canceled"},
		{toymodel.New(t, "gmlp(l_max=8)", 12), nil, make([]int32, 9), Options{}, "takes at most 8"},
	} {
		if c.ctx == nil {
			c.ctx = context.Background()
		}
		if _, err := Of(c.ctx, explain.OfModel(c.m), c.ids, c.opt); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("found %v, want %q", err, c.want)
		}
	}
	cfg := model.NetworkConfig{Model: m.Config, Vocab: 12, Outputs: 12, Everywhere: true, Pool: "mean"}
	cfg.Model.Layers = "s4d(bidirectional=true)"
	n, err := model.NewNetwork(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(1)
	g, err := explain.OfNetwork(n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Of(context.Background(), g, []int32{1, 2}, Options{}); err == nil ||
		!strings.Contains(err.Error(), "look ahead") {
		t.Errorf("an encoder: %v", err)
	}
}

// TestReadOutFindsWhatIsKept: out of a filter's last inputs a linear map reads the tokens that are in them, and none
// before.
func TestReadOutFindsWhatIsKept(t *testing.T) {
	m := toymodel.New(t, "gated-conv(d_conv=5)", 12)
	for _, l := range []int{400, 2050} {
		got, err := Of(context.Background(), explain.OfModel(m), toymodel.Text(4, l, 12),
			Options{ReadOut: true})
		if err != nil {
			t.Fatal(err)
		}
		r := got.Reads[0]
		for i, age := range r.Ages {
			if kept := age < 4; kept != (r.Accuracy[i] > 0.9) || kept != (r.R2[i] > 0.5) || !kept && r.R2[i] > 0.1 {
				t.Errorf("%d tokens, age %d: accuracy %.2f and R² %.2f", l, age, r.Accuracy[i], r.R2[i])
			}
			if math.Abs(r.Chance[i]-1.0/12) > 0.06 {
				t.Errorf("%d tokens, age %d: chance is %.2f", l, age, r.Chance[i])
			}
		}
	}
}

// TestHalfLivesAreThoseOfTheModes: of systems without turns they are ln 2/(-ln a), and of what keeps all, none.
func TestHalfLivesAreThoseOfTheModes(t *testing.T) {
	m := toymodel.New(t, "retention(num_heads=2)", 12)
	got, err := Of(context.Background(), explain.OfModel(m), toymodel.Text(4, 40, 12), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, gamma := range []float64{1 - 1.0/32, 1 - 1.0/64} {
		if h := got.Parts[0].HalfLives[i]; math.Abs(h/(math.Ln2/-math.Log(gamma))-1) > 1e-3 {
			t.Errorf("head %d: a half-life of %g tokens, want %g", i, h, math.Ln2/-math.Log(gamma))
		}
	}
	for _, c := range []struct {
		entry string
		want  float64
	}{{"window-attention(window=9)", 8}, {"gated-conv(d_conv=5)", 4}} {
		got, err = Of(context.Background(), explain.OfModel(toymodel.New(t, c.entry, 12)),
			toymodel.Text(4, 40, 12),
			Options{})
		if err != nil || got.Parts[0].HalfLives[0] != c.want {
			t.Errorf("%s: it keeps tokens for %v, want %g (%v)", c.entry, got.Parts[0].HalfLives, c.want, err)
		}
	}
	got, err = Of(context.Background(), explain.OfModel(toymodel.New(t, "linear-attention", 12)),
		toymodel.Text(4, 40, 12),
		Options{})
	if err != nil || !math.IsInf(got.Parts[0].HalfLives[0], 1) {
		t.Errorf("linear attention forgets: %v, %v", got, err)
	}
}

// TestProfilesOfFadingNumbers: those that are made as a product of matrices are those that come from step to step.
func TestProfilesOfFadingNumbers(t *testing.T) {
	const l = 50
	decays := &statePart{rule: ruleDecay, channels: 2, inner: 3, cStep: 3, iStep: 1,
		a: []float64{0.9, 0.99, 1, 0.5, 1.01, 0}, b: []float64{0.3, 0.2, 0.1, 1, 0, 2}}
	modes := &statePart{rule: ruleModes, channels: 2, inner: 4, cStep: 4, iStep: 1,
		a: []float64{0.6, 0.7, -0.5, 0.1, 0.99, 0.01, 0, 1}, b: []float64{1, 2, 3, 4, 0.1, 0, 0, 0.2}}
	for _, p := range []*statePart{decays, modes} {
		got := p.profiles(l)
		x := slices.Clone(p.b)
		for at := range l {
			for c := range p.channels {
				own := x[c*p.inner:][:p.inner]
				if want := dotOf(own, own); math.Abs(float64(got[at*p.channels+c])-want) > 1e-6*max(want, 1e-6) {
					t.Errorf("rule %d, channel %d, age %d: %g, want %g", p.rule, c, at, got[at*p.channels+c], want)
				}
			}
			p.carry(nil, nil, x)
		}
	}
}

// TestMemoryOfAStateThatGrowsOutOfBounds: it comes out as a page that can be written.
func TestMemoryOfAStateThatGrowsOutOfBounds(t *testing.T) {
	m := toymodel.New(t, "s4d", 12)
	m.Params("", func(name string, p *nn.Param) {
		if strings.HasSuffix(name, "log_dt") {
			p.CopyFrom(make([]float32, p.Len()))
		}
		if strings.HasSuffix(name, "log_A_real") {
			p.CopyFrom(slices.Repeat([]float32{-6}, p.Len()))
		}
		if strings.HasSuffix(name, "norm.weight") || strings.HasSuffix(name, "norm1.weight") {
			p.CopyFrom(slices.Repeat([]float32{5e37}, p.Len()))
		}
	})
	got, err := Of(context.Background(), explain.OfModel(m), toymodel.Text(4, 80, 12),
		Options{ReadOut: true})
	if err != nil {
		t.Fatal(err)
	}
	if last := got.Parts[0].Norm[79]; last < math.MaxFloat32 {
		t.Errorf("the state is %g large: it does not show the case", last)
	}
	if _, err := json.Marshal(got.Page(make([]string, 80))); err != nil {
		t.Error(err)
	}
}

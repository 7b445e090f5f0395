package changes

import (
	"context"
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/testkit/toyfigure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tokenizer"
)

func weighed(name string, m *model.Model) Model { return Model{name, m, m.Backbone} }

// scaleParams multiplies the parameters whose names end so.
func scaleParams(m *model.Model, ending string, by float32) {
	m.Params("", func(name string, p *nn.Param) {
		if strings.HasSuffix(name, ending) {
			x := p.Tensor.Floats()
			for i := range x {
				x[i] *= by
			}
			p.CopyFrom(x)
		}
	})
}

// TestMovedOfTheSameIsNothing: a model has not moved from itself, of every mixer, and what has moved is found alone.
func TestMovedOfTheSameIsNothing(t *testing.T) {
	toymodel.EveryMixer(t, func(t *testing.T, m *model.Model) {
		other := toymodel.New(t, m.Config.Layers, toymodel.Vocab)
		for _, by := range []float32{1, 3, -1} {
			scaleParams(other, "norm1.weight", by)
			r, err := Between(context.Background(), weighed("A", m), weighed("B", other))
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range r.Params {
				relative, cosine := 0.0, 1.0
				if strings.HasSuffix(p.Name, "norm1.weight") {
					relative, cosine = math.Abs(float64(by)-1), math.Copysign(1, float64(by))
				}
				if math.Abs(p.Relative-relative) > 1e-6 || math.Abs(p.Cosine-cosine) > 1e-6 {
					t.Errorf("%s: moved by %g, cosine %g; want %g, %g", p.Name, p.Relative, p.Cosine, relative, cosine)
				}
			}
			scaleParams(other, "norm1.weight", 1/by)
			if len(r.OnlyA)+len(r.OnlyB)+len(r.Other) > 0 || len(r.Params) == 0 {
				t.Errorf("found %q, %q, %q", r.OnlyA, r.OnlyB, r.Other)
			}
			toyfigure.Check(t, r.Figures())
		}
	})
}

// TestMovedSystems: the poles, steps and kernels that the report has are those of the formulas of each mixer: K[j] =
// 2 Re Σ C B̄ Ā^j of H3, and time constants are where the slowest mode has fallen to 1/e.
func TestMovedSystems(t *testing.T) {
	m := toymodel.New(t, "h3,mamba,mamba2,s4,s4d,dss,gss,attention,hyena,rnn", toymodel.Vocab)
	other := toymodel.New(t, m.Config.Layers, toymodel.Vocab)
	scaleParams(other, "log_dt", 0.5)
	r, err := Between(context.Background(), weighed("A", m), weighed("B", other))
	if err != nil {
		t.Fatal(err)
	}
	var layers []int
	for _, s := range r.Systems {
		layers = append(layers, s.Layer)
		for i, tau := range s.A.Tokens {
			if !(tau > 0) || math.IsInf(tau, 0) {
				t.Errorf("layer %d: time constant %d is %g", s.Layer, i, tau)
			}
		}
		poles := s.Layer < 8 // Mamba has a short filter, too
		if len(s.A.Kernel) == 0 || poles != (len(s.A.Poles) > 0) {
			t.Errorf("layer %d has %d taps and %d poles", s.Layer, len(s.A.Kernel), len(s.A.Poles))
		}
		if s.Layer == 0 || s.Layer > 2 && s.Layer < 6 { // the steps of GSS start at 1
			for i, dt := range s.A.Dt {
				if want := math.Sqrt(dt); math.Abs(s.B.Dt[i]-want) > 1e-6 {
					t.Errorf("layer %d: dt %d became %g, want %g", s.Layer, i, s.B.Dt[i], want)
				}
			}
			if slices.Equal(s.A.Kernel, s.B.Kernel) || slices.Equal(s.A.Tokens, s.B.Tokens) {
				t.Errorf("layer %d: another dt changes no kernel or no time constant", s.Layer)
			}
		}
	}
	if want := []int{0, 1, 2, 3, 4, 5, 6, 8}; !slices.Equal(layers, want) {
		t.Fatalf("found systems in the layers %v, want %v", layers, want)
	}
	// H3's kernel by its formula, with the bilinear rule.
	s := r.Systems[0].A
	values := map[string][]float32{}
	m.Blocks[0].Mixer.Params("", func(name string, p *nn.Param) { values[name] = p.Tensor.Floats() })
	heads := len(s.Dt)
	modes := len(s.Poles) / heads
	const head, tap = 3, 11
	sum := 0.0
	for n := range modes {
		at := head*modes + n
		c := values["kernel.kernel.C"][2*at:]
		b := values["kernel.kernel.B"][2*at:]
		a, dt := s.Poles[at], complex(s.Dt[head], 0)
		bar := (1 + a*dt/2) / (1 - a*dt/2)
		sum += 2 * real(complex(float64(c[0]), float64(c[1]))*complex(float64(b[0]), float64(b[1]))*dt/(1-a*dt/2)*
			cmplx.Pow(bar, tap))
	}
	if got := float64(s.KernelOf[tap*heads+head]); math.Abs(got-sum) > 1e-4*math.Max(1, math.Abs(sum)) {
		t.Errorf("tap %d of head %d is %g, want %g", tap, head, got, sum)
	}
	toyfigure.Check(t, r.Figures())
}

// TestMovedBetweenUnlikeModels: what only one has is listed, and weights that are ruined are an error.
func TestMovedBetweenUnlikeModels(t *testing.T) {
	a, b := toymodel.New(t, "h3,attention", toymodel.Vocab), toymodel.New(t, "h3,h3,h3", 40)
	r, err := Between(context.Background(), weighed("A", a), weighed("B", b))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(r.OnlyA, "backbone.layers.1.mixer.Wqkv.weight") || len(r.OnlyB) == 0 || len(r.Other) != 1 ||
		r.Layers[1] != "layer 1 · attention / h3" || r.Layers[2] != "layer 2 · h3" || len(r.Systems) != 1 {
		t.Errorf("found %q, %q, %q, %q", r.OnlyA, r.OnlyB, r.Other, r.Layers)
	}
	toyfigure.Check(t, r.Figures())
	toymodel.Ruin(a)
	_, err = Between(context.Background(), weighed("A", a), weighed("B", a))
	toymodel.WantError(t, err, "fc2.bias", "not finite")
	_, err = Differ(context.Background(), explain.OfModel(a), explain.OfModel(b), []int32{1, 2})
	toymodel.WantError(t, err, "model A", "not finite")
	n := toymodel.Network(t, "h3")
	bare := Model{"A", nn.NewLinear(2, 2, 1), model.Backbone{}}
	_, err = Between(context.Background(), bare, Model{"B", n, n.Backbone})
	toymodel.WantError(t, err, "no parameter of the same name")
}

// TestDiffer: two models' predictions of a text are each one's own.
func TestDiffer(t *testing.T) {
	a, b := toymodel.New(t, "h3,attention", toymodel.Vocab), toymodel.New(t, "mamba", toymodel.Vocab)
	ids := toymodel.Text(1, 20, toymodel.Vocab)
	d, err := Differ(context.Background(), explain.OfModel(a), explain.OfModel(b), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range []*model.Model{a, b} {
		for j, want := range toymodel.LogProbs(m, ids) {
			if math.Abs(d.LogP[i][j]-want) > 1e-5 {
				t.Fatalf("model %d, token %d: log p %g, want %g", i, j+1, d.LogP[i][j], want)
			}
		}
	}
	toyfigure.Check(t, append(d.Figures(tokenizer.IDs(toymodel.Vocab)), CurvesFigure(RunCurves{Name: "A",
		Train: Curve{[]float64{1, 2}, []float64{3, 2}}, Valid: Curve{[]float64{2}, []float64{2.5}}})))
}

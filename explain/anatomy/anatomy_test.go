package anatomy

import (
	"context"
	"encoding/json"
	"math"
	"math/cmplx"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/explain/figure"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// anatomyOf takes a toy model apart.
func anatomyOf(t *testing.T, layers string) *Report {
	t.Helper()
	a, err := OfModel(toymodel.New(t, layers, 12), toymodel.Text(1, 48, 12)).Examine(context.Background(), "now",
		false)
	if err != nil {
		t.Fatalf("%s: %v", layers, err)
	}
	return a
}

// TestDiscretePolesAreThoseOfTheFormula: what the model multiplies its states by, found by experiment, is what the rule
// by which its paper samples makes of the poles and steps in its parameters.
func TestDiscretePolesAreThoseOfTheFormula(t *testing.T) {
	bilinear := func(z complex128) complex128 { return (1 + z/2) / (1 - z/2) }
	for entry, rule := range map[string]func(complex128) complex128{
		"h3(head_dim=1)": bilinear, "gss": bilinear, "s4d(disc=bilinear)": bilinear, "s4d": cmplx.Exp,
		"s4(l_max=32)": bilinear,
	} {
		s := anatomyOf(t, entry).Layers[0].Systems[0]
		if len(s.Poles) == 0 || len(s.Poles) != len(s.Discrete) {
			t.Errorf("%s: %d poles and %d discrete ones", entry, len(s.Poles), len(s.Discrete))
			continue
		}
		per := len(s.Poles) / len(s.Dt)
		for i, p := range s.Poles {
			want := rule(p * complex(s.Dt[i/per], 0))
			least := math.Inf(1) // eigenvalues of matrices have no order
			for _, z := range s.Discrete[i/per*per:][:per] {
				least = min(least, cmplx.Abs(z-want))
			}
			if least > 2e-3 {
				t.Errorf("%s: pole %d is %v, which makes %v: the nearest is %g away", entry, i, p, want, least)
				break
			}
		}
	}
}

// TestTimeConstantsOfRetention are -1/ln γ of its heads.
func TestTimeConstantsOfRetention(t *testing.T) {
	got := anatomyOf(t, "retention(num_heads=2)").Layers[0].Systems[0].TimeConstants()
	want := []float64{-1 / math.Log(1-1.0/32), -1 / math.Log(1-1.0/64)}
	for i := range want {
		if math.Abs(got[i]/want[i]-1) > 1e-3 {
			t.Errorf("head %d: %g tokens, want %g", i, got[i], want[i])
		}
	}
}

// TestSelectiveTimeConstants: where dt does not depend on the token, the mean of the decays that were measured is that
// of the formula, exp(dt A).
func TestSelectiveTimeConstants(t *testing.T) {
	m := toymodel.New(t, "mamba(d_state=4)", 12)
	m.Params("", func(name string, p *nn.Param) {
		if strings.HasSuffix(name, "dt_proj.weight") {
			p.CopyFrom(make([]float32, p.Len()))
		}
	})
	a, err := OfModel(m, nil).Examine(context.Background(), "now", true)
	if err != nil {
		t.Fatal(err)
	}
	s := a.Layers[0].Systems[0]
	if len(s.Discrete) != len(s.Poles) {
		t.Fatalf("found %d decays for %d poles", len(s.Discrete), len(s.Poles))
	}
	for i, p := range s.Poles {
		want := math.Exp(real(p) * s.Dt[i/4])
		if math.Abs(real(s.Discrete[i])-want) > 1e-4 {
			t.Errorf("number %d: a decay of %v, want %g", i, s.Discrete[i], want)
		}
	}
	if len(a.Times) < 3 || a.Times[0].Time <= 0 {
		t.Errorf("times are %v", a.Times)
	}
}

// TestAnatomyOfEveryMixer: each comes out as a page that can be written, beside what it was before.
func TestAnatomyOfEveryMixer(t *testing.T) {
	for _, entry := range toymodel.Entries() {
		now := anatomyOf(t, entry+"*2,swiglu-experts")
		if err := now.Comparable(now); err != nil {
			t.Error(err)
		}
		before := *now
		before.Name = "before"
		page := Page(now, &before, 100)
		if _, err := json.Marshal(page); err != nil {
			t.Errorf("%s: %v", entry, err)
		}
		seen := map[string]bool{}
		for _, f := range page.Figures {
			if seen[f.Name] {
				t.Errorf("%s: two figures have the name %s", entry, f.Name)
			}
			seen[f.Name] = true
			for _, p := range f.Frames[0].Panels {
				if p.Diagram != nil {
					checkDiagram(t, entry, p.Diagram)
				}
			}
		}
		sum, want := 0, 0
		for _, p := range now.Params {
			sum += p.N
		}
		toymodel.New(t, entry+"*2,swiglu-experts", 12).Params("", func(_ string, p *nn.Param) { want += p.Len() })
		if sum != want {
			t.Errorf("%s: %d parameters are told of, there are %d", entry, sum, want)
		}
	}
}

// checkDiagram: arrows lead from box to box, and no two boxes are one on the other.
func checkDiagram(t *testing.T, entry string, d *figure.Diagram) {
	t.Helper()
	ids, places := map[string]bool{}, map[[2]float64]bool{}
	for _, n := range d.Nodes {
		if ids[n.ID] || places[[2]float64{n.X, n.Y}] {
			t.Errorf("%s: box %s is there twice, or on another", entry, n.ID)
		}
		ids[n.ID], places[[2]float64{n.X, n.Y}] = true, true
	}
	for _, e := range d.Edges {
		if !ids[e.From] || !ids[e.To] {
			t.Errorf("%s: an arrow from %q to %q", entry, e.From, e.To)
		}
	}
}

// TestAnatomyOfNetworks: those over numbers and those that look ahead have one, too, and weights that are not numbers
// are told of.
func TestAnatomyOfNetworks(t *testing.T) {
	c := model.DefaultConfig()
	c.DModel, c.NumHeads, c.DState = 16, 2, 8
	c.Layers = "s4d(bidirectional=true),s4(l_max=32),bucket-attention(bucket=4,bidirectional=true)"
	n, err := model.NewNetwork(model.NetworkConfig{Model: c, Channels: 3, Outputs: 2, Pool: "mean"})
	if err != nil {
		t.Fatal(err)
	}
	n.Init(1)
	a, err := OfNetwork(n).Examine(context.Background(), "now", true)
	if err != nil {
		t.Fatal(err)
	}
	if names := len(a.Layers[0].Kernels); names != 2 || len(a.Layers[1].Systems) != 1 {
		t.Errorf("found %d kernels that look back and ahead, and %d systems", names, len(a.Layers[1].Systems))
	}
	w := n.Head.Weight.Tensor.Floats()
	w[0] = float32(math.NaN())
	n.Head.Weight.CopyFrom(w)
	if _, err := OfNetwork(n).Examine(context.Background(), "now", false); err == nil ||
		!strings.Contains(err.Error(), "head.weight") {
		t.Errorf("weights that are NaN: %v", err)
	}
	other := anatomyOf(t, "h3,h3,h3")
	if err := a.Comparable(other); err == nil || !strings.Contains(err.Error(), "found a h3 in layer 0") {
		t.Errorf("other layers: %v", err)
	}
	if !slices.IsSorted(a.Layers[1].Systems[0].TimeConstants()) {
		t.Error("time constants are not sorted")
	}
}

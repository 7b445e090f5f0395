package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

func values(x *tensor.Tensor) []float32 {
	out := make([]float32, x.Len())
	x.CopyTo(out)
	return out
}

// TestParams checks names, shapes and roles of every layer, in the order of the release.
func TestParams(t *testing.T) {
	roles := map[Role]string{Weight: "weight", Table: "table", Bias: "bias", Norm: "norm"}
	for _, c := range []struct {
		m    Module
		want string
	}{
		{NewLinear(3, 5, 0.1), "x.weight (5, 3) weight, x.bias (5) bias"},
		{NewEmbedding(7, 4), "x.weight (7, 4) table"},
		{NewLayerNorm(6, 1e-5), "x.weight (6) norm, x.bias (6) norm"},
		{NewMLP(3, 8, 0.1), "x.fc1.weight (8, 3) weight, x.fc1.bias (8) bias, " +
			"x.fc2.weight (3, 8) weight, x.fc2.bias (3) bias"},
		{NewGated(2, 4, engine.SiLU, 0.1), "x.fc1.weight (4, 2) weight, x.fc1.bias (4) bias, " +
			"x.gate.weight (4, 2) weight, x.gate.bias (4) bias, " +
			"x.fc2.weight (2, 4) weight, x.fc2.bias (2) bias"},
	} {
		var got []string
		c.m.Params("x.", func(name string, p *Param) {
			got = append(got, name+" "+p.String()+" "+roles[p.Role])
			if !p.NeedsGrad() {
				t.Errorf("%s wants no gradient", name)
			}
		})
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("got  %s\nwant %s", s, c.want)
		}
	}
}

// TestInitAll checks that deviations are as configured, biases are zero and norms the identity, and that values depend
// on the seed and the full name.
func TestInitAll(t *testing.T) {
	l := NewLinear(100, 100, 0.3)
	InitAll(l, "a.", 1)
	var sum, sq float64
	first := values(l.Weight.Tensor)
	for _, v := range first {
		sum += float64(v)
		sq += float64(v) * float64(v)
	}
	const n = 100 * 100
	if mean, std := sum/n, math.Sqrt(sq/n); math.Abs(mean) > 4*0.3/100 || math.Abs(std-0.3) > 0.01 {
		t.Errorf("mean %v, deviation %v, want 0, 0.3", mean, std)
	}
	if b := values(l.Bias.Tensor); slices.Min(b) != 0 || slices.Max(b) != 0 {
		t.Error("the bias does not start at zero")
	}
	norm := NewLayerNorm(4, 1e-5)
	InitAll(norm, "", 1)
	if w, b := values(norm.Weight.Tensor), values(norm.Bias.Tensor); slices.Min(w) != 1 || slices.Max(w) != 1 ||
		slices.Max(b) != 0 {
		t.Errorf("the norm starts at %v, %v", w, b)
	}
	again := func(prefix string, seed uint64) []float32 {
		version := l.Weight.Version()
		InitAll(l, prefix, seed)
		if l.Weight.Version() == version {
			t.Error("what is derived from a parameter does not learn that it was initialized")
		}
		return values(l.Weight.Tensor)
	}
	if !slices.Equal(again("a.", 1), first) || slices.Equal(again("b.", 1), first) ||
		slices.Equal(again("a.", 2), first) {
		t.Error("the start is not a function of name and seed")
	}
}

// TestLayersAreTheirFormulas checks that each layer computes its formula.
func TestLayersAreTheirFormulas(t *testing.T) {
	tape := autograd.NewTape(cpu.Backend{})
	near := func(what string, got []float32, want ...float64) {
		t.Helper()
		for i, w := range want {
			if len(got) != len(want) || math.Abs(float64(got[i])-w) > 1e-5 {
				t.Errorf("%s: got %v, want %v", what, got, want)
				return
			}
		}
	}
	l := NewLinear(2, 3, 1)
	l.Weight.CopyFrom([]float32{1, 2, 3, 4, 5, 6})
	l.Bias.CopyFrom([]float32{0.5, 0, -1})
	x := tensor.FromSlice([]float32{1, -1}, 1, 2)
	near("Linear", values(l.Forward(tape, x)), -0.5, -1, -2)
	gelu := func(x float64) float64 { return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) }
	l.Activation = engine.GeluTanh
	near("Linear with GELU", values(l.Forward(tape, x)), gelu(-0.5), gelu(-1), gelu(-2))

	e := NewEmbedding(3, 2)
	e.Weight.CopyFrom([]float32{1, 2, 3, 4, 5, 6})
	y := e.Forward(tape, []int32{2, 0})
	if y.String() != "(2, 2)" {
		t.Errorf("Embedding: shape %v", y)
	}
	near("Embedding", values(y), 5, 6, 1, 2)

	norm := NewLayerNorm(2, 0)
	norm.Weight.CopyFrom([]float32{2, 2})
	norm.Bias.CopyFrom([]float32{1, 1})
	s, n := norm.AddForward(tape, x, tensor.FromSlice([]float32{2, 2}, 1, 2))
	near("sum", values(s), 3, 1)
	near("LayerNorm", values(n), 3, -1)

	m := NewMLP(2, 1, 1)
	m.FC1.Weight.CopyFrom([]float32{2, 1})
	m.FC1.Bias.CopyFrom([]float32{1})
	m.FC2.Weight.CopyFrom([]float32{1, -2})
	m.FC2.Bias.CopyFrom([]float32{0, 1})
	near("MLP", values(m.Forward(tape, x)), gelu(2), 1-2*gelu(2))

	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	silu := func(x float64) float64 { return x * sigmoid(x) }
	for a, f := range map[engine.Activation]func(float64) float64{
		engine.Sigmoid: sigmoid, engine.SiLU: silu, engine.GeluTanh: gelu,
	} {
		g := NewGated(2, 1, a, 1)
		g.FC1.Weight.CopyFrom([]float32{2, 1})
		g.FC1.Bias.CopyFrom([]float32{1})
		g.Gate.Weight.CopyFrom([]float32{1, 3})
		g.Gate.Bias.CopyFrom([]float32{0.5})
		g.FC2.Weight.CopyFrom([]float32{1, -2})
		g.FC2.Bias.CopyFrom([]float32{0, 1})
		near("gated part", values(g.Forward(tape, x)), 2*f(-1.5), 1-4*f(-1.5))
		g.GateScale = 0.5
		near("with a scaled gate", values(g.Forward(tape, x)), 2*f(-0.75), 1-4*f(-0.75))
		g.WithoutBias()
		near("without biases", values(g.Forward(tape, x)), f(-1), -2*f(-1))
	}
	plus := NewRMSNormPlusOne(2, 0)
	plus.Weight.CopyFrom([]float32{1, -0.5})
	_, n = plus.AddForward(tape, x, nil)
	near("RMSNorm with weights 1+w", values(n), 2, -0.5)
}

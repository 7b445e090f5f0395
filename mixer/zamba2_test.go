package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// rmsNormOf returns n's function of a row.
func rmsNormOf(n *nn.RMSNorm) func(x []float64) []float64 {
	w := read(n.Weight.Tensor)
	return func(x []float64) []float64 {
		y, size := make([]float64, len(x)), math.Sqrt(dotOf(x, x)/float64(len(x))+n.Eps)
		for i, v := range x {
			y[i] = v / size * float64(w[i])
		}
		return y
	}
}

// beside returns the rows of a, each followed by that of b.
func beside(a, b matrix) matrix {
	out := make(matrix, len(a))
	for i := range a {
		out[i] = append(slices.Clone(a[i]), b[i]...)
	}
	return out
}

// plus returns a + b.
func plus(a, b matrix) matrix {
	out := make(matrix, len(a))
	for i := range a {
		out[i] = make([]float64, len(a[i]))
		for j := range a[i] {
			out[i][j] = a[i][j] + b[i][j]
		}
	}
	return out
}

// sharedLayers returns two layers with one block, with values at which every part of them matters.
func sharedLayers(t *testing.T, o Options) [2]*Shared {
	t.Helper()
	blocks, layers := SharedBlocks{}, [2]*Shared{}
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range layers {
		var err error
		layers[i], err = NewShared(Config{DModel: dModel, NLayer: 2, NumHeads: 2, RotaryDim: 2, Options: o}, blocks)
		if err != nil {
			t.Fatal(err)
		}
		layers[i].Params("", func(_ string, p *nn.Param) {
			x := make([]float32, p.Len())
			for j := range x {
				x[j] = float32(rng.NormFloat64() * 0.5)
			}
			p.CopyFrom(x)
		})
	}
	return layers
}

// TestSharedFormula checks that both layers of a shared block compute s = norm(x ; e), s = W_o·attention(s), s =
// norm2(s), y = Out(FC2(FC1(s) ⊙ gelu(Gate(s)))) with their own adapters, whole and position by position. The scale of
// attention is that of heads of half their size.
func TestSharedFormula(t *testing.T) {
	const l, heads, wide = 11, 2, 2 * dModel
	for _, o := range []Options{
		{"d_inner": "12"}, {"d_inner": "12", "bias": "true", "norm_eps": "0.1", "adapter_rank": "3"},
		{"adapter_rank": "2", "attention_adapters": "true"},
		{"adapter_rank": "2", "attention_adapters": "true", "mlp_adapters": "false"},
	} {
		for n, m := range sharedLayers(t, o) {
			b := m.block
			add := func(a *adapter, s matrix, to matrix, i int) matrix {
				if a == nil {
					return to
				}
				return plus(to, s.each(affine(a.a)).each(affine(a.b[i])))
			}
			formula := func(x, e matrix) matrix {
				s := beside(x, e).each(rmsNormOf(b.norm1))
				qkv := s.each(affine(b.attention.Wqkv))
				q, k, v := qkv.columns(0, wide), qkv.columns(wide, 2*wide), qkv.columns(2*wide, 3*wide)
				q, k, v = add(m.qkv[0], s, q, 0), add(m.qkv[1], s, k, 0), add(m.qkv[2], s, v, 0)
				for i := range q {
					for h := range heads {
						at := h * wide / heads
						copy(q[i][at:], rotated(q[i][at:at+2], i))
						copy(k[i][at:], rotated(k[i][at:at+2], i))
					}
					for j := range q[i] { // attended divides by the root of the whole head
						q[i][j] *= math.Sqrt2
					}
				}
				out := make(matrix, len(q))
				for i := range q {
					out[i] = attended(q[i], k[:i+1], v[:i+1], heads)
				}
				s = out.each(affine(b.attention.Out)).each(rmsNormOf(b.norm2))
				inner := add(m.mlp, s, s.each(affine(b.mlp.FC1)), 0)
				gate := add(m.mlp, s, s.each(affine(b.mlp.Gate)), 1).each(geluOf)
				for i := range inner {
					for j := range inner[i] {
						inner[i][j] *= gate[i][j]
					}
				}
				return inner.each(affine(b.mlp.FC2)).each(affine(m.Out))
			}
			x, e := sequences(1, 1, l), sequences(2, 1, l)
			want := formula(rowsFrom(x.Data(), dModel), rowsFrom(e.Data(), dModel)).flat()
			name := fmt.Sprintf("layer %d with %v", n, o)
			golden.Close(t, name, read(m.Forward(newTape(), x, e, equalRows(1, l))), want, 1e-5)
			s, steps := Begin(m.NewState()), []float32(nil)
			for at := range l {
				r := equalRows(0, 0)
				r.Add(1, at)
				r.States = s
				one := func(u *tensor.Tensor) *tensor.Tensor {
					return tensor.FromSlice(cut(u.Data(), 1, at, at+1), 1, dModel)
				}
				steps = append(steps, read(m.Forward(newTape(), one(x), one(e), r))...)
			}
			golden.Close(t, name+", in steps", steps, want, 1e-5)
			if got, want := m.Traits().Growth, 2*wide*4; got != want {
				t.Errorf("%s: the state grows by %d bytes, want %d", name, got, want)
			}
		}
	}
}

// TestSharedParams checks that the block's parameters are visited once, in its first layer, and adapters and the last
// projection in each. A block of another number, or without a map of blocks, has its own parameters.
func TestSharedParams(t *testing.T) {
	o := Options{"adapter_rank": "3", "attention_adapters": "true", "bias": "true", "d_inner": "12"}
	layers := sharedLayers(t, o)
	first, second := named(layers[0]), named(layers[1])
	adapters := []string{"q_adapter.a.weight 3 16", "q_adapter.b.0.weight 16 3", "k_adapter.a.weight 3 16",
		"k_adapter.b.0.weight 16 3", "v_adapter.a.weight 3 16", "v_adapter.b.0.weight 16 3",
		"mlp_adapter.a.weight 3 8", "mlp_adapter.b.0.weight 12 3", "mlp_adapter.b.1.weight 12 3",
		"out_proj.weight 8 8"}
	block := []string{"norm1.weight 16", "norm2.weight 8", "attention.Wqkv.weight 48 16", "attention.Wqkv.bias 48",
		"attention.out_proj.weight 8 16", "attention.out_proj.bias 8", "mlp.fc1.weight 12 8", "mlp.fc1.bias 12",
		"mlp.gate.weight 12 8", "mlp.gate.bias 12", "mlp.fc2.weight 8 12", "mlp.fc2.bias 8"}
	check := func(what string, got map[string]*nn.Param, want []string) {
		t.Helper()
		var found []string
		for name, p := range got {
			found = append(found, name+" "+strings.Trim(fmt.Sprint(p.Shape()), "[]"))
		}
		slices.Sort(found)
		want = slices.Sorted(slices.Values(want))
		if !slices.Equal(found, want) {
			t.Errorf("%s: found %q, want %q", what, found, want)
		}
	}
	check("the first layer", first, append(slices.Clone(block), adapters...))
	check("the second layer", second, adapters)
	if layers[0].block != layers[1].block {
		t.Error("two layers of one block have two")
	}
	blocks, cfg := SharedBlocks{}, Config{DModel: dModel, NLayer: 2, NumHeads: 2, Options: Options{"d_inner": "12"}}
	a, errA := NewShared(cfg, blocks)
	cfg.Options = Options{"d_inner": "12", "block": "1"}
	b, errB := NewShared(cfg, blocks)
	c, errC := NewShared(cfg, nil)
	if errA != nil || errB != nil || errC != nil || a.block == b.block || b.block == c.block || !b.first || !c.first {
		t.Errorf("blocks 0 and 1, and of another model: %v, %v, %v, shared", errA, errB, errC)
	}
	plain := block[:0:0]
	for _, name := range block {
		if !strings.Contains(name, "bias") {
			plain = append(plain, name)
		}
	}
	for options, want := range map[string]string{"": "mlp", "attention": "q k v mlp", "no mlp": "",
		"attention no mlp": "q k v",
		"no rank":          "", "attention no rank": ""} {
		o := Options{"adapter_rank": "2", "attention_adapters": fmt.Sprint(strings.Contains(options, "attention")),
			"mlp_adapters": fmt.Sprint(!strings.Contains(options, "no mlp"))}
		if strings.Contains(options, "no rank") {
			o["adapter_rank"] = "0"
		}
		m := sharedLayers(t, o)[1]
		var found []string
		for _, name := range []string{"q", "k", "v", "mlp"} {
			if named(m)[name+"_adapter.a.weight"] != nil {
				found = append(found, name)
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("%q: found adapters of %q, want of %q", options, got, want)
		}
	}
	check("without adapters and biases", named(c), append(plain, "out_proj.weight 8 8"))
}

// TestSharedStart checks that an adapter adds nothing at first, since its second matrices are zeros (LoRA,
// arXiv:2106.09685, §4.1). The others start uniform in ±1/√inputs, the last projections divided by the root of the
// number of layers.
func TestSharedStart(t *testing.T) {
	const layers = 9
	m, err := NewShared(Config{DModel: 64, NLayer: layers, NumHeads: 2, Options: Options{"adapter_rank": "16",
		"attention_adapters": "true"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(m, "", 3)
	for name, p := range named(m) {
		most := 0.0
		for _, x := range p.Elements() {
			most = max(most, math.Abs(float64(x)))
		}
		root := math.Sqrt(float64(p.Shape()[len(p.Shape())-1]))
		want := map[string]float64{"out_proj.weight": 1 / root / 3, "attention.out_proj.weight": 1 / root / 3}[name]
		switch {
		case strings.Contains(name, "adapter.b"):
			if most != 0 {
				t.Errorf("%s starts with numbers up to %v, want zeros", name, most)
			}
			continue
		case strings.Contains(name, "adapter.a"):
			want = 1 / root
		case name == "mlp.fc2.weight":
			if got, want := deviation(p), 0.02/math.Sqrt(2*layers); math.Abs(got/want-1) > 0.03 {
				t.Errorf("%s starts with the deviation %v, want %v", name, got, want)
			}
			continue
		case strings.HasPrefix(name, "norm"):
			want = 1
		}
		if want > 0 && (most > want*(1+1e-6) || most < want*0.98) {
			t.Errorf("%s starts with numbers up to %v, want %v", name, most, want)
		}
	}
	if m.block.norm1.Eps != 1e-5 || m.block.norm2.Eps != 1e-5 || m.block.mlp.FC1.Weight.Dim(0) != 4*64 {
		t.Errorf("found norms of epsilon %v and %v and %d inner channels, want 1e-5 and four times the width",
			m.block.norm1.Eps, m.block.norm2.Eps, m.block.mlp.FC1.Weight.Dim(0))
	}
}

// TestBoundsOfShared checks bounds that are allowed, and values just beyond them.
func TestBoundsOfShared(t *testing.T) {
	const most = 1 << 20
	for _, c := range []struct {
		option, value string
		want          string // prefix of the error
	}{
		{"block", "-1", "block: found -1, want 0 or more"},
		{"block", "0", ""}, {"block", "7", ""},
		{"d_inner", "0", "d_inner: found 0, want 1 to 1048576"},
		{"d_inner", "1", ""}, {"d_inner", fmt.Sprint(most), ""},
		{"d_inner", fmt.Sprint(most + 1), "d_inner: found 1048577"},
		{"adapter_rank", "-1", "adapter_rank: found -1, want 0 to 1048576"},
		{"adapter_rank", "0", ""}, {"adapter_rank", fmt.Sprint(most), ""},
		{"adapter_rank", fmt.Sprint(most + 1), "adapter_rank: found 1048577"},
		{"norm_eps", "0", "norm_eps: found 0, want more than 0"},
		{"norm_eps", "nan", "norm_eps"},
		{"num_heads", "0", "num_heads: found 0, want a divisor of 2·d_model 16"},
		{"num_heads", "3", "num_heads: found 3, want a divisor of 2·d_model 16"},
		{"num_heads", "1", ""}, {"num_heads", "16", ""},
		{"rotary_emb_dim", "3", "rotary_emb_dim: found 3"},
		{"colour", "1", "colour"},
	} {
		_, err := NewShared(Config{DModel: dModel, NLayer: 1, NumHeads: 2, Options: Options{c.option: c.value}}, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s=%s: found the error %v, want %q", c.option, c.value, err, c.want)
		}
	}
	for option, value := range map[string]string{"d_inner": "12", "num_heads": "4"} {
		blocks, cfg := SharedBlocks{}, Config{DModel: dModel, NLayer: 1, NumHeads: 2}
		_, err := NewShared(cfg, blocks)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewShared(cfg, blocks); err != nil {
			t.Errorf("the same sizes again: %v", err)
		}
		cfg.Options = Options{option: value}
		if _, err := NewShared(cfg, blocks); err == nil || !strings.Contains(err.Error(),
			"block 0: found other sizes") {
			t.Errorf("a block with another %s: found the error %v", option, err)
		}
	}
}

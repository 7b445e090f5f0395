package release

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// kModel returns a hybrid with rows of 256 and normally distributed weights.
func kModel(t testing.TB) *model.Model {
	return ggufModel(t, "mamba2", func(c *model.Config) {
		c.DModel, c.DInner, c.MLP = 256, 512, "swiglu(bias=false)"
		c.Layers = "mamba2,attention(num_heads=4,kv_heads=2,bias=false,out_bias=false,rotary_emb_dim=64),mamba2*2"
	})
}

// TestGGUFKQuants checks that matrices written as Q4_K_M and Q6_K are read back with the error of their type, in
// float32 and as int8, int4 and bfloat16. Everything else is exact.
func TestGGUFKQuants(t *testing.T) {
	m := kModel(t)
	own := tensorsOf(m)
	// Errors for a normal distribution, relative to its deviation: testdata/rounding_llama.json of package checkpoint
	// has 0.0715 for Q4_K and 0.0178 for Q6_K. Rounding again to 8 bits adds little to the error; rounding to 4 bits
	// adds as much as Q4_0 has.
	for kind, most := range map[checkpoint.DType]float64{Q4_K_M: 0.075, checkpoint.Q6_K: 0.0185} {
		path := writtenGGUF(t, m, GGUFOptions{Type: kind})
		f, err := checkpoint.OpenGGUF(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		types := map[checkpoint.DType]int{}
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			types[x.DType]++
		}
		if types[checkpoint.Q6_K] == 0 || (types[checkpoint.Q4_K] > 0) != (kind == Q4_K_M) {
			t.Errorf("%s: the types are %v", kind, types)
		}
		for p, more := range map[engine.Precision]float64{engine.Float32: 0, engine.BF16: 0.01, engine.Int8: 0.02,
			engine.Int4: 0.1} {
			must(LoadDirPacked(path, p)).Params("", func(name string, x *nn.Param) {
				w := own[name]
				want, err := w.Float32()
				if err != nil {
					t.Fatal(err)
				}
				var off, all float64
				for i, v := range valuesOf(x) {
					off, all = off+math.Pow(float64(v-want[i]), 2), all+float64(want[i])*float64(want[i])
				}
				bound := most + more
				if len(w.Shape) < 2 || strings.HasSuffix(name, "conv1d.weight") {
					bound = 0
				}
				if d := math.Sqrt(off / all); !(d <= bound) {
					t.Errorf("%s as %s: %s is off by %.4f of its size, want at most %g", kind, p, name, d, bound)
				}
			})
		}
		if must(LoadDirStored(path)).Precision() == engine.Float32 {
			t.Errorf("%s: the file is not kept in few bits", kind)
		}
	}
}

// valuesOf returns the values of a parameter, packed or not.
func valuesOf(x *nn.Param) (values []float32) {
	packed, ok := x.Packed().(engine.Rounding)
	if !ok {
		return x.Data()
	}
	row := make([]float32, x.Dim(1))
	for j := range x.Dim(0) {
		packed.ReadRow(row, j)
		values = append(values, row...)
	}
	return values
}

// TestGGUFZeros checks that a bias that llama.cpp requires but the model does not have is written as zeros. A bias that
// llama.cpp does not support is an error with its name, and so are options that llama.cpp fixes.
func TestGGUFZeros(t *testing.T) {
	const attention = "attention(num_heads=2,bias=false,out_bias=false,qk_norm=true,rotary_emb_dim=16"
	lfm2 := func(entry, mlp string) *model.Model {
		return ggufModel(t, "", func(c *model.Config) {
			c.Layers, c.MLP, c.DInner = "gated-conv*1,"+entry, mlp, 32
		})
	}
	m := lfm2(attention+")", "swiglu-experts(sigmoid=true,epsilon=1e-6,d_inner=32)")
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if x, ok := f.Tensor("blk.1.exp_probs_b.bias"); !ok || x.Elements() != 8 {
		t.Error("no bias of zeros is written")
	}
	if d := furthest(t, ggufLogits(must(LoadDir(path))), ggufLogits(m)); d > 1e-5 {
		t.Errorf("logits differ by %g", d)
	}
	for want, m := range map[string]*model.Model{
		"normalize: found false, want true": lfm2(attention+")", "swiglu-experts(sigmoid=true,normalize=false)"),
		"scale: found 2, want 1":            lfm2(attention+")", "swiglu-experts(sigmoid=true,epsilon=1e-6,scale=2)"),
		"head_dim: found 32, want 16":       lfm2(attention+",head_dim=32)", "swiglu(bias=false)"),
		"found blk.1.attn_output.bias": lfm2(strings.Replace(attention, "out_bias=false", "out_bias=true", 1)+")",
			"swiglu(bias=false)"),
		"found blk.0.ffn_down.bias, want none": lfm2(attention+")", "swiglu(bias=true)"),
	} {
		if _, err := ggufShapeOf(m, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if folder := filepath.Join(golden.Dir(t), "13_hf_bamba_a"); must(LoadDir(folder)) != nil {
		f, err := checkpoint.OpenGGUF(writtenGGUF(t, must(LoadDir(folder)), GGUFOptions{Type: checkpoint.F32}))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if pairs, _ := f.Values()[ggufPairs].(bool); !pairs {
			t.Error("Bamba: the file does not say which pairs are rotated")
		}
	}
}

// TestGGUFRotaryOfHybrids checks that scaled rotary positions of whole and half heads, in a layer that is not the
// first, are read back unchanged.
func TestGGUFRotaryOfHybrids(t *testing.T) {
	with := func(options string) *model.Model {
		m := ggufModel(t, "", func(c *model.Config) {
			c.Layers = "mamba2(headdim=8),attention(num_heads=2,bias=false,out_bias=false," + options + ")"
			c.MLP, c.DInner = "swiglu(bias=false)", 32
		})
		m.Params("", func(name string, p *nn.Param) { // values that positions change
			if strings.HasSuffix(name, "Wqkv.weight") {
				for i, x := 0, p.Data(); i < len(x); i++ {
					x[i] *= 30
				}
			}
		})
		return m
	}
	for _, options := range []string{"rotary_emb_dim=16", "rotary_emb_dim=8,rotary_base=500",
		"rotary_emb_dim=16,rotary_scaling=linear,rotary_factor=4",
		"rotary_emb_dim=16,rotary_scaling=yarn,rotary_factor=8,rotary_original=16",
		"rotary_emb_dim=16,rotary_scaling=llama3,rotary_factor=8,rotary_original=16",
		"rotary_emb_dim=8,rotary_scaling=yarn,rotary_factor=8,rotary_original=16,rotary_low=2,rotary_magnitude=1.5",
	} {
		m := with(options)
		got := must(LoadDir(writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})))
		if d := furthest(t, ggufLogits(got), ggufLogits(m)); d > 1e-5 {
			t.Errorf("%s: logits differ by %g of their deviation, of %s", options, d, got.Config.Layers)
		}
		plain, other := with("rotary_emb_dim=16"), ggufLogits(m)
		if options != "rotary_emb_dim=16" && furthest(t, ggufLogits(plain), other) < 1e-3 {
			t.Errorf("%s: without an effect", options)
		}
	}
}

package release

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// qwenModel returns a Qwen3.5 of the given width with three value heads for each of two key heads.
func qwenModel(t testing.TB, width int, change func(c *model.Config)) *model.Model {
	return ggufModel(t, "", func(c *model.Config) {
		c.Norm, c.DModel, c.DInner, c.MLP = model.NormRMSPlusOne, max(64, 2*width), 256, "swiglu(bias=false)"
		c.Layers = fmt.Sprintf("gated-deltanet(num_k_heads=2,num_v_heads=6,head_k_dim=%d)*2,"+
			"gated-attention(num_heads=4,kv_heads=2,rotary_emb_dim=16,bias=false,out_bias=false,norm_eps=1e-5)", width)
		if change != nil {
			change(c)
		}
	})
}

// TestGGUFTiledHeads checks that value head kh·3+j, which belongs to key head kh, is head j·2+kh of a written file, in
// every tensor with value heads and in no other. Norms are 1 + w and A is -exp(A_log). Reading the file gives the
// parameters again, to the last bit, although 1 + w loses some bits.
func TestGGUFTiledHeads(t *testing.T) {
	const width = 8
	m := qwenModel(t, width, nil)
	path, own := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32}), tensorsOf(m)
	f, err := checkpoint.OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	check := func(name, parameter string, before, each int, columns bool, to func(x float32) float32) {
		t.Helper()
		x, ok := f.Tensor("blk.1." + name)
		p := own["backbone.layers.1."+parameter]
		want, err := p.Float32()
		if !ok || err != nil {
			t.Fatalf("%s, %s: %v", name, parameter, err)
		}
		got, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		rows := len(want) // rows of single numbers
		switch {
		case columns:
			rows = 1
		case len(p.Shape) > 1:
			rows = p.Shape[0]
		}
		for i, v := range want {
			at := i
			line, rest := i/(len(want)/rows), i%(len(want)/rows)
			if columns {
				line, rest = i%p.Shape[1], 0
			}
			if each > 0 && line >= before {
				head := (line - before) / each
				moved := (head%3*2+head/3-head)*each + line
				if columns {
					at = i - line + moved
				} else {
					at = moved*(len(want)/rows) + rest
				}
			}
			if w := to(v); got[at] != w {
				t.Fatalf("%s: element %d is %g, want %g, element %d of %s", name, at, got[at], w, i, parameter)
			}
		}
	}
	same := func(x float32) float32 { return x }
	check("attn_qkv.weight", "mixer.in_proj_qkv.weight", 4*width, width, false, same)
	check("attn_gate.weight", "mixer.in_proj_z.weight", 0, width, false, same)
	check("ssm_beta.weight", "mixer.in_proj_b.weight", 0, 1, false, same)
	check("ssm_alpha.weight", "mixer.in_proj_a.weight", 0, 1, false, same)
	check("ssm_conv1d.weight", "mixer.conv1d.weight", 4*width, width, false, same)
	check("ssm_a", "mixer.A_log", 0, 1, false, func(x float32) float32 { return float32(-math.Exp(float64(x))) })
	check("ssm_dt.bias", "mixer.dt_bias", 0, 1, false, same)
	check("ssm_out.weight", "mixer.out_proj.weight", 0, width, true, same)
	check("ssm_norm.weight", "mixer.norm.weight", 0, 0, false, same)
	check("attn_norm.weight", "norm1.weight", 0, 0, false, plusOne)
	check("post_attention_norm.weight", "norm2.weight", 0, 0, false, plusOne)
	for name, x := range tensorsOf(must(LoadDir(path))) {
		if w := own[name]; !bytes.Equal(x.Data, w.Data) {
			t.Errorf("%s is another after reading", name)
		}
	}
	if f.Values()[ggufExact+"blk.1.attn_norm.weight"] == nil {
		t.Error("no norm loses bits by 1 + w")
	}
}

// TestGGUFQwenBlocks checks that blocks of files of Qwen3.5 have the error of their type and take as little memory as
// in the file, whether a head is whole blocks, or half a block or less.
func TestGGUFQwenBlocks(t *testing.T) {
	for width, kinds := range map[int][]checkpoint.DType{
		128: {checkpoint.Q8_0, checkpoint.Q4_0, checkpoint.Q6_K, Q4_K_M, checkpoint.F16, checkpoint.BF16},
		16:  {checkpoint.Q8_0, checkpoint.Q4_0},
	} {
		m := qwenModel(t, width, func(c *model.Config) { c.Layers = strings.Replace(c.Layers, "*2,", ",", 1) })
		own := tensorsOf(m)
		for _, kind := range kinds {
			path := writtenGGUF(t, m, GGUFOptions{Type: kind})
			wide, stored := must(LoadDir(path)), must(LoadDirStored(path))
			most := map[checkpoint.DType]float64{checkpoint.Q8_0: 0.006, checkpoint.Q4_0: 0.1, checkpoint.Q6_K: 0.0185,
				Q4_K_M: 0.09, checkpoint.F16: 0.0005, checkpoint.BF16: 0.003}[kind]
			kept := map[string][]float32{}
			stored.Params("", func(name string, p *nn.Param) { kept[name] = valuesOf(p) })
			for name, x := range tensorsOf(wide) {
				w := own[name]
				want, err := w.Float32()
				if err != nil {
					t.Fatal(err)
				}
				got, err := x.Float32()
				if err != nil {
					t.Fatal(err)
				}
				if d := apartBy(got, want); !(d <= most) {
					t.Errorf("%s, heads of %d: %s is off by %.4f, want at most %g", kind, width, name, d, most)
				}
				if d := apartBy(kept[name], got); !(d <= 0.02) { // Q6_K and parts of blocks are rounded to 8 bits
					t.Errorf("%s, heads of %d, stored: %s is off by %.4f of its size", kind, width, name, d)
				}
			}
			if kind.Quantized() || kind == Q4_K_M {
				got, at := float64(stored.Bytes())/float64(wide.Bytes()), stored.Precision()
				if got > 0.36 || at < engine.Int8 {
					t.Errorf("%s, heads of %d: stored takes %.2f of float32, at %s", kind, width, got, at)
				}
			}
		}
	}
}

// apartBy returns the root mean square of the difference, relative to that of the numbers.
func apartBy(got, want []float32) float64 {
	var off, all float64
	for i, v := range want {
		off, all = off+math.Pow(float64(got[i]-v), 2), all+float64(v)*float64(v)
	}
	if all == 0 {
		return math.Sqrt(off)
	}
	return math.Sqrt(off / all)
}

// TestGGUFQwenUnfit checks that options that llama.cpp fixes in these architectures are errors that name them, and that
// any order of the two kinds of layers is written.
func TestGGUFQwenUnfit(t *testing.T) {
	const experts = "swiglu-experts(experts=4,d_inner=32,shared_gate=true,d_shared=32,normalize=true"
	for want, change := range map[string]func(c *model.Config){
		"head_v_dim: found 16, want 8": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "head_k_dim=8", "head_k_dim=8,head_v_dim=16", 1)
		},
		"norm: found rms, want rms_plus_one": func(c *model.Config) { c.Norm = model.NormRMS },
		"norm_eps: found 0.1, want 1e-05": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "head_k_dim=8", "head_k_dim=8,norm_eps=0.1", 1)
		},
		"allow_neg_eigval: found true": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "head_k_dim=8", "head_k_dim=8,allow_neg_eigval=true", 1)
		},
		"found blk.2.attn_q.bias, want none": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "bias=false", "bias=true", 1)
		},
		"qk_norm: found false": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "bias=false", "bias=false,qk_norm=false", 1)
		},
		"normalize: found false, want true": func(c *model.Config) {
			c.MLP = strings.Replace(experts, "normalize=true", "normalize=false", 1) + ")"
		},
		"scale: found 2, want 1":          func(c *model.Config) { c.MLP = experts + ",scale=2)" },
		"sigmoid: found true, want false": func(c *model.Config) { c.MLP = experts + ",sigmoid=true)" },
		"shared_gate: found false": func(c *model.Config) {
			c.MLP = strings.Replace(experts, "shared_gate=true", "shared_gate=false", 1) + ")"
		},
		"expert_shared_feed_forward_length: found nothing": func(c *model.Config) {
			c.MLP = "swiglu-experts(experts=4,d_inner=32,normalize=true)"
		},
		"none of its architectures has together": func(c *model.Config) {
			c.Layers = strings.Replace(c.Layers, "*2,", "*2,gated-deltanet(num_k_heads=2)/"+experts+"),", 1)
		},
	} {
		if _, err := ggufShapeOf(qwenModel(t, 8, change), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	m := qwenModel(t, 8, func(c *model.Config) {
		layers := strings.SplitAfterN(c.Layers, "*2,", 2)
		c.Layers = layers[1] + "," + layers[0] + layers[1]
	})
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})
	got := must(LoadDir(path))
	if !slices.Equal(ggufLogits(got), ggufLogits(m)) {
		t.Error("attention in layers 0 and 3: other logits")
	}
}

package release

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// kimiGGUF writes the golden model as a GGUF file. It returns its path, values and tensors.
func kimiGGUF(t *testing.T) (path string, values map[string]any, tensors, folder map[string]checkpoint.Tensor) {
	t.Helper()
	dir := hfCopy(t, "13_hf_kimi_linear_a", nil)
	path = writtenGGUF(t, must(LoadDir(dir)), GGUFOptions{Type: checkpoint.F32})
	read := func(f *checkpoint.File, err error) map[string]checkpoint.Tensor {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		all := map[string]checkpoint.Tensor{}
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			all[name] = *x
		}
		if values == nil {
			values = f.Values()
		}
		return all
	}
	tensors = read(checkpoint.OpenGGUF(path))
	return path, values, tensors, read(OpenWeights(dir))
}

// TestGGUFKimi checks that a written file has the names, shapes and numbers of llama.cpp's conversion, for a golden
// model with four heads: decays are -exp(A_log), keys and values of latent attention are separate, and keys are
// transposed.
func TestGGUFKimi(t *testing.T) {
	_, values, tensors, folder := kimiGGUF(t)
	numbers := func(x checkpoint.Tensor) []float32 {
		v, err := x.Float32()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	check := func(name, from string, shape []int, at func(i int) int, to func(x float32) float32) {
		t.Helper()
		x, ok := tensors[name]
		w, there := folder[from]
		if !ok || !there || !slices.Equal(x.Shape, shape) {
			t.Fatalf("%s %v of %s %v, want shape %v", name, x.Shape, from, w.Shape, shape)
		}
		got, want := numbers(x), numbers(w)
		for i, v := range got {
			if to != nil && v != to(want[at(i)]) || to == nil && v != want[at(i)] {
				t.Fatalf("%s: element %d is %g, want that of %d of %s, %g", name, i, v, at(i), from, want[at(i)])
			}
		}
	}
	same := func(i int) int { return i }
	const kda, mla = "model.layers.1.", "model.layers.3."
	negExp := func(x float32) float32 { return float32(-math.Exp(float64(x))) }
	check("blk.1.ssm_a", kda+"self_attn.A_log", []int{4, 1}, same, negExp)
	for own, theirs := range map[string]string{"attn_q.weight": "q_proj.weight", "attn_k.weight": "k_proj.weight",
		"attn_v.weight": "v_proj.weight", "ssm_f_a.weight": "f_a_proj.weight", "ssm_f_b.weight": "f_b_proj.weight",
		"ssm_beta.weight": "b_proj.weight", "ssm_g_a.weight": "g_a_proj.weight", "ssm_g_b.weight": "g_b_proj.weight",
		"ssm_dt.bias": "dt_bias", "ssm_norm.weight": "o_norm.weight", "attn_output.weight": "o_proj.weight",
		"ssm_conv1d_q.weight": "q_conv1d.weight", "ssm_conv1d_v.weight": "v_conv1d.weight"} {
		check("blk.1."+own, kda+"self_attn."+theirs, folder[kda+"self_attn."+theirs].Shape, same, nil)
	}
	const n, v, rank = 8, 10, 12 // for each of 4 heads: keys, values, latent numbers
	check("blk.3.attn_k_b.weight", mla+"self_attn.kv_b_proj.weight", []int{4, rank, n}, func(i int) int {
		head, r, j := i/(rank*n), i/n%rank, i%n
		return (head*(n+v)+j)*rank + r
	}, nil)
	check("blk.3.attn_v_b.weight", mla+"self_attn.kv_b_proj.weight", []int{4, v, rank}, func(i int) int {
		head, j, r := i/(v*rank), i/rank%v, i%rank
		return (head*(n+v)+n+j)*rank + r
	}, nil)
	check("blk.3.attn_kv_a_mqa.weight", mla+"self_attn.kv_a_proj_with_mqa.weight", []int{16, 32}, same, nil)
	check("blk.1.exp_probs_b.bias", kda+"block_sparse_moe.gate.e_score_correction_bias", []int{6}, same, nil)
	check("blk.1.ffn_up_shexp.weight", kda+"block_sparse_moe.shared_experts.up_proj.weight", []int{20, 32}, same, nil)
	for key, want := range map[string]any{"attention.head_count": uint64(4), "attention.key_length": uint64(16),
		"attention.key_length_mla": uint64(12), "attention.value_length_mla": uint64(10),
		"attention.kv_lora_rank": uint64(12), "rope.dimension_count": uint64(4), "kda.head_dim": uint64(8),
		"ssm.conv_kernel": uint64(4), "expert_gating_func": uint64(2), "expert_shared_count": uint64(1),
		"expert_feed_forward_length": uint64(20), "leading_dense_block_count": uint64(1),
		"feed_forward_length": uint64(56)} {
		if got := values["kimi-linear."+key]; got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if kv := fmt.Sprint(values["kimi-linear.attention.head_count_kv"]); kv != "[0 0 0 1]" {
		t.Errorf("head_count_kv is %s", kv)
	}
}

// TestGGUFKimiLayouts checks that leading axes of 1, which llama.cpp's conversion writes, and key heads as in older
// files change nothing.
func TestGGUFKimiLayouts(t *testing.T) {
	path, _, tensors, _ := kimiGGUF(t)
	want := hybridLogits(must(LoadDir(path)))
	others := map[string]checkpoint.Tensor{}
	for name, x := range tensors {
		switch {
		case strings.Contains(name, ".ssm_conv1d_"):
			x.Shape = append([]int{1}, x.Shape[0], 1, x.Shape[2])
		case strings.HasSuffix(name, ".ssm_a"):
			x.Shape = []int{1, 1, 4, 1}
		}
		others[name] = x
	}
	llama := edited(t, path, map[string]any{"kimi-linear.attention.head_count_kv": []int32{0, 0, 0, 4}}, others)
	if !slices.Equal(hybridLogits(must(LoadDir(llama))), want) {
		t.Error("other logits")
	}
}

// TestGGUFKimiProblems checks that errors name invalid values, which take no memory, and options that llama.cpp fixes.
func TestGGUFKimiProblems(t *testing.T) {
	path, values, _, _ := kimiGGUF(t)
	n := 0
	for key, v := range values {
		if _, isSize := v.(uint64); !isSize || !strings.HasPrefix(key, "kimi-linear.") ||
			slices.Contains([]string{"vocab_size", "context_length", "attention.key_length", "attention.value_length",
				"expert_shared_feed_forward_length"},
				strings.TrimPrefix(key, "kimi-linear.")) {
			continue
		}
		n++
		for _, size := range []uint32{0, 7, 1_000_000, math.MaxUint32} {
			if size == 0 && strings.HasPrefix(key, "kimi-linear.expert_gating") {
				continue
			}
			file := edited(t, path, map[string]any{key: size}, nil)
			var err error
			used := allocated(func() { _, _, err = LoadDir(file) })
			if err == nil || used > mostBytes {
				t.Errorf("%s %d: %d bytes, %v", key, size, used, err)
			}
		}
	}
	if n < 14 {
		t.Errorf("only %d sizes were tried", n)
	}
	wantError(t, edited(t, path, map[string]any{"kimi-linear.rope.dimension_count": uint32(12)}, nil),
		"attention.key_length_mla: found 12, want more than rope.dimension_count 12")
	golden.Run(t, "13_hf_kimi_linear", func(t *testing.T, c golden.Case) {
		config := must(LoadDir(hfFolder(c))).Config
		for want, change := range map[string]func(layers string) string{
			"num_k_heads: found 8, want 4": func(s string) string {
				return strings.Replace(s, "num_k_heads=4", "num_k_heads=8", 1)
			},
			"rank: found 3, want 8": func(s string) string {
				return strings.Replace(s, "head_k_dim=8,", "head_k_dim=8,rank=3,", 1)
			},
			"lower_bound: found -5": func(s string) string {
				return strings.Replace(s, "head_k_dim=8,", "head_k_dim=8,lower_bound=-5,", 1)
			},
			"norm_eps: found 0.5, want 1e-06": func(s string) string {
				return strings.Replace(s, "mla(", "mla(norm_eps=0.5,", 1)
			},
			"rotary_emb_dim: found 4": func(s string) string {
				return strings.Replace(s, "mla(", "mla(rotary_emb_dim=4,", 1)
			},
			"d_shared: found 30, want 20": func(s string) string {
				return strings.ReplaceAll(s, "d_shared=20", "d_shared=30")
			},
		} {
			other := config
			other.Layers = change(config.Layers)
			m, err := model.New(other)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ggufShapeOf(m, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error with %q", err, want)
			}
		}
	})
}

// TestGGUFKimiHead checks that a head that shares the embedding's weights is written as a separate tensor, which
// llama.cpp requires.
func TestGGUFKimiHead(t *testing.T) {
	dir := hfCopy(t, "13_hf_kimi_linear_a", replaced(model.ConfigFile, `"tie_word_embeddings": false`,
		`"tie_word_embeddings": true`))
	m := must(LoadDir(dir))
	path := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32})
	got := must(LoadDir(path))
	if m.Head != nil || got.Head == nil || !slices.Equal(hybridLogits(got), hybridLogits(m)) {
		t.Errorf("heads %v, %v", m.Head, got.Head)
	}
}

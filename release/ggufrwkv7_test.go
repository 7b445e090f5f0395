package release

import (
	"bytes"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// TestGGUFRWKV7 checks that the golden weights in the layout of llama.cpp's conversion give the golden model, bit for
// bit, that the longest token at each position is chosen, and that the model is written with the same tensors.
func TestGGUFRWKV7(t *testing.T) {
	path := filepath.Join(golden.Dir(t), "13_gguf_rwkv7_a", "model.gguf")
	folder, _ := rwkv7Files(t)
	want, _ := openHF(t, folder)
	m, _, err := LoadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Tensors(), want.Tensors()) {
		t.Error("other tensors")
	}
	golden.Run(t, "13_hf_rwkv7", func(t *testing.T, c golden.Case) {
		checkGreedy(t, c, m, "out/greedy_ids")
	})
	tok, err := Tokenizer(path)
	if err != nil || tok.Kind() != "rwkv" {
		t.Fatalf("tokenizer %v, %v", tok, err)
	}
	var out bytes.Buffer
	if err := WriteGGUF(&out, m, GGUFOptions{Type: checkpoint.F32, Tokenizer: tok}); err != nil {
		t.Fatal(err)
	}
	again := writtenGGUF(t, m, GGUFOptions{Type: checkpoint.F32, Tokenizer: tok})
	a, err := checkpoint.OpenGGUF(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := checkpoint.OpenGGUF(again)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	names, others := a.Names(), b.Names()
	slices.Sort(names)
	slices.Sort(others)
	if !slices.Equal(names, others) {
		t.Fatalf("found tensors %q, want %q", others, names)
	}
	for _, name := range names {
		x, _ := a.Tensor(name)
		y, _ := b.Tensor(name)
		if !slices.Equal(x.Shape, y.Shape) || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("%s: found shape %v, want %v and the same numbers", name, y.Shape, x.Shape)
		}
	}
	for _, key := range []string{"rwkv7.wkv.head_size", "rwkv7.attention.decay_lora_rank", "rwkv7.feed_forward_length",
		"rwkv7.attention.value_residual_mix_lora_rank", "rwkv7.attention.layer_norm_epsilon", "tokenizer.ggml.model",
		"tokenizer.ggml.tokens", "tokenizer.ggml.token_type"} {
		if got, want := b.Values()[key], a.Values()[key]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: found %v, want %v", key, got, want)
		}
	}
}

// TestGGUFRWKV7Problems checks the errors for options that llama.cpp's architecture does not have, and for files with
// wrong sizes.
func TestGGUFRWKV7Problems(t *testing.T) {
	const right = "rwkv7(head_size=8)"
	for want, change := range map[string]func(c *model.Config){
		"embedding_norm: found false, want true": func(c *model.Config) { c.EmbedNorm = false },
		"norm: found rms, want layer":            func(c *model.Config) { c.Norm = model.NormRMS },
		"norm_eps: found 0.001, want 0.00064": func(c *model.Config) {
			c.Mixer = "rwkv7(head_size=8,norm_eps=0.001)"
		},
		"found rwkv7/swiglu in layers 0, 1": func(c *model.Config) { c.MLP = "swiglu" },
		"w_rank: found 16, want 32 (in layers 1)": func(c *model.Config) {
			c.Layers = right + ",rwkv7(head_size=8,w_rank=16)"
		},
		"": func(*model.Config) {},
		"head_size: found 4, want 8 (in layers 1)": func(c *model.Config) {
			c.Layers = right + ",rwkv7(head_size=4)"
		},
		"max_position_embeddings: found 9, want 0;": func(c *model.Config) { c.MaxPositions, c.EmbedNorm = 9, false },
	} {
		m := ggufModel(t, right, func(c *model.Config) {
			c.MLP, c.Norm, c.EmbedNorm = "channel-mix", model.NormLayer, true
			change(c)
		})
		var out bytes.Buffer
		err := WriteGGUF(&out, m, GGUFOptions{Type: checkpoint.F32})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	f, err := checkpoint.OpenGGUF(filepath.Join(golden.Dir(t), "13_gguf_rwkv7_a", "model.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, c := range map[string]struct {
		shape []int
		want  string
	}{
		"blk.0.time_mix_lerp_fused.weight": {[]int{3, 2, 1, 128}, "found shape [3 2 1 128], want [768]"},
		"blk.1.time_mix_r_k.weight":        {[]int{64, 2}, "found shape [64 2], want [2 64]"},
		"blk.1.time_mix_w1.weight":         {[]int{4, 256}, "found shape [4 256], want [8 128]"},
	} {
		x, _ := f.Tensor(name)
		y := *x
		y.Shape = c.shape
		_, _, err := FromCheckpoint(f.With([]*checkpoint.Tensor{&y}), ShapeOptions{})
		if err == nil || !strings.Contains(err.Error(), name+": "+c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}

package release

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// TestGGUFHybrids checks that files that llama.cpp's conversion creates from the golden models are loaded as these
// models.
func TestGGUFHybrids(t *testing.T) {
	for _, h := range llamaHybrids {
		golden.Run(t, h.golden, func(t *testing.T, c golden.Case) {
			folder := hfFolder(c)
			want, _, err := LoadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := LoadDir(h.path(t, folder))
			if err != nil {
				t.Fatal(err)
			}
			if d := furthest(t, hybridLogits(got), hybridLogits(want)); d > 1e-5 {
				t.Errorf("logits differ by %.2g of their deviation", d)
			}
		})
	}
}

// TestGGUFInParts checks that a file split by gguf-split is loaded as the model with its tokenizer, from the path of
// any part.
func TestGGUFInParts(t *testing.T) {
	h := llamaHybrids[0]
	whole := h.path(t, filepath.Join(golden.Dir(t), h.golden))
	f, err := checkpoint.OpenGGUF(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, _, err := LoadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	names, dir := f.Names(), t.TempDir()
	for i, own := range [][]string{nil, names[:20], names[20:]} { // as with --no-tensor-first-split
		tensors := map[string]checkpoint.Tensor{}
		for _, name := range own {
			x, _ := f.Tensor(name)
			tensors[name] = *x
		}
		values := map[string]any{}
		if i == 0 {
			values = h.allValues()
		}
		values["split.no"], values["split.count"] = uint32(i), uint32(3)
		values["split.tensors.count"] = int32(len(names))
		if err := os.Rename(llamaPath(t, values, tensors),
			filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i+1))); err != nil {
			t.Fatal(err)
		}
	}
	for i := 1; i <= 3; i++ {
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-00003.gguf", i))
		got, _, err := LoadDir(path)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(hybridLogits(got), hybridLogits(want)) {
			t.Errorf("part %d: the logits are others than those of the file in one", i)
		}
		if tok, err := Tokenizer(path); err != nil || tok.VocabSize() != 101 {
			t.Errorf("part %d: %v, %v", i, tok, err)
		}
	}
}

// hybridLogits returns the logits for a text in the 101 tokens of the golden models.
func hybridLogits(m *model.Model) []float32 {
	return textLogits(m, func(i int) int32 { return int32((i*7919 + 13) % 101) })
}

// TestGGUFHostileHybrids checks that no size in the values of a hybrid takes more memory than its tensors.
func TestGGUFHostileHybrids(t *testing.T) {
	unread := []string{"expert_shared_count", "expert_group_count", "leading_dense_block_count", "vocab_size",
		"rope.dimension_count"}
	for _, h := range llamaHybrids {
		for key, v := range h.values {
			size, isSize := v.(uint32)
			if !isSize || slices.Contains(unread, key) || strings.HasPrefix(key, "expert_") && size == 0 {
				continue
			}
			hostile := h
			for _, size := range []uint32{0, 1_000_000, math.MaxUint32} {
				hostile.values = maps.Clone(h.values)
				hostile.values[key] = size
				path := hostile.path(t, filepath.Join("..", "testdata", "golden", h.golden))
				var err error
				used := allocated(func() { _, _, err = LoadDir(path) })
				if err == nil || used > mostBytes {
					t.Errorf("%s.%s %d: %d bytes, %v", h.arch, key, size, used, err)
				}
			}
		}
	}
}

// TestGGUFHybridProblems checks that errors report unsupported settings of hybrids by their keys.
func TestGGUFHybridProblems(t *testing.T) {
	broken := func(arch string, change func(h *llamaHybrid)) llamaHybrid {
		h := llamaHybrids[slices.IndexFunc(llamaHybrids, func(h llamaHybrid) bool { return h.arch == arch })]
		values := map[string]any{}
		maps.Copy(values, h.values)
		h.values = values
		change(&h)
		return h
	}
	for want, h := range map[string]llamaHybrid{
		"lfm2.attention.head_count_kv: found 3 numbers, want one": broken("lfm2", func(h *llamaHybrid) {
			h.values["attention.head_count_kv"] = []int32{1, 2, 3}
		}),
		"jamba.attention.head_count_kv: found 3, want a divisor": broken("jamba", func(h *llamaHybrid) {
			h.values["attention.head_count_kv"] = []int32{0, 3, 0, 0}
		}),
		`falcon-h1.rope.scaling.type: found "longrope", want none, linear`: broken("falcon-h1", func(h *llamaHybrid) {
			h.values["rope.scaling.type"] = "longrope"
		}),
		"lfm2moe.expert_count, expert_used_count: found 6 and 7": broken("lfm2moe", func(h *llamaHybrid) {
			h.values["expert_used_count"] = uint32(7)
		}),
		"lfm2moe.expert_gating_func: found 3, want 1 (softmax) or 2": broken("lfm2moe", func(h *llamaHybrid) {
			h.values["expert_gating_func"] = uint32(3)
		}),
		"blk.1.ffn_up_exps.weight: found shape [8 24 32], want [8 25 32]": broken("nemotron_h_moe",
			func(h *llamaHybrid) { h.values["expert_feed_forward_length"] = uint32(25) }),
		"nemotron_h_moe.expert_group_used_count: found nothing": broken("nemotron_h_moe", func(h *llamaHybrid) {
			h.values["expert_group_count"] = uint32(2)
		}),
		"blk.4.ffn_up.weight: found shape [96 32], want [1000 32]": broken("nemotron_h", func(h *llamaHybrid) {
			h.values["feed_forward_length"] = []int32{0, 1000, 0, 0, 1000}
		}),
	} {
		golden.Run(t, h.golden, func(t *testing.T, c golden.Case) {
			_, _, err := LoadDir(h.path(t, hfFolder(c)))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Error(fmt.Errorf("error %w, want one with %q", err, want))
			}
		})
	}
}

package release

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// qwenFile is a GGUF file of a golden model of Qwen3.5 or Qwen3-Next that was not written by this repository.
type qwenFile struct {
	path, arch string
	values     map[string]any
	tensors    map[string]checkpoint.Tensor
}

// qwenFiles runs a test for each of these files.
func qwenFiles(t *testing.T, run func(t *testing.T, c golden.Case, f qwenFile)) {
	n := 0
	for _, family := range []string{"13_hf_qwen3_5", "13_hf_qwen3_next"} {
		golden.Run(t, family, func(t *testing.T, c golden.Case) {
			n++
			path := filepath.Join(filepath.Dir(hfFolder(c)), strings.Replace(c.Name, "_hf_", "_gguf_", 1), "model.gguf")
			f, err := checkpoint.OpenGGUF(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			q := qwenFile{path, f.Values()["general.architecture"].(string), f.Values(), map[string]checkpoint.Tensor{}}
			for _, name := range f.Names() {
				x, _ := f.Tensor(name)
				q.tensors[name] = *x
			}
			run(t, c, q)
		})
	}
	if n < 3 {
		t.Errorf("found %d files, want 3", n)
	}
}

// with writes a copy of the file with other values and tensors and returns its path.
func (f qwenFile) with(t *testing.T, values map[string]any, tensors map[string]checkpoint.Tensor) string {
	own := map[string]any{}
	for key, v := range values {
		own[f.arch+"."+key] = v
	}
	return edited(t, f.path, own, maps.Clone(tensors))
}

// TestGGUFQwen checks that files of Qwen3.5, with and without experts, and of Qwen3-Next, in the layout of llama.cpp's
// conversion, give the official logits and greedy text. If they are written again as Q8_0, the gate of shared experts
// is as in llama.cpp.
func TestGGUFQwen(t *testing.T) {
	qwenFiles(t, func(t *testing.T, c golden.Case, f qwenFile) {
		var meta hfCase
		c.Config(&meta)
		m := must(LoadDir(f.path))
		golden.CloseAbs(t, "logits", logitsOf(m, ids32(c.I64("in/ids")), c.Shape("in/ids")[0]), c.F64("out/logits"),
			meta.tolerance())
		checkGreedy(t, c, m, "out/greedy_ids")
		again, err := checkpoint.OpenGGUF(writtenGGUF(t, m, GGUFOptions{Type: checkpoint.Q8_0}))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		x, experts := again.Tensor("blk.0.ffn_gate_inp_shexp.weight")
		if experts == (f.arch == "qwen35") || experts && (x.DType != checkpoint.F32 || len(x.Shape) != 1) {
			t.Errorf("the gate of shared experts is %+v", x)
		}
	})
}

// TestGGUFQwenLayouts checks that the variants of a file give the same model: layers that predict further tokens, a
// list of the kinds of layers, the gate of shared experts as a matrix, and the joined projections of older conversions
// of Qwen3-Next.
func TestGGUFQwenLayouts(t *testing.T) {
	qwenFiles(t, func(t *testing.T, _ golden.Case, f qwenFile) {
		want := hybridLogits(must(LoadDir(f.path)))
		same := func(what, path string) {
			t.Helper()
			if got := hybridLogits(must(LoadDir(path))); !slices.Equal(got, want) {
				t.Errorf("%s: other logits", what)
			}
		}
		guessing := map[string]checkpoint.Tensor{}
		for name, x := range f.tensors {
			if rest, ok := strings.CutPrefix(name, "blk.3."); ok {
				x.Name = "blk.4." + rest
				guessing[x.Name] = x
			}
		}
		eh := checkpoint.NewTensor("blk.4.nextn.eh_proj.weight", []int{32, 64}, make([]float32, 32*64))
		guessing[eh.Name] = eh
		path := f.with(t, map[string]any{"block_count": uint32(5), "nextn_predict_layers": uint32(1)}, guessing)
		same("a layer that guesses", path)
		g, err := checkpoint.OpenGGUF(path)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		if got, want := LeftOut("", g), []string{fmt.Sprintf("blk.4.* (%d)", len(guessing))}; !slices.Equal(got, want) {
			t.Errorf("left out are %q, want %q", got, want)
		}
		wantError(t, f.with(t, nil, guessing), "blk.4.nextn.eh_proj.weight: unexpected")
		same("a list of layers", f.with(t, map[string]any{"full_attention_interval": uint32(3),
			"attention.recurrent_layers": []bool{true, true, true, false}}, nil))
		matrices := map[string]checkpoint.Tensor{}
		for name, x := range f.tensors {
			if strings.HasSuffix(name, ".ffn_gate_inp_shexp.weight") {
				x.Shape = []int{1, 32}
				matrices[name] = x
			}
		}
		same("gates that are matrices", f.with(t, nil, matrices))
		if f.arch == qwen3NextArch {
			same("joined projections", llamaPath(t, writable(f.values), f.older(t)))
		}
	})
}

// older returns the tensors of an older conversion of Qwen3-Next, which did not split the joined projections.
func (f qwenFile) older(t *testing.T) map[string]checkpoint.Tensor {
	t.Helper()
	older := map[string]checkpoint.Tensor{}
	for name, x := range f.tensors {
		layer, isQKV := strings.CutSuffix(name, "attn_qkv.weight")
		switch {
		case isQKV: // 2 key heads, each with 2 value heads, of 8 components
			const head = 8 * 32
			z := f.tensors[layer+"attn_gate.weight"]
			qkv, err := x.Float32()
			gates, failed := z.Float32()
			if err := errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			var all []float32
			for i := range 2 {
				all = slices.Concat(all, qkv[i*head:][:head], qkv[(2+i)*head:][:head], qkv[(4+2*i)*head:][:2*head],
					gates[2*i*head:][:2*head])
			}
			older[layer+"ssm_in.weight"] = checkpoint.NewTensor(layer+"ssm_in.weight", []int{96, 32}, all)
		case strings.HasSuffix(name, ".attn_gate.weight"):
		case strings.HasSuffix(name, ".ssm_ba.weight"):
			x.Name = strings.Replace(name, "ssm_ba", "ssm_beta_alpha", 1)
			older[x.Name] = x
		default:
			older[name] = x
		}
	}
	return older
}

// TestGGUFQwenProblems checks that errors report invalid values by their keys, one at a time, and that such values take
// no memory.
func TestGGUFQwenProblems(t *testing.T) {
	unread := []string{"context_length", "feed_forward_length", "rope.dimension_count", "full_attention_interval"}
	qwenFiles(t, func(t *testing.T, _ golden.Case, f qwenFile) {
		load := func(key string, v any) error {
			path := f.with(t, map[string]any{key: v}, nil)
			var errs [2]error
			used := allocated(func() {
				_, _, errs[0] = LoadDir(path)
				_, _, errs[1] = Describe(path)
			})
			if errs[0] == nil || errs[1] == nil || used > mostBytes {
				t.Errorf("%s %v: %d bytes, %v", key, v, used, errs)
			}
			return errors.Join(errs[:]...)
		}
		n := 0
		for full, v := range f.values {
			key, own := strings.CutPrefix(full, f.arch+".")
			if _, isSize := v.(uint64); !own || !isSize || slices.Contains(unread, key) {
				continue
			}
			n++
			for _, size := range []uint32{0, 7, 1_000_000, math.MaxUint32} {
				load(key, size)
			}
		}
		if n < 11 {
			t.Errorf("only %d sizes were tried", n)
		}
		for _, c := range []struct {
			key, want string
			v         any
		}{
			{"nextn_predict_layers", "found 4, want less than block_count 4", uint32(4)},
			{"attention.recurrent_layers", "want true or false for each of 4 layers", []bool{true}},
			{"attention.recurrent_layers", "found a list of 4, want true or false", []uint32{1, 1, 1, 0}},
			{"full_attention_interval", "found 0, want a whole number from 1", uint32(0)},
			{"full_attention_interval", "blk.1.attn_q.weight: missing", uint32(2)},
			{"ssm.time_step_rank", "found 3, want a multiple of ssm.group_count 2", uint32(3)},
			{"ssm.time_step_rank", "found 1048576, want a multiple of ssm.group_count 2, at most", uint32(1 << 20)},
			{"ssm.inner_size", "found 33, want a multiple of ssm.time_step_rank 4", uint32(33)},
			{"ssm.state_size", "want sizes that cut the projections into at most 16384 equal", uint32(1_000_001)},
			{"ssm.state_size", "blk.0.attn_qkv.weight: found shape [64 32], want [96 32]", uint32(16)},
		} {
			if err := load(c.key, c.v); err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s %v: error %v, want one with %q", c.key, c.v, err, c.want)
			}
		}
	})
}

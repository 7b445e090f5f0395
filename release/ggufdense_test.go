package release

import (
	"bytes"
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

// llamaCppCase holds the tolerance for a comparison with llama.cpp's logits.
type llamaCppCase struct {
	Tolerance float64 `json:"llama_cpp_tolerance"`
}

// TestLogitsOfLlamaCpp checks that models that have only attention give llama.cpp's logits, both when read from a
// folder in the layout of the transformers library and when read from the GGUF file that llama.cpp read, which was not
// written by this repository.
func TestLogitsOfLlamaCpp(t *testing.T) {
	golden.Run(t, "13_hf_", func(t *testing.T, c golden.Case) {
		if !c.Has("out/logits_llama_cpp") {
			return
		}
		var meta llamaCppCase
		c.Config(&meta)
		want, long := c.F64("out/logits_llama_cpp"), ids32(c.I64("in/ids_long"))
		compare := func(what string, m *model.Model) {
			t.Helper()
			golden.CloseAbs(t, what, logitsOf(m, long, 1)[:len(want)], want, meta.Tolerance)
		}
		folder := must(LoadDir(hfFolder(c)))
		compare("the folder", folder)
		if strings.Contains(c.Name, "mistral") { // in a GGUF file it is a llama without a window
			return
		}
		path := filepath.Join(filepath.Dir(hfFolder(c)), strings.Replace(c.Name, "_hf_", "_gguf_", 1), "model.gguf")
		file := must(LoadDir(path))
		compare("the file", file)
		if d := furthest(t, logitsOf(file, long, 1), logitsOf(folder, long, 1)); d > 2e-6 {
			t.Errorf("logits of the file and of the folder differ by %.2g of their deviation", d)
		}
	})
}

// TestGGUFRotaryScaling checks the scaling of rotary positions in a file and the errors for it.
func TestGGUFRotaryScaling(t *testing.T) {
	h := llamaHybrids[slices.IndexFunc(llamaHybrids, func(h llamaHybrid) bool { return h.arch == "falcon-h1" })]
	plain := maps.Clone(h.values)
	golden.Run(t, h.golden, func(t *testing.T, c golden.Case) {
		read := func(divisors []float32, pairs ...any) (string, error) {
			h.values = maps.Clone(plain)
			for i := 0; i < len(pairs); i += 2 {
				h.values[pairs[i].(string)] = pairs[i+1]
			}
			values, tensors := h.file(t, hfFolder(c))
			if divisors != nil {
				tensors[ggufDivisors] = checkpoint.NewTensor(ggufDivisors, []int{len(divisors)}, divisors)
			}
			m, _, err := Describe(llamaPath(t, values, tensors))
			if err != nil {
				return "", err
			}
			return m.Config.Layers, nil
		}
		const factor, kind = "rope.scaling.factor", "rope.scaling.type"
		for _, good := range []struct {
			divisors []float32
			pairs    []any
			want     string
		}{
			{nil, []any{kind, "none", factor, float32(4)}, ""},
			{nil, []any{kind, "linear", factor, float32(1)}, ""},
			{nil, []any{factor, float32(4)}, "rotary_factor=4,rotary_scaling=linear"},
			{nil, []any{"rope.scale_linear", float32(4)}, "rotary_factor=4,rotary_scaling=linear"},
			{nil, []any{kind, "yarn", factor, float32(4), "rope.scaling.original_context_length", uint32(64),
				"rope.scaling.yarn_beta_fast", float32(16)},
				"rotary_factor=4,rotary_high=16,rotary_low=1,rotary_original=64,rotary_scaling=yarn"},
			{nil, []any{kind, "yarn", factor, float32(1), "rope.scaling.attn_factor", float32(2)},
				"rotary_factor=1,rotary_high=32,rotary_low=1,rotary_magnitude=2,rotary_original=256," +
					"rotary_scaling=yarn"},
			{[]float32{1, 2.5, 3, 8}, nil, "rotary_divisors=1:2.5:3:8,rotary_scaling=divided"},
		} {
			layers, err := read(good.divisors, good.pairs...)
			var got []string
			_, attention, _ := strings.Cut(layers, "+attention(")
			for _, pair := range strings.Split(strings.TrimSuffix(attention, ")"), ",") {
				if strings.HasPrefix(pair, "rotary_") && !strings.HasPrefix(pair, "rotary_emb_dim") &&
					!strings.HasPrefix(pair, "rotary_base") {
					got = append(got, strings.TrimSuffix(pair, ")*3"))
				}
			}
			if text := strings.Join(got, ","); err != nil || text != good.want {
				t.Errorf("%v, %v: found %s of %s, %v, want %s", good.divisors, good.pairs, text, layers, err, good.want)
			}
		}
		for _, bad := range []struct {
			divisors []float32
			pairs    []any
			want     string
		}{
			{nil, []any{kind, "longrope", factor, float32(4)}, `scaling.type: found "longrope", want none, linear`},
			{nil, []any{kind, "linear", factor, float32(-1)}, "rope.scaling.factor: found -1"},
			{nil, []any{kind, "linear", factor, float32(0.5)}, "rotary_factor: found 0.5"},
			{[]float32{1, 2, 3}, nil, "rope_freqs.weight: found shape [3], want one number for each of 4"},
			{[]float32{1, 2, 0, 8}, nil, "rotary_divisors: found 0 for frequency 2"},
			{[]float32{1, 2, float32(math.NaN()), 8}, nil, "rotary_divisors: found NaN for frequency 2"},
			{[]float32{1, 2, 3, 8}, []any{kind, "yarn", factor, float32(4)}, `found "yarn" together with rope_freqs`},
		} {
			if _, err := read(bad.divisors, bad.pairs...); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%v, %v: error %v, want one with %q", bad.divisors, bad.pairs, err, bad.want)
			}
		}
	})
}

// TestGPT2Layouts checks the released files of GPT-2, which have names without a prefix and include the masks of
// attention. They are read like those with a prefix, and written unchanged.
func TestGPT2Layouts(t *testing.T) {
	golden.Run(t, "13_hf_gpt2", func(t *testing.T, c golden.Case) {
		folder, dir := hfFolder(c), t.TempDir()
		f, err := OpenWeights(folder)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var tensors []checkpoint.Tensor
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			y := *x
			y.Name = strings.TrimPrefix(name, "transformer.")
			tensors = append(tensors, y)
		}
		write := func(more ...checkpoint.Tensor) *checkpoint.File {
			t.Helper()
			var b bytes.Buffer
			if err := checkpoint.WriteSafetensors(&b, slices.Concat(tensors, more), nil); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, model.WeightsFile), b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			g, err := OpenWeights(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { g.Close() })
			return g
		}
		config, err := os.ReadFile(filepath.Join(folder, model.ConfigFile))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, model.ConfigFile), config, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		write(checkpoint.NewTensor("h.0.attn.bias", []int{1, 1, 2, 2}, []float32{1, 0, 1, 1}),
			checkpoint.NewTensor("h.0.attn.masked_bias", []int{1}, []float32{-1e4}))
		m := must(LoadDir(dir))
		if !slices.Equal(hybridLogits(m), hybridLogits(must(LoadDir(folder)))) {
			t.Error("other logits than with a prefix")
		}
		short := write()
		if names := differing(t, dir, hfWritten(t, m, config, short)); len(names) > 0 {
			t.Errorf("other tensors: %q", names)
		}
		write(checkpoint.NewTensor("h.0.attn.extra", []int{1}, []float32{1}))
		wantError(t, dir, "h.0.attn.extra: unexpected")
	})
}

package model

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
)

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		layers string
		want   string // joined by spaces; after "!", a part of the error
	}{
		{"h3*2,attention,h3", "h3 h3 attention h3"},
		{" s4d , h3 * 3", "s4d h3 h3 h3"},
		{"h3", "h3"},
		{"h3(d_state=8, head_dim=2)*2,attention(num_heads=4)",
			"h3(d_state=8, head_dim=2) h3(d_state=8, head_dim=2) attention(num_heads=4)"},
		{"h3*0", "!NAME*COUNT"},
		{"h3*-1", "!NAME*COUNT"},
		{"h3*x", "!NAME*COUNT"},
		{"h3*", "!NAME*COUNT"},
		{"h3*10001", "!10000"},
		{"h3*9999,attention*2", "!10000"},
		{"h3*99999999999999999999", "!NAME*COUNT"},
	} {
		cfg := Config{Layers: c.layers, NLayer: 5, Mixer: "s4d"}
		plan, err := cfg.Plan()
		if want, isError := strings.CutPrefix(c.want, "!"); isError {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: error %v, want one with %q", c.layers, err, want)
			}
		} else if got := strings.Join(plan, " "); err != nil || got != c.want {
			t.Errorf("%q: got %q, %v, want %q", c.layers, got, err, c.want)
		}
	}
	cfg := Config{NLayer: 4, Mixer: "h3", AttnIdx: []int{1, 3}}
	if plan, err := cfg.Plan(); err != nil || !slices.Equal(plan, []string{"h3", "attention", "h3", "attention"}) {
		t.Errorf("attn_layer_idx: got %v, %v", plan, err)
	}
}

// wrong holds changes of one field of a valid configuration, by the name of the field.
var wrong = map[string]func(*Config){
	"d_model":            func(c *Config) { c.DModel = 0 },
	"vocab_size":         func(c *Config) { c.VocabSize = -1 },
	"n_layer":            func(c *Config) { c.NLayer = 0; c.AttnIdx = nil },
	"d_inner":            func(c *Config) { c.DInner = -1 },
	"embed_dropout":      func(c *Config) { c.EmbedDropout = 1 },
	"attn_dropout":       func(c *Config) { c.AttnDropout = -0.1 },
	"resid_dropout":      func(c *Config) { c.ResidDropout = 2 },
	"layer_norm_epsilon": func(c *Config) { c.LayerNormEpsilon = 0 },
	"attn_layer_idx":     func(c *Config) { c.AttnIdx = []int{0, 9} },
	"layers":             func(c *Config) { c.Layers = "h3*" },
	"head_dim":           func(c *Config) { c.HeadDim = 5 },
	"d_state":            func(c *Config) { c.DState = 7 },
	"num_heads":          func(c *Config) { c.NumHeads = 3 },
	"rotary_emb_dim":     func(c *Config) { c.Rotary = 33 },
	"head_order":         func(c *Config) { c.HeadOrder = "sideways" },
	"dt_min":             func(c *Config) { c.DtMin = 1 },
	"measure":            func(c *Config) { c.Measure = "diag-none" },
	"mixer":              func(c *Config) { c.Mixer = "conv" },
	"n_layer ":           func(c *Config) { c.NLayer = 2_000_000_000; c.AttnIdx = nil },
	"d_state ":           func(c *Config) { c.DState = 2_000_000_000 },
}

func good() Config {
	c := DefaultConfig()
	c.shape(64, 3, 4, 1)
	c.VocabSize = 100
	return c
}

// TestValidate checks that every error is reported under the name of its field.
func TestValidate(t *testing.T) {
	c := good()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range wrong {
		field = strings.TrimSpace(field)
		c := good()
		spoil(&c)
		err := c.Validate()
		var p config.Problems
		if !errors.As(err, &p) || len(p) != 1 || !strings.Contains(p[0], field) || !strings.Contains(p[0], "want") {
			t.Errorf("%s: got %v", field, err)
		}
		if _, err := New(c); err == nil {
			t.Errorf("%s: New makes a model of it", field)
		}
	}
}

// TestLayerOptions checks that an entry of layers can set options of its mixer alone, and that an unknown option is
// reported with the existing ones.
func TestLayerOptions(t *testing.T) {
	c := good()
	c.Layers = "h3(d_state=16, head_dim=2),h3,attention(num_heads=2)"
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]int{
		"backbone.layers.0.mixer.ssm_k_kernel.kernel.C": {1, 64, 16},
		"backbone.layers.1.mixer.ssm_k_kernel.kernel.C": {1, 64, 64},
		"backbone.layers.0.mixer.D":                     {32}, "backbone.layers.1.mixer.D": {64},
	}
	m.Params("", func(name string, p *nn.Param) {
		if shape, ok := want[name]; ok && !slices.Equal(p.Shape(), shape) {
			t.Errorf("%s has shape %v, want %v", name, p.Shape(), shape)
		}
	})
	if kinds := []string{m.Blocks[0].Kind, m.Blocks[2].Kind}; !slices.Equal(kinds, []string{"h3", "attention"}) {
		t.Errorf("kinds %q", kinds)
	}
	for layers, want := range map[string]string{
		"h3(d_stat=16)": "d_stat: unknown option, want one of d_state, measure, dt_min, dt_max, " +
			"head_dim, head_order; did you mean d_state?",
		"h3(d_state=x)":               `d_state: found "x"`,
		"h3(d_state=7)":               "d_state: found 7, want an even number",
		"attention(num_heads=3)":      "num_heads: found 3",
		"attention(dropout=1)":        `dropout: found "1", want a number from 0 to 0.999`,
		"atention":                    `found mixer "atention", want one of`,
		"h3,":                         `found mixer ""`,
		"h3(d_state=8":                "want NAME(OPTION=VALUE,...)",
		"h3(d_state)":                 "want NAME(OPTION=VALUE,...)",
		"h3(d_state=8,d_state=16)":    "each option once",
		"bigbird(bidirectional=true)": "looks ahead, want a causal mixer in a language model",
		"s4d(head_dim=2)":             "head_dim: unknown option",
	} {
		c := good()
		c.Layers = layers
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", layers, err, want)
		}
	}
}

// TestRegistry checks that every mixer has a description, and its options as a struct.
func TestRegistry(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Mixers() {
		if seen[m.Name] || m.Name == "" || m.Paper == "" || m.Time == "" || m.State == "" || m.New == nil ||
			!m.Causal && !m.Bidirectional {
			t.Errorf("%+v is incomplete", m)
		}
		seen[m.Name] = true
		if m.Options == nil {
			continue
		}
		c := good()
		for _, o := range config.Describe(m.Options(c.mixerConfig(3))) {
			if o.Help == "" {
				t.Errorf("%s: option %s is not explained", m.Name, o.Key)
			}
		}
	}
}

// TestValidateReportsAll checks that one error lists all problems that can occur together.
func TestValidateReportsAll(t *testing.T) {
	c := good()
	fields := []string{"vocab_size", "d_inner", "embed_dropout", "attn_dropout", "resid_dropout", "layer_norm_epsilon",
		"head_dim", "num_heads"}
	for _, f := range fields {
		wrong[f](&c)
	}
	err := c.Validate()
	for _, f := range fields {
		if err == nil || !strings.Contains(err.Error(), f+": ") {
			t.Errorf("%s is not in: %v", f, err)
		}
	}
}

// TestPresets checks that the published shapes have the published numbers of parameters (H3-125M: arXiv:2212.14052's
// release; the others computed by hand from their shapes), and that a model of billions of parameters is described
// without allocating them.
func TestPresets(t *testing.T) {
	h3 := func(d int) int { // q, k, v, out; shift B, C, D; diagonal C, B, log_dt, A; D
		return 4*(d*d+d) + 2*64*d + d + 4*32*d + d + 2*32*d + d
	}
	attention := func(d int) int { return 4 * (d*d + d) }
	block := func(d int) int { return 8*d*d + 5*d + 4*d } // MLP, norms
	published := func(d, layers, attn int) int {
		return 50264*d + 2*d + layers*block(d) + (layers-attn)*h3(d) + attn*attention(d)
	}
	want := map[string]int{
		"h3-125m": 126_387_456,
		"h3-355m": published(1024, 24, 2), "h3-1.3b": published(2048, 24, 2), "h3-2.7b": published(2560, 32, 3),
	}
	maps.Copy(want, mambaParams)
	// Hyena of order 2: projections, short and implicit filter, MLP, norms; and features if they are trained.
	hyena := func(d, inner, embDim, features int) int {
		return 4*d*d + 4*d + 4*3*d + d + embDim*64 + 64 + 2*(64*64+64) + 64*d + 64 + features + 2*d*inner +
			inner + d + 4*d
	}
	// S4 with legs: C, B, P of 32 complex modes, real and imaginary part of A, log_dt, D, GLU.
	s4 := func(d int) int { return 3*2*32*d + 2*32*d + 2*d + 2*d*d + 2*d }
	want["s4-wikitext-103"] = 50264*1024 + 2*1024 + 16*(block(1024)+s4(1024))
	want["hyena-153m"] = 50264*864 + 2*864 + 18*hyena(864, 1728, 33, 33*2048)
	// 0.44, 3.3 and 6.6 million in arXiv:2306.15794, table A.1.
	for name, n := range map[string]int{"tiny-1k": 436_096, "small-32k": 3_277_568, "medium-160k": 6_550_528,
		"large-1m": 6_550_528} {
		want["hyenadna-"+name] = n
	}
	for name, shape := range map[string][2]int{"tiny-1k": {128, 2}, "tiny-1k-d256": {256, 2}, "tiny-16k-d128": {128, 2},
		"small-32k": {256, 4}, "medium-450k": {256, 8}} {
		n, d := 18*shape[0]+shape[1]*hyena(shape[0], 4*shape[0], 5, 0), "hyenadna-"+name
		if want[d] != 0 && want[d] != n {
			t.Errorf("the formula gives %d for %s", n, d)
		}
		want[d] = n
	}
	if n := want["hyena-153m"]; n < 153e6 || n > 154e6 {
		t.Errorf("the formula gives %d for Hyena 153M", n)
	}
	if n := published(768, 12, 1); n != want["h3-125m"] {
		t.Errorf("the formula gives %d for H3-125M", n)
	}
	for _, name := range Presets() {
		c, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.VocabSize == 0 { // the tokenizer determines it
			c.VocabSize = 256
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		n, err := c.CountParams()
		if err != nil || n == 0 || want[name] != 0 && n != want[name] {
			t.Errorf("%s: %d parameters, %v, want %d", name, n, err, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("there is no preset %s", name)
	}
	if _, err := Preset("huge"); err == nil || !strings.Contains(err.Error(), "tiny") {
		t.Errorf("an unknown preset gives the error %v, want the names there are", err)
	}
}

// mambaParams holds the numbers of parameters of releases, counted in their checkpoints.
var mambaParams = map[string]int{
	"qwen3.5-0.8b": 752_393_024,
	"mamba-130m":   129_135_360, "mamba-370m": 371_516_416, "mamba-790m": 793_204_224, "mamba-1.4b": 1_372_178_432,
	"mamba-2.8b":  2_768_345_600,
	"mamba2-130m": 128_989_632, "mamba2-370m": 368_346_624, "mamba2-780m": 780_161_280, "mamba2-1.3b": 1_343_757_312,
	"mamba2-2.7b": 2_702_599_680,
}

// TestCountDoesNotAllocate checks that counting or checking a model allocates no memory for its parameters.
func TestCountDoesNotAllocate(t *testing.T) {
	c, err := Preset("h3-2.7b")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range m.Tensors() {
		if len(x.Data) > 0 {
			t.Errorf("%s has %d bytes", x.Name, len(x.Data))
		}
	}
	if n := m.NumParams(); n < 2_500_000_000 {
		t.Errorf("%d parameters", n)
	}
}

func TestPaddedVocab(t *testing.T) {
	for _, c := range []struct{ size, multiple, want int }{{50257, 8, 50264}, {256, 8, 256}, {257, 0, 257},
		{65, 1, 65}} {
		cfg := Config{VocabSize: c.size, PadVocab: c.multiple}
		if got := cfg.PaddedVocab(); got != c.want {
			t.Errorf("%d padded to a multiple of %d: got %d, want %d", c.size, c.multiple, got, c.want)
		}
	}
}

package model

import (
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
)

// TestLayersOfParts checks that an entry of the list of layers can name several mixers, another MLP, or an MLP alone,
// and that the parameters are named after them.
func TestLayersOfParts(t *testing.T) {
	m := hybrid(t, composed+",attention*2")
	for i, want := range []string{"mamba2+attention", "relu2", "attention", "attention", "attention"} {
		b, plain := m.Blocks[i], i == 1 || i == 2
		if b.Kind != want || (b.MLP == nil) != plain || (b.Norm2 == nil) != plain {
			t.Errorf("layer %d: %s, MLP %v, want %s", i, b.Kind, b.MLP, want)
		}
	}
	names := map[string]bool{}
	m.Params("", func(name string, _ *nn.Param) { names[name] = true })
	for _, name := range []string{"0.mixer.mamba2.in_proj.weight", "0.mixer.attention.Wqkv.weight", "0.mlp.gate.weight",
		"0.norm2.weight", "1.mixer.fc1.weight", "2.mixer.q_norm.weight", "3.mlp.fc1.bias"} {
		if !names["backbone.layers."+name] {
			t.Errorf("no parameter %s", name)
		}
	}
	if names["backbone.layers.0.mlp.gate.bias"] || names["backbone.layers.1.norm2.weight"] {
		t.Error("found a bias or a norm that there is not")
	}
}

// TestLayersThatAreRefused checks that the error says what was found.
func TestLayersThatAreRefused(t *testing.T) {
	for entry, want := range map[string]string{
		"mamba+mamba":                        "found mamba twice",
		"mamba/gelu/glu":                     "want MIXER or MIXER/FEEDFORWARD",
		"mamba/relu3":                        `found "relu3"`,
		"mamba+":                             `found mixer ""`,
		"mamba/swiglu(width=3)":              "width: unknown option",
		"relu2(d_inner=0)":                   "d_inner: found 0",
		"attention(kv_heads=3)":              "kv_heads: found 3",
		"attention(out_scale=much)":          "out_scale",
		"mamba+s4d(bidirectional=true)":      "looks ahead",
		"attention(head_dim=4,num_heads=0)":  "num_heads: found 0",
		"mamba2(dt_low=2,dt_high=1)":         "dt_low, dt_high: found 2, 1",
		"mamba(bcdt_norm=some)":              "bcdt_norm",
		"mamba(d_inner=99999999)":            "d_inner: found 99999999",
		"attention(qk_norm=true,norm_eps=0)": "norm_eps: found 0",

		"h3/swiglu-experts(experts=2000)":                 "experts: found 2000",
		"h3/swiglu-experts(experts=3,top_k=4)":            "found 4 experts for each position, want 1 to 3",
		"relu2-experts(d_shared=-1)":                      "d_shared: found -1",
		"relu2-experts(balance=-0.5)":                     "balance: found -0.5, want 0 to 1000",
		"attention>mamba":                                 `found "attention" before >`,
		"zamba2-shared(block=-1)>mamba":                   "block: found -1",
		"zamba2-shared(num_heads=5)>mamba":                "num_heads: found 5",
		"zamba2-shared(d_inner=0)>mamba":                  "d_inner: found 0",
		"zamba2-shared>mamba,zamba2-shared(d_inner=3)>h3": "block 0: found other sizes than in a layer before",
	} {
		cfg := hybrid(t, "h3").Config
		cfg.Layers = entry
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", entry, err, want)
		}
	}
}

// TestHead checks that an untied head has its own weights, that the multipliers and the cap act on embedding and
// logits, and that the loss matches the logits.
func TestHead(t *testing.T) {
	cfg := hybrid(t, "h3,attention").Config
	cfg.Norm = NormRMSPlusOne
	plain, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plain.Init(1)
	cfg.UntiedHead, cfg.EmbedScale, cfg.LogitScale, cfg.LogitCap = true, 2, 3, 0.05
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	half := read(plain.Embedding.Weight.Tensor)
	m.Head.Weight.CopyFrom(half)
	for i := range half {
		half[i] /= 2
	}
	m.Embedding.Weight.CopyFrom(half)
	ids := text(1, 9)
	tape := autograd.NewTape(cpu.Backend{})
	tape.Record(true)
	want := read(plain.Logits(tape, plain.Forward(tape, ids, EqualRows(1, 9))))
	hidden := m.Forward(tape, ids, EqualRows(1, 9))
	got := read(m.Logits(tape, hidden))
	loss, v := 0.0, cfg.PaddedVocab()
	for i := range want {
		want[i] = float32(0.05 * math.Tanh(3*float64(want[i])/0.05))
	}
	near(t, "logits", got, want, 1e-5)
	for i, id := range ids {
		sum := 0.0
		for _, x := range want[i*v:][:v] {
			sum += math.Exp(float64(x))
		}
		loss += (math.Log(sum) - float64(want[i*v+int(id)])) / float64(len(ids))
	}
	y := m.Loss(tape, hidden, ids)
	if l := float64(read(y)[0]); math.Abs(l-loss) > 1e-5 {
		t.Errorf("loss %v, want %v", l, loss)
	}
	tape.Backward(y)
	for _, p := range []*nn.Param{m.Head.Weight, m.Embedding.Weight, m.Unembedding()} {
		sum := float32(0)
		for _, g := range gradient(tape, p.Tensor) {
			sum += g * g
		}
		if sum == 0 {
			t.Error("a table has no gradient")
		}
	}
}

package mixer

import (
	"cmp"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// onBothEngines compares a block with the official one: see eachEngine.
func onBothEngines(t *testing.T, c golden.Case, m Mixer, of func(name string) []string, cancels ...string) {
	t.Helper()
	eachEngine(t, goldenBlock{Case: c, m: m, of: of}, cancels...)
}

// eachEngine compares a block with the official one on the CPU's engine, within its tol or, if that is 0, mambaTol, and
// on the reference engine, where results and the constants 1/√dk are rounded to float32. The gradients named by
// cancels, whose terms cancel, may differ by ten times the tolerance.
func eachEngine(t *testing.T, b goldenBlock, cancels ...string) {
	t.Helper()
	for name, on := range map[string]struct {
		engine.Backend
		tol float64
	}{"cpu": {cpu.Backend{}, cmp.Or(b.tol, mambaTol)}, "reference": {reference.Backend{}, 5e-7}} {
		t.Run(name, func(t *testing.T) {
			b := b
			b.Case, b.t, b.on, b.tol, b.loose = b.With(t), t, on.Backend, on.tol, map[string]float64{}
			for _, name := range cancels {
				b.loose[name] = 10 * b.tol
			}
			b.check()
		})
	}
}

// TestGoldenGatedDeltaNet compares with the official layer of Qwen3.5.
func TestGoldenGatedDeltaNet(t *testing.T) {
	golden.Of(t, "gated-deltanet")
	golden.Run(t, "14_gdn_layer", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel   int     `json:"d_model"`
			KeyHeads int     `json:"num_k_heads"`
			Heads    int     `json:"num_v_heads"`
			KeyDim   int     `json:"head_k_dim"`
			ValueDim int     `json:"head_v_dim"`
			DConv    int     `json:"d_conv"`
			NormEps  float64 `json:"rms_norm_eps"`
		}
		c.Config(&cfg)
		m, err := newGatedDeltaNet(Config{DModel: cfg.DModel}, gatedDeltaOptions{DtMin: 1e-3, DtMax: 0.1,
			deltaOptions: deltaOptions{KeyHeads: cfg.KeyHeads, Heads: cfg.Heads, KeyDim: cfg.KeyDim,
				ValueDim: cfg.ValueDim, DConv: cfg.DConv, NormEps: cfg.NormEps}})
		if err != nil {
			t.Fatal(err)
		}
		onBothEngines(t, c, m, nil)
	})
}

// ofFla returns the tensors of fla's layers that form a parameter of KDA or GDN-2.
func ofFla(name string) []string {
	switch name {
	case "in_proj_qkv.weight":
		return []string{"q_proj.weight", "k_proj.weight", "v_proj.weight"}
	case "conv1d.weight":
		return []string{"q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"}
	}
	return []string{strings.NewReplacer("in_proj_a", "f_proj", "in_proj_z", "g_proj", "in_proj_b", "b_proj",
		"in_proj_w", "w_proj", "norm", "o_norm", "out_proj", "o_proj").Replace(name)}
}

// TestGoldenKDA compares with the official layer of Kimi Delta Attention, with either form of the decays.
func TestGoldenKDA(t *testing.T) {
	golden.Of(t, "kda")
	golden.Run(t, "14_kda_layer", func(t *testing.T, c golden.Case) {
		cfg, heads := flaHeads(c)
		o := kdaOptions{deltaOptions: heads, fadingOptions: fadingOptions{DtMin: 1e-3, DtMax: 0.1},
			LowerBound: cfg.LowerBound, GateBias: true}
		m, err := newKDA(Config{DModel: cfg.DModel}, o)
		if err != nil {
			t.Fatal(err)
		}
		onBothEngines(t, c, m, ofFla)
	})
}

// TestGoldenGDN2 compares with the official layer of Gated DeltaNet-2.
func TestGoldenGDN2(t *testing.T) {
	golden.Of(t, "gdn2")
	golden.Run(t, "14_gdn2_layer", func(t *testing.T, c golden.Case) {
		cfg, heads := flaHeads(c)
		o := gdn2Options{deltaOptions: heads, fadingOptions: fadingOptions{DtMin: 1e-3, DtMax: 0.1}, GateBias: true}
		m, err := newGDN2(Config{DModel: cfg.DModel}, o)
		if err != nil {
			t.Fatal(err)
		}
		onBothEngines(t, c, m, ofFla)
	})
}

type flaConfig struct {
	DModel     int     `json:"d_model"`
	HeadDim    int     `json:"head_dim"`
	Heads      int     `json:"num_heads"`
	ValueHeads int     `json:"num_v_heads"`
	ExpandV    float64 `json:"expand_v"`
	LowerBound float64 `json:"lower_bound"`
	NegEigval  bool    `json:"allow_neg_eigval"`
}

// flaHeads returns the options of a case of a layer of fla. The number of taps is that of the filter's weights.
func flaHeads(c golden.Case) (flaConfig, deltaOptions) {
	cfg := flaConfig{ExpandV: 1}
	c.Config(&cfg)
	return cfg, deltaOptions{KeyHeads: cfg.Heads, Heads: cfg.ValueHeads, KeyDim: cfg.HeadDim,
		ValueDim: int(math.Round(float64(cfg.HeadDim) * cfg.ExpandV)), DConv: c.Shape("param/q_conv1d.weight")[2],
		NegEigval: cfg.NegEigval, NormEps: 1e-5}
}

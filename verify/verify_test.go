package verify

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// TestEveryMixer checks that a small model of every mixer agrees with its definition.
func TestEveryMixer(t *testing.T) {
	for _, name := range model.MixerNames() {
		t.Run(name, func(t *testing.T) { asDefined(t, small(t, name+"-tiny", ""), 1, 40, 130) })
	}
}

// TestEveryMixerComposed checks the same on an engine that implements only the core.
func TestEveryMixerComposed(t *testing.T) {
	for _, name := range model.MixerNames() {
		t.Run(name, func(t *testing.T) {
			cfg, err := model.Preset(name + "-tiny")
			if err != nil {
				t.Fatal(err)
			}
			cfg.VocabSize, cfg.NLayer, cfg.DState = 20, 1, min(cfg.DState, 4)
			m, err := model.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m.Init(3)
			m.Use(smallengine.New[float32]())
			asDefined(t, m, 9)
		})
	}
}

// TestComposedLayers checks the same for layers with more than a mixer and an MLP.
func TestComposedLayers(t *testing.T) {
	for name, layers := range map[string]string{
		"experts":  "swiglu-experts(experts=6,d_shared=30),h3/relu2-experts(experts=4,sigmoid=true,choice_bias=true)",
		"shared":   "mamba/none,zamba2-shared(adapter_rank=4)>mamba/none,zamba2-shared(adapter_rank=4)>mamba/none",
		"parallel": "mamba+attention,relu2",
	} {
		t.Run(name, func(t *testing.T) { asDefined(t, small(t, "h3-tiny", layers), 1, 40, 130) })
	}
}

func asDefined(t *testing.T, m *model.Model, lengths ...int) {
	t.Helper()
	report, err := Model(context.Background(), m, Options{Lengths: lengths})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
}

// small returns a new model with two layers of a preset, or with the given layers.
func small(t *testing.T, preset, layers string) *model.Model {
	t.Helper()
	cfg, err := model.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	cfg.VocabSize = 50
	cfg.NLayer, cfg.Layers = 2, layers
	m, err := model.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(3)
	return m
}

// TestDifferencesAreReported checks that with a tolerance near zero rounding counts as a difference, that NaN always
// does, and that the report names the place.
func TestDifferencesAreReported(t *testing.T) {
	m := small(t, "h3-tiny", "")
	report, err := Model(context.Background(), m, Options{Lengths: []int{9}, Scale: 1e-6})
	if err != nil || report.OK {
		t.Fatalf("%v, OK %v, want differences", err, report.OK)
	}
	if first := report.Checks[0]; first.OK || first.Error == 0 || first.Where == "" {
		t.Errorf("found %+v, want a layer that differs", first)
	}
	m.Params("", func(name string, p *nn.Param) {
		if strings.HasSuffix(name, "layers.1.mixer.q_proj.weight") {
			p.Fill(float32(math.NaN()))
		}
	})
	report, err = Model(context.Background(), m, Options{Lengths: []int{9}, Forward: true})
	if err != nil || report.OK || report.Checks[0].Error != farthest ||
		!strings.Contains(report.Checks[0].Where, "layers.1") {
		t.Errorf("%v, %+v, want NaN in layer 1", err, report)
	}
}

package model

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
)

// TestFeedForwardKindsHaveGradients checks that a model with each kind of MLP has gradients for all its parameters,
// including the gate.
func TestFeedForwardKindsHaveGradients(t *testing.T) {
	for kind, parts := range map[string]int{"gelu": 4, "relu2": 4, "glu": 6, "swiglu": 6,
		"geglu": 6, "swiglu(bias=false,gate_scale=0.5,out_scale=0.3)": 3,
		"swiglu-experts(experts=3)": 10, "relu2-experts(experts=3,sigmoid=true,d_shared=4,d_latent=5)": 11} {
		t.Run(kind, func(t *testing.T) {
			cfg := hybrid(t, "h3,attention").Config
			cfg.MLP = kind
			m, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m.Init(1)
			const l = 12
			ids := text(1, l)
			tape := autograd.NewTape(cpu.Backend{})
			tape.Record(true)
			tape.Backward(m.Loss(tape, m.Forward(tape, ids, EqualRows(1, l)), ids))
			seen := 0
			m.Params("", func(name string, p *nn.Param) {
				if !strings.Contains(name, "layers.0.mlp") {
					return
				}
				seen++
				sum := float32(0)
				for _, g := range gradient(tape, p.Tensor) {
					sum += g * g
				}
				if sum == 0 {
					t.Errorf("%s has no gradient", name)
				}
			})
			if seen != parts {
				t.Errorf("%d parameters, want %d", seen, parts)
			}
		})
	}
	cfg := hybrid(t, "h3").Config
	cfg.MLP = "swiglo"
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "mlp") {
		t.Errorf("an unknown kind: error %v", err)
	}
}

// TestLookingAheadIsRefused checks that a language model cannot see the tokens that it predicts.
func TestLookingAheadIsRefused(t *testing.T) {
	for _, layer := range []string{"s4(bidirectional=true)", "s4d(bidirectional=true)"} {
		cfg := hybrid(t, "h3").Config
		cfg.Layers = layer
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), "looks ahead") {
			t.Errorf("%s: error %v", layer, err)
		}
	}
}

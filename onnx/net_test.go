package onnx_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/internal/testkit/onnxtest"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/onnx"
)

const channels, outputs = 2, 3

// network returns a small network whose input is numbers.
func network(t *testing.T, layers string, everywhere bool) *model.Network {
	t.Helper()
	c := model.NetworkConfig{Model: model.DefaultConfig(), Channels: channels, Outputs: outputs, Everywhere: everywhere,
		Pool: "mean"}
	c.Model.DModel, c.Model.Layers, c.Model.NumHeads, c.Model.DState, c.Model.DInner = 8, layers, 2, 4, 12
	c.Model.EmbedNorm = strings.Contains(layers, "rwkv7") // as in its release
	n, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(1)
	return n
}

// written returns the two forms of a network: for a whole sequence, and for a step.
func written(layers string, t *testing.T) (whole, step *onnxtest.Model, err error) {
	net, err := onnx.NewNet(network(t, layers, true))
	if err != nil {
		return nil, nil, err
	}
	g := onnx.New("whole")
	rows := g.Input("rows", onnx.Float, "", onnx.Dim{Name: "length"}, onnx.Dim{N: channels})
	y, err := net.All(g, rows)
	if err != nil {
		return nil, nil, err
	}
	g.Output("y", y, onnx.Float, "", onnx.Dim{Name: "length"}, onnx.Dim{N: outputs})
	s := onnx.New("step")
	rows = s.Input("rows", onnx.Float, "", onnx.Dims(1, channels)...)
	next, y, err := net.Advance(s, 1, rows, s.Input("state", onnx.Float, "", onnx.Dims(net.Size())...))
	s.Output("next", next, onnx.Float, "", onnx.Dims(net.Size())...)
	s.Output("y", y, onnx.Float, "", onnx.Dims(1, outputs)...)
	return onnxtest.Decode(g.Encode("")), onnxtest.Decode(s.Encode("")), err
}

// TestEveryMixer checks that networks of all mixers with a state of fixed size are written in both forms, and give the
// numbers of the network. Others must be rejected by name.
func TestEveryMixer(t *testing.T) {
	refused := map[string]string{
		"attention": "keeps earlier positions", "window-attention": "keeps earlier positions", "gau": "keeps earlier",
		"gated-attention": "keeps earlier positions", "mla": "keeps earlier positions",
		"mamba+attention": "keeps earlier positions", "bigbird": "keeps earlier positions",
		"bucket-attention": "keeps earlier", "sparse-sinkhorn": "keeps earlier",
		"spatten": "keeps earlier positions", "hyena": "keeps earlier positions", "block-recurrent ": "keeps earlier",
		"zamba2-shared": "keeps earlier positions", "gmlp": "the first position in another way",
		"rg-lru": "the first position in another way", "retention": "by the place of a row",
	}
	const l = 45
	for _, layers := range toymodel.Entries() {
		t.Run(layers, func(t *testing.T) {
			t.Parallel()
			whole, step, err := written(layers, t)
			name, _, _ := strings.Cut(layers, "(")
			if want, ok := refused[name]; ok {
				toymodel.WantError(t, err, want, strings.TrimSpace(name))
				return
			} else if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			x, narrow := make([]float64, l*channels), make([]float32, l*channels)
			for i := range x {
				narrow[i] = float32(rng.NormFloat64())
				x[i] = float64(narrow[i])
			}
			var want []float64
			for _, v := range network(t, layers, true).Predict(model.Input{Lengths: []int{l}, Values: narrow}) {
				want = append(want, float64(v))
			}
			got := whole.Run(map[string]onnxtest.Array{"rows": {Shape: []int{l, channels}, X: x}})["y"]
			golden.Close(t, "the whole", got.X, want, 1e-5)
			state := step.Zeros("state")
			for i := range 5 {
				out := step.Run(map[string]onnxtest.Array{"state": state,
					"rows": {Shape: []int{1, channels}, X: x[i*channels : (i+1)*channels]}})
				golden.Close(t, "a step", out["y"].X, want[i*outputs:(i+1)*outputs], 1e-5)
				state = out["next"]
			}
		})
	}
}

// TestRefused checks that networks that cannot be written are rejected by name, before anything is computed.
func TestRefused(t *testing.T) {
	for want, net := range map[string]*model.Network{
		"s4d, which looks ahead":            network(t, "s4d(bidirectional=true)", true),
		"tokens or of pairs":                toymodel.Network(t, "s4d"),
		"one cannot be written: it decides": network(t, "s4d,h3/swiglu-experts", true),
	} {
		n, err := onnx.NewNet(net)
		if err == nil {
			g := onnx.New("whole")
			_, err = n.All(g, g.Input("rows", onnx.Float, "", onnx.Dim{Name: "length"}, onnx.Dim{N: channels}))
		}
		toymodel.WantError(t, err, want)
	}
}

package model

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
)

// TestEmbeddingNorm checks that embedding_norm gives the stream before the first block mean 0 and variance 1, also with
// learned positions. Computation in pieces sees the same stream, and freezing block 0 does not keep the norm from
// training.
func TestEmbeddingNorm(t *testing.T) {
	cfg := hybrid(t, "h3,attention,mamba").Config
	cfg.EmbedNorm, cfg.MaxPositions = true, 50
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	ids, tape := text(1, 40), autograd.NewTape(cpu.Backend{})
	first := m.Embed(tape, ids, EqualRows(2, 20))
	for i, x := 0, read(first); i < len(x); i += cfg.DModel {
		var sum, squares float64
		for _, v := range x[i:][:cfg.DModel] {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		if d := float64(cfg.DModel); math.Abs(sum/d) > 1e-5 || math.Abs(squares/d-1) > 0.1 {
			t.Fatalf("position %d: mean %g, mean square %g, want 0 and 1", i/cfg.DModel, sum/d, squares/d)
		}
	}
	want := read(m.Forward(tape, ids, EqualRows(2, 20)))
	near(t, "the rest after Embed", read(m.Rest(tape, 0, first, first, EqualRows(2, 20))), want, 1e-6)
	if err := m.Freeze([]string{"backbone.layers", "backbone.embeddings"}); err != nil {
		t.Fatal(err)
	}
	if got := m.FirstTrained(); got != 0 {
		t.Errorf("the first block that a backward pass reaches is %d, want 0", got)
	}
	names := map[string]bool{}
	m.Params("", func(name string, p *nn.Param) { names[name] = p.NeedsGrad() })
	if !names["backbone.embedding_norm.weight"] || !names["backbone.embedding_norm.bias"] {
		t.Errorf("found the parameters %v, want weight and bias of a norm after the embedding", names)
	}

	c := networkConfig("s4d,rwkv7/channel-mix*2")
	c.Model.EmbedNorm = true
	net := newNetwork(t, c)
	net.Norm0.(*nn.LayerNorm).Weight.Tensor.Fill(0) // so that nothing of the input passes
	seen := func(x []float32) (y []float32) {
		in := tape.New(12, c.Channels)
		in.CopyFrom(x)
		return append(net.Predict(Input{Lengths: []int{12}, Values: x}), read(net.Advance(tape, in, net.NewState()))...)
	}
	if !slices.Equal(seen(normal(12*c.Channels)), seen(make([]float32, 12*c.Channels))) {
		t.Error("the stream of a network is not normed")
	}
}

package toymodel

import (
	"math"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// Vocab is the vocabulary size of the models of EveryMixer and of Network.
const Vocab = 23

// EveryMixer runs f for a model of each causal mixer, of each mixer beside attention, and of a layer of two mixers.
func EveryMixer(t *testing.T, f func(t *testing.T, m *model.Model)) {
	layers := []string{"h3+attention", "swiglu,attention", "mamba/none*2", "zamba2-shared(num_heads=2)>mamba2,mamba2"}
	for _, info := range model.Mixers() {
		if info.Causal {
			layers = append(layers, info.Name+"*2")
		}
	}
	for _, layer := range layers {
		t.Run(layer, func(t *testing.T) { f(t, New(t, layer, Vocab)) })
	}
}

// Fresh returns a language model with the random weights that training starts from.
func Fresh(t *testing.T, change func(c *model.Config)) *model.Model {
	t.Helper()
	c := model.DefaultConfig()
	c.VocabSize, c.DModel, c.MLP = 10, 24, "none"
	change(&c)
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(7)
	return m
}

// Network returns a network that scores tokens at each position.
func Network(t *testing.T, layers string) *model.Network {
	t.Helper()
	c := model.NetworkConfig{Model: model.DefaultConfig(), Vocab: Vocab, Outputs: Vocab, Everywhere: true,
		Pool: "last"}
	c.Model.DModel, c.Model.Layers, c.Model.NumHeads, c.Model.DState, c.Model.DInner = 16, layers, 2, 8, 24
	n, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(1)
	return n
}

// LogProbs returns the model's own log-probabilities of all ids but the first, from its loss for one target at a time.
func LogProbs(m *model.Model, ids []int32) []float64 {
	t := m.NewTape()
	hidden := m.Forward(t, ids[:len(ids)-1], model.EqualRows(1, len(ids)-1))
	z := m.Logits(t, hidden)
	vocab := z.Dim(-1)
	all, out := z.Floats(), make([]float64, len(ids)-1)
	for i := range out {
		row, sum := all[i*vocab:][:vocab], 0.0
		for _, v := range row {
			sum += math.Exp(float64(v))
		}
		out[i] = float64(row[ids[i+1]]) - math.Log(sum)
	}
	return out
}

// Ruin sets a NaN in the second layer.
func Ruin(m *model.Model) {
	m.Params("", func(name string, p *nn.Param) {
		if strings.Contains(name, "layers.1.") && strings.HasSuffix(name, "fc2.bias") {
			x := p.Floats()
			x[0] = float32(math.NaN())
			p.CopyFrom(x)
		}
	})
}

// WantError checks that the text of an error contains all parts.
func WantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}

// Entries returns layers: one of each mixer, at sizes at which states turn over within a short text, and some others.
func Entries() []string {
	small := map[string]string{
		"window-attention": "(window=9)", "bigbird": "(block=4,random=1)", "bucket-attention": "(bucket=4)",
		"spatten": "(block=4,keep=8)", "hyena": "(l_max=64)", "gmlp": "(l_max=64)", "block-recurrent": " " +
			"(block=4,rows=3)",
		"mamba2": "(d_state=4,headdim=4)", "mamba3": "(d_state=4,headdim=4)", "mamba": "(d_state=4)",
		"dss": "(l_max=32)", "s4": "(l_max=32)",
		"lmu": "(theta=8)",
	}
	var all []string
	for _, name := range model.MixerNames() {
		all = append(all, name+small[name])
	}
	return append(all, "s4d(real=true,train_b=true)", "s4(channels=2,measure=fourier)", "mamba+attention",
		"spatten(block=4,keep=8,cascade=true)", "mamba2(d_state=2,headdim=4,ngroups=2)", "h3(head_dim=4)",
		"mamba(in_scale=2)", "zamba2-shared(adapter_rank=2)>mamba2(d_state=4,headdim=4)")
}

package action

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// entries are layers, by the name of the mixer that they are there for.
var entries = map[string][]string{
	"h3":               {"h3", "h3(head_dim=4)", "h3(head_dim=4,head_order=hd)"},
	"attention":        {"attention(num_heads=3,rotary_emb_dim=4)", "attention(num_heads=4,kv_heads=2,qk_norm=true)"},
	"gated-attention":  {"gated-attention(num_heads=4,kv_heads=2,rotary_emb_dim=2)"},
	"mla":              {"mla(num_heads=3,rotary_emb_dim=4)", "mla(num_heads=2,q_lora_rank=5,kv_lora_rank=7)"},
	"linear-attention": {"linear-attention(num_heads=3)"},
	"retention":        {"retention(num_heads=3)"},
	"window-attention": {"window-attention(num_heads=2,window=5)"},
	"bigbird":          {"bigbird(num_heads=2,block=4,random=1)"},
	"bucket-attention": {"bucket-attention(num_heads=2,bucket=4)"},
	"spatten":          {"spatten(num_heads=2,block=8,keep=12)"},
	"s4d":              {"s4d", "s4d(channels=2)", "s4d(gate=false)", "s4d(bidirectional=true)"},
	"mamba":            {"mamba", "mamba(d_state=3,bcdt_norm=rms)"},
	"mamba2":           {"mamba2(d_state=8,headdim=12)", "mamba2(d_state=4,ngroups=2,norm_before_gate=true)"},
	"s4":               {"s4(l_max=64)", "s4(l_max=16)"},
	"dss":              {"dss(l_max=64)"},
	"gss":              {"gss"},
	"gmlp":             {"gmlp(l_max=64)", "gmlp(l_max=64,split=false)"},
	"gau":              {"gau(query_dim=8)"},
	"hyena":            {"hyena(l_max=64)", "hyena(l_max=16)", "hyena(l_max=64,order=3)"},
	"rg-lru":           {"rg-lru(num_heads=2)"},
	"rnn":              {"rnn"},
	"lmu":              {"lmu(order=8)"},
	"block-recurrent":  {"block-recurrent(num_heads=2,block=8,rows=3)"},
	"gated-conv":       {"gated-conv", "gated-conv(d_conv=1)"},
	"gated-deltanet":   {"gated-deltanet", "gated-deltanet(num_k_heads=2,num_v_heads=4,head_v_dim=5)"},
	"mamba3": {"mamba3(d_state=8,headdim=12)", "mamba3(d_state=4,ngroups=2,is_outproj_norm=true)",
		"mamba3(d_state=4,headdim=12,is_mimo=true,mimo_rank=3)"},
	"mlstm": {"mlstm(num_heads=2)", "mlstm(num_heads=3,qk_dim=6,v_dim=12)"},
	"slstm": {"slstm(num_heads=2)", "slstm(num_heads=3,out_proj=false)"},
	"":      {"h3+mamba2(d_state=8,headdim=12)", "h3+gelu", "gelu"},
}

const most, width = 37, 24

// newMixer is the mixer of a layer with random weights.
func newMixer(t *testing.T, entry string) mixer.Mixer {
	t.Helper()
	m := newBlocks(t, entry)[0].Mixer
	toymodel.Randomize(m, 0.2)
	return m
}

// newBlocks are layers of width 24.
func newBlocks(t *testing.T, layers string) []*model.Block {
	t.Helper()
	c := model.NetworkConfig{Model: model.DefaultConfig(), Vocab: 10, Outputs: 10, Everywhere: true, Pool: "last"}
	c.Model.DModel, c.Model.MLP, c.Model.Layers, c.Model.DState, c.Model.NumHeads = width, "none", layers, 8, 2
	n, err := model.NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	n.Init(7)
	return n.Blocks
}

// input is random numbers.
func input(length int) *tensor.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	x := make([]float32, length*width)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return tensor.FromSlice(x, length, width)
}

// TestSumOfAllPositionsIsTheMixer: y = b + Σ_s C[·,s], and every C[t,s] along a direction is what Along says, for every
// mixer that a configuration can name.
func TestSumOfAllPositionsIsTheMixer(t *testing.T) {
	for _, info := range model.Mixers() {
		if len(entries[info.Name]) == 0 {
			entries[info.Name] = []string{info.Name} // as it is
		}
	}
	for _, all := range entries {
		for _, entry := range all {
			t.Run(entry, func(t *testing.T) {
				exact(t, entry, 1)
				exact(t, entry, most)
			})
		}
	}
}

func exact(t *testing.T, entry string, length int) {
	t.Helper()
	exactly(t, newMixer(t, entry), length)
}

func exactly(t *testing.T, m mixer.Mixer, length int) {
	t.Helper()
	a, err := Of(autograd.NewTape(cpu.Backend{}), m, input(length))
	if err != nil {
		t.Fatal(err)
	}
	addsUp(t, a)
}

// addsUp fails a test unless y = b + Σ_s C[·,s], and Along and Norms say what each C[t,s] is.
func addsUp(t *testing.T, a *Action) {
	t.Helper()
	length := a.Length
	y, b := a.Output(), a.Constant()
	p := make([]float32, len(y))
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range p {
		p[i] = float32(rng.NormFloat64())
	}
	along, err := a.Along(context.Background(), p, Select{AllHeads})
	if err != nil {
		t.Fatal(err)
	}
	sum := make([]float64, len(y))
	for i, v := range b {
		sum[i] = float64(v)
	}
	norms, err := a.Norms(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	size, worst, largest := 0.0, 0.0, 0.0
	for s := range length {
		c := a.From(s, b)
		for i, v := range c {
			sum[i] += float64(v)
		}
		for to := range length {
			got, want := float64(along[to*length+s]), float64(0)
			for i, v := range c[to*width:][:width] {
				want += float64(v) * float64(p[to*width+i])
			}
			largest = max(largest, math.Abs(want))
			worst = max(worst, math.Abs(float64(norms[to*length+s]-norm(c[to*width:][:width]))))
			worst = max(worst, math.Abs(got-want))
		}
	}
	apart := 0.0
	for i, v := range y {
		size = max(size, math.Abs(float64(v)))
		apart = max(apart, math.Abs(sum[i]-float64(v)))
	}
	if worst > 1e-5*max(largest, size) {
		t.Errorf("of %d positions, what they add differs by %g from sums of up to %g", length, worst, largest)
	}
	if apart > 1e-5*size {
		t.Errorf("of %d positions, the sum differs by %g from outputs of up to %g", length, apart, size)
	}
}

// TestSumOfAllPositionsIsTheSharedBlock: the same of the block that layers of Zamba2 share, with the stream and what it
// began as for its values, in a layer that has the block's parameters and in one that only has adapters of its own.
func TestSumOfAllPositionsIsTheSharedBlock(t *testing.T) {
	for _, options := range []string{"num_heads=2,d_inner=20", "num_heads=4,d_inner=20,adapter_rank=3,bias=true," +
		"attention_adapters=true,rotary_emb_dim=4"} {
		layer := "zamba2-shared(" + options + ")>mamba2(d_state=8,headdim=12)"
		for i, b := range newBlocks(t, layer+","+layer) {
			toymodel.Randomize(b.Shared, 0.2)
			for _, length := range []int{1, most} {
				x := input(length)
				e := x.Floats()
				slices.Reverse(e)
				a, err := OfShared(autograd.NewTape(cpu.Backend{}), b.Shared, x, tensor.FromSlice(e, length, width))
				if err != nil {
					t.Fatalf("%s, layer %d: %v", options, i, err)
				}
				addsUp(t, a)
				if n := a.Heads(); n == 0 {
					t.Errorf("%s, layer %d: found no heads, want those of its attention", options, i)
				}
				want := []string{"the attention weights", "the size that the norm divides by", "gates"}
				if got := a.Held(); !slices.Equal(got, want) {
					t.Errorf("%s, layer %d: found %q held fixed, want %q", options, i, got, want)
				}
			}
		}
	}
}

// TestManyBlocksOfAScan: pairs of positions in neighboring blocks, in far ones, and in one.
func TestManyBlocksOfAScan(t *testing.T) { exact(t, "mamba(d_state=3)", 3*scanBlock+5) }

// TestManyBlocksOfHeads: likewise of a convolution of heads of several channels.
func TestManyBlocksOfHeads(t *testing.T) { exact(t, "h3(head_dim=4)", headBlock+5) }

// TestWhatIsHeldFixed is the table of what is held fixed of each mixer, on the way of its values.
func TestWhatIsHeldFixed(t *testing.T) {
	const (
		attention = "the attention weights"
		gates     = "gates"
		factor    = "the factor f(z)/z of activations"
		norm      = "the size that the norm divides by"
	)
	for entry, want := range map[string][]string{
		"h3":                                   {"the gates around the kernel"},
		"hyena(l_max=64)":                      {"the gates around the kernel"},
		"s4(l_max=64)":                         {factor, gates},
		"s4d(gate=false)":                      {factor},
		"dss(l_max=64)":                        {factor, gates},
		"gss":                                  {factor, gates},
		"gmlp(l_max=64)":                       {gates},
		"gated-conv":                           {gates},
		"attention(num_heads=2)":               {attention},
		"gated-attention(num_heads=2)":         {attention, gates},
		"mla(num_heads=2)":                     {attention},
		"window-attention(num_heads=2)":        {attention},
		"bigbird(num_heads=2)":                 {attention},
		"linear-attention(num_heads=2)":        {attention},
		"gau":                                  {attention, gates},
		"bucket-attention(num_heads=2)":        {"the buckets picked and the attention weights"},
		"spatten(num_heads=2)":                 {"the tokens left and the attention weights"},
		"retention(num_heads=2)":               {"the steps, and B and C", norm, gates},
		"mamba":                                {factor, "the steps Δ, and B and C", gates},
		"mamba2(d_state=8,headdim=12)":         {factor, "the steps, and B and C", gates, norm},
		"mamba3(d_state=8,headdim=12)":         {"the steps, and B and C", gates},
		"slstm(num_heads=2)":                   {"the gates, and the factor tanh(z)/z", norm},
		"mlstm(num_heads=2)":                   {"the gates, and the weights of what is written", norm, gates},
		"rg-lru(num_heads=2)":                  {"the gates of the recurrence", gates},
		"rnn":                                  {"the factor tanh(z)/z"},
		"lmu(order=8)":                         {"the factor tanh(z)/z"},
		"block-recurrent(num_heads=2,block=8)": {attention, gates, norm},
	} {
		a, err := Of(autograd.NewTape(cpu.Backend{}), newMixer(t, entry), input(most))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Held(); !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", entry, got, want)
		}
	}
}

// TestHeadsAddUp: what all heads add along a direction is what the layer adds, whatever its heads are.
func TestHeadsAddUp(t *testing.T) {
	for _, entry := range []string{"mamba", "mamba2(d_state=8,headdim=12)", "rg-lru(num_heads=2)", "gated-conv",
		"h3(head_dim=4)", "gau(query_dim=8)", "rnn", "h3+linear-attention(num_heads=2)"} {
		a, err := Of(autograd.NewTape(cpu.Backend{}), newMixer(t, entry), input(most))
		if err != nil {
			t.Fatal(err)
		}
		p := a.Output()
		all, err := a.Along(context.Background(), p, Select{AllHeads})
		if err != nil {
			t.Fatal(err)
		}
		largest := float32(0)
		for _, v := range all {
			largest = max(largest, v, -v)
		}
		for h := range a.Heads() {
			one, err := a.Along(context.Background(), p, Select{h})
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range one {
				all[i] -= v
			}
		}
		for i, v := range all {
			if max(v, -v) > 1e-5*largest {
				t.Errorf("%s, %d heads: %g of up to %g is left at %d", entry, a.Heads(), v, largest, i)
				break
			}
		}
	}
}

// TestWhatIsNotLinearIsAnError: the reason is said.
func TestWhatIsNotLinearIsAnError(t *testing.T) {
	for entry, want := range map[string]string{
		"spatten(num_heads=2,block=8,keep_heads=1)":                                               "keep_heads",
		"bucket-attention(num_heads=2,bucket=37,l_max=74,bidirectional=true,keys_as_values=true)": "keys_as_values",
	} {
		_, err := Of(autograd.NewTape(cpu.Backend{}), newMixer(t, entry), input(most))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: found error %v, want one about %s", entry, err, want)
		}
	}
}

package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/nn"
)

// networkConfig returns the configuration of a small network of the given layers.
func networkConfig(layers string) NetworkConfig {
	c := DefaultConfig()
	c.DModel, c.Layers, c.DState, c.NumHeads = 8, layers, 6, 2
	return NetworkConfig{Model: c, Channels: 2, Outputs: 3, Pool: "mean"}
}

func newNetwork(t *testing.T, c NetworkConfig) *Network {
	t.Helper()
	m, err := NewNetwork(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	return m
}

func normal(n int) []float32 {
	rng := rand.New(rand.NewPCG(5, 6))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// TestExamplesAreAlone checks that sequences of several lengths give the same numbers in a batch as alone, whether
// layers look ahead or not.
func TestExamplesAreAlone(t *testing.T) {
	const ch = 2
	lengths := []int{70, 1, 33}
	for _, layers := range []string{"h3,attention", "s4d(bidirectional=true)*2", "s4(bidirectional=true,l_max=40)",
		"mamba,hyena",
		"s4d(bidirectional=true),h3", "attention(bidirectional=true,rotary_emb_dim=4)*2",
		"bigbird(bidirectional=true,block=4)",
		"block-recurrent(block=8)"} {
		for _, pool := range Pools {
			if pool == "cls" && !strings.Contains(layers, "bidirectional=true)*2") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", layers, pool), func(t *testing.T) {
				c := networkConfig(layers)
				c.Pool = pool
				m := newNetwork(t, c)
				x := normal((70 + 1 + 33) * ch)
				got, at := m.Predict(Input{Lengths: lengths, Values: x}), 0
				for i, n := range lengths {
					alone := m.Predict(Input{Lengths: lengths[i : i+1], Values: x[at*ch:][:n*ch]})
					if !slices.Equal(alone, got[i*3:][:3]) {
						t.Errorf("sequence %d of %d positions: %v in the batch, %v alone", i, n, got[i*3:][:3], alone)
					}
					at += n
				}
			})
		}
	}
}

// TestStream checks that a stream, sample by sample and in chunks, has the outputs of the whole sequence: at each
// position, or for the sequence so far.
func TestStream(t *testing.T) {
	const l, ch = 40, 2
	for _, layers := range []string{"h3,s4d", "mamba", "attention,gss"} {
		for _, pool := range []string{"everywhere", "mean", "last"} {
			c := networkConfig(layers)
			c.Model.MaxPositions = l
			if c.Everywhere = pool == "everywhere"; !c.Everywhere {
				c.Pool = pool
			}
			m := newNetwork(t, c)
			x := normal(l * ch)
			s, err := m.NewStream()
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 1, 7, 1, 30} {
				at := s.Position()
				got, err := s.Values(x[at*ch:][:n*ch]...)
				if err != nil {
					t.Fatal(err)
				}
				want := m.Predict(Input{Lengths: []int{at + n}, Values: x[:(at+n)*ch]})
				want = want[len(want)-len(got):]
				if c.Everywhere && len(got) != 3*n || !c.Everywhere && len(got) != 3 {
					t.Fatalf("%s, %s: %d outputs of %d positions", layers, pool, len(got), n)
				}
				for k, v := range got {
					if math.Abs(float64(v-want[k])) > 1e-4*(1+math.Abs(float64(want[k]))) {
						t.Fatalf("%s, %s: after %d positions, output %d: %v, want %v", layers, pool, at+n,
							k, v, want[k])
					}
				}
			}
			if _, err := s.Values(1, 2); err == nil || !strings.Contains(err.Error(), "at most 40") {
				t.Errorf("a position too many: error %v", err)
			}
			if _, err := s.Values(1); err == nil {
				t.Error("half a row: no error")
			}
			if _, err := s.Tokens(1); err == nil {
				t.Error("a token: no error")
			}
		}
	}
	if _, err := newNetwork(t, networkConfig("s4d(bidirectional=true)")).NewStream(); err == nil {
		t.Error("a network that looks ahead: no error")
	}
}

// TestNetworkSteps checks a network whose last channel is the logarithm of the time since the previous position. It has
// the same outputs from a stream, position by position, as for the whole sequence. With times of 1 it equals a network
// without that channel; other times change its outputs. A network that cannot use times is refused.
func TestNetworkSteps(t *testing.T) {
	const l, ch = 40, 2
	for _, layers := range []string{"mamba", "s4d,mamba2", "mamba+attention", "s4d*2", "h3,gss", "dss"} {
		plain := networkConfig(layers)
		plain.Everywhere = true
		c := plain
		c.Steps, c.Channels = true, ch+1
		m, without := newNetwork(t, c), newNetwork(t, plain)
		x := normal(l * (ch + 1))
		even, inputs := slices.Clone(x), []float32(nil)
		for i := range l {
			even[i*(ch+1)+ch] = 0
			inputs = append(inputs, x[i*(ch+1):][:ch]...)
		}
		whole := func(m *Network, x []float32) []float32 { return m.Predict(Input{Lengths: []int{l}, Values: x}) }
		want := whole(m, x)
		same, exact := slices.Equal(whole(m, even), whole(without, inputs)), strings.HasPrefix(layers, "mamba")
		if exact && !same || slices.Equal(want, whole(m, even)) { // convolutions round differently
			t.Errorf("%s: steps of 1 change outputs, or others do not", layers)
		}
		s, err := m.NewStream()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 1, 7, 1, 30} {
			at := s.Position()
			got, err := s.Values(x[at*(ch+1):][:n*(ch+1)]...)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range got {
				if w := want[at*3+k]; math.Abs(float64(v-w)) > 1e-4*(1+math.Abs(float64(w))) {
					t.Fatalf("%s: position %d, output %d: found %v in a stream, %v of the whole", layers, at, k, v, w)
				}
			}
		}
	}
	c := networkConfig("s4")
	c.Steps = true
	if _, err := NewNetwork(c); err == nil || !strings.Contains(err.Error(), "want such as s4d, dss, gss") {
		t.Errorf("a network of s4 that goes by steps: %v", err)
	}
	c = networkConfig("mamba")
	c.Steps, c.Channels = true, 1
	if _, err := NewNetwork(c); err == nil || !strings.Contains(err.Error(), "steps: found 1 channels") {
		t.Errorf("a network of steps alone: %v", err)
	}
}

// TestScaleDt checks, with a slowly changing signal at full and at half rate, that doubling dt makes the outputs at the
// same times agree more closely.
func TestScaleDt(t *testing.T) {
	const l = 256
	c := networkConfig("s4d")
	c.Channels, c.Everywhere = 1, true
	c.Model.MLP = MLPNone
	slow := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(6 * float64(i) / float64(n)))
		}
		return x
	}
	full := newNetwork(t, c).Predict(Input{Lengths: []int{l}, Values: slow(l)})
	distance := func(factor float64) float64 {
		m := newNetwork(t, c)
		m.ScaleDt(factor)
		half := m.Predict(Input{Lengths: []int{l / 2}, Values: slow(l / 2)})
		sum := 0.0
		for i := range half {
			d := float64(half[i] - full[2*(i/3)*3+i%3])
			sum += d * d
		}
		return math.Sqrt(sum)
	}
	if scaled, same := distance(2), distance(1); scaled > same/4 {
		t.Errorf("distance from the outputs at full rate: %v with dt doubled, %v with dt as it was; want a quarter at "+
			"most", scaled, same)
	}
}

// TestScaleDtSilences checks that modes that would turn by more than half a circle per sample have C = 0 until the
// change is undone.
func TestScaleDtSilences(t *testing.T) {
	for _, layers := range []string{"s4d(bidirectional=true)", "h3"} {
		c := networkConfig(layers) // 3 modes with angles of 0, 0.6 π and 1.2 π per sample, which is -0.8 π
		c.Model.DtMin, c.Model.DtMax = 0.6, 0.6
		m := newNetwork(t, c)
		x := normal(40)
		before := m.Predict(Input{Lengths: []int{20}, Values: x})
		undo := m.ScaleDt(1.5)
		some := 0
		m.Params("", func(name string, p *nn.Param) {
			if last := name[strings.LastIndex(name, ".")+1:]; !strings.HasPrefix(last, "C") ||
				strings.Contains(name, "ssm_k_") {
				return
			}
			some++
			values := make([]float32, p.Len())
			p.CopyTo(values)
			for i, v := range values {
				if mode := i / 2 % 3; (v == 0) != (mode == 2) {
					t.Fatalf("%s: %s of mode %d is %v", layers, name, mode, v)
				}
			}
		})
		if some == 0 {
			t.Errorf("%s: found no C", layers)
		}
		undo()
		if after := m.Predict(Input{Lengths: []int{20}, Values: x}); !slices.Equal(before, after) {
			t.Errorf("%s: undone, the outputs are %v, want %v", layers, after, before)
		}
	}
}

func TestNetworkErrors(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *NetworkConfig)
		want   string
	}{
		"pool":         {func(c *NetworkConfig) { c.Pool = "max" }, `pool: found "max", want one of mean, last, cls`},
		"cls":          {func(c *NetworkConfig) { c.Pool = "cls" }, "no layer looks ahead"},
		"no outputs":   {func(c *NetworkConfig) { c.Outputs = 0 }, "outputs: found 0"},
		"two inputs":   {func(c *NetworkConfig) { c.Vocab = 5 }, "5 tokens and 2 channels"},
		"no input":     {func(c *NetworkConfig) { c.Channels = 0 }, "0 tokens and 0 channels"},
		"pairs":        {func(c *NetworkConfig) { c.Pairs, c.Everywhere = true, true }, "pairs"},
		"unknown name": {func(c *NetworkConfig) { c.Model.Layers = "h4" }, `found mixer "h4"`},
	} {
		c := networkConfig("h3")
		test.change(&c)
		if _, err := NewNetwork(c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	m := newNetwork(t, networkConfig("sinkhorn(bidirectional=true,bucket=4)"))
	if err := m.Takes(7); err == nil || !strings.Contains(err.Error(), "bucket-attention over 7 positions") {
		t.Errorf("half a bucket: error %v, want that it takes whole ones", err)
	}
	if err := m.Takes(8); err != nil {
		t.Error(err)
	}
}

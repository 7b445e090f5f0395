package mixer

import (
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGoldenRWKV7 compares with the official time mixing, in the first layer and in a later one, to which the first
// layer passes its values.
func TestGoldenRWKV7(t *testing.T) {
	golden.Of(t, "rwkv7")
	golden.Run(t, "14_rwkv7_layer", func(t *testing.T, c golden.Case) {
		cfg := rwkv7Config(c)
		of := Config{DModel: cfg.D}
		handed := ""
		if cfg.Layer > 0 {
			of.Earlier, handed = []string{"rwkv7"}, "v_first"
		}
		m, err := newRWKV7(of, rwkv7Options{cfg.HeadSize, cfg.W, cfg.A, cfg.V, cfg.G, 64e-5})
		if err != nil {
			t.Fatal(err)
		}
		turned := map[string]bool{"wkv": true}
		for _, low := range []string{"w", "a", "v", "g"} {
			turned["att."+low+"1"], turned["att."+low+"2"] = true, true
		}
		eachEngine(t, goldenBlock{Case: c, m: m, turned: turned, handed: handed, of: func(name string) []string {
			if low := strings.TrimSuffix(name, ".weight"); turned["att."+low] {
				name = low
			}
			return []string{"att." + name}
		}})
		if cfg.Layer == 0 {
			s, h := c.Shape("in/x"), &Handed{}
			rows := equalRows(s[0], s[1])
			rows.Handed = h
			m.Forward(newTape(), tensor.FromSlice(c.F32("in/x"), s[0]*s[1], s[2]), rows)
			golden.Close(t, "what is handed on", read(h.Values), c.F64("out/v_first"), 1e-5)
		}
	})
}

// TestGoldenChannelMix compares with the official channel mixing, with gradients.
func TestGoldenChannelMix(t *testing.T) {
	golden.Run(t, "14_rwkv7_layer", func(t *testing.T, c golden.Case) {
		const tol = 1e-5
		cfg := rwkv7Config(c)
		m := NewChannelMix(cfg.D, cfg.Inner, nn.InitStd)
		m.Params("", func(name string, p *nn.Param) { p.CopyFrom(c.F32("param/ffn." + name)) })
		s := c.Shape("in/x")
		x, tape := leaf(c.F32("in/x"), s[0]*s[1], s[2]), recording()
		y := m.Forward(tape, x, equalRows(s[0], s[1]))
		golden.Close(t, "y", read(y), c.F64("out/y_ffn"), tol)
		tape.BackwardFrom(y, tensor.FromSlice(c.F32("in/dy"), y.Shape()...))
		golden.Close(t, "gradient of x", gradient(tape, x), c.F64("grad_ffn/in/x"), tol)
		m.Params("", func(name string, p *nn.Param) {
			golden.Close(t, "gradient of "+name, gradient(tape, p.Tensor), c.F64("grad/ffn."+name), tol)
		})
	})
}

type rwkv7Case struct {
	D        int `json:"n_embd"`
	HeadSize int `json:"head_size"`
	Inner    int `json:"dim_ffn"`
	W        int `json:"decay_lora"`
	A        int `json:"aaa_lora"`
	V        int `json:"mv_lora"`
	G        int `json:"gate_lora"`
	Layer    int `json:"layer_id"`
}

func rwkv7Config(c golden.Case) (cfg rwkv7Case) {
	c.Config(&cfg)
	return cfg
}

// TestGiven checks that a layer that was given what an earlier layer passes on computes any positions of that sequence
// alone.
func TestGiven(t *testing.T) {
	const l = 9
	m := laterRWKV7(t)
	u, first := sequences(5, 1, l), sequences(6, 1, l)
	rows := equalRows(1, l)
	rows.Handed = &Handed{Values: first}
	want := read(m.Forward(newTape(), u, rows))
	sum := Parallel([]string{"a"}, []Mixer{Scaled(m, 1, 2)})
	for _, alone := range []Mixer{Given(m, rows.Handed), Given(sum, rows.Handed)} {
		y, _ := chunked(alone, u, []int{4, 1, 4}, never)
		if _, ok := alone.(*parallel); ok {
			for i := range y {
				y[i] /= 2
			}
		}
		near(t, "y", y, want, chunkTol)
	}
	if !Hands(Parallel([]string{"a", "b"}, []Mixer{m, firstRWKV7(t)})) || Hands(m) {
		t.Error("the first layer, and no other, hands something on")
	}
}

// later is a layer after the first one. It gets a copy of its own input as the first layer's values.
type later struct{ *RWKV7 }

func (m later) Forward(t *autograd.Tape, u *tensor.Tensor, r *Rows) *tensor.Tensor {
	with := *r
	with.Handed = &Handed{Values: t.Scale(u, 0.5)}
	return m.RWKV7.Forward(t, u, &with)
}

// newLaterRWKV7 returns a layer that is not the first one.
func newLaterRWKV7(cfg Config) (Mixer, error) {
	cfg.Earlier = []string{"attention", "h3+rwkv7"}
	m, err := RWKV7Info.New(cfg)
	if err != nil {
		return nil, err
	}
	return later{m.(*RWKV7)}, nil
}

// forgetting returns mixers whose decays start faster than the release's, since values kept for long accumulate
// rounding errors, which the random weights of these tests amplify. Their norm_eps is large, since at the first
// position the norm of each head would otherwise reduce to the sign of a single product r·k.
func forgetting(build func(Config) (Mixer, error)) func(Config) (Mixer, error) {
	return func(cfg Config) (Mixer, error) {
		m, err := build(cfg)
		if err == nil {
			m.Params("", func(name string, p *nn.Param) {
				if name == "w0" {
					p.Init = nn.Constant(2)
				}
			})
		}
		return m, err
	}
}

func laterRWKV7(t *testing.T) *RWKV7 {
	cfg := Config{Options: Options{"v_rank": "3", "head_size": "8"}}
	return variant{build: newLaterRWKV7, cfg: cfg}.mixer(t).(later).RWKV7
}

func firstRWKV7(t *testing.T) *RWKV7 {
	m := variant{build: RWKV7Info.New}.mixer(t).(*RWKV7)
	names := []string{}
	m.Params("", func(name string, _ *nn.Param) { names = append(names, name) })
	if slices.Contains(names, "v0") {
		t.Error("the first layer has v0")
	}
	return m
}

package mixer

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestGoldenMLSTM compares with the official mLSTM layer of xLSTM-7B.
func TestGoldenMLSTM(t *testing.T) {
	golden.Of(t, "mlstm")
	golden.Run(t, "14_mlstm_layer", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel   int     `json:"d_model"`
			NumHeads int     `json:"num_heads"`
			Keys     float64 `json:"qk_dim_factor"`
			Values   float64 `json:"v_dim_factor"`
			Cap      float64 `json:"gate_soft_cap"`
			Eps      float64 `json:"eps"`
			NormEps  float64 `json:"norm_eps"`
		}
		c.Config(&cfg)
		d := float64(cfg.DModel)
		m, err := MLSTMInfo.New(Config{DModel: cfg.DModel, NumHeads: cfg.NumHeads, Options: Options{
			"qk_dim": fmt.Sprint(d * cfg.Keys), "v_dim": fmt.Sprint(d * cfg.Values),
			"gate_soft_cap": fmt.Sprint(cfg.Cap), "eps": fmt.Sprint(cfg.Eps), "norm_eps": fmt.Sprint(cfg.NormEps)}})
		if err != nil {
			t.Fatal(err)
		}
		b := goldenBlock{Case: c, m: m}
		if c.Shape("in/x")[1] == 300 {
			b.tol = 4e-5 // the portable kernels add 300 positions one by one in float32
		}
		// Shifting all input gates together only changes the effect of ε and e^-m, so in the gradient of their bias the
		// positions cancel.
		eachEngine(t, b, "igate_preact.bias")
	})
}

// tirexBlock is TiRex's block around an sLSTM: x = x + slstm(norm(x)), x = x + ffn(norm(x)).
type tirexBlock struct {
	Mixer
	norm, normFFN *nn.RMSNorm
	ffn           *nn.Gated
}

func (m *tirexBlock) Forward(t *autograd.Tape, x *tensor.Tensor, r *Rows) *tensor.Tensor {
	_, y := m.norm.AddForward(t, x, nil)
	x, y = m.normFFN.AddForward(t, x, m.Mixer.Forward(t, y, r))
	return t.Add(x, m.ffn.Forward(t, y))
}

func (m *tirexBlock) Params(_ string, visit nn.Visitor) {
	m.norm.Params("norm_slstm.", visit)
	m.Mixer.Params("slstm_layer.", visit)
	m.normFFN.Params("norm_ffn.", visit)
	m.ffn.Gate.Params("ffn.proj_up_gate.", visit)
	m.ffn.FC1.Params("ffn.proj_up.", visit)
	m.ffn.FC2.Params("ffn.proj_down.", visit)
}

// TestGoldenSLSTM compares with the official block of TiRex, and also with the layer's outputs alone.
func TestGoldenSLSTM(t *testing.T) {
	golden.Of(t, "slstm")
	golden.Run(t, "14_slstm_block", func(t *testing.T, c golden.Case) {
		var cfg struct {
			DModel   int     `json:"embedding_dim"`
			NumHeads int     `json:"num_heads"`
			Rounded  float64 `json:"bfloat16_cell_deviation"`
		}
		c.Config(&cfg)
		m, err := SLSTMInfo.New(Config{DModel: cfg.DModel, NumHeads: cfg.NumHeads,
			Options: Options{"out_proj": "false"}})
		if err != nil {
			t.Fatal(err)
		}
		block := &tirexBlock{m, nn.NewRMSNorm(cfg.DModel, 1e-6), nn.NewRMSNorm(cfg.DModel, 1e-6),
			nn.NewGated(cfg.DModel, c.Shape("param/ffn.proj_up.weight")[0], engine.SiLU, 1)}
		block.ffn.WithoutBias()
		eachEngine(t, goldenBlock{Case: c, m: block})
		tape, s := newTape(), c.Shape("in/x")
		x, rows := tensor.FromSlice(c.F32("in/x"), s[0]*s[1], s[2]), equalRows(s[0], s[1])
		_, normed := block.norm.AddForward(tape, x, nil)
		golden.Close(t, "y of the layer", read(m.Forward(tape, normed, rows)), c.F64("out/layer_y"), mambaTol)
		// The release's cell rounds to bfloat16.
		y := read(block.Forward(tape, x, rows))
		golden.Close(t, "y in bfloat16", y, c.F64("out/y_bfloat16_cell"), 1.1*cfg.Rounded)
	})
}

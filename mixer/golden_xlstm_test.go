package mixer

import (
	"fmt"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestGoldenMLSTM: the official mLSTM layer of xLSTM-7B.
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
		// All input gates together change nothing but how ε and e^-m count: in the gradient of their bias the positions
		// cancel.
		onBothEngines(t, c, m, nil, "igate_preact.bias")
	})
}

package release

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/model"
)

// Tolerances of logits with rounded weights: of the root mean square of the errors, relative to that of the logits, and
// of the largest error, relative to the largest logit. The second grows with the number of logits. bf16 rounds the
// factors of a product by 2^-9/√3 = 0.11 % each, so that some 13 products one after the other make 0.6 %; random
// weights enlarge that up to twice. int8 rounds each factor by up to 1/254 of the largest of its group of 32, weights
// of int4 are off by 6 to 8 % mean squared, those of int4min by a tenth less: in models of random weights, through
// whose layers errors grow, that shows little more than that the logits are still those of the model.
const (
	bf16LogitRMS, bf16LogitWorst = 0.015, 0.03
	int8LogitRMS, int8LogitWorst = 0.05, 0.12
	int4LogitRMS, int4LogitWorst = 0.6, 1
)

// TestPackedGolden: the official model's logits, from its checkpoint rounded at loading.
func TestPackedGolden(t *testing.T) {
	golden.Run(t, "05_h3_lm", func(t *testing.T, c golden.Case) {
		s := c.Shape("in/ids")
		ids, want := ids32(c.I64("in/ids")), c.F64("out/logits")
		for p, tol := range map[engine.Precision]struct{ rms, worst float64 }{
			engine.Float32: {1e-5, 1e-4},
			// The worst of 62,400 logits of 05_h3_lm_long_a is at 0.018, which its mean square, the same as
			// elsewhere, shows to be one of many: 5,000 of them stay below 0.012.
			engine.BF16:    {bf16LogitRMS, bf16LogitWorst},
			engine.Int8:    {int8LogitRMS, int8LogitWorst},
			engine.Int4:    {int4LogitRMS, int4LogitWorst},
			engine.Int4Min: {int4LogitRMS, int4LogitWorst},
		} {
			m := goldenModel(t, c, "model.pt")
			if err := m.Pack(p); err != nil {
				t.Fatal(err)
			}
			tape := autograd.NewTape(cpu.Backend{})
			got := read(m.Logits(tape, m.Forward(tape, ids, model.EqualRows(s[0], s[1]))))
			golden.Close(t, p.String()+": logits", got, want, tol.worst)
			var errors, all float64
			for i, w := range want {
				errors, all = errors+(float64(got[i])-w)*(float64(got[i])-w), all+w*w
			}
			if rms := math.Sqrt(errors / all); rms > tol.rms {
				t.Errorf("%s: logits are off by %.3g in the mean square, want at most %.3g", p.String(), rms, tol.rms)
			}
		}
	})
}

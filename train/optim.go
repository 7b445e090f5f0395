package train

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/optim"
)

// Optim holds the optimizer's settings.
type Optim struct {
	LR          float64 `json:"lr" help:"peak learning rate"`
	SSMLR       float64 `json:"ssm_lr" help:"peak learning rate of log_dt, A, B and the shift's B; 0: lr"`
	Beta1       float64 `json:"beta1" help:"decay of the first moment"`
	Beta2       float64 `json:"beta2" help:"decay of the second moment"`
	Eps         float64 `json:"eps" help:"term added to the root of the second moment"`
	WeightDecay float64 `json:"weight_decay" help:"decoupled weight decay"`
	// DecayRule "release" decays all but log_dt, A, B and the shift's B, as the releases did. "matrices" leaves out
	// norms, biases and all SSM parameters.
	DecayRule  string  `json:"decay_rule" enum:"release,matrices" help:"what decays: all but A, B and dt, or matrices"`
	Clip       float64 `json:"clip" help:"limit of the global norm of the gradient; 0: no limit"`
	Schedule   string  `json:"schedule" enum:"cosine,linear,constant" help:"learning rate after the warmup"`
	Warmup     int     `json:"warmup" min:"0" help:"steps of linear warmup"`
	MinLRRatio float64 `json:"min_lr_ratio" help:"final learning rate as a fraction of the peak"`
}

func (o *Optim) Validate(p *config.Problems) {
	for _, f := range []struct {
		key    string
		v      float64
		lo, hi float64
	}{
		{"optim.lr", o.LR, 0, 10}, {"optim.ssm_lr", o.SSMLR, 0, 10}, {"optim.weight_decay", o.WeightDecay, 0, 100},
		{"optim.beta1", o.Beta1, 0, 0.999999}, {"optim.beta2", o.Beta2, 0, 0.9999999}, {"optim.eps", o.Eps, 0, 1},
		{"optim.clip", o.Clip, 0, 1e9}, {"optim.min_lr_ratio", o.MinLRRatio, 0, 1},
	} {
		if !(f.v >= f.lo && f.v <= f.hi) {
			p.Addf(f.key, "found %g, want a number from %g to %g", f.v, f.lo, f.hi)
		}
	}
	p.AtLeast("optim.warmup", o.Warmup, 0)
	p.OneOf("optim.decay_rule", o.DecayRule, decayRules)
	if err := (optim.Schedule{Kind: o.Schedule}).Validate(); err != nil {
		p.Addf("optim.schedule", "%v", err)
	}
}

var decayRules = []string{"release", "matrices"}

// groups returns the trained parameters with their learning rates and weight decays.
func (o *Optim) groups(m nn.Module) []optim.Param {
	var out []optim.Param
	m.Params("", func(name string, p *nn.Param) {
		if !p.NeedsGrad() {
			return
		}
		g := optim.Param{Name: name, Tensor: p.Tensor, LR: o.LR}
		if o.decays(p.Role) {
			g.Decay = o.WeightDecay
		}
		if p.Role == nn.SSMSystem && o.SSMLR > 0 {
			g.LR = o.SSMLR
		}
		out = append(out, g)
	})
	return out
}

func (o *Optim) decays(r nn.Role) bool {
	if o.DecayRule == "release" {
		return r != nn.SSMSystem
	}
	return r == nn.Weight || r == nn.Mixing || r == nn.Table
}

func (o *Optim) schedule(steps int) optim.Schedule {
	return optim.Schedule{Kind: o.Schedule, Warmup: o.Warmup, Total: steps, MinRatio: o.MinLRRatio}
}

// CheckPrecision adds a problem if precision is not one that training supports.
func CheckPrecision(p *config.Problems, precision string) {
	if precision != engine.Float32.String() && precision != engine.BF16.String() {
		p.Addf("precision", "found %q, want float32 or bf16", precision)
	}
}

package model

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/nn"
)

// expertsOptions are the options of a mixture of experts.
type expertsOptions struct {
	Experts    int     `json:"experts"`     // number of experts
	TopK       int     `json:"top_k"`       // number of experts that each position uses
	DInner     int     `json:"d_inner"`     // inner width of an expert
	DShared    int     `json:"d_shared"`    // inner width of the MLP that all positions share; 0 for none
	SharedGate bool    `json:"shared_gate"` // multiply the output of that MLP by a sigmoid for each position
	DLatent    int     `json:"d_latent"`    // channels that experts work on; 0 for all
	Sigmoid    bool    `json:"sigmoid"`     // sigmoids instead of a softmax give the scores
	ChoiceBias bool    `json:"choice_bias"` // add a constant for each expert to its score when choosing
	Normalize  bool    `json:"normalize"`   // divide the weights of the chosen experts by their sum
	Epsilon    float64 `json:"epsilon"`     // added to that sum
	Scale      float64 `json:"scale"`       // multiplies the weights
	Groups     int     `json:"groups"`      // number of groups of experts; the choice is limited to some of them
	TopGroups  int     `json:"top_groups"`  // number of groups to choose from
	Balance    float64 `json:"balance"`     // weight of the loss that balances the load of experts in training
}

var defaultExperts = expertsOptions{Experts: 8, TopK: 2, Normalize: true, Scale: 1}

// expertsSuffix is the suffix of the names of mixtures of experts.
const expertsSuffix = "-experts"

// maxBalance bounds the weight of the balancing loss. Published models use at most 0.02.
const maxBalance = 1000

// leastExpert is the minimum size of an expert's matrices in bytes.
const leastExpert = 64

// experts returns the total number of experts in the layers of a plan.
func (c *Config) experts(plan []string) (n int) {
	for _, entry := range plan {
		parts := splitOutside(entry, '/')
		if len(parts) == 1 {
			parts = append(parts, c.MLP)
		}
		for _, part := range parts {
			name, options, err := ParseEntry(part)
			if err != nil || !strings.HasSuffix(name, expertsSuffix) {
				continue
			}
			o := defaultExperts
			if config.Pairs(&o, mixer.Options{"experts": cmp.Or(options["experts"], strconv.Itoa(o.Experts))}) == nil {
				n += o.Experts
			}
		}
	}
	return n
}

// routed returns a function that creates mixtures of experts. The experts are MLPs, with or without a gate. The inner
// width of a configuration is the total over the experts that a position uses.
func routed(a engine.Activation, gates bool) func(feedForwardShape, mixer.Options) (mixer.Mixer, error) {
	return func(s feedForwardShape, given mixer.Options) (mixer.Mixer, error) {
		o := defaultExperts
		if err := config.Pairs(&o, given); err != nil {
			return nil, err
		}
		if _, ok := given["d_inner"]; !ok {
			o.DInner = max(1, s.inner/max(1, o.TopK))
		}
		var p config.Problems
		checkSize(&p, "d_inner", o.DInner, 1)
		checkSize(&p, "d_shared", o.DShared, 0)
		checkSize(&p, "d_latent", o.DLatent, 0)
		if !(o.Balance >= 0 && o.Balance <= maxBalance) {
			p.Addf("balance", "found %g, want 0 to %d", o.Balance, maxBalance)
		}
		if o.SharedGate && o.DShared == 0 {
			p.Addf("shared_gate", "found without d_shared, want both")
		}
		if err := p.Err(); err != nil {
			return nil, err
		}
		shape := nn.ExpertsShape{
			D: s.d, Inner: o.DInner, Count: o.Experts, Latent: o.DLatent, Gated: gates, Activation: a,
			Bias: o.ChoiceBias, Balance: o.Balance,
			Routing: engine.Routing{TopK: o.TopK, Sigmoid: o.Sigmoid, Normalize: o.Normalize, Eps: o.Epsilon,
				Scale:  o.Scale,
				Groups: o.Groups, TopGroups: o.TopGroups},
		}
		switch {
		case o.DShared > 0 && gates:
			m := nn.NewGated(s.d, o.DShared, a, s.outStd)
			m.WithoutBias()
			shape.Shared = m
		case o.DShared > 0:
			m := nn.NewMLP(s.d, o.DShared, s.outStd)
			m.FC1.Activation = a
			m.WithoutBias()
			shape.Shared = m
		}
		shape.SharedGate = o.SharedGate
		m, err := nn.NewExperts(shape, s.outStd)
		if err != nil {
			return nil, err
		}
		return mixer.Alone(m), nil
	}
}

package nn

import (
	"fmt"
	"sync"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Experts is a feed-forward part with many MLPs, its experts. Each position uses a few of them (arXiv:1701.06538):
//
//	y = Σ_chosen w_e·MLP_e(x) + Shared(x),   w = Route(Router(x))
//
// With a shared gate, as in Qwen2-MoE and Qwen3-Next, σ(SharedGate(x))·Shared(x) is added in place of Shared(x).
//
// Router has a row for each expert. Nothing is computed for experts that are not chosen.
type Experts struct {
	Router *Linear
	Bias   *Param // of the choice: a constant of the model, or nil
	// Narrow and Widen come before and after experts that work on fewer channels than the stream has. Otherwise they
	// are nil.
	Narrow, Widen *Linear
	Shared        FeedForward
	SharedGate    *Linear // (1, d), gate of the shared part, or nil
	Routing       engine.Routing
	// Balance is the weight of the balancing loss in training (see balance); 0 for none.
	Balance float64

	matrices func() *expertMatrices
	ones     func() *tensor.Tensor // (d, 1): copies a number of each position to all channels
}

// expertMatrices holds the matrices of each expert. gate is empty for MLPs without a gate.
type expertMatrices struct {
	fc1, gate, fc2 []*Param
	of             engine.Experts // the same matrices
}

// ExpertsShape is the shape of Experts.
type ExpertsShape struct {
	D, Inner, Count int // width of the stream, inner width of an expert, number of experts
	Latent          int // channels that the experts work on; 0 for all
	Gated           bool
	Activation      engine.Activation
	Bias            bool // whether there is a bias of the choice
	Routing         engine.Routing
	Balance         float64     // weight of the loss that balances the load of experts in training
	Shared          FeedForward // used by every position; nil for none
	SharedGate      bool        // multiply the output of Shared by a sigmoid for each position
}

// maxExperts limits the cost of an invalid or hostile configuration.
const maxExperts = 1024

// NewExperts returns experts. The initial deviation of their last layers is outStd.
func NewExperts(s ExpertsShape, outStd float64) (*Experts, error) {
	if s.Count < 1 || s.Count > maxExperts {
		return nil, fmt.Errorf("experts: found %d, want 1 to %d", s.Count, maxExperts)
	}
	if s.Inner < 1 || s.Latent < 0 {
		return nil, fmt.Errorf("found experts of %d inner channels and %d latent ones, want at least 1 and 0", s.Inner,
			s.Latent)
	}
	if err := autograd.CheckRouting(s.Routing, s.Count); err != nil {
		return nil, err
	}
	m := &Experts{Router: withoutBias(s.D, s.Count, InitStd), Shared: s.Shared, Routing: s.Routing,
		Balance: s.Balance}
	m.Router.Weight.Fine = true
	if s.Bias {
		m.Bias = NewBuffer(Constant(0), s.Count)
	}
	if s.Shared != nil && s.SharedGate {
		m.SharedGate = withoutBias(s.D, 1, InitStd)
		m.SharedGate.Weight.Fine = true
		m.ones = sync.OnceValue(func() *tensor.Tensor {
			one := tensor.New(s.D, 1)
			one.Fill(1)
			return one
		})
	}
	d := s.D
	if s.Latent > 0 {
		d = s.Latent
		m.Narrow, m.Widen = withoutBias(s.D, d, InitStd), withoutBias(d, s.D, outStd)
	}
	// The matrices are allocated on first use: checking a configuration does not need them.
	m.matrices = sync.OnceValue(func() *expertMatrices { return newExpertMatrices(s, d, outStd) })
	return m, nil
}

// newExpertMatrices returns the matrices of experts that work on d channels.
func newExpertMatrices(s ExpertsShape, d int, outStd float64) *expertMatrices {
	m := &expertMatrices{of: engine.Experts{Activation: s.Activation}}
	add := func(params *[]*Param, tensors *[]*tensor.Tensor, std float64, n, k int) {
		p := NewParam(Weight, Normal(std), n, k)
		*params, *tensors = append(*params, p), append(*tensors, p.Tensor)
	}
	for range s.Count {
		add(&m.fc1, &m.of.FC1, InitStd, s.Inner, d)
		if s.Gated {
			add(&m.gate, &m.of.Gate, InitStd, s.Inner, d)
		}
		add(&m.fc2, &m.of.FC2, outStd, d, s.Inner)
	}
	return m
}

// withoutBias returns a Linear layer without a bias.
func withoutBias(in, out int, std float64) *Linear {
	return &Linear{Weight: NewMatrix(Normal(std), out, in)}
}

// Forward maps (n, d) to (n, d).
func (m *Experts) Forward(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	var bias *tensor.Tensor
	if m.Bias != nil {
		bias = m.Bias.Tensor
	}
	scores := m.Router.Forward(t, x)
	weights := t.Route(scores, bias, m.Routing)
	if m.Balance > 0 && t.TakesAside() {
		t.Aside(m.balance(t, scores, weights), m.Balance)
	}
	y := x
	if m.Narrow != nil {
		y = m.Narrow.Forward(t, y)
	}
	y = t.Experts(y, weights, m.matrices().of)
	if m.Widen != nil {
		y = m.Widen.Forward(t, y)
	}
	if m.Shared != nil {
		y = t.Add(y, m.shared(t, x))
	}
	return y
}

// shared returns the output of the shared part, multiplied by its gate if there is one.
func (m *Experts) shared(t *autograd.Tape, x *tensor.Tensor) *tensor.Tensor {
	y := m.Shared.Forward(t, x)
	if m.SharedGate == nil {
		return y
	}
	return t.Gate(y, t.Linear(m.SharedGate.Forward(t, x), m.ones(), nil, engine.None), engine.Sigmoid)
}

// balance returns the loss of "Switch Transformers" (arXiv:2101.03961, §2.2), for positions that use several experts
// each, as in Mixtral. With f_e the fraction of the n positions that use expert e, and P_e the mean of its score,
//
//	E·Σ_e f_e·P_e,   P_e = 1/n·Σ_i softmax(z_i)_e or, of sigmoids, 1/n·Σ_i σ(z_ie)/Σ_k σ(z_ik)
//
// The minimum, TopK, is reached when all experts are used equally. No gradient flows through f.
func (m *Experts) balance(t *autograd.Tape, scores, weights *tensor.Tensor) *tensor.Tensor {
	n, e := weights.Rows(), weights.Dim(-1)
	sigmoid := m.Routing.Sigmoid
	all := t.Route(scores, nil, engine.Routing{TopK: e, Sigmoid: sigmoid, Normalize: sigmoid, Scale: 1})
	rows := &engine.Rows{}
	rows.Add(n, 0)
	mean := t.MeanPositions(all, rows)
	values, load := make([]float32, n*e), make([]float32, e)
	weights.CopyTo(values)
	for i, w := range values {
		if w != 0 {
			load[i%e] += float32(e) / float32(n)
		}
	}
	used := t.New(1, e)
	used.CopyFrom(load)
	return t.Linear(mean, used, nil, engine.None)
}

// Params visits the router, the matrices of one expert after another, and the shared part.
func (m *Experts) Params(prefix string, visit Visitor) {
	m.Router.Params(prefix+"router.", visit)
	if m.Bias != nil {
		visit(prefix+"router.bias", m.Bias)
	}
	if m.Narrow != nil {
		m.Narrow.Params(prefix+"narrow.", visit)
		m.Widen.Params(prefix+"widen.", visit)
	}
	all := m.matrices()
	for e := range all.fc1 {
		at := fmt.Sprintf("%sexperts.%d.", prefix, e)
		visit(at+"fc1.weight", all.fc1[e])
		if len(all.gate) > 0 {
			visit(at+"gate.weight", all.gate[e])
		}
		visit(at+"fc2.weight", all.fc2[e])
	}
	if m.Shared != nil {
		m.Shared.Params(prefix+"shared.", visit)
	}
	if m.SharedGate != nil {
		m.SharedGate.Params(prefix+"shared_gate.", visit)
	}
}

package bench

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/optim"
)

// shape is a language model with layers of H3, or of the given mixer, and attention layers at the indices in attention.
type shape struct {
	d, layers, vocab, heads int
	attention               []int
	mixer                   string
	embedDrop, attnDrop     float64
}

// hybridAndGPT returns the shapes of H3-125M, a hybrid with one layer of attention, and of a GPT of its size.
func hybridAndGPT(shrink int) (hybrid, gpt shape) {
	hybrid = shape{d: 768 / shrink, layers: 12, vocab: 50264 / shrink, heads: 12, attention: []int{6}}
	gpt = hybrid
	gpt.attention = gpt.all()
	return hybrid, gpt
}

// all returns the layers of a GPT: attention everywhere. The GPT has no embedding of positions, whose cost is
// negligible.
func (s shape) all() []int {
	out := make([]int, s.layers)
	for i := range out {
		out[i] = i
	}
	return out
}

// build returns the model with random weights.
func (s shape) build() (*model.Model, error) {
	c := model.DefaultConfig()
	c.DModel, c.NLayer, c.VocabSize, c.DState = s.d, s.layers, s.vocab, dState
	c.NumHeads, c.AttnIdx = s.heads, s.attention
	c.EmbedDropout, c.AttnDropout = s.embedDrop, s.attnDrop
	if s.mixer != "" {
		c.Mixer = s.mixer
	}
	return initialized(c)
}

// initialized returns the model of a configuration with random weights.
func initialized(c model.Config) (*model.Model, error) {
	m, err := model.New(c)
	if err != nil {
		return nil, err
	}
	m.Init(1)
	return m, nil
}

// productFlops returns the number of floating-point operations of the matrix products per token, forward.
func (s shape) productFlops() float64 {
	d := float64(s.d)
	return float64(s.layers)*24*d*d + 2*d*float64(s.vocab)
}

// stepper makes updates of a model on one batch of random tokens.
type stepper struct {
	m     *model.Model
	opt   *optim.AdamW
	tape  *autograd.Tape
	grads *autograd.Gradients
	rows  *model.Rows
	in    []int32 // (b, l)
	next  []int32 // (b, l), the tokens after each
	seed  int     // number of steps so far
}

func newStepper(m *model.Model, b, l int) *stepper {
	rng := rand.New(rand.NewPCG(1, 6))
	s := &stepper{m: m, tape: m.NewTape(), rows: model.EqualRows(b, l)}
	for range b {
		ids := randomIDs(rng, l+1, m.Config.VocabSize)
		s.in, s.next = append(s.in, ids[:l]...), append(s.next, ids[1:]...)
	}
	var params []optim.Param
	add := func(name string, p *nn.Param) {
		q := optim.Param{Name: name, Tensor: p.Tensor, LR: 6e-4}
		if p.Role != nn.SSMSystem {
			q.Decay = 0.1
		}
		if p.NeedsGrad() {
			params = append(params, q)
		}
	}
	m.Params("", add)
	if a := m.Adapter(); a != nil {
		a.Params("", add)
	}
	s.opt = optim.NewAdamW(s.tape.Backend(), params, 0.9, 0.999, 1e-8, 1)
	s.grads = autograd.NewGradients(s.tape.Backend(), s.opt.Tensors()...)
	s.tape.Collect(s.grads)
	return s
}

func randomIDs(rng *rand.Rand, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}

// gradient computes the loss and adds its gradient.
func (s *stepper) gradient() error {
	t := s.tape
	t.Reset()
	t.Record(true)
	s.seed++
	s.rows.Train(engine.RowSeeds(1, s.seed, 0, s.rows.Count())...)
	out := s.m.Loss(t, s.m.Forward(t, s.in, s.rows), s.next)
	var loss [1]float32
	out.CopyTo(loss[:])
	if v := float64(loss[0]); math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("the loss became %v, want a finite one", v)
	}
	t.Backward(out)
	return nil
}

// bytes returns the memory of the weights, of gradients and moments of the trained ones, and of a step.
func (s *stepper) bytes() int {
	const gradient, moments = 4, 8
	n := s.m.Bytes() + s.tape.Bytes()
	for _, g := range s.grads.Each() {
		n += (gradient + moments) * g.Len()
	}
	return n
}

// step makes an update: forward, backward, clipping, AdamW.
func (s *stepper) step() error {
	if err := s.gradient(); err != nil {
		return err
	}
	if norm := s.opt.Step(s.grads.Each(), 1, 1); math.IsNaN(norm) || math.IsInf(norm, 0) {
		return fmt.Errorf("the gradient's norm became %v, want a finite one", norm)
	}
	return nil
}

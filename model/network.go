package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Pools are the ways to reduce a sequence to one vector: the mean of its positions, the last position, or the position
// of a learned token inserted before the sequence. The token needs a backbone that looks ahead.
var Pools = []string{"mean", "last", "cls"}

// NetworkConfig is the shape of a Network. Its backbone may look ahead.
type NetworkConfig struct {
	Model    Config `json:"model"`
	Vocab    int    `json:"vocab"`    // number of input tokens; 0 for numbers as input
	Channels int    `json:"channels"` // input numbers at each position; 0 for tokens as input
	Outputs  int    `json:"outputs"`  // output numbers, such as scores of classes
	// Everywhere requests an output at every position instead of one for the sequence.
	Everywhere bool   `json:"everywhere"`
	Pairs      bool   `json:"pairs"` // an example is two sequences with one output for both
	Pool       string `json:"pool"`  // one of Pools, for one output per sequence
	// Steps marks the last channel as time instead of input: it is the natural logarithm of the time since the previous
	// position, in time steps of the data. Mixers that support it (see mixer.Rows) use it in their recurrences, so
	// irregularly sampled data is discretized at its own times: Δ of Mamba, and dt of S4D, DSS, GSS and H3, is
	// multiplied by the time.
	Steps bool `json:"steps,omitempty"`

	// Signal describes the data that the network was trained on, nil if unknown. It does not change what the network
	// computes.
	Signal *Signal `json:"signal,omitempty"`
}

// Network maps sequences of tokens or of rows of numbers to numbers, for each position or for the whole sequence. It is
// a model for classification, forecasting and streams. If it predicts tokens from tokens, the head shares the weights
// of the embedding, as in a language model.
//
// For two sequences a and b the head sees a, b and a⊙b through one hidden layer, as in the Long Range Arena's retrieval
// task (arXiv:2011.04006). That task's fourth input, the difference, is a linear map of a and b.
type Network struct {
	Config    NetworkConfig
	Embedding *nn.Embedding // of tokens, or nil
	Encoder   *nn.Linear    // of numbers, or nil
	Positions *nn.Embedding // learned positions, or nil
	Class     *nn.Embedding // the token before the sequence, for the pool "cls", or nil
	Backbone
	Parameters
	Joint *nn.Linear // the hidden layer over a pair, or nil
	Head  *nn.Linear // nil if it shares the embedding's weights
}

// NewNetwork returns a network whose parameters have no values yet.
func NewNetwork(cfg NetworkConfig) (*Network, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &cfg.Model
	bb, err := newBackbone(c, true)
	if err != nil {
		return nil, err
	}
	m := &Network{Config: cfg, Positions: c.newPositions(), Backbone: bb}
	m.Parameters = Parameters{of: m, backbone: &m.Backbone, shape: &m.Config.Model, config: m.configFile}
	if cfg.Pool == "cls" && !cfg.Everywhere {
		m.Class = nn.NewEmbedding(1, c.DModel)
		if !m.LooksAhead() {
			return nil, fmt.Errorf("pool: found cls, but no layer looks ahead, so that the first position sees " +
				"nothing; want mean or last, or such as s4d(bidirectional=true)")
		}
	}
	if cfg.Vocab > 0 {
		m.Embedding = nn.NewEmbedding(c.PaddedVocab(), c.DModel)
	} else {
		m.Encoder = newEncoder(cfg.inputs(), c.DModel)
	}
	if cfg.Steps && !m.goesBySteps() {
		return nil, fmt.Errorf("steps: found layers %s, none of which goes by the times of positions; want such as "+
			"s4d, dss, gss, h3 or mamba among them", c.Layers)
	}
	if cfg.Pairs {
		m.Joint = nn.NewLinear(3*c.DModel, c.DModel, 1/math.Sqrt(float64(3*c.DModel)))
		m.Joint.Activation = engine.GeluTanh
	}
	if !cfg.tied() {
		m.Head = nn.NewLinear(c.DModel, cfg.Outputs, nn.InitStd)
	}
	if _, err := shapesOf(m); err != nil {
		return nil, err
	}
	return m, nil
}

// newEncoder returns the linear map of rows of numbers to the stream. Its bias is initialized at random, too: with a
// bias of 0 the first norm would preserve only the sign of a single number.
func newEncoder(channels, d int) *nn.Linear {
	std := 1 / math.Sqrt(float64(channels))
	m := nn.NewLinear(channels, d, std)
	m.Bias = nn.NewParam(nn.Bias, nn.Normal(std), d)
	return m
}

// inputs returns the number of channels of the encoder's input.
func (c *NetworkConfig) inputs() int {
	if c.Steps {
		return c.Channels - 1
	}
	return c.Channels
}

// tied reports whether the head shares the weights of the embedding.
func (c *NetworkConfig) tied() bool { return c.Everywhere && c.Vocab > 0 && c.Outputs == c.Vocab }

func (c *NetworkConfig) validate() error {
	var p config.Problems
	c.Model.VocabSize = max(1, c.Vocab)
	p.Add(c.Model.ValidateEncoder())
	if (c.Vocab > 0) == (c.Channels > 0) {
		p.Addf("vocab", "found %d tokens and %d channels, want one of the two", c.Vocab, c.Channels)
	}
	checkSize(&p, "vocab", c.Vocab, 0)
	checkSize(&p, "channels", c.Channels, 0)
	checkSize(&p, "outputs", c.Outputs, 1)
	if !slices.Contains(Pools, c.Pool) {
		p.Addf("pool", "found %q, want one of %s", c.Pool, strings.Join(Pools, ", "))
	}
	if c.Signal != nil {
		c.Signal.validate(c, &p)
	}
	if c.Steps && (c.Channels < 2 || c.Pool == "cls" && !c.Everywhere) {
		p.Addf("steps", "found %d channels and the pool %s, want a channel besides that of the steps, and another "+
			"pool than cls", c.Channels, c.Pool)
	}
	if c.Pairs && c.Everywhere {
		p.Addf("pairs", "found an output for each position of a pair, want one for the pair")
	}
	return p.Err()
}

// Params visits every parameter. Parameters that a language model also has get the same names.
func (m *Network) Params(prefix string, visit nn.Visitor) {
	names := m.Config.Model.naming()
	if m.Embedding != nil {
		m.Embedding.Params(prefix+names.embedding, visit)
	}
	if m.Encoder != nil {
		m.Encoder.Params(prefix+"encoder.", visit)
	}
	if m.Positions != nil {
		m.Positions.Params(prefix+names.positions, visit)
	}
	if m.Class != nil {
		m.Class.Params(prefix+"class.", visit)
	}
	m.params(prefix, names, visit)
	if m.Joint != nil {
		m.Joint.Params(prefix+"joint.", visit)
	}
	if m.Head != nil {
		m.Head.Params(prefix+"head.", visit)
	}
}

// MaxLength returns the length of the longest sequence that the network takes, or 0 if there is no limit.
func (m *Network) MaxLength() int {
	most := shorter(m.maxLength(), m.Config.Model.MaxPositions)
	if m.Class != nil && most > 0 {
		most--
	}
	return most
}

// Input holds sequences of any lengths, one after another.
type Input struct {
	Lengths []int     // number of positions of each sequence
	Tokens  []int32   // Σ Lengths tokens, or
	Values  []float32 // (Σ Lengths, channels)

	// Seeds are the seeds of dropout, one for each sequence; nil for none.
	Seeds []uint64
}

// Forward maps sequences with n positions in total to (n, outputs), or to (sequences, outputs) if there is one output
// per sequence. For pairs the input holds all first sequences, then all second ones, and the result has one output for
// each pair.
func (m *Network) Forward(t *autograd.Tape, in Input) *tensor.Tensor {
	r := &Rows{}
	for _, l := range in.Lengths {
		r.Add(l, nil)
	}
	if in.Seeds != nil {
		r.Train(in.Seeds...)
	}
	hidden, r := m.hidden(t, in, r)
	if !m.Config.Everywhere {
		hidden = m.pool(t, hidden, r)
	}
	return m.output(t, hidden)
}

// Predict returns the result of Forward, computed on a new tape.
func (m *Network) Predict(in Input) []float32 {
	y := m.Forward(m.NewTape(), in)
	return y.Floats()
}

// output applies the head to positions of the backbone's output, or to the vectors from pool.
func (m *Network) output(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	t.Scope("head")
	if m.Joint != nil {
		n := hidden.Dim(0) / 2
		a, b := t.Slice(hidden, 0, n), t.Slice(hidden, n, n)
		hidden = m.Joint.Forward(t, t.Join(a, b, t.Mul(a, b)))
	}
	if m.Head == nil {
		return t.Linear(hidden, m.Embedding.Weight.Tensor, nil, engine.None)
	}
	return m.Head.Forward(t, hidden)
}

// hidden maps rows to the output of the backbone. It returns the rows of the output, which include the class token if
// there is one.
func (m *Network) hidden(t *autograd.Tape, in Input, r *Rows) (*tensor.Tensor, *Rows) {
	t.Scope("encoder")
	var x *tensor.Tensor
	if m.Embedding != nil {
		x = m.Config.Model.embed(t, m.Embedding, in.Tokens)
	} else {
		values := in.Values
		if m.Config.Steps {
			values, r.steps = m.apart(values)
		}
		v := t.New(r.Total(), m.Config.inputs())
		v.CopyFrom(values)
		x = m.Encoder.Forward(t, v)
	}
	if m.Class != nil {
		class, more := EqualRows(r.Count(), 1), &Rows{}
		for i := range r.Count() {
			more.Add(r.at.Len(i)+1, nil)
		}
		if in.Seeds != nil {
			more.Train(in.Seeds...)
		}
		x = t.Append(m.Class.Forward(t, make([]int32, r.Count())), x, &class.at, &r.at)
		r = more
	}
	x = t.Dropout(m.enter(t, m.Positions, x, r), m.Config.Model.EmbedDropout, &r.at)
	return m.run(t, x, r, m.Config.Model.ResidDropout), r
}

// apart splits rows of numbers into inputs and steps.
func (m *Network) apart(rows []float32) (inputs, steps []float32) {
	for ch := m.Config.Channels; len(rows) > 0; rows = rows[ch:] {
		inputs = append(inputs, rows[:ch-1]...)
		steps = append(steps, float32(math.Exp(float64(rows[ch-1]))))
	}
	return inputs, steps
}

// pool reduces each row to one vector: (n, d) → (rows, d).
func (m *Network) pool(t *autograd.Tape, hidden *tensor.Tensor, r *Rows) *tensor.Tensor {
	switch {
	case m.Class != nil:
		at, one := make([]int, r.Count()), make([]int, r.Count())
		for i := range one {
			one[i] = 1
		}
		return t.Cut(hidden, &r.at, at, one)
	case m.Config.Pool == "mean":
		return t.MeanPositions(hidden, &r.at)
	}
	return t.Last(hidden, &r.at)
}

// Takes returns an error if the network does not take sequences of length l.
func (m *Network) Takes(l int) error {
	if most := m.MaxLength(); most > 0 && l > most {
		return fmt.Errorf("found a sequence of %d positions, but the network takes at most %d", l, most)
	}
	if m.Class != nil {
		l++
	}
	for i, b := range m.Blocks {
		if n := b.traits().Multiple; n > 0 && l%n != 0 {
			return fmt.Errorf("layer %d: found a %s over %d positions, which takes multiples of %d only", i, b.Kind, l,
				n)
		}
	}
	return nil
}

// Package anatomy analyzes a model: its architecture, parameters, time constants, kernels and poles, compared with
// those of an earlier checkpoint, and how long its parts take.
package anatomy

import (
	"context"
	"fmt"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/explain/memory"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// Report describes a model: its systems, its parameters, and how long its parts take.
type Report struct {
	Name   string // label of the model on pages: "now", "before"
	Shape  *model.Config
	Seen   string // description of the short run's input
	Layers []Layer
	Params []ParamShare // by kind of part, in the order of the model
	Times  []PartTime

	tied bool
}

// Layer describes one layer.
type Layer struct {
	Kind    string
	Shared  bool
	MLP     string // description, "" for none
	Kernels []Kernel
	Systems []System
	Norms   []ParamNorm
}

// Kernel holds impulse responses of systems that are the same at every position, (Taps, Channels).
type Kernel struct {
	Name           string
	Taps, Channels int
	K              []float32
}

// System describes the recurrence of a part of a layer's state.
type System struct {
	Part string
	Rule string
	// Dt holds the steps of the channels, and Poles the eigenvalues of A, if the parameters determine them. For S4 they
	// are those of some channels, otherwise those of all.
	Dt    []float64
	Poles []complex128
	// Discrete holds the eigenvalues of the matrix that multiplies the state from token to token, as the model computes
	// it. If they depend on the token, they are means over the tokens of the short run.
	Discrete []complex128
	Selects  bool // Discrete depends on the token
}

// TimeConstants returns -1/ln|ā| of the discrete poles, in tokens, in ascending order. After that time a mode has
// decayed to 1/e.
func (s *System) TimeConstants() []float64 {
	var out []float64
	for _, z := range s.Discrete {
		out = append(out, memory.HalfLife(-math.Log(max(cmplx.Abs(z), 1e-30)))/math.Ln2)
	}
	slices.Sort(out)
	return out
}

// ParamNorm is the root mean square of one parameter.
type ParamNorm struct {
	Name string // without the layer's prefix
	RMS  float64
	N    int
}

// ParamShare is the number of parameters in the parts of one kind.
type ParamShare struct {
	Kind  string
	Layer int // -1 for parts outside of layers
	N     int
}

// PartTime is the time that one part of the model takes in the short run.
type PartTime struct {
	Name  string
	Layer int // -1 for parts outside of layers
	Time  time.Duration
}

// Subject is a model to analyze.
type Subject struct {
	shape    *model.Config
	backbone *model.Backbone
	module   nn.Module
	most     int // maximum number of positions, 0 for any
	unit     int // the length of a sequence must be a multiple of it; 0 or 1 for any length
	taps     int // of kernels, 0 for KernelTaps
	run      func(t *autograd.Tape, b *model.Backbone, l int)
	seen     string
}

// OfModel returns the Subject of a language model. The short run reads ids, or random tokens if there are none.
func OfModel(m *model.Model, ids []int32) *Subject {
	s := &Subject{shape: &m.Config, backbone: &m.Backbone, module: m, most: m.MaxLength(), seen: "its own tokens"}
	if len(ids) == 0 {
		ids, s.seen = randomTokens(m.Config.VocabSize, shortRun), "random tokens"
	}
	s.run = func(t *autograd.Tape, b *model.Backbone, l int) {
		with := model.Model{Config: m.Config, Embedding: m.Embedding, Positions: m.Positions, Backbone: *b,
			Head: m.Head}
		l = min(l, len(ids))
		hidden := with.Forward(t, ids[:l], model.EqualRows(1, l))
		with.LastLogits(t, hidden, model.EqualRows(1, l))
		t.Show("head", hidden)
	}
	s.most = shorterOf(s.most, len(ids))
	return s
}

// OfNetwork returns the Subject of a network. The short run reads random tokens, or white noise.
func OfNetwork(m *model.Network) *Subject {
	s := &Subject{shape: &m.Config.Model, backbone: &m.Backbone, module: m, most: m.MaxLength(), seen: "white noise"}
	for _, b := range m.Blocks {
		if n := b.Mixer.Traits().Multiple; n > 1 {
			s.unit = max(s.unit, 1) * n
		}
	}
	if m.Config.Vocab > 0 {
		s.seen = "random tokens"
	}
	s.run = func(t *autograd.Tape, b *model.Backbone, l int) {
		with := *m
		with.Backbone = *b
		rows := 1
		if m.Config.Pairs {
			rows = 2
		}
		in := model.Input{}
		for range rows {
			in.Lengths = append(in.Lengths, l)
		}
		if m.Config.Vocab > 0 {
			in.Tokens = randomTokens(m.Config.Vocab, rows*l)
		} else {
			rng := rand.New(rand.NewPCG(5, 6))
			in.Values = make([]float32, rows*l*m.Config.Channels)
			for i := range in.Values {
				in.Values[i] = float32(rng.NormFloat64())
			}
		}
		t.Show("head", with.Forward(t, in))
	}
	return s
}

func shorterOf(a, b int) int {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// shortRun is the number of positions in the run that measures times and decays.
const shortRun = 256

func randomTokens(vocab, n int) []int32 {
	rng := rand.New(rand.NewPCG(5, 6))
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N(int32(vocab))
	}
	return ids
}

// length returns the number of positions in the short run: shortRun, or the model's maximum if that is less.
func (s *Subject) length() int {
	l := shortRun
	if s.most > 0 {
		l = min(l, s.most)
	}
	if s.unit > 1 {
		l = max(1, l/s.unit) * s.unit
	}
	return l
}

// KernelTaps is the default number of kernel taps in a Report.
const KernelTaps = 512

// Taps sets the number of kernel taps in a Report.
func (s *Subject) Taps(n int) { s.taps = n }

// Examine analyzes a model. If timed is true, it measures how long the parts take. It returns an error if weights are
// not numbers or if ctx is done.
func (s *Subject) Examine(ctx context.Context, name string, timed bool) (*Report, error) {
	a := &Report{Name: name, Shape: s.shape, Seen: s.seen, tied: !s.shape.UntiedHead}
	var wrong error
	s.module.Params("", func(n string, p *nn.Param) {
		if wrong == nil {
			wrong = a.count(s.backbone, n, p)
		}
	})
	if wrong != nil {
		return nil, wrong
	}
	if err := s.systems(ctx, a); err != nil {
		return nil, err
	}
	if timed {
		s.time(a)
	}
	return a, ctx.Err()
}

// count adds a parameter to the counts and computes its size.
func (a *Report) count(bb *model.Backbone, name string, p *nn.Param) error {
	for len(a.Layers) < len(bb.Blocks) {
		b := bb.Blocks[len(a.Layers)]
		a.Layers = append(a.Layers, Layer{Kind: b.Kind, Shared: b.Shared != nil, MLP: secondWords(b.MLP)})
	}
	layer, kind, rest := partAt(bb, name)
	sum := 0.0
	for _, x := range p.Tensor.Floats() {
		sum += float64(x) * float64(x)
	}
	if math.IsNaN(sum) || math.IsInf(sum, 0) {
		return fmt.Errorf("found weights in %s that are not finite: was the run that wrote them stopped halfway?", name)
	}
	if layer >= 0 {
		a.Layers[layer].Norms = append(a.Layers[layer].Norms,
			ParamNorm{rest, math.Sqrt(sum / float64(max(1, p.Len()))), p.Len()})
	}
	for i := range a.Params {
		if a.Params[i].Kind == kind && a.Params[i].Layer == layer {
			a.Params[i].N += p.Len()
			return nil
		}
	}
	a.Params = append(a.Params, ParamShare{kind, layer, p.Len()})
	return nil
}

// partAt returns the layer of a parameter, -1 for none, the kind of the part it belongs to, and its name within the
// layer.
func partAt(bb *model.Backbone, name string) (layer int, kind, rest string) {
	after, ok := strings.CutPrefix(name, "backbone.layers.")
	if !ok {
		switch {
		case strings.Contains(name, "embedding"), strings.HasPrefix(name, "encoder."),
			strings.HasPrefix(name, "class."):
			return -1, "embedding", name
		case strings.HasPrefix(name, "lm_head."), strings.HasPrefix(name, "head."), strings.HasPrefix(name, "joint."):
			return -1, "head", name
		}
		return -1, "norms", name
	}
	index, rest, _ := strings.Cut(after, ".")
	layer, err := strconv.Atoi(index)
	if err != nil || layer < 0 || layer >= len(bb.Blocks) {
		return -1, "norms", name
	}
	switch {
	case strings.HasPrefix(rest, "mlp."):
		return layer, "MLP", rest
	case strings.HasPrefix(rest, "shared."):
		return layer, "shared block", rest
	case strings.HasPrefix(rest, "mixer."):
		return layer, bb.Blocks[layer].Kind, rest
	}
	return layer, "norms", rest
}

// secondWords describes the second part of a block, which may be nil.
func secondWords(m mixer.Mixer) string {
	switch m := m.(type) {
	case nil:
		return ""
	case *mixer.ChannelMix:
		return fmt.Sprintf("channel mix %d", m.Key.Weight.Dim(0))
	}
	return mlpWords(mixer.PartOf(m))
}

// mlpWords describes a feed-forward part.
func mlpWords(m nn.FeedForward) string {
	switch m := m.(type) {
	case *nn.MLP:
		return fmt.Sprintf("MLP %d", m.FC1.Weight.Dim(0))
	case *nn.Gated:
		return fmt.Sprintf("gated MLP %d", m.FC1.Weight.Dim(0))
	case *nn.Experts:
		text := fmt.Sprintf("%d of %d experts", m.Routing.TopK, m.Router.Weight.Dim(0))
		if m.Shared != nil {
			text += "\nand " + mlpWords(m.Shared)
		}
		return text
	}
	return "MLP"
}

// time measures the parts of the model in the short run by the names that the tape shows. It keeps the minimum of
// several runs.
func (s *Subject) time(a *Report) {
	const runs = 4
	t := s.backbone.NewTape()
	var last time.Time
	at := 0
	t.Observe(func(name string, _ *tensor.Tensor) {
		now := time.Now()
		took := now.Sub(last)
		last = now
		if at == len(a.Times) {
			layer := -1
			if after, ok := strings.CutPrefix(name, "backbone.layers."); ok {
				index, part, _ := strings.Cut(after, ".")
				layer, _ = strconv.Atoi(index)
				name = part
			}
			if name == "backbone.ln_f" {
				name = "final norm"
			}
			a.Times = append(a.Times, PartTime{name, layer, took})
		}
		a.Times[at].Time = min(a.Times[at].Time, took)
		at++
	})
	l := s.length()
	for range runs {
		at, last = 0, time.Now()
		s.run(t, s.backbone, l)
		t.Reset()
	}
}

// Comparable returns an error unless two models have the same layers.
func (a *Report) Comparable(b *Report) error {
	if len(a.Layers) != len(b.Layers) {
		return fmt.Errorf("found %d layers, want the %d of the model that it is compared with", len(b.Layers),
			len(a.Layers))
	}
	for i := range a.Layers {
		if a.Layers[i].Kind != b.Layers[i].Kind {
			return fmt.Errorf("found a %s in layer %d, want the %s of the model that it is compared with",
				b.Layers[i].Kind, i, a.Layers[i].Kind)
		}
	}
	return nil
}

// Package verify compares a model's results on its engine with the results by definition, in float64, on the reference
// engine. It also compares the three forms of a model (a whole sequence, chunks, step by step) with each other. It
// checks the outputs of every layer, logits, loss, gradients and states.
package verify

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// The largest relative differences that rounding to float32 explains. Sums of a few thousand products lose about 1e-6,
// and layers multiply that. A wrong formula is off by 1e-2 and more.
const (
	OutputTol   = 3e-4 // outputs of layers, logits, states
	LossTol     = 1e-5
	GradientTol = 3e-3
)

// Options specifies what to compare.
type Options struct {
	Lengths  []int   // of sequences; empty: 1, 7, 40 and 130, as far as the model accepts them
	Tokens   []int32 // the text, at least one token longer than the longest length; empty: random tokens
	Forward  bool    // skip gradients
	Scale    float64 // multiplies the tolerances; 0 for 1
	Progress func(what string)
}

// Report holds the results of a comparison.
type Report struct {
	Model  string  `json:"model,omitzero"` // name of the model, if there are several
	Params int     `json:"params"`
	Checks []Check `json:"checks"`
	OK     bool    `json:"ok"`
}

// Check is one comparison.
type Check struct {
	Kind      string  `json:"kind"`           // engines, chunks, steps
	Length    int     `json:"length"`         // of the sequence
	What      string  `json:"what"`           // output, logits, loss, gradient, state
	Where     string  `json:"where,omitzero"` // layer or parameter with the largest difference, Error
	Error     float64 `json:"error"`          // relative to the largest element; 1e300 for NaN and infinity
	Tolerance float64 `json:"tolerance"`
	OK        bool    `json:"ok"`
}

var defaultLengths = []int{1, 7, 40, 130}

// chunks lists the lengths of the pieces that sequences are divided into, cyclically.
var chunks = []int{5, 1, 26, 3}

// run holds the results of a model for one sequence.
type run struct {
	outputs, gradients, states parts
	logits, loss               []float32
}

// parts is an ordered list of named numbers.
type parts struct {
	names  []string
	values map[string][]float32
}

func (p *parts) add(name string, x []float32) {
	if p.values == nil {
		p.values = map[string][]float32{}
	}
	if _, known := p.values[name]; !known {
		p.names = append(p.names, name)
	}
	p.values[name] = append(p.values[name], x...)
}

// Model compares both engines and all forms on m. The report contains the differences. An error means that the
// comparison failed. m must have its weights, must not be packed, and must not be used concurrently.
func Model(ctx context.Context, m *model.Model, o Options) (Report, error) {
	if o.Scale == 0 {
		o.Scale = 1
	}
	lengths := o.Lengths
	if len(lengths) == 0 {
		lengths = defaultLengths
	}
	report := Report{Params: m.NumParams(), OK: true}
	for _, l := range lengths {
		if most := m.MaxLength(); most > 0 && l > most {
			if len(o.Lengths) > 0 {
				return report, fmt.Errorf("length: found %d, but the model takes at most %d tokens", l, most)
			}
			continue
		}
		ids, err := o.tokens(m, l+1)
		if err != nil {
			return report, err
		}
		v := &verifier{m: m, o: o, ids: ids, report: &report}
		if err := v.compare(ctx); err != nil {
			return report, err
		}
	}
	return report, nil
}

// tokens returns the first n tokens of the text, or random ones.
func (o *Options) tokens(m *model.Model, n int) ([]int32, error) {
	if len(o.Tokens) > 0 {
		if len(o.Tokens) < n {
			return nil, fmt.Errorf("text: found %d tokens, want at least %d", len(o.Tokens), n)
		}
		return o.Tokens[:n], nil
	}
	ids := make([]int32, n)
	state := uint64(n)
	for i := range ids {
		state = state*6364136223846793005 + 1442695040888963407
		ids[i] = int32((state >> 33) % uint64(m.Config.VocabSize))
	}
	return ids, nil
}

// verifier compares the runs of one sequence.
type verifier struct {
	m      *model.Model
	o      Options
	ids    []int32 // one more than the sequence: ids[1:] are the targets
	report *Report
}

func (v *verifier) compare(ctx context.Context) error {
	l := len(v.ids) - 1
	v.say(fmt.Sprintf("length %d, by definition", l))
	want := v.trained(autograd.NewTape(reference.Backend{}))
	if err := ctx.Err(); err != nil {
		return err
	}
	v.say(fmt.Sprintf("length %d, on the engine %s", l, v.m.Backend().Kind()))
	got := v.trained(v.m.NewTape())
	v.check("engines", "output", got.outputs, want.outputs, OutputTol)
	v.check("engines", "logits", one(got.logits), one(want.logits), OutputTol)
	v.check("engines", "loss", one(got.loss), one(want.loss), LossTol)
	v.check("engines", "gradient", got.gradients, want.gradients, GradientTol)
	v.check("engines", "state", got.states, want.states, OutputTol)
	for _, form := range []struct {
		kind string
		cut  []int
	}{{"chunks", chunks}, {"steps", []int{1}}} {
		if err := ctx.Err(); err != nil {
			return err
		}
		v.say(fmt.Sprintf("length %d, in %s", l, form.kind))
		cut := v.inPieces(form.cut)
		v.check(form.kind, "logits", one(cut.logits), one(want.logits), OutputTol)
		v.check(form.kind, "state", cut.states, want.states, OutputTol)
	}
	return nil
}

func (v *verifier) say(what string) {
	if v.o.Progress != nil {
		v.o.Progress(what)
	}
}

// trained runs the whole sequence as in training, with its gradients, and once more with a state.
func (v *verifier) trained(t *autograd.Tape) (r run) {
	l := len(v.ids) - 1
	t.Record(!v.o.Forward)
	t.Observe(func(name string, x *tensor.Tensor) { r.outputs.add(name, x.Floats()) })
	hidden := v.m.Forward(t, v.ids[:l], model.EqualRows(1, l))
	t.Observe(nil)
	r.logits = v.m.Logits(t, hidden).Floats()
	loss := v.m.Loss(t, hidden, v.ids[1:])
	r.loss = loss.Floats()
	if !v.o.Forward {
		t.Backward(loss)
		v.m.Params("", func(name string, p *nn.Param) {
			if !p.NeedsGrad() {
				return
			}
			g := make([]float32, p.Len())
			if of := t.Grad(p.Tensor); of != nil {
				of.CopyTo(g)
			}
			r.gradients.add(name, g)
			t.DropGrads(p.Tensor)
		})
	}
	t.Reset()
	t.Record(false)
	state := v.m.NewState()
	v.m.Forward(t, v.ids[:l], model.OneRow(l, state))
	r.states = statesOf(state)
	return r
}

// inPieces runs the sequence in pieces of the given lengths, cyclically, as in generation.
func (v *verifier) inPieces(cut []int) (r run) {
	t, state := v.m.NewTape(), v.m.NewState()
	l := len(v.ids) - 1
	for from, i := 0, 0; from < l; i++ {
		n := min(cut[i%len(cut)], l-from)
		t.Reset()
		hidden := v.m.Forward(t, v.ids[from:from+n], model.OneRow(n, state))
		r.logits = append(r.logits, v.m.Logits(t, hidden).Floats()...)
		from += n
	}
	r.states = statesOf(state)
	return r
}

func statesOf(s *model.State) (p parts) {
	s.Tensors(func(name string, x *tensor.Tensor) { p.add(name, x.Floats()) })
	return p
}

func one(x []float32) (p parts) {
	p.add("", x)
	return p
}

// check compares all parts and adds the largest difference to the report.
func (v *verifier) check(kind, what string, got, want parts, tol float64) {
	if len(want.names) == 0 && len(got.names) == 0 {
		return
	}
	c := Check{Kind: kind, Length: len(v.ids) - 1, What: what, Tolerance: tol * v.o.Scale}
	least := leastScale
	if what == "gradient" {
		least = max(least, gradientShare*want.largest())
	}
	for _, name := range want.names {
		if e := difference(got.values[name], want.values[name], least); e > c.Error || c.Where == "" {
			c.Where, c.Error = name, e
		}
	}
	for _, name := range got.names {
		if !slices.Contains(want.names, name) {
			c.Where, c.Error = name, farthest
		}
	}
	c.OK = c.Error <= c.Tolerance
	v.report.OK = v.report.OK && c.OK
	v.report.Checks = append(v.report.Checks, c)
}

// farthest is the difference of values that cannot be compared: NaN, infinities, unequal numbers of elements.
const farthest = 1e300

// Some gradients and states are zero by definition or nearly so, such as the gradient of a bias before a softmax. Their
// computed values are rounding errors of numbers that cancel. So differences are relative to at least leastScale, and
// those of gradients to at least gradientShare of the model's largest gradient.
const (
	leastScale    = 1e-6
	gradientShare = 1e-4
)

// largest returns the largest magnitude of an element of all parts.
func (p *parts) largest() (most float64) {
	for _, x := range p.values {
		for _, v := range x {
			most = max(most, math.Abs(float64(v)))
		}
	}
	return most
}

// difference returns the largest difference between elements, relative to the larger of least and the largest magnitude
// in want.
func difference(got, want []float32, least float64) float64 {
	var g gap
	g.add(got, want)
	return g.relative(least)
}

// gap holds the largest difference between elements so far, and the largest magnitude of the wanted elements.
type gap struct{ worst, largest float64 }

func (g *gap) add(got, want []float32) {
	if len(got) != len(want) {
		g.worst = math.Inf(1)
		return
	}
	for i, w := range want {
		e := math.Abs(float64(got[i]) - float64(w))
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		g.worst, g.largest = max(g.worst, e), max(g.largest, math.Abs(float64(w)))
	}
}

// relative returns the relative difference, see difference.
func (g *gap) relative(least float64) float64 {
	if math.IsInf(g.worst, 1) {
		return farthest
	}
	return g.worst / max(g.largest, least)
}

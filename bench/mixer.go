package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/config"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// dState is the state size of every SSM here: 32 complex modes.
const dState = 64

// mixerCases measure single mixers on one sequence: µs per token, forward and forward with backward to the input and
// the parameters. Without arguments they measure H3 and attention by length, as the peer does (attention has backward
// only up to 8192 positions). With names of mixers, or all, each mixer is measured at two lengths and in steps after
// that many positions, and some also without their linear layers.
func mixerCases(args []string, shrink int) ([]Case, error) {
	d := 256 / shrink
	if len(args) > 0 {
		return namedMixerCases(args, d, shrink)
	}
	kinds := []mixer.Info{mixer.H3Info, mixer.AttentionInfo}
	labels := map[string]string{"h3": "H3", "attention": "attention"} // the peer's names
	var cases []Case
	for _, l := range []int{256, 512, 1024, 2048, 4096, 8192, 16384} {
		for i := range len(kinds) * len(precisions) {
			kind, p := kinds[i/len(precisions)], precisions[i%len(precisions)]
			forwardOnly := kind.Name == "attention" && l > 8192
			l := l / shrink
			cases = append(cases, Case{
				ID: Row{{"bench", "mixer"}, {"mixer", labels[kind.Name]}, {"d", float64(d)}, {"l", float64(l)},
					{"precision", p.String()}},
				prepare: func(context.Context) (trial, error) {
					m, err := newMixer(kind, d, l)
					if err != nil {
						return trial{}, err
					}
					runs := mixerRuns(m, d, l, p)
					if forwardOnly {
						runs = runs[:1]
					}
					return trial{runs: runs, fields: forwardBackwardFields("us", 1e6/float64(l))}, nil
				},
			})
		}
	}
	return cases, nil
}

// namedMixerCases returns the cases of mixers that a configuration can name.
func namedMixerCases(names []string, d, shrink int) ([]Case, error) {
	var cases []Case
	for _, kind := range model.Mixers() {
		if !slices.Contains(names, kind.Name) && !slices.Contains(names, "all") {
			continue
		}
		for _, l := range []int{1024, 16384} {
			l := l / shrink
			cases = append(cases, Case{
				ID: Row{{"bench", "mixer"}, {"mixer", kind.Name}, {"d", float64(d)}, {"l", float64(l)},
					{"precision", float32Only}},
				prepare: func(context.Context) (trial, error) {
					m, err := newMixer(kind, d, l+stepsOn)
					if err != nil {
						return trial{}, err
					}
					runs := append(mixerRuns(m, d, l, engine.Float32), stepping(m, d, l))
					if operation, ok := operations[kind.Name]; ok {
						runs = append(runs, forwardBackward(operation(d, l))...)
					}
					return trial{runs: runs, fields: func(t []Timing) Row {
						row := append(forwardBackwardFields("us", 1e6/float64(l))(t),
							Field{"step_us", rounded(t[2].CPU * 1e6)},
							Field{"op_fwd_us", nil}, Field{"op_fwd_bwd_us", nil})
						for i, t := range t[3:] {
							row[3+i].Value = rounded(t.CPU * 1e6 / float64(l))
						}
						return row
					}}, nil
				},
			})
		}
	}
	for _, name := range names {
		if all := model.MixerNames(); name != "all" && !slices.Contains(all, name) {
			return nil, fmt.Errorf("found the mixer %q, want all or some of %s", name, strings.Join(all, ", "))
		}
	}
	return cases, nil
}

// newMixer returns a mixer of width d with its defaults. If it has a maximum length, that is l.
func newMixer(kind mixer.Info, d, l int) (mixer.Mixer, error) {
	c := mixer.Config{
		DModel: d, NLayer: 1, DState: dState, HeadDim: 1, DtMin: 1e-3, DtMax: 0.1, Measure: "diag-lin", NumHeads: 4,
	}
	if kind.Options != nil {
		for _, o := range config.Describe(kind.Options(c)) {
			if o.Key == "l_max" {
				wholeBlocks := (l + 63) / 64 * 64 // for mixers that have blocks
				c.Options = mixer.Options{o.Key: strconv.Itoa(wholeBlocks)}
			}
		}
	}
	m, err := kind.New(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind.Name, err)
	}
	nn.InitAll(m, "", 1)
	return m, nil
}

// mixerRuns returns a forward pass of a mixer, and one with backward, on a sequence of l positions.
func mixerRuns(m mixer.Mixer, d, l int, p engine.Precision) []func() error {
	x, rows := random(l, d), &mixer.Rows{Rows: engine.NewRows(l)}
	leaves := []*tensor.Tensor{x}
	m.Params("", func(_ string, p *nn.Param) { leaves = append(leaves, p.Tensor) })
	return forwardBackward(leaves, func(t *autograd.Tape) *tensor.Tensor {
		t.SetPrecision(p)
		return m.Forward(t, x, rows)
	})
}

// stepsOn is the number of steps after which stepping starts again, for mixers with a maximum length.
const stepsOn = 64

// stepping returns a function that runs one step of a mixer, from position l on.
func stepping(m mixer.Mixer, d, l int) func() error {
	tape, start, x := autograd.NewTape(native.Backend), mixer.Begin(m.NewState())[0], random(1, d)
	m.Forward(tape, random(l, d), &mixer.Rows{Rows: engine.NewRows(l), States: []mixer.State{start}})
	rows := &mixer.Rows{Rows: &engine.Rows{}, States: []mixer.State{nil}}
	n := 0
	step := func() error {
		if n%stepsOn == 0 {
			rows.States[0] = start.Clone()
		}
		rows.Clear()
		rows.Add(1, l+n%stepsOn)
		n++
		tape.Reset()
		m.Forward(tape, x, rows)
		return nil
	}
	_ = step() // the first step creates tables, such as that of angles; it never fails
	return step
}

// kernelCases measure the generation of the convolution kernels of 768 diagonal SSMs from their parameters: ms, forward
// and forward with backward to the parameters. Discretization is included.
func kernelCases(shrink int) []Case {
	d := 768 / shrink
	const modes = dState / 2
	var cases []Case
	for _, l := range []int{1024, 8192} {
		l := l / shrink
		cases = append(cases, Case{
			ID: Row{{"bench", "kernel"}, {"d", float64(d)}, {"modes", float64(modes)}, {"l", float64(l)},
				{"precision", float32Only}},
			prepare: func(context.Context) (trial, error) {
				p := diagParams(d, modes)
				runs := forwardBackward(leavesOf(p), func(t *autograd.Tape) *tensor.Tensor {
					p.LogDt.Changed() // as after an update: a cached system from the last call is not used
					return t.DiagKernel(t.DiagSystem(p), l)
				})
				return trial{runs: runs, fields: forwardBackwardFields("ms", 1e3)}, nil
			},
		})
	}
	return cases
}

// diagParams returns h systems of n modes with initial values (S4D-Lin): A = -1/2 + iπn, B = 1, dt between 0.001 and
// 0.1.
func diagParams(h, n int) *engine.DiagParams {
	rng := rand.New(rand.NewPCG(1, 3))
	p := &engine.DiagParams{
		LogDt: tensor.New(h), InvAReal: tensor.New(h, n), AImag: tensor.New(h, n),
		B: tensor.New(h, n, 2), C: tensor.New(h, n, 2),
	}
	fill := func(x *tensor.Tensor, f func(i int) float64) {
		change(x, func(i int, _ float32) float32 { return float32(f(i)) })
	}
	fill(p.LogDt, func(int) float64 { return math.Log(1e-3) + rng.Float64()*math.Log(100) })
	fill(p.InvAReal, func(int) float64 { return math.Log(0.5) })
	fill(p.AImag, func(i int) float64 { return math.Pi * float64(i%n) })
	fill(p.B, func(i int) float64 { return float64(1 - i%2) })
	fill(p.C, func(int) float64 { return rng.NormFloat64() * math.Sqrt(0.5) })
	return p
}

func leavesOf(p *engine.DiagParams) []*tensor.Tensor {
	return []*tensor.Tensor{p.LogDt, p.InvAReal, p.AImag, p.B, p.C}
}

// forwardBackward returns two functions to be timed: f alone, and f with backward to the leaves. As for the peers, each
// backward pass allocates new gradients of the leaves.
func forwardBackward(leaves []*tensor.Tensor, f func(*autograd.Tape) *tensor.Tensor) []func() error {
	tape := autograd.NewTape(native.Backend)
	for _, x := range leaves {
		x.SetNeedsGrad(true)
	}
	forward := func() error {
		tape.Reset()
		tape.Record(false)
		f(tape)
		return nil
	}
	var dy *tensor.Tensor
	both := func() error {
		tape.Reset()
		tape.Record(true)
		tape.DropGrads(leaves...)
		y := f(tape)
		if dy == nil {
			dy = tensor.FromSlice(uniform(rand.New(rand.NewPCG(1, 4)), y.Len()), y.Shape()...)
		}
		tape.BackwardFrom(y, dy)
		return nil
	}
	return []func() error{forward, both}
}

// forwardBackwardFields returns fwd_UNIT and fwd_bwd_UNIT for the functions of forwardBackward. The second is null if
// it was not timed.
func forwardBackwardFields(unit string, scale float64) func([]Timing) Row {
	return func(t []Timing) Row {
		row := Row{{"fwd_" + unit, rounded(t[0].CPU * scale)}, {"fwd_bwd_" + unit, nil}}
		if len(t) > 1 {
			row[1].Value = rounded(t[1].CPU * scale)
		}
		return row
	}
}

// random returns a tensor of numbers between -1/2 and 1/2.
func random(shape ...int) *tensor.Tensor {
	x := tensor.New(shape...) // in the same kind of memory as a model's activations
	x.CopyFrom(uniform(rand.New(rand.NewPCG(1, 5)), x.Len()))
	return x
}

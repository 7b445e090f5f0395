// Package changes compares the weights of two models, such as two checkpoints of a run: how far each parameter moved,
// how their systems and kernels changed, and where their predictions of a text differ.
package changes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// Model is a model of any kind whose weights are compared with those of another.
type Model struct {
	Name           string
	Params         nn.Module
	model.Backbone // empty for a model without layers
}

// Report describes the differences between two models A and B, such as two checkpoints of a run.
type Report struct {
	Names  [2]string
	Layers []string // names of the layers of A and, if different, of B
	Params []Param
	OnlyA  []string // parameters that only A has
	OnlyB  []string
	Other  []string // parameters whose shapes differ
	// Systems contains the layers that have a state-space system in both models.
	Systems []SystemPair
}

// Param compares a parameter of both models. a and b are all its numbers.
type Param struct {
	Name  string
	Layer int    // -1 if it is outside of layers
	Kind  string // name within the layer
	Count int
	// Relative is ‖b - a‖/‖a‖, Cosine is a·b/(‖a‖ ‖b‖), Norms are ‖a‖ and ‖b‖. If a is 0, Relative is infinity, unless
	// b is 0 too.
	Relative, Cosine float64
	Norms            [2]float64
}

// SystemPair holds the systems of one layer before and after.
type SystemPair struct {
	Layer int
	A, B  System
}

// System describes how long a layer remembers, from its parameters. Fields that a mixer does not have are empty.
type System struct {
	// Poles holds the eigenvalues of the continuous A: its diagonal, without the low-rank term of S4.
	Poles []complex128
	// Dt holds the step of each channel or head. For mixers whose steps depend on the token, it is softplus of the
	// bias.
	Dt []float64
	// Tokens holds the time constant of the slowest mode of each channel, 1/(dt·min|Re A|), in tokens.
	Tokens []float64
	// Kernel holds the root mean square of each tap over all channels. KernelOf holds all taps (taps, channels).
	Kernel   []float64
	KernelOf []float32
}

var layerName = regexp.MustCompile(`(?:^|\.)layers\.(\d+)\.(.+)$`)

// kindOf splits the name of a parameter into its layer, -1 for none, and the rest.
func kindOf(name string) (layer int, kind string) {
	m := layerName.FindStringSubmatch(name)
	if m == nil {
		return -1, name
	}
	layer, err := strconv.Atoi(m[1])
	if err != nil {
		return -1, name
	}
	return layer, m[2]
}

// kernelTaps is the number of kernel taps that are compared.
const kernelTaps = 256

// Between compares the weights of two models, one parameter at a time. It returns an error if the models have no
// parameter with the same name and shape, if weights are not finite, or if ctx is done.
func Between(ctx context.Context, a, b Model) (*Report, error) {
	rep := &Report{Names: [2]string{a.Name, b.Name}}
	others := map[string]*nn.Param{}
	b.Params.Params("", func(name string, p *nn.Param) { others[name] = p })
	var problem error
	a.Params.Params("", func(name string, p *nn.Param) {
		q := others[name]
		delete(others, name)
		switch {
		case problem != nil:
		case ctx.Err() != nil:
			problem = ctx.Err()
		case q == nil:
			rep.OnlyA = append(rep.OnlyA, name)
		case !slices.Equal(p.Shape(), q.Shape()):
			rep.Other = append(rep.Other, fmt.Sprintf("%s %v, %v", name, p.Shape(), q.Shape()))
		default:
			var x Param
			if x, problem = paramOf(name, p.Tensor.Floats(), q.Tensor.Floats()); problem == nil {
				rep.Params = append(rep.Params, x)
			}
		}
	})
	b.Params.Params("", func(name string, _ *nn.Param) {
		if others[name] != nil {
			rep.OnlyB = append(rep.OnlyB, name)
		}
	})
	switch {
	case problem != nil:
		return nil, problem
	case len(rep.Params) == 0:
		return nil, errors.New("found no parameter of the same name and shape in both, want two models of one shape, " +
			"such as two checkpoints of a run")
	}
	rep.systems(a, b)
	return rep, nil
}

// paramOf compares the numbers of a parameter.
func paramOf(name string, a, b []float32) (Param, error) {
	x := Param{Name: name, Count: len(a)}
	x.Layer, x.Kind = kindOf(name)
	var aa, bb, ab, dd float64
	for i := range a {
		p, q := float64(a[i]), float64(b[i])
		aa, bb, ab, dd = aa+p*p, bb+q*q, ab+p*q, dd+(q-p)*(q-p)
	}
	if sum := aa + bb; math.IsNaN(sum) || math.IsInf(sum, 0) {
		return x, fmt.Errorf("%s: found numbers that are not finite: the weights are invalid", name)
	}
	x.Norms = [2]float64{math.Sqrt(aa), math.Sqrt(bb)}
	if dd > 0 {
		x.Relative = math.Sqrt(dd / aa)
	}
	x.Cosine = 1
	if aa > 0 && bb > 0 {
		x.Cosine = math.Max(-1, math.Min(1, ab/math.Sqrt(aa*bb)))
	}
	return x, nil
}

// systems compares the systems of layers of the same mixer.
func (r *Report) systems(a, b Model) {
	for i := range max(len(a.Blocks), len(b.Blocks)) {
		var kinds []string
		for _, w := range []Model{a, b} {
			if i < len(w.Blocks) && !slices.Contains(kinds, w.Blocks[i].Kind) {
				kinds = append(kinds, w.Blocks[i].Kind)
			}
		}
		r.Layers = append(r.Layers, fmt.Sprintf("layer %d · %s", i, strings.Join(kinds, " / ")))
		if len(kinds) > 1 || i >= len(a.Blocks) || i >= len(b.Blocks) {
			continue
		}
		s := SystemPair{i, systemOf(a.NewTape(), a.Blocks[i].Mixer), systemOf(b.NewTape(), b.Blocks[i].Mixer)}
		if len(s.A.Poles)+len(s.A.Dt)+len(s.A.Kernel) > 0 {
			r.Systems = append(r.Systems, s)
		}
	}
}

// systemOf returns the systems of a mixer.
func systemOf(t *autograd.Tape, m mixer.Mixer) (s System) {
	for _, d := range mixer.Systems(m) {
		s.Poles, s.Dt = append(s.Poles, d.Poles...), append(s.Dt, d.Dt...)
		s.Tokens = append(s.Tokens, d.TimeConstants()...)
	}
	if all := mixer.Responses(t, m, kernelTaps); len(all) > 0 {
		k := all[0].Taps
		s.KernelOf = k.Floats()
		channels := k.Dim(1)
		for i := 0; i < len(s.KernelOf); i += channels {
			sum := 0.0
			for _, v := range s.KernelOf[i:][:channels] {
				sum += float64(v) * float64(v)
			}
			s.Kernel = append(s.Kernel, math.Sqrt(sum/float64(channels)))
		}
	}
	t.Reset()
	return s
}

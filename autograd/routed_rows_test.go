package autograd_test

import (
	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
)

// routings are those of the model families that hippo reads, and one with groups. Some have a bias.
var routings = map[string]struct {
	by   engine.Routing
	bias bool
}{
	"softmax_normalized": {engine.Routing{TopK: 2, Normalize: true, Scale: 1}, false},
	"softmax":            {engine.Routing{TopK: 2, Scale: 1}, false},
	"sigmoid":            {engine.Routing{TopK: 3, Sigmoid: true, Scale: 1.5}, true},
	"sigmoid_normalized": {engine.Routing{TopK: 2, Sigmoid: true, Normalize: true, Eps: 1e-6, Scale: 2.5}, true},
	"groups": {engine.Routing{TopK: 2, Sigmoid: true, Normalize: true, Eps: 1e-20, Scale: 1, Groups: 3, TopGroups: 2},
		true},
}

// names lists the names of routings in a fixed order.
var names = []string{"softmax_normalized", "softmax", "sigmoid", "sigmoid_normalized", "groups"}

// routeSequences returns Route of e experts. Rows have no state: each position is routed by itself.
func routeSequences(name string, lens []int, e int) sequences {
	c := routings[name]
	s := sequences{name: "Route/" + name, lens: lens, along: []int{e}}
	if c.bias {
		s.params = [][]int{{e}}
	}
	s.op = func(t *autograd.Tape, u, p ts, _ *engine.Rows, states []ts) (y ts, next []ts) {
		return ts{t.Route(u[0], append(p, nil)[0], c.by)}, make([]ts, len(states))
	}
	return s
}

// expertsSequences returns Experts of e MLPs of inner width f over d channels, chosen by Route.
func expertsSequences(name string, lens []int, d, e, f int, gates bool, a engine.Activation) sequences {
	matrices := 2
	if gates {
		matrices = 3
	}
	s := sequences{name: "Experts/" + name, lens: lens, along: []int{d, e}, tol: 3e-5}
	for range e {
		s.params = append(s.params, [][]int{{f, d}, {d, f}, {f, d}}[:matrices]...)
	}
	s.scale = append([]float64{1, 1}, repeated(len(s.params), []float64{0.3})...)
	s.op = func(t *autograd.Tape, u, p ts, _ *engine.Rows, states []ts) (y ts, next []ts) {
		of := engine.Experts{Activation: a}
		for i := range e {
			w := p[i*matrices:][:matrices]
			of.FC1, of.FC2 = append(of.FC1, w[0]), append(of.FC2, w[1])
			if gates {
				of.Gate = append(of.Gate, w[2])
			}
		}
		weights := t.Route(u[1], nil, routings["softmax_normalized"].by)
		return ts{t.Experts(u[0], weights, of)}, make([]ts, len(states))
	}
	return s
}

func init() {
	for _, name := range names {
		registerSequences(func() []sequences {
			return withBig([]sequences{routeSequences(name, []int{3, 4}, 6)}, sequences{}, routeSequences(name,
				[]int{700, 901}, 48))
		})
	}
	registerSequences(func() []sequences {
		return withBig([]sequences{
			expertsSequences("swiglu", []int{3, 4}, 5, 4, 3, true, engine.SiLU),
			expertsSequences("one_position", []int{1}, 5, 4, 3, true, engine.SiLU),
		}, expertsSequences("swiglu", []int{64, 64}, 128, 4, 96, true, engine.SiLU),
			expertsSequences("swiglu_mixed", []int{1, 130, 7, 70}, 128, 4, 160, true, engine.SiLU))
	})
	registerSequences(func() []sequences {
		return withBig([]sequences{expertsSequences("squared_relu", []int{2, 4}, 5, 4, 3, false, engine.SquaredReLU)},
			sequences{}, expertsSequences("squared_relu", []int{1, 130, 7, 70}, 128, 4, 160, false, engine.SquaredReLU))
	})
}

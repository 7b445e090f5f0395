package nn

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// newExperts returns experts that have values.
func newExperts(t *testing.T, latent int, bias bool) *Experts {
	t.Helper()
	shared := NewGated(8, 6, engine.SiLU, 0.5)
	m, err := NewExperts(ExpertsShape{D: 8, Inner: 5, Count: 4, Latent: latent, Gated: true, Activation: engine.SiLU,
		Bias: bias, Shared: shared, Routing: engine.Routing{TopK: 2, Normalize: true, Scale: 1}}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	m.Params("", func(name string, p *Param) { p.Init = Normal(0.5) })
	InitAll(m, "", 3)
	return m
}

// input returns 7 rows of 8 numbers.
func input() *tensor.Tensor {
	x := make([]float32, 7*8)
	for i := range x {
		x[i] = float32(math.Sin(float64(i)))
	}
	return tensor.FromSlice(x, 7, 8)
}

// TestExpertsAreMLPs checks that experts compute the weighted sum of the MLPs of the router's two best experts and of
// the shared part.
func TestExpertsAreMLPs(t *testing.T) {
	for name, latent := range map[string]int{"plain": 0, "latent": 3} {
		t.Run(name, func(t *testing.T) {
			m, x, tape := newExperts(t, latent, false), input(), autograd.NewTape(cpu.Backend{})
			inner := x
			if latent > 0 {
				inner = m.Narrow.Forward(tape, x)
			}
			scores := values(m.Router.Forward(tape, x))
			width := inner.Dim(1)
			sums := make([]float32, 7*width)
			for e := range 4 {
				all := m.matrices()
				alone := Gated{FC1: &Linear{Weight: all.fc1[e]}, Gate: &Linear{Weight: all.gate[e]},
					FC2: &Linear{Weight: all.fc2[e]}, Activation: engine.SiLU, GateScale: 1}
				y := values(alone.Forward(tape, inner))
				for r := range 7 {
					own := scores[4*r:][:4]
					best := slices.Clone(own)
					slices.Sort(best)
					if own[e] >= best[2] { // the sum of two exponentials is that of the chosen experts
						w := 1 / (1 + math.Exp(float64(best[2]+best[3]-2*own[e])))
						for i := range width {
							sums[r*width+i] += float32(w) * y[r*width+i]
						}
					}
				}
			}
			want := tensor.FromSlice(sums, 7, width)
			if latent > 0 {
				want = m.Widen.Forward(tape, want)
			}
			all := values(tape.Add(want, m.Shared.Forward(tape, x)))
			for i, v := range values(m.Forward(tape, x)) {
				if math.Abs(float64(v-all[i])) > 1e-5 {
					t.Fatalf("element %d is %g, want %g", i, v, all[i])
				}
			}
		})
	}
}

// TestPackedExperts checks that packed experts return the results of plain weights, and the same bits at float32.
func TestPackedExperts(t *testing.T) {
	for p, tol := range map[engine.Precision]float64{engine.Float32: 0, engine.BF16: 0.03, engine.Int8: 0.06} {
		m, x := newExperts(t, 0, true), input()
		want := values(m.Forward(autograd.NewTape(cpu.Backend{}), x))
		var weights []*tensor.Tensor
		m.Params("", func(_ string, q *Param) {
			// The router is not packed, so that the same experts are chosen.
			if q.Role == Weight && q != m.Router.Weight {
				weights = append(weights, q.Tensor)
			}
		})
		engine.PackTensors(cpu.Backend{}, p, engine.PackRounded, weights...)
		for i, v := range values(m.Forward(autograd.NewTape(cpu.Backend{}), x)) {
			if !(math.Abs(float64(v-want[i])) <= tol*math.Max(1, math.Abs(float64(want[i])))) {
				t.Errorf("%v: element %d is %g, want %g", p, i, v, want[i])
			}
		}
	}
}

// TestExpertsParams checks the names, and that the bias of the choice is a constant.
func TestExpertsParams(t *testing.T) {
	m := newExperts(t, 3, true)
	var names []string
	m.Params("x.", func(name string, p *Param) {
		names = append(names, name+" "+p.String())
		if p.NeedsGrad() == (p == m.Bias) {
			t.Errorf("%s wants a gradient: %v", name, p.NeedsGrad())
		}
	})
	want := "x.router.weight (4, 8), x.router.bias (4), x.narrow.weight (3, 8), x.widen.weight (8, 3), " +
		"x.experts.0.fc1.weight (5, 3), x.experts.0.gate.weight (5, 3), x.experts.0.fc2.weight (3, 5), x.experts.1."
	if got := strings.Join(names, ", "); !strings.HasPrefix(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestExpertsRefuse checks that invalid shapes are refused.
func TestExpertsRefuse(t *testing.T) {
	good := engine.Routing{TopK: 2, Scale: 1}
	groups := func(top, n int) engine.Routing { return engine.Routing{TopK: top, Scale: 1, Groups: n, TopGroups: 1} }
	for name, s := range map[string]ExpertsShape{
		"none":            {D: 8, Inner: 5, Routing: good},
		"very many":       {D: 8, Inner: 5, Count: 1 << 40, Routing: good},
		"no inside":       {D: 8, Count: 4, Routing: good},
		"more than all":   {D: 8, Inner: 5, Count: 1, Routing: good},
		"no scale":        {D: 8, Inner: 5, Count: 4, Routing: engine.Routing{TopK: 2}},
		"groups":          {D: 8, Inner: 5, Count: 4, Routing: groups(2, 3)},
		"too few groups":  {D: 8, Inner: 5, Count: 4, Routing: groups(3, 2)},
		"negative latent": {D: 8, Inner: 5, Count: 4, Latent: -1, Routing: good},
	} {
		if _, err := NewExperts(s, 1); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestExpertsBalance checks that training adds the gradient of the loss of "Switch Transformers", computed from its
// definition in float64, multiplied by its weight, and nothing if the weight is 0.
func TestExpertsBalance(t *testing.T) {
	const n, d, count, used, weight = 7, 8, 4, 2, 0.3
	for _, sigmoid := range []bool{false, true} {
		m, x := newExperts(t, 0, false), input()
		m.Routing.Sigmoid = sigmoid
		router := values(m.Router.Weight.Tensor)
		gradient := func(balance float64, taken bool) []float32 {
			m.Balance = balance
			tape := autograd.NewTape(cpu.Backend{})
			tape.Record(true)
			tape.TakeAside(taken)
			rows := &engine.Rows{}
			rows.Add(n, 0)
			one := tensor.New(1, d)
			one.Fill(1)
			y := tape.Linear(tape.MeanPositions(m.Forward(tape, x), rows), one, nil, engine.None)
			tape.BackwardTimes(y, 2)
			g := make([]float32, len(router))
			if of := tape.Grad(m.Router.Weight.Tensor); of != nil {
				of.CopyTo(g)
			}
			return g
		}
		plain := gradient(0, true)
		if !slices.Equal(gradient(weight, false), plain) {
			t.Errorf("sigmoid %v: the gradient is another where nothing is taken aside", sigmoid)
		}

		z := values(m.Router.Forward(autograd.NewTape(cpu.Backend{}), x))
		chosen := make([]float64, count) // fractions of the positions
		for i := range n {
			row := z[i*count:][:count]
			best := slices.Clone(row)
			slices.Sort(best)
			for e, v := range row {
				if v >= best[count-used] {
					chosen[e] += 1. / n
				}
			}
		}
		loss := func(w []float32) (sum float64) {
			for i := range n {
				var s [count]float64
				all := 0.0
				for e := range s {
					for k := range d {
						s[e] += float64(w[e*d+k]) * float64(x.Data()[i*d+k])
					}
					if s[e] = math.Exp(s[e]); sigmoid {
						s[e] /= 1 + s[e]
					}
					all += s[e]
				}
				for e := range s {
					sum += count * chosen[e] * s[e] / all / n
				}
			}
			return sum
		}
		got := gradient(weight, true)
		for i := range router {
			const h = 1e-3
			at := router[i]
			router[i] = at + h
			up := loss(router)
			router[i] = at - h
			want := 2 * weight * (up - loss(router)) / (2 * h)
			router[i] = at
			if diff := float64(got[i] - plain[i]); math.Abs(diff-want) > 1e-4 {
				t.Errorf("sigmoid %v: element %d gets %g, want %g", sigmoid, i, diff, want)
			}
		}
	}
}

// TestExpertsInBalance checks that equally used experts have the minimum loss, the number of experts of a position, and
// that the loss of several layers is the mean of theirs.
func TestExpertsInBalance(t *testing.T) {
	m, tape := newExperts(t, 0, false), autograd.NewTape(cpu.Backend{})
	alike := make([]float32, 4*4)
	chosen := make([]float32, 4*4)
	for i := range 4 { // each expert is chosen by two of four positions
		chosen[i*4+i], chosen[i*4+(i+1)%4] = 0.5, 0.5
	}
	scores, weights := tensor.FromSlice(alike, 4, 4), tensor.FromSlice(chosen, 4, 4)
	if got := values(m.balance(tape, scores, weights)); math.Abs(float64(got[0])-2) > 1e-6 {
		t.Errorf("experts in balance have a loss of %g, want 2", got[0])
	}

	x := tensor.FromSlice([]float32{3}, 1)
	x.SetNeedsGrad(true)
	tape.Record(true)
	tape.TakeAside(true)
	tape.Aside(tape.Scale(x, 10), 1)
	tape.Aside(tape.Scale(x, 100), 2)
	tape.Backward(tape.Scale(x, 1000))
	if g := values(tape.Grad(x)); g[0] != 1000+(10*1+100*2)/2 {
		t.Errorf("gradient %g, want %d", g[0], 1000+(10*1+100*2)/2)
	}
}

// TestSharedGate checks that each position multiplies the output of the shared part by a sigmoid of its own.
func TestSharedGate(t *testing.T) {
	build := func(gate bool) *Experts {
		m, err := NewExperts(ExpertsShape{D: 8, Inner: 5, Count: 4, Gated: true, Activation: engine.SiLU,
			Shared: NewGated(8, 6, engine.SiLU, 0.5), SharedGate: gate,
			Routing: engine.Routing{TopK: 2, Scale: 1}}, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		m.Params("", func(name string, p *Param) { p.Init = Normal(0.5) })
		InitAll(m, "", 3)
		return m
	}
	plain, m, tape := build(false), build(true), autograd.NewTape(cpu.Backend{})
	without, shared := values(plain.Forward(tape, input())), values(m.Shared.Forward(tape, input()))
	gate, got := values(m.SharedGate.Forward(tape, input())), values(m.Forward(tape, input()))
	for i, v := range got {
		s := 1 / (1 + math.Exp(-float64(gate[i/8])))
		if want := float64(without[i]) + (s-1)*float64(shared[i]); math.Abs(float64(v)-want) > 1e-5 {
			t.Fatalf("element %d is %g, want %g", i, v, want)
		}
	}
}

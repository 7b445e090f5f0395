package mixer

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// goldenBlock compares a block with the official one: y, gradients and, if the case has them, states after prefill,
// decoded positions, a further piece, and the states after those.
type goldenBlock struct {
	golden.Case
	t   *testing.T
	m   Mixer
	on  engine.Backend
	tol float64
	// loose are tolerances of gradients, by the parameter's name, if they are larger.
	loose map[string]float64
	// like converts a part of the official state to the mixer's layout; nil if they are the same.
	like func(name string, x []float64) []float64
	// of returns the names of the case's tensors whose concatenated rows form a parameter; nil for the one of its name.
	of func(name string) []string
	// turned has the names of tensors that the mixer has transposed in the last two axes.
	turned map[string]bool
	// handed is the suffix of the names of a second input, which is handed to the mixer; "" for none.
	handed string
}

// checkBlock compares a block that computes on the CPU's engine and has the official names.
func checkBlock(t *testing.T, c golden.Case, m Mixer) {
	t.Helper()
	b := goldenBlock{Case: c, t: t, m: m, on: cpu.Backend{}, tol: mambaTol}
	b.check()
}

func (g *goldenBlock) check() {
	g.t.Helper()
	g.m.Params("", func(name string, p *nn.Param) {
		x := g.values("param/", name)
		if len(x) != p.Len() {
			g.t.Fatalf("%s: golden has %d values, the mixer %v", name, len(x), p.Shape())
		}
		p.CopyFrom(narrow(x))
	})
	s := g.Shape("in/x")
	x := leaf(g.F32("in/x"), s[0]*s[1], s[2])
	tape := autograd.NewTape(g.on)
	tape.Record(true)
	rows := equalRows(s[0], s[1])
	rows.Handed = g.hand("in/"+g.handed, 0, s[1])
	y := g.m.Forward(tape, x, rows)
	golden.Close(g.t, "y", read(y), g.F64("out/y"), g.tol)
	tape.BackwardFrom(y, tensor.FromSlice(g.F32("in/dy"), y.Shape()...))
	golden.Close(g.t, "gradient of x", gradient(tape, x), g.F64("grad/in/x"), g.tol)
	if g.handed != "" {
		dv := gradient(tape, rows.Handed.Values)
		golden.Close(g.t, "gradient of what is handed", dv, g.F64("grad/in/"+g.handed), g.tol)
	}
	g.m.Params("", func(name string, p *nn.Param) {
		tol := max(g.tol, g.loose[name])
		golden.Close(g.t, "gradient of "+name, gradient(tape, p.Tensor), g.values("grad/", name), tol)
	})
	if g.Has("in/x_next") {
		g.steps(x)
	}
	for n := range s[1] {
		if name := fmt.Sprintf("out/ssm_state_at_%d", n); g.Has(name) {
			st := begin(g.m, s[0])
			st.forward(autograd.NewTape(g.on), tensor.FromSlice(positionsOf(read(x), s, 0, n), s[0]*n, s[2]))
			golden.Close(g.t, name, st.parts()["ssm"], g.F64(name), g.tol)
		}
	}
}

// steps compares the continuation after the prefix x, decoded in several ways.
func (g *goldenBlock) steps(x *tensor.Tensor) {
	g.t.Helper()
	s, next := g.Shape("in/x"), g.Shape("in/x_next")
	all := g.F32("in/x_next")
	for _, lengths := range [][]int{slices.Repeat([]int{1}, next[1]), {2, next[1] - 2}, {next[1]}} {
		for _, record := range []bool{false, true} {
			tape, st := autograd.NewTape(g.on), begin(g.m, s[0])
			tape.Record(record)
			st.handed = g.hand("in/"+g.handed, 0, s[1])
			st.forward(tape, x)
			g.state(st, "out/prefill_")
			y, lo := make([]float32, len(all)), 0
			for _, n := range lengths {
				u := tensor.FromSlice(positionsOf(all, next, lo, lo+n), next[0]*n, next[2])
				st.handed = g.hand("in/"+g.handed+"_next", lo, lo+n)
				got := read(st.forward(tape, u))
				for b := range next[0] {
					copy(y[(b*next[1]+lo)*next[2]:], got[b*n*next[2]:][:n*next[2]])
				}
				lo += n
			}
			golden.Close(g.t, "decoded y", y, g.F64("out/y_steps"), g.tol)
			g.state(st, "out/final_")
			if g.Has("in/x_more") {
				more := g.Shape("in/x_more")
				u := tensor.FromSlice(g.F32("in/x_more"), more[0]*more[1], more[2])
				golden.Close(g.t, "y of a further piece", read(st.forward(tape, u)), g.F64("out/y_more"), g.tol)
				g.state(st, "out/more_")
			}
		}
	}
}

// values returns the values of a parameter, or of its gradient, in the mixer's order.
func (g *goldenBlock) values(of, name string) (x []float64) {
	parts := []string{name}
	if g.of != nil {
		parts = g.of(name)
	}
	for _, part := range parts {
		one := g.F64(of + part)
		if g.turned[part] {
			one = turned(one, g.Shape(of+part))
		}
		x = append(x, one...)
	}
	return x
}

// hand returns what is handed to the mixer at the positions [lo, hi), or nil for nothing.
func (g *goldenBlock) hand(name string, lo, hi int) *Handed {
	if g.handed == "" {
		return nil
	}
	s := g.Shape(name)
	return &Handed{Values: leaf(positionsOf(g.F32(name), s, lo, hi), s[0]*(hi-lo), s[2])}
}

// turned swaps the last two axes.
func turned(x []float64, shape []int) []float64 {
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	out := make([]float64, 0, len(x))
	for ; len(x) > 0; x = x[rows*cols:] {
		for c := range cols {
			for r := range rows {
				out = append(out, x[r*cols+c])
			}
		}
	}
	return out
}

// narrow converts x to float32.
func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// positionsOf copies the positions [lo, hi) of every sequence of x (b, l, d).
func positionsOf[T any](x []T, s []int, lo, hi int) (out []T) {
	for b := range s[0] {
		out = append(out, x[(b*s[1]+lo)*s[2]:(b*s[1]+hi)*s[2]]...)
	}
	return out
}

// state compares a state with the official one. The official filter state is (b, d, d_conv), with one input more than
// needed.
func (g *goldenBlock) state(st *several, prefix string) {
	g.t.Helper()
	for name, x := range st.parts() {
		official := prefix + name
		if !g.Has(official) {
			official += "_state"
		}
		if !g.Has(official) {
			continue
		}
		want := g.F64(official)
		if g.turned[name] {
			want = turned(want, g.Shape(official))
		}
		if name == "conv" {
			s := g.Shape(official)
			d, k := s[1], s[2]
			var kept []float64
			for b := range s[0] {
				for j := 1; j < k; j++ {
					for i := range d {
						kept = append(kept, want[(b*d+i)*k+j])
					}
				}
			}
			want = kept
		}
		if g.like != nil {
			want = g.like(name, want)
		}
		golden.Close(g.t, official, x, want, g.tol)
	}
}

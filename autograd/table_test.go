package autograd_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/tensor"
)

// row describes one operation, or a variant of it, for the table of operations. Every row runs on all engines.
type row struct {
	name string
	in   [][]int // shapes of the inputs
	big  [][]int // shapes at which several cores share the work, also for the benchmark
	// scale holds the scale of each random input; nil for 1.
	scale []float64
	// of maps the random number x for element i of an input to its value, for example to a positive one; nil for x
	// itself.
	of  func(input, i int, x float64) float64
	op  func(t *autograd.Tape, in ts) ts
	tol float64 // largest error, relative to the largest element: 0 means 2e-5, some hundred rounding errors of float32
}

type ts = []*tensor.Tensor

// registered holds the functions that return the rows of the table.
var registered []func() []row

// register adds rows to the table. Each file of rows calls it in init.
func register(rows func() []row) { registered = append(registered, rows) }

// table returns all rows.
func table() []row {
	var all []row
	for _, rows := range registered {
		all = append(all, rows()...)
	}
	return all
}

// random returns numbers for inputs of the given shapes, exact in float32.
func (r *row) random(shapes [][]int, seed uint64) [][]float64 {
	rng := rand.New(rand.NewPCG(seed, 7))
	in := make([][]float64, len(shapes))
	for i, shape := range shapes {
		n, scale := 1, 1.0
		for _, d := range shape {
			n *= d
		}
		if i < len(r.scale) {
			scale = r.scale[i]
		}
		in[i] = make([]float64, n)
		for j := range in[i] {
			x := rng.NormFloat64() * scale
			if r.of != nil {
				x = r.of(i, j, x)
			}
			in[i][j] = float64(float32(x))
		}
	}
	return in
}

// cotangents returns fixed random weights for the elements of outputs: the loss is their weighted sum. They are exact
// in float32.
func cotangents(out [][]float64) [][]float32 {
	rng := rand.New(rand.NewPCG(5, 6))
	g := make([][]float32, len(out))
	for i, y := range out {
		g[i] = make([]float32, len(y))
		for j := range g[i] {
			g[i][j] = float32(rng.NormFloat64())
		}
	}
	return g
}

// onReference runs the row on the reference engine. Without cotangents it returns no gradients.
func (r *row) onReference(shapes [][]int, in [][]float64,
	cotangents func([][]float64) [][]float32) (out, grad [][]float64) {
	eng, t := referenceTape()
	t.Record(true)
	x := make(ts, len(in))
	for i := range in {
		x[i] = reference.Of(append([]float64(nil), in[i]...), shapes[i]...)
		x[i].SetNeedsGrad(true)
	}
	y := r.op(t, x)
	for _, o := range y {
		out = append(out, append([]float64(nil), eng.Values64(o)...))
	}
	if cotangents == nil {
		return out, nil
	}
	for i, dy := range cotangents(out) {
		t.Seed(y[i], tensor.FromSlice(dy, y[i].Shape()...))
	}
	t.BackwardSeeded()
	for _, v := range x {
		g := eng.Grad64(v)
		if g == nil {
			g = make([]float64, v.Len())
		}
		grad = append(grad, g)
	}
	return out, grad
}

// referenceTape returns a tape on the reference engine, and the engine.
func referenceTape() (eng *reference.Engine, t *autograd.Tape) {
	t = autograd.NewTape(reference.Backend{}).Through(func(e engine.Engine) engine.Engine {
		eng = e.(*reference.Engine)
		return e
	})
	return eng, t
}

// engines are the engines under test: the CPU's, and one that implements just the core, with all other operations
// composed.
var engines = map[string]engine.Backend{
	"cpu":   cpu.Backend{},
	"small": smallengine.New[float64](), // in float64, so that composed operations are exact
}

// tapes returns empty tapes on the engines under test and on the reference.
func tapes() map[string]*autograd.Tape {
	_, onReference := referenceTape()
	all := map[string]*autograd.Tape{"reference": onReference}
	for name, b := range engines {
		all[name] = autograd.NewTape(b)
	}
	return all
}

// on runs the row on an engine under test.
func (r *row) on(engine string, shapes [][]int, in [][]float64, dy [][]float32) (out, grad [][]float32) {
	t := autograd.NewTape(engines[engine])
	t.Record(true)
	x := r.tensors(shapes, in)
	y := r.op(t, x)
	for i, o := range y {
		out = append(out, numbers(o))
		t.Seed(o, tensor.FromSlice(dy[i], o.Shape()...))
	}
	t.BackwardSeeded()
	for _, v := range x {
		grad = append(grad, orZeros(gradient(t, v), v.Len()))
	}
	return out, grad
}

func (r *row) tensors(shapes [][]int, in [][]float64) ts {
	x := make(ts, len(in))
	for i, v := range in {
		x[i] = tensor.New(shapes[i]...)
		values := make([]float32, len(v))
		for j := range v {
			values[j] = float32(v[j])
		}
		x[i].CopyFrom(values)
		x[i].SetNeedsGrad(true)
	}
	return x
}

// numbers returns the elements of x.
func numbers(x *tensor.Tensor) []float32 {
	out := make([]float32, x.Len())
	x.CopyTo(out)
	return out
}

// gradient returns the elements of the gradient of x, or nil if there is none.
func gradient(t *autograd.Tape, x *tensor.Tensor) []float32 {
	if g := t.Grad(x); g != nil {
		return numbers(g)
	}
	return nil
}

// near fails unless got differs from want by at most tol of the largest element.
func near[T float32 | float64](t rapid.TB, what string, got []T, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	scale, worst, at := 1e-3, 0.0, 0
	for _, v := range want {
		scale = math.Max(scale, math.Abs(v))
	}
	for i, v := range want {
		if e := math.Abs(float64(got[i]) - v); e > worst || e != e {
			worst, at = e, i
		}
	}
	if !(worst <= tol*scale) {
		t.Errorf("%s: element %d is %g, want %g: error %.2g of the largest element, want at most %.2g",
			what, at, got[at], want[at], worst/scale, tol)
	}
}

// TestReferenceGradients checks that the gradients of the reference are central differences of its outputs. In float64
// with steps of 1e-5 these are accurate to about 1e-9 of the largest one.
func TestReferenceGradients(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 1)
			out, grad := r.onReference(r.in, in, cotangents)
			g := cotangents(out)
			loss := func() (sum float64) {
				out, _ := r.onReference(r.in, in, nil)
				for k, y := range out {
					for j, v := range y {
						sum += v * float64(g[k][j])
					}
				}
				return sum
			}
			const eps = 1e-5
			for i := range in {
				want := make([]float64, len(in[i]))
				for j, x := range in[i] {
					in[i][j] = x + eps
					up := loss()
					in[i][j] = x - eps
					want[j] = (up - loss()) / (2 * eps)
					in[i][j] = x
				}
				near(t, fmt.Sprintf("gradient of input %d", i), grad[i], want, 1e-6)
			}
		})
	}
}

// TestEnginesAgree checks that the engines compute what the reference does, forward and backward. The CPU's engine runs
// at small and large shapes, with the same bits on one core and on four, and the composed operations at small shapes.
func TestEnginesAgree(t *testing.T) {
	for _, r := range table() {
		for name, shapes := range map[string][][]int{"small": r.in, "large": r.big} {
			t.Run(r.name+"/"+name, func(t *testing.T) { r.agree(t, shapes, r.random(shapes, 1), name == "small") })
		}
	}
}

// agree fails unless the engines agree on outputs and gradients for the inputs in.
func (r *row) agree(t *testing.T, shapes [][]int, in [][]float64, composed bool) {
	t.Helper()
	want, wantGrad := r.onReference(shapes, in, cotangents)
	dy := cotangents(want)
	check := func(engine string, tol float64) (out, grad [][]float32) {
		out, grad = r.on(engine, shapes, in, dy)
		for i := range want {
			near(t, fmt.Sprintf("%s: output %d", engine, i), out[i], want[i], tol)
		}
		for i := range in {
			near(t, fmt.Sprintf("%s: gradient of input %d", engine, i), grad[i], wantGrad[i], 5*tol)
		}
		return out, grad
	}
	for name := range engines {
		switch {
		case name == "cpu" || !composed:
		case name == "small": // computes in float64
			check(name, 1e-6)
		default:
			check(name, r.tolerance())
		}
	}
	out, grad := check("cpu", r.tolerance())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, cores := range []int{1, 4} {
		runtime.GOMAXPROCS(cores)
		o, d := r.on("cpu", shapes, in, dy)
		if !same(o, out) || !same(d, grad) {
			t.Errorf("results differ with GOMAXPROCS=%d", cores)
		}
	}
}

func (r *row) tolerance() float64 {
	if r.tol == 0 {
		return 2e-5
	}
	return r.tol
}

// TestWithoutRecording checks that the engines compute the same without recording, with states updated in place, as
// with recording.
func TestWithoutRecording(t *testing.T) {
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			in := r.random(r.in, 3)
			want, _ := r.onReference(r.in, in, nil)
			eng, onReference := referenceTape()
			x := make(ts, len(in))
			for i, v := range in {
				x[i] = reference.Of(v, r.in[i]...)
			}
			for i, y := range r.op(onReference, x) {
				near(t, fmt.Sprintf("output %d of the reference", i), eng.Values64(y), want[i], 1e-12)
			}
			for engine, b := range engines {
				for i, y := range r.op(autograd.NewTape(b), r.tensors(r.in, in)) {
					near(t, fmt.Sprintf("%s: output %d", engine, i), numbers(y), want[i], r.tolerance())
				}
			}
		})
	}
}

// same reports whether all bits are equal.
func same(a, b [][]float32) bool {
	for i := range a {
		for j, v := range a[i] {
			if math.Float32bits(v) != math.Float32bits(b[i][j]) {
				return false
			}
		}
	}
	return true
}

// ramp returns f(0) to f(n-1).
func ramp[T any](n int, f func(i int) T) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = f(i)
	}
	return x
}

// repeated returns n of the values, over and over.
func repeated[T any](n int, values []T) []T {
	return ramp(n, func(i int) T { return values[i%len(values)] })
}

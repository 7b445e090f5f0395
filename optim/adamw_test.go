package optim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/tensor"
)

// segmentSize is the unit of work of an update on the CPU.
const segmentSize = 1 << 14

// shapes are the shapes of the tests' parameters. The second is longer than a segment.
var shapes = [][]int{{3, 5}, {segmentSize + 100}, {1}}

// groups returns parameters with normally distributed values: one that decays, one that does not and has its own
// learning rate, and one frozen by a learning rate of zero.
func groups(seed uint64) []Param {
	rng := rand.New(rand.NewPCG(seed, 1))
	settings := []Param{{Name: "w", LR: 1e-2, Decay: 0.1}, {Name: "log_dt", LR: 3e-3},
		{Name: "still", LR: 0, Decay: 0.1}}
	for i := range settings {
		settings[i].Tensor = tensor.New(shapes[i]...)
		settings[i].CopyFrom(normals(rng, settings[i].Len()))
	}
	return settings
}

func normals(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// gradients returns the gradients of a step. Their scale varies, so that only some steps are clipped.
func gradients(params []Param, step int) (grads []*tensor.Tensor) {
	rng := rand.New(rand.NewPCG(uint64(step), 2))
	scale := float32(math.Exp(rng.NormFloat64())) * 0.01
	for _, p := range params {
		g := normals(rng, p.Len())
		for i := range g {
			g[i] *= scale
		}
		grads = append(grads, tensor.FromSlice(g, p.Shape()...))
	}
	return grads
}

// definition is AdamW as defined in arXiv:1711.05101, in float64.
type definition struct{ p, m, v []float64 }

// step updates refs by the definition and returns the global norm of the gradients before clipping.
func step(refs []definition, params []Param, grads []*tensor.Tensor, n int, factor, clip float64) float64 {
	const b1, b2, eps = 0.9, 0.95, 1e-8
	norm := 0.0
	for _, g := range grads {
		for _, v := range g.Data() {
			norm += float64(v) * float64(v)
		}
	}
	norm = math.Sqrt(norm)
	scale := math.Min(1, clip/norm)
	for k, r := range refs {
		lr := params[k].LR * factor
		for i, g := range grads[k].Data() {
			g := float64(g) * scale
			r.m[i] = b1*r.m[i] + (1-b1)*g
			r.v[i] = b2*r.v[i] + (1-b2)*g*g
			mHat, vHat := r.m[i]/(1-math.Pow(b1, float64(n))), r.v[i]/(1-math.Pow(b2, float64(n)))
			r.p[i] -= lr*params[k].Decay*r.p[i] + lr*mHat/(math.Sqrt(vHat)+eps)
		}
	}
	return norm
}

func wide(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// backends are the engines whose updates are tested.
var backends = []engine.Backend{cpu.Backend{}, reference.Backend{}, smallengine.New[float64]()}

// TestAdamW checks that fifty steps with groups, a schedule and clipping match the definition on each engine.
func TestAdamW(t *testing.T) {
	for _, b := range backends {
		t.Run(b.Kind(), func(t *testing.T) { testAdamW(t, b) })
	}
}

func testAdamW(t *testing.T, b engine.Backend) {
	const clip = 1.0
	tol := 1e-12 // tolerance of the norm
	if b.Kind() == "small" {
		tol = 1e-6 // the norm is read as float32
	}
	params := groups(1)
	var refs []definition
	for _, p := range params {
		refs = append(refs, definition{wide(p.Data()), make([]float64, p.Len()), make([]float64, p.Len())})
	}
	still := slices.Clone(params[2].Data())
	o := NewAdamW(b, params, 0.9, 0.95, 1e-8, clip)
	clipped := 0
	for n := 1; n <= 50; n++ {
		grads := gradients(params, n)
		factor := 1 / math.Sqrt(float64(n))
		versions := params[0].Version()
		want := step(refs, params, grads, n, factor, clip)
		if got := o.Norm(grads); math.Abs(got-want) > tol*want {
			t.Fatalf("step %d: GradNorm %v, want %v", n, got, want)
		}
		if got := o.Step(grads, 1, factor); math.Abs(got-want) > tol*want {
			t.Fatalf("step %d: norm %v, want %v", n, got, want)
		}
		if want > clip {
			clipped++
		}
		if o.Steps() != n || o.Norm(grads) != 0 || params[0].Version() == versions {
			t.Fatalf("after step %d: %d steps, gradients of norm %v, version %d",
				n, o.Steps(), o.Norm(grads), params[0].Version())
		}
	}
	if clipped < 5 || clipped > 45 {
		t.Fatalf("%d of 50 steps are clipped: the test means to have both", clipped)
	}
	for k, r := range refs {
		for i, want := range r.p { // fifty updates of up to 1e-2, each with rounding errors
			if got := float64(params[k].Data()[i]); math.Abs(got-want) > 2e-6*max(1, math.Abs(want)) {
				t.Fatalf("%s: element %d is %v, want %v", params[k].Name, i, got, want)
			}
		}
	}
	if !slices.Equal(still, params[2].Data()) {
		t.Error("a parameter with a learning rate of zero moved")
	}
}

// TestResume checks that an optimizer with restored moments and number of steps continues with the same bits.
func TestResume(t *testing.T) {
	run := func(params []Param, o *AdamW, from, to int) {
		for n := from; n < to; n++ {
			o.Step(gradients(params, n), 1, 1)
		}
	}
	params := groups(2)
	o := NewAdamW(cpu.Backend{}, params, 0.9, 0.999, 1e-8, 1)
	run(params, o, 0, 5)

	resumed := groups(3)
	for i, p := range params {
		resumed[i].CopyFrom(p.Data())
	}
	saved := map[string][]float32{}
	o.Moments(func(name string, x *tensor.Tensor) {
		i := slices.IndexFunc(params, func(p Param) bool { return strings.HasPrefix(name, p.Name+".") })
		if !x.SameShape(params[i].Tensor) {
			t.Errorf("%s has shape %v, want %v", name, x, params[i])
		}
		saved[name] = slices.Clone(x.Data())
	})
	r := NewAdamW(cpu.Backend{}, resumed, 0.9, 0.999, 1e-8, 1)
	r.SetSteps(o.Steps())
	if err := r.SetMoments(func(name string) ([]float32, error) { return saved[name], nil }); err != nil {
		t.Fatal(err)
	}
	run(params, o, 5, 10)
	run(resumed, r, 5, 10)
	for i, p := range params {
		if !slices.Equal(p.Data(), resumed[i].Data()) {
			t.Errorf("%s differs after resuming", p.Name)
		}
	}

	saved["log_dt.exp_avg_sq"] = saved["log_dt.exp_avg_sq"][1:]
	err := r.SetMoments(func(name string) ([]float32, error) { return saved[name], nil })
	if err == nil || !strings.Contains(err.Error(), "log_dt.exp_avg_sq") {
		t.Errorf("moments that are too short: error %v", err)
	}
	lost := errors.New("lost")
	if err := r.SetMoments(func(string) ([]float32, error) { return nil, lost }); !errors.Is(err, lost) {
		t.Errorf("moments that cannot be read: error %v", err)
	}
}

// TestNonFinite checks that a gradient that is not finite changes nothing and is named.
func TestNonFinite(t *testing.T) {
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(-1))} {
		params := groups(4)
		o := NewAdamW(cpu.Backend{}, params, 0.9, 0.95, 1e-8, 1)
		grads := gradients(params, 1)
		if name, found := o.NonFiniteGrad(grads); found {
			t.Errorf("all gradients are finite, but %s is named", name)
		}
		grads[1].Data()[segmentSize+7] = bad
		before := fmt.Sprint(params[0].Data(), o.own()[0].M.Data())
		if norm := o.Step(grads, 1, 1); !math.IsNaN(norm) && !math.IsInf(norm, 0) {
			t.Errorf("the norm is %v", norm)
		}
		if fmt.Sprint(params[0].Data(), o.moments[0].M.Data()) != before || o.Steps() != 0 {
			t.Error("the step changed something")
		}
		if name, found := o.NonFiniteGrad(grads); !found || name != "log_dt" {
			t.Errorf("the gradient of log_dt is not finite, but %q is named", name)
		}
	}
}

// TestNoClip checks that zero means no clipping.
func TestNoClip(t *testing.T) {
	moved := func(clip float64) float32 {
		p := []Param{{Name: "x", Tensor: tensor.New(1), LR: 1}}
		o := NewAdamW(cpu.Backend{}, p, 0, 0, 1, clip) // without averages, p = -g/(|g|+1)
		o.Step([]*tensor.Tensor{tensor.FromSlice([]float32{3}, 1)}, 1, 1)
		return p[0].Data()[0]
	}
	for clip, want := range map[float64]float32{0: -0.75, 100: -0.75, 1: -0.5} {
		if got := moved(clip); math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("clipped at %g it moves by %v, want %v", clip, got, want)
		}
	}
}

// TestAnyNumberOfCores checks that norms and updates have the same bits on any number of cores.
func TestAnyNumberOfCores(t *testing.T) {
	run := func(cores int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		params := groups(5)
		o := NewAdamW(cpu.Backend{}, params, 0.9, 0.95, 1e-8, 1)
		out := ""
		for n := range 3 {
			out += fmt.Sprintln(math.Float64bits(o.Step(gradients(params, n), 1, 1)))
		}
		return out + fmt.Sprint(params[0].Data(), params[1].Data())
	}
	want := run(1)
	for _, cores := range []int{2, 4} {
		if run(cores) != want {
			t.Errorf("%d cores give other bits than one", cores)
		}
	}
}

// TestRanges checks that an update made range by range has the same bits as one made at once, and so has one by sums
// over four targets.
func TestRanges(t *testing.T) {
	whole, parts, sums := groups(6), groups(6), groups(6)
	with := func(params []Param) *AdamW { return NewAdamW(cpu.Backend{}, params, 0.9, 0.95, 1e-8, 1) }
	o, byRange, bySum := with(whole), with(parts), with(sums)
	for n := range 5 {
		norm := o.Step(gradients(whole, n), 1, 0.5)
		grads := gradients(parts, n)
		if got := byRange.Norm(grads); got != norm {
			t.Fatalf("step %d: norm %v, want %v", n, got, norm)
		}
		u := byRange.Begin(byRange.Scale(norm), 0.5)
		u.Range(grads, 2, 3)
		u.Range(grads, 0, 2)
		fourfold := gradients(sums, n)
		for _, g := range fourfold {
			for i := range g.Data() {
				g.Data()[i] *= 4
			}
		}
		if got := bySum.Step(fourfold, 4, 0.5); got != norm {
			t.Fatalf("step %d: the norm of sums over 4 is %v, want %v", n, got, norm)
		}
		for i, p := range whole {
			if !slices.Equal(p.Data(), parts[i].Data()) {
				t.Fatalf("step %d: %s differs when it is updated range by range", n, p.Name)
			}
			if !slices.Equal(p.Data(), sums[i].Data()) {
				t.Fatalf("step %d: %s differs when gradients are sums", n, p.Name)
			}
		}
	}
}

// TestAdd checks that gradients are added element by element, on each engine and any number of cores, and that the
// added gradients become zero.
func TestAdd(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	params := groups(7)
	for _, b := range backends {
		o := NewAdamW(b, params, 0.9, 0.95, 1e-8, 1)
		for _, cores := range []int{1, 4} {
			runtime.GOMAXPROCS(cores)
			dst, src := gradients(params, 1), gradients(params, 2)
			was, other := gradients(params, 1), gradients(params, 2)
			o.Add(dst, src)
			for i := range dst {
				for j, got := range dst[i].Data() {
					if want, left := was[i].Data()[j]+other[i].Data()[j], src[i].Data()[j]; got != want || left != 0 {
						t.Fatalf("%s, %d cores: element %d of %s is %v and leaves %v, want %v and 0", b.Kind(),
							cores, j, params[i].Name, got, left, want)
					}
				}
			}
		}
	}
}

// TestAverage checks that averages move towards the parameters, and that Swap exchanges both, on each engine.
func TestAverage(t *testing.T) {
	for _, b := range backends {
		params := groups(8)
		o := NewAdamW(b, params, 0.9, 0.95, 1e-8, 1)
		averages := o.Values()
		before := averages[0].Floats()
		for _, p := range params {
			p.Fill(2)
		}
		o.Average(averages, 0.75)
		want := make([]float32, len(before))
		for i, v := range before {
			want[i] = v + 0.25*(2-v)
		}
		near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-6 }
		if got := averages[0].Floats(); !slices.EqualFunc(got, want, near) {
			t.Errorf("%s: averages are %v, want %v", b.Kind(), got, want)
		}
		version := params[0].Version()
		o.Swap(averages)
		if got := params[0].Floats(); !slices.EqualFunc(got, want, near) || averages[0].Floats()[0] != 2 ||
			params[0].Version() == version {
			t.Errorf("%s: parameters are %v, want %v", b.Kind(), got, want)
		}
	}
}

// TestClippingFactor checks that a gradient whose norm exceeds the limit c is multiplied by c/(norm + 1e-6), as in
// PyTorch's clip_grad_norm_, so that it never exceeds c. A gradient at the limit, or without a limit, is unchanged.
func TestClippingFactor(t *testing.T) {
	for _, c := range []struct{ clip, norm, want float64 }{
		{1, 1, 1}, {1, 0.5, 1}, {2, 2.5, 2 / 2.500001}, {1e-3, 2e-3, 1e-3 / 2.001e-3}, {0, 1e9, 1}, {1, 0, 1},
	} {
		o := AdamW{Clip: c.clip}
		if got := o.Scale(c.norm); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("limit %v, norm %v: found the factor %v, want %v", c.clip, c.norm, got, c.want)
		}
	}
}

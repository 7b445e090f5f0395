package smallengine_test

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/compose"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/testkit/smallengine"
	"github.com/hippo-ssm/hippo/internal/testkit/toymodel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

const vocab = 40

// layers holds the layers of the models that are trained and decoded: the main model's, and Mamba's.
var layers = map[string]string{"hybrid": "h3,attention,h3", "mamba": "mamba,mamba"}

// TestTraining checks that a model with dropout trains on the small engine as on the CPU engine. A step may copy only
// ids in, and only the loss and the gradient's norm out.
func TestTraining(t *testing.T) {
	ids := toymodel.Text(5, 26, vocab)
	for name, layers := range layers {
		t.Run(name, func(t *testing.T) {
			small := smallengine.New[float32]()
			want := toymodel.NewTrainer(t, layers, vocab, native.Backend)
			got := toymodel.NewTrainer(t, layers, vocab, small)
			var first, last float64
			for i := range 8 {
				w := want.Step(ids, i)
				small.Copied()
				last = got.Step(ids, i)
				if i == 0 {
					first = last
				}
				if math.Abs(last-w) > 1e-3*w {
					t.Errorf("step %d: the loss is %g, want that of the CPU's engine, %g", i, last, w)
				}
				in, out, rows := small.Copied()
				if in > 0 || out > 2 || rows > 4*len(ids) { // rows forward and back, of ids and of targets
					t.Errorf("step %d copies %d numbers in, %d ids in and %d numbers out; want ids, a loss and a norm",
						i, in, rows, out)
				}
			}
			if last > first-0.2 {
				t.Errorf("the loss went from %g to %g", first, last)
			}
		})
	}
}

// TestSavedStates checks that a clone of a state, and a state that was saved and restored, continue as the state itself
// does.
func TestSavedStates(t *testing.T) {
	ids := toymodel.Text(6, 100, vocab)
	for _, layers := range []string{"h3,attention", "gau,gated-conv", "window-attention,mamba", "bucket-attention,s4"} {
		t.Run(layers, func(t *testing.T) {
			m := toymodel.New(t, layers, vocab)
			m.Use(smallengine.New[float32]())
			state := m.NewState()
			run := func(state *model.State, from, to int) []float32 {
				tape, rows := m.NewTape(), model.OneRow(to-from, state)
				return m.LastLogits(tape, m.Forward(tape, ids[from:to], rows), rows).Floats()
			}
			run(state, 0, 70)
			run(state, 70, 71)
			clone, restored := state.Clone(), toymodel.Saved(t, m, state)
			for at := 71; at < 75; at++ {
				want := run(state, at, at+1)
				for what, other := range map[string]*model.State{"a clone": clone, "a saved state": restored} {
					for j, v := range run(other, at, at+1) {
						if math.Abs(float64(v-want[j])) > 1e-4*math.Max(1, math.Abs(float64(want[j]))) {
							t.Fatalf("%s: token %d, logit %d: %g, want %g", what, at, j, v, want[j])
						}
					}
				}
			}
		})
	}
}

// TestDecoding checks that a prompt in two pieces and the tokens after it have the same logits as on the CPU engine. A
// token may copy only its id in and its logits out.
func TestDecoding(t *testing.T) {
	ids := toymodel.Text(6, 100, vocab)
	for name, layers := range layers {
		t.Run(name, func(t *testing.T) {
			small := smallengine.New[float32]()
			run := func(b engine.Backend) [][]float32 {
				m := toymodel.New(t, layers, vocab)
				m.Use(b)
				return toymodel.Decode(m, ids, m.NewState(), func(from, to int) {
					if in, out, ids := small.Copied(); from > 40 && b != native.Backend {
						if in > 0 || out > vocab || ids > to-from {
							t.Fatalf("token %d copies %d numbers and %d ids in and %d numbers out", from, in, ids, out)
						}
					}
				})
			}
			want, got := run(native.Backend), run(small)
			for i := range want {
				for j, w := range want[i] {
					if math.Abs(float64(got[i][j]-w)) > 1e-3*math.Max(1, math.Abs(float64(w))) {
						t.Fatalf("call %d, logit %d: %g, want %g", i, j, got[i][j], w)
					}
				}
			}
		})
	}
}

// fast is a backend whose engines have their own Linear for layers without a bias.
type fast struct {
	smallengine.Backend[float32]
	calls *int
}

func (b fast) Open(step *engine.Step) engine.Engine {
	return &fastEngine{b.Backend.Open(step).(*compose.Engine), b.calls}
}

type fastEngine struct {
	*compose.Engine
	calls *int
}

// Linear computes y = x Wᵀ, dx = dy W, dW = dyᵀ x.
func (e *fastEngine) Linear(x, w, bias *tensor.Tensor, a engine.Activation) *tensor.Tensor {
	if bias != nil || a != engine.None {
		return e.Engine.Linear(x, w, bias, a)
	}
	*e.calls++
	n, m, k := x.Rows(), w.Dim(0), w.Dim(1)
	y := e.New(append(x.Shape()[:x.Dims()-1], m)...)
	xs, ws, ys := x.Floats(), w.Floats(), make([]float32, n*m)
	each := func(f func(x, w, y int)) {
		for i := range n * m * k {
			f(i/(m*k)*k+i%k, i/k%m*k+i%k, i/k)
		}
	}
	each(func(x, w, y int) { ys[y] += xs[x] * ws[w] })
	y.CopyFrom(ys)
	e.Record("Linear", []*tensor.Tensor{y}, []*tensor.Tensor{x, w}, func() {
		dy := e.Grad(y).Floats()
		dx, dw := make([]float32, len(xs)), make([]float32, len(ws))
		each(func(x, w, y int) {
			dx[x] += dy[y] * ws[w]
			dw[w] += dy[y] * xs[x]
		})
		e.AddGrad(x, tensor.FromSlice(dx, x.Shape()...))
		e.AddGrad(w, tensor.FromSlice(dw, w.Shape()...))
	})
	return y
}

// TestOverride checks that an engine with its own operation in place of the composed one trains as before.
func TestOverride(t *testing.T) {
	ids, calls := toymodel.Text(5, 26, vocab), 0
	want := toymodel.NewTrainer(t, layers["mamba"], vocab, native.Backend)
	got := toymodel.NewTrainer(t, layers["mamba"], vocab, fast{smallengine.New[float32](), &calls})
	for i := range 3 {
		if w, g := want.Step(ids, i), got.Step(ids, i); math.Abs(g-w) > 1e-3*w {
			t.Errorf("step %d: the loss is %g, want %g", i, g, w)
		}
	}
	if calls == 0 {
		t.Error("the operation was not called")
	}
}

// TestCacheMoves checks that a cache on the host whose first positions were dropped can continue in an engine's memory.
func TestCacheMoves(t *testing.T) {
	const heads, n, left, more, hd = 2, 100, 90, 3, 4
	numbered := func(from, n int) *tensor.Tensor {
		x := tensor.New(heads, n, hd)
		for i, d := 0, x.Data(); i < len(d); i++ {
			d[i] = float32(1000*(i/(n*hd)) + from + i/hd%n)
		}
		return x
	}
	var c engine.KVCache
	c.Append(0, numbered(0, n), numbered(0, n))
	c.Keep(left)
	keys, values := numbered(n, more), numbered(n, more)
	smallengine.New[float32]().Place(keys, values)
	c.Append(n, keys, values)
	c.Pages(func(page *engine.Page, _, _ int) {
		for _, x := range page.Rows {
			if x.Storage() == nil {
				t.Error("a page is still in ordinary memory")
			}
		}
	})
	want := numbered(n-left, left+more).Floats()
	for which := range 2 {
		if got := c.Tensor(which, left+more).Floats(); !slices.Equal(got, want) {
			t.Errorf("after the move the cache has %v, want %v", got, want)
		}
	}
}

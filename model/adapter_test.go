package model

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/engine/reference"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// adapted attaches an adapter of rank 3 to a model. Its changes are as large as the weights.
func adapted(t testing.TB, m *Model, seed uint64) *Model {
	t.Helper()
	a, err := m.Adapt(AdapterShape{Rank: 3, Alpha: 6})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 4))
	a.Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		for i := range x {
			x[i] = float32(rng.NormFloat64() * 0.2)
		}
		p.CopyFrom(x)
	})
	return m
}

// onTape returns the loss of a model on a text, and the gradients of its adapter.
func onTape(m *Model, tape *autograd.Tape) (loss []float32, grads [][]float32) {
	const b, l = 2, 40
	var leaves []*tensor.Tensor
	m.Adapter().Params("", func(_ string, p *nn.Param) { leaves = append(leaves, p.Tensor) })
	g := autograd.NewGradients(tape.Backend(), leaves...)
	tape.Collect(g)
	tape.Record(true)
	ids := text(3, b*l)
	y := m.Loss(tape, m.Forward(tape, ids, EqualRows(b, l)), ids)
	loss = read(y)
	tape.Backward(y)
	for _, x := range g.Each() {
		grads = append(grads, read(x))
	}
	return loss, grads
}

// wantNear fails the test unless two slices differ by at most tol times the largest element.
func wantNear(t *testing.T, what string, got, want []float32, tol float64) {
	t.Helper()
	most, worst := 1e-6, 0.0
	for i, v := range want {
		most = max(most, math.Abs(float64(v)))
		worst = max(worst, math.Abs(float64(got[i]-v)))
	}
	if !(worst <= tol*most) {
		t.Errorf("%s: off by %.2g of the largest, want at most %.2g", what, worst/most, tol)
	}
}

// TestAdapterGradients checks the loss and the gradients of an adapter in layers of every kind of product. Over float32
// weights they equal those of the reference engine, and over rounded weights those of float32 with the rounded numbers.
// The weights of the model have no gradients and do not change.
func TestAdapterGradients(t *testing.T) {
	const layers = "h3,attention/swiglu,mamba,mamba2/none," + mixtures
	for _, p := range []engine.Precision{engine.Float32, engine.BF16, engine.Int8, engine.Int4} {
		t.Run(p.String(), func(t *testing.T) {
			m, want := hybrid(t, layers), hybrid(t, layers)
			if p != engine.Float32 {
				if err := m.PackFrozen(p); err != nil {
					t.Fatal(err)
				}
				copyRounded(t, want, m)
			}
			before := m.Fingerprint()
			adapted(t, m, 1)
			adapted(t, want, 1)
			if m.NumParams() != 0 || m.Adapter().NumParams() == 0 || m.Fingerprint() == before {
				t.Errorf("%d parameters of the model are trained, and %d of the adapter", m.NumParams(),
					m.Adapter().NumParams())
			}
			weights := m.WeightsFingerprint()
			loss, grads := onTape(m, autograd.NewTape(cpu.Backend{}))
			wantLoss, wantGrads := onTape(want, autograd.NewTape(reference.Backend{}))
			wantNear(t, "loss", loss, wantLoss, 1e-5)
			for i, c := range m.Adapter().Changes {
				wantNear(t, c.Name+" A", grads[2*i], wantGrads[2*i], 2e-3)
				wantNear(t, c.Name+" B", grads[2*i+1], wantGrads[2*i+1], 2e-3)
			}
			if m.WeightsFingerprint() != weights {
				t.Error("the weights of the model have changed")
			}
		})
	}
}

// copyRounded copies the rounded weights of one model to another.
func copyRounded(t *testing.T, to, from *Model) {
	t.Helper()
	var all [][]float32
	from.Params("", func(_ string, p *nn.Param) {
		x := make([]float32, p.Len())
		if p.Packed() == nil {
			p.CopyTo(x)
		} else {
			ids := make([]int32, p.Dim(0))
			for i := range ids {
				ids[i] = int32(i)
			}
			autograd.NewTape(cpu.Backend{}).Embedding(p.Tensor, ids).CopyTo(x)
		}
		all = append(all, x)
	})
	differ := false
	to.Params("", func(_ string, p *nn.Param) {
		differ = differ || !slices.Equal(read(p.Tensor), all[0])
		p.CopyFrom(all[0])
		all = all[1:]
	})
	if !differ {
		t.Error("nothing was rounded")
	}
}

// TestMerge checks that a merged model has other weights, but the logits of the model with the adapter, for whole
// sequences and step by step, in layers of every mixer. A new adapter does not change a bit.
func TestMerge(t *testing.T) {
	layers := every()
	plain, m, fresh := hybrid(t, layers), adapted(t, hybrid(t, layers), 1), hybrid(t, layers)
	a, err := fresh.Adapt(AdapterShape{Rank: 4, Alpha: 8})
	if err != nil {
		t.Fatal(err)
	}
	a.Init(5)
	const b, l = 2, 64
	ids := text(4, b*l)
	before, _ := logits(plain, ids, b, l, l)
	if got, _ := logits(fresh, ids, b, l, l); !slices.Equal(got, before) {
		t.Error("an adapter that has not been trained changes the model")
	}
	whole, _ := logits(m, ids, b, l, l)
	steps, _ := logits(m, ids, b, l, 32, 16, 8, 8)
	if err := m.Save(t.TempDir()); err == nil || !strings.Contains(err.Error(), "adapter") {
		t.Errorf("saving a model with an adapter: %v", err)
	}
	if err := m.Merge(); err != nil {
		t.Fatal(err)
	}
	got, _ := logits(m, ids, b, l, l)
	wantNear(t, "the merged model", got, whole, 1e-5)
	if slices.Equal(whole, before) {
		t.Error("the adapter changes nothing")
	}
	if len(steps) != len(whole) || m.Adapter() != nil {
		t.Errorf("%d logits step by step, %d in one, adapter %v", len(steps), len(whole), m.Adapter())
	}
	if err := m.Save(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// TestBeside checks that models from Beside share the memory of the weights, can compute concurrently, and do not
// change each other's results.
func TestBeside(t *testing.T) {
	for _, p := range []engine.Precision{engine.Float32, engine.Int8} {
		m := packed(t, p)
		const b, l = 1, 48
		ids := text(4, b*l)
		want, _ := logits(m, ids, b, l, l)
		var all [3]*Model
		var alone [3][]float32
		for i := range all {
			other, err := m.Beside()
			if err != nil {
				t.Fatal(err)
			}
			all[i] = adapted(t, other, uint64(i))
			alone[i], _ = logits(other, ids, b, l, l)
			if slices.Equal(alone[i], want) || i > 0 && slices.Equal(alone[i], alone[0]) {
				t.Errorf("%v: model %d computes what another does", p, i)
			}
			if more := other.Bytes() - m.Bytes(); more != 4*other.Adapter().NumParams() {
				t.Errorf("%v: a model beside counts %d bytes more", p, more)
			}
			m.Params("", func(name string, q *nn.Param) {
				if q.Change != nil {
					t.Errorf("%v: %s of the model is changed", p, name)
				}
			})
		}
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() {
				if got, _ := logits(all[i%3], ids, b, l, l); !slices.Equal(got, alone[i%3]) {
					t.Errorf("%v: model %d computes another result beside others", p, i%3)
				}
			})
		}
		group.Wait()
		if got, _ := logits(m, ids, b, l, l); !slices.Equal(got, want) {
			t.Errorf("%v: the model computes another result than before", p)
		}
	}
}

// TestAdapterTargets checks that patterns choose matrices of products, and that invalid patterns are reported.
func TestAdapterTargets(t *testing.T) {
	changed := func(targets ...string) string {
		m := hybrid(t, "h3,attention,mamba")
		a, err := m.Adapt(AdapterShape{Rank: 2, Alpha: 1, Targets: targets})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for _, c := range a.Changes {
			fmt.Fprint(&b, strings.TrimPrefix(c.Module(), "backbone.layers."), " ")
		}
		return strings.TrimSpace(b.String())
	}
	const mlps = "0.mlp.fc1 0.mlp.fc2 1.mlp.fc1 1.mlp.fc2 2.mlp.fc1 2.mlp.fc2"
	for _, c := range []struct {
		targets []string
		want    string
	}{
		{[]string{"q_proj", "Wqkv"}, "0.mixer.q_proj 1.mixer.Wqkv"},
		{[]string{"mlp"}, mlps},
		{[]string{"*.fc?"}, mlps},
		{[]string{"backbone.layers.1-2.mixer"}, "1.mixer.Wqkv 1.mixer.out_proj 2.mixer.in_proj 2.mixer.x_proj " +
			"2.mixer.dt_proj 2.mixer.out_proj"},
		{[]string{"backbone.layers.0.mixer.k_proj.weight"}, "0.mixer.k_proj"},
	} {
		if got := changed(c.targets...); got != c.want {
			t.Errorf("%q: changes %s, want %s", c.targets, got, c.want)
		}
	}
	if all := strings.Fields(changed()); len(all) != 4+2+4+6 {
		t.Errorf("without targets %d matrices are changed: %v", len(all), all)
	}
	m := hybrid(t, "h3,attention")
	for _, c := range []struct {
		shape AdapterShape
		want  string
	}{
		{AdapterShape{Rank: 0, Alpha: 1}, "rank: found 0, want 1 to 16"},
		{AdapterShape{Rank: 17, Alpha: 1}, "rank: found 17, want 1 to 16"},
		{AdapterShape{Rank: 1, Alpha: math.NaN()}, "alpha: found NaN"},
		{AdapterShape{Rank: 1, Alpha: 1, Targets: []string{"q_prj"}}, `"q_prj" matches no matrix`},
		{AdapterShape{Rank: 1, Alpha: 1, Targets: []string{"backbone.embeddings"}}, "matches no matrix"},
		{AdapterShape{Rank: 1, Alpha: 1, Targets: []string{"a..b"}}, "nothing before"},
		{AdapterShape{Rank: 1, Alpha: 1, Targets: []string{""}}, "nothing before"},
	} {
		if _, err := m.Adapt(c.shape); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.shape, err, c.want)
		}
		if m.Adapter() != nil || m.NumParams() == 0 {
			t.Fatalf("%+v: the model has changed after an error", c.shape)
		}
	}
	adapted(t, m, 1)
	if _, err := m.Adapt(AdapterShape{Rank: 1, Alpha: 1}); err == nil {
		t.Error("a model has got two adapters")
	}
}

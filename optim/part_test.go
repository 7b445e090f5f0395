package optim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestParts checks that an update in parts, split over two optimizers, has the same bits as a whole one, in weights and
// moments. Each element is in one part, and part sizes differ by at most one cut.
func TestParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 1))
	random := func() (params []Param) {
		for i, n := range []int{5, 70_001, 256, 3000} {
			p := Param{Name: string(rune('a' + i)), Tensor: tensor.New(n), LR: 1e-2 / float64(1+i),
				Decay: float64(i) / 10}
			p.CopyFrom(normals(rng, n))
			params = append(params, p)
		}
		return params
	}
	whole := random()
	one, two := random(), random()
	for i, p := range whole {
		one[i].CopyFrom(p.Data())
		two[i].CopyFrom(p.Data())
	}
	with := func(params []Param) *AdamW { return NewAdamW(cpu.Backend{}, params, 0.9, 0.95, 1e-8, 1) }
	w, a, b := with(whole), with(one), with(two)
	parts := a.Parts(7)
	end := 0
	for i, p := range parts {
		if n := p.End - p.First; p.First != end || n < 73262/7-2*alignment || n > 73262/7+2*alignment {
			t.Errorf("part %d is %d to %d, after %d", i, p.First, p.End, end)
		}
		end = p.End
	}
	if len(parts) != 7 || end != 5+70_001+256+3000 {
		t.Fatalf("found %d parts up to %d", len(parts), end)
	}
	if n := len(a.Parts(1 << 30)); n < 280 || n > 290 {
		t.Errorf("found %d parts at most, want one for about %d elements", n, alignment)
	}
	for n := range 4 {
		grads, here, there := gradients(whole, n), gradients(whole, n), gradients(whole, n)
		norm := w.Norm(grads)
		w.Begin(w.Scale(norm), 0.5).Range(grads, 0, len(whole))
		a.Begin(a.Scale(norm), 0.5).Parts([]*Part{&parts[6], &parts[0], &parts[1]}, here)
		b.Begin(b.Scale(norm), 0.5).Parts([]*Part{&parts[2], &parts[3], &parts[4], &parts[5]}, there)
		for i, p := range parts { // each optimizer sends its results to the other
			from, to := two, one
			if i < 2 || i == 6 {
				from, to = one, two
			}
			at := 0
			var values []float32
			p.Each(a, tensorsOf(from), func(x *tensor.Tensor) { values = append(values, x.Data()...) })
			p.Each(a, tensorsOf(to), func(x *tensor.Tensor) {
				x.CopyFrom(values[at : at+x.Len()])
				at += x.Len()
			})
		}
		for i, p := range whole {
			if !slices.Equal(p.Data(), one[i].Data()) || !slices.Equal(p.Data(), two[i].Data()) {
				t.Fatalf("update %d: %s differs", n, p.Name)
			}
		}
	}
	var m, v, wantM, wantV []float32
	for _, p := range parts {
		m, v = append(m, p.M...), append(v, p.V...)
	}
	for _, o := range w.own() {
		wantM, wantV = append(wantM, o.M.Data()...), append(wantV, o.V.Data()...)
	}
	if !slices.Equal(m, wantM) || !slices.Equal(v, wantV) || a.moments != nil {
		t.Error("the moments of parts differ, or an optimizer in parts has moments of its own")
	}
}

func tensorsOf(params []Param) (all []*tensor.Tensor) {
	for _, p := range params {
		all = append(all, p.Tensor)
	}
	return all
}

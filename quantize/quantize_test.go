package quantize

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/nn"
)

// stored returns a small model as if from LoadStored, with or without its own head, and some text.
func stored(t *testing.T, layers string, untied bool) (*model.Model, []int32) {
	t.Helper()
	return loadedBy((*model.Model).LoadStored, t, layers, untied)
}

// loadedBy is like stored, with another method of loading.
func loadedBy(load func(*model.Model, model.Weights) error, t *testing.T, layers string,
	untied bool) (*model.Model, []int32) {
	t.Helper()
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.Layers, c.NumHeads, c.UntiedHead = 64, 40, layers, 2, untied
	c.EmbedDropout, c.AttnDropout = 0, 0
	made, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	made.Init(1)
	made.Params("", func(name string, p *nn.Param) { // so that predictions depend on every parameter
		if x := p.Data(); p.Role == nn.Weight || p.Role == nn.Table {
			for i := range x {
				x[i] *= 4
			}
		}
	})
	f := savedFile(t, made)
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, name := range f.Names() {
		keys[name] = name
	}
	if err := load(m, model.Weights{File: f, Keys: keys}); err != nil {
		t.Fatal(err)
	}
	rng, ids := rand.New(rand.NewPCG(1, 2)), make([]int32, 700)
	for i := range ids {
		ids[i] = int32(rng.IntN(40))
	}
	return m, ids
}

func savedFile(t *testing.T, m *model.Model) *checkpoint.File {
	t.Helper()
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	f, err := checkpoint.OpenSafetensors(dir + "/" + model.WeightsFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// divergence returns the mean over all but the last position of each window, by definition, from whole forward passes.
func divergence(p, q *model.Model, ids []int32) float64 {
	sum, n := 0.0, 0
	for window := range slices.Chunk(ids, WindowLen) {
		var logits [2][]float64
		for i, m := range []*model.Model{p, q} {
			tape := autograd.NewTape(cpu.Backend{})
			out := m.Logits(tape, m.Forward(tape, window, model.EqualRows(1, len(window))))
			for _, v := range out.Floats() {
				logits[i] = append(logits[i], float64(v))
			}
		}
		vocab, padded := p.Config.VocabSize, p.Config.PaddedVocab()
		for at := range len(window) - 1 {
			a, b := logSoftmax(logits[0][at*padded:][:vocab]), logSoftmax(logits[1][at*padded:][:vocab])
			for i := range a {
				sum += math.Exp(a[i]) * (a[i] - b[i])
			}
			n++
		}
	}
	return sum / float64(n)
}

func logSoftmax(x []float64) []float64 {
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v)
	}
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = v - math.Log(sum)
	}
	return out
}

// TestCostsAreDivergences checks that the cost of a matrix is the divergence of the model in which only that matrix is
// rounded, wherever it is in the model, and that the report on the chosen model is correct.
func TestCostsAreDivergences(t *testing.T) {
	for layers, untied := range map[string]bool{"mamba*2": false, "h3,attention": true} {
		m, ids := stored(t, layers, untied)
		ids = ids[:600] // a whole window and part of one
		r, err := Calibrate(context.Background(), m, ids, Options{Bits: 4.5})
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := stored(t, layers, untied)
		if want := divergence(whole, m, ids); math.Abs(r.Calibration.KL-want) > 1e-3*want {
			t.Errorf("%s: told a divergence of %g, want %g", layers, r.Calibration.KL, want)
		}
		for at := 0; at < len(r.Matrices); at += 3 {
			one, _ := stored(t, layers, untied)
			x := r.Matrices[at]
			one.Params("", func(name string, p *nn.Param) {
				if name == x.Name {
					c := candidate{param: p, stored: p.Packed()}
					p.SetPacked(c.rounded(cpu.Backend{}, kinds[0]))
				}
			})
			want := divergence(whole, one, ids)
			if got := x.KL["int4"]; !(math.Abs(got-want) <= 1e-3*want) || !(want > 0) {
				t.Errorf("%s: %s costs %g, want %g", layers, x.Name, got, want)
			}
			if !(x.KL["int8"] < x.KL["int4"]/10) {
				t.Errorf("%s: %s costs %v", layers, x.Name, x.KL)
			}
		}
	}
}

// TestBudgets checks that a choice respects its average number of bits or its maximum divergence, and that more bits
// cost less.
func TestBudgets(t *testing.T) {
	last := math.Inf(1)
	for _, bits := range []float64{4, 4.5, 6, 8, 16} {
		m, ids := stored(t, "mamba,mamba", false)
		r, err := Calibrate(context.Background(), m, ids, Options{Bits: bits})
		if err != nil {
			t.Fatal(err)
		}
		used, room := 0.0, 0.0
		for _, x := range r.Matrices {
			n := float64(x.Shape[0] * x.Shape[1])
			for i, p := range kinds {
				if p.String() == x.Type {
					used += n * Bits(kinds[i])
				}
			}
			if room += n * bits; x.Fine && bits < 8 {
				room += n * (8 - bits)
			}
		}
		if used > room || used < 0.8*room && bits < 16 {
			t.Errorf("%g bits: took %g of %g", bits, used, room)
		}
		if kl := r.Calibration.KL; !(kl < last) {
			t.Errorf("%g bits: a divergence of %g, with fewer %g", bits, kl, last)
		}
		last = r.Calibration.KL
	}
	m, ids := stored(t, "mamba,mamba", false)
	const most = 0.01
	r, err := Calibrate(context.Background(), m, ids, Options{MaxKL: most})
	if err != nil {
		t.Fatal(err)
	}
	if kl := r.Calibration.KL; kl > most || kl < most/50 || r.BitsPerWeight() > 12 {
		t.Errorf("diverges by %g, want at most %g and little less; takes %g bits", kl, most, r.BitsPerWeight())
	}
}

// TestCalibrateErrors checks the errors for a text that is too short, for a model that is quantized or not packed, and
// for a canceled context.
func TestCalibrateErrors(t *testing.T) {
	ctx := context.Background()
	m, ids := stored(t, "h3", false)
	_, err := Calibrate(ctx, m, ids[:10], Options{Bits: 4})
	if err == nil || !strings.Contains(err.Error(), "10 tokens") {
		t.Errorf("10 tokens: %v", err)
	}
	if _, err := Calibrate(ctx, m, ids, Options{MaxKL: 1e-30}); err == nil || !strings.Contains(err.Error(), "max_kl") {
		t.Errorf("a divergence that cannot be: %v", err)
	}
	m, _ = stored(t, "h3", false)
	if _, err := Calibrate(ctx, m, ids, Options{Bits: 4}); err != nil {
		t.Fatal(err)
	}
	_, err = Calibrate(ctx, m, ids, Options{Bits: 4})
	if err == nil || !strings.Contains(err.Error(), "not quantized") {
		t.Errorf("twice: %v", err)
	}
	m, _ = stored(t, "h3", false)
	late, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Calibrate(late, m, ids, Options{Bits: 4}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	for bits, ok := range map[float64]bool{4: true, 4.5: true, 8: true, 5: false, 16: false, 3: false} {
		if _, err := Uniform(bits); (err == nil) != ok {
			t.Errorf("%g bits: %v", bits, err)
		}
	}
}

// TestChoose checks that among all choices within a size, hardly any costs less than the greedy one.
func TestChoose(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var matrices [][]option
		total := 0.0
		for range 5 {
			n, scale := float64(1+rng.IntN(9)), rng.ExpFloat64()
			total += n
			var all []option
			for kind, size := range []float64{4, 4.5, 8, 16} {
				all = append(all, option{kind, size * n, scale * math.Pow(4, -size) * (0.5 + rng.Float64())})
			}
			matrices = append(matrices, all)
		}
		room := total * (4 + 6*rng.Float64())
		never := func(float64) bool { return false }
		size, cost := sizeAndCost(matrices, choose(matrices, room, never))
		best := math.Inf(1)
		for code := range 1 << (2 * len(matrices)) {
			chosen := make([]int, len(matrices))
			for i := range chosen {
				chosen[i] = code >> (2 * i) & 3
			}
			if s, c := sizeAndCost(matrices, chosen); s <= room {
				best = min(best, c)
			}
		}
		least, _ := sizeAndCost(matrices, make([]int, len(matrices)))
		_, worst := sizeAndCost(matrices, make([]int, len(matrices)))
		// The greedy choice is optimal except for the last step, which may not fit.
		if size > max(room, least) || cost-best > 0.5*(worst-best)+1e-12 {
			t.Errorf("takes %g of %g and costs %g, where %g is possible", size, room, cost, best)
		}
		enough := func(c float64) bool { return c <= 0.9*worst }
		if _, c := sizeAndCost(matrices, choose(matrices, math.Inf(1), enough)); c > 0.9*worst {
			t.Errorf("costs %g, want at most %g", c, 0.9*worst)
		}
	}
}

func sizeAndCost(matrices [][]option, chosen []int) (size, cost float64) {
	for i, all := range matrices {
		size, cost = size+all[chosen[i]].size, cost+all[chosen[i]].cost
	}
	return size, cost
}

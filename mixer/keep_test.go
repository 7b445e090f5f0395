package mixer

import (
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestKeep checks that an attention state bounded to n positions gives the same as attention over the last n positions
// alone, since rotary positions are relative, also after saving and restoring.
func TestKeep(t *testing.T) {
	const batch, d, n, l = 2, 8, 3, 4
	mix, err := AttentionInfo.New(Config{DModel: d, NLayer: 1, NumHeads: 2, RotaryDim: 4})
	if err != nil {
		t.Fatal(err)
	}
	nn.InitAll(mix, "", 1)
	rng := rand.New(rand.NewPCG(4, 5))
	all := make([]float32, batch*12*d)
	for i := range all {
		all[i] = float32(rng.NormFloat64()) * 20 // large compared with the weights' 0.02, so that attention is not flat
	}
	cut := func(lo, hi int) *tensor.Tensor {
		var x []float32
		for b := range batch {
			x = append(x, all[(b*12+lo)*d:(b*12+hi)*d]...)
		}
		return tensor.FromSlice(x, batch*(hi-lo), d)
	}
	run := func(s *several, lo, hi int) []float32 { return read(s.forward(newTape(), cut(lo, hi))) }

	s := begin(mix, batch)
	run(s, 0, 5)
	whole := s.clone()
	s.keep(n)
	if got, want := s.size(), 2*4*batch*d*n; got != want { // keys and values
		t.Fatalf("%d bytes after Keep(%d), want %d", got, n, want)
	}
	restored, short := s.restored(t), begin(mix, batch)
	run(short, 5-n, 5)
	want := make([]float64, 0, batch*l*d)
	for _, v := range run(short, 5, 5+l) {
		want = append(want, float64(v))
	}
	got := run(s, 5, 5+l)
	golden.Close(t, "after Keep", got, want, 1e-5) // the angles of other positions have other rounding errors
	golden.Close(t, "after Keep, saved and restored", run(restored, 5, 5+l), want, 1e-5)
	full := run(whole, 5, 5+l)
	same := true
	for i := range full {
		same = same && full[i] == got[i]
	}
	if same {
		t.Error("Keep changed nothing")
	}
}

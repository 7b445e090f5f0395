package mixer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/nn"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRoundedState: the state of attention whose weights are packed holds keys and values in their precision, says how
// large that is, and goes on with the same bits after it has been copied, or saved and restored.
func TestRoundedState(t *testing.T) {
	const batch, d, l = 2, 32, 40
	for _, v := range []struct {
		name string
		new  func(Config) (Mixer, error)
		rows int // of a position
		of   int // numbers of a row
	}{{"attention", AttentionInfo.New, 4, d / 2}, {"window-attention", WindowAttentionInfo.New, 4, d / 2},
		{"bigbird", BigBirdInfo.New, 4, d / 2}, {"mla", MLAInfo.New, 1, 4*d/2 + d/4}} {
		for p, row := range map[engine.Precision]int{engine.BF16: 2 * v.of, engine.Int8: v.of + 4} {
			t.Run(v.name+"/"+p.String(), func(t *testing.T) {
				mix, err := v.new(Config{DModel: d, NLayer: 1, NumHeads: 2, RotaryDim: 8})
				if err != nil {
					t.Fatal(err)
				}
				nn.InitAll(mix, "", 1)
				before := begin(mix, batch)
				mix.Params("", func(_ string, q *nn.Param) {
					if q.Role == nn.Weight {
						engine.PackTensors(cpu.Backend{}, p, engine.PackRounded, q.Tensor)
					}
				})
				rng, u := rand.New(rand.NewPCG(3, 1)), tensor.New(batch*l, d)
				for i := range u.Data() {
					u.Data()[i] = float32(rng.NormFloat64())
				}
				s := begin(mix, batch)
				s.forward(newTape(), u)
				before.forward(newTape(), u)
				kept := min(l, s.states[0].(*attentionState).most)
				if got, want := s.size(), batch*v.rows*kept*row; got != want {
					t.Errorf("%d bytes, want %d for %d positions", got, want, kept)
				}
				if s.size() >= before.size()*3/4 {
					t.Errorf("%d bytes, where float32 takes %d", s.size(), before.size())
				}
				if got := mix.Traits().Growth; got != v.rows*row && v.name != "window-attention" {
					t.Errorf("it grows by %d bytes a position, want %d", got, v.rows*row)
				}
				restored, copied := s.restored(t), s.clone()
				want := read(s.forward(newTape(), u))
				for what, s := range map[string]*several{"copied": copied, "restored": restored} {
					if !slices.Equal(read(s.forward(newTape(), u)), want) {
						t.Errorf("%s it goes on with other bits", what)
					}
				}
			})
		}
	}
}

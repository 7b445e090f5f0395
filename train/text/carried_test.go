package text

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/checkpoint"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
	"github.com/hippo-ssm/hippo/train"
)

// TestCarriedStates checks that carried states are read as they were saved, also in the format of earlier versions: one
// tensor for all sequences, without their position.
func TestCarriedStates(t *testing.T) {
	const n, l = 3, 20
	c := model.DefaultConfig()
	c.DModel, c.VocabSize, c.DState, c.NumHeads, c.Rotary = 8, 16, 4, 2, 4
	c.Layers = "h3,attention,window-attention(window=9),hyena(l_max=16),block-recurrent(block=8,rows=2),mamba,gau"
	m, err := model.New(c)
	if err != nil {
		t.Fatal(err)
	}
	m.Init(1)
	states := newStates(m, n)
	forward := func(states []*model.State, l int) []float32 {
		rows, ids := &model.Rows{}, make([]int32, n*l)
		for i := range ids {
			ids[i] = int32(i * i % 16)
		}
		for _, s := range states {
			rows.Add(l, s)
		}
		y := m.Forward(autograd.NewTape(cpu.Backend{}), ids, rows)
		out := make([]float32, y.Len())
		y.CopyTo(out)
		return out
	}
	forward(states, l)
	one := carriedTensors(states)
	var all []checkpoint.Tensor
	states[0].Tensors(func(name string, x *tensor.Tensor) {
		if name == model.PositionName {
			return
		}
		shape, data := append([]int{n}, x.Shape()...), []float32(nil)
		if strings.HasSuffix(name, ".position") { // one number for each sequence
			shape = []int{n}
		}
		for _, s := range states {
			s.Tensors(func(own string, x *tensor.Tensor) {
				if own == name {
					data = append(data, make([]float32, x.Len())...)
					x.CopyTo(data[len(data)-x.Len():])
				}
			})
		}
		all = append(all, checkpoint.NewTensor(name, shape, data))
	})
	var clones []*model.State
	for _, s := range states {
		clones = append(clones, s.Clone())
	}
	want := forward(clones, 7)
	for what, tensors := range map[string][]checkpoint.Tensor{"now": one, "earlier": all} {
		path := filepath.Join(t.TempDir(), carriedFile)
		if err := train.WriteTensors(path, tensors); err != nil {
			t.Fatal(err)
		}
		read, err := readCarried(path, m, n, l)
		if err != nil {
			t.Errorf("saved %s: %v", what, err)
			continue
		}
		if read[n-1].Position != l || !slices.Equal(forward(read, 7), want) {
			t.Errorf("saved %s, the states go on otherwise, from position %d", what, read[n-1].Position)
		}
		if _, err := readCarried(path, m, n-1, l); err == nil {
			t.Errorf("saved %s, the states of %d sequences are read as those of %d", what, n, n-1)
		}
	}
}

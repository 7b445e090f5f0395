package model

import (
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// FuzzStateRestore: restoring any tensor succeeds or is an error, and a restored state can be continued.
func FuzzStateRestore(f *testing.F) {
	c := DefaultConfig()
	c.DModel, c.VocabSize, c.DState, c.NumHeads = 8, 16, 4, 2
	c.Layers = "h3,attention,window-attention(window=3),hyena(l_max=8),block-recurrent(block=4,rows=2),mamba"
	m, err := New(c)
	if err != nil {
		f.Fatal(err)
	}
	m.Init(1)
	m.NewState().Tensors(func(name string, x *tensor.Tensor) {
		shape := make([]byte, x.Dims())
		for i := range shape {
			shape[i] = byte(x.Dim(i))
		}
		f.Add(name, shape, make([]byte, 4*x.Len()))
	})
	f.Fuzz(func(t *testing.T, name string, dims, data []byte) {
		s := m.NewState()
		shape := make([]int, len(dims))
		for i, d := range dims {
			shape[i] = int(int8(d))
		}
		values := make([]float32, len(data)/4)
		for i := range values {
			values[i] = float32(int8(data[4*i]))
		}
		if s.Restore(name, shape, values) == nil {
			s.Keep(2)
			s.Clone()
			s.Size()
		}
	})
}

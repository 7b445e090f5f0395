package model

import (
	"testing"

	"github.com/hippo-ssm/hippo/tensor"
)

// FuzzStateRestore checks that restoring any tensor either succeeds or returns an error, and that a restored state can
// be continued.
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

// TestBytesOfAToken checks the size of the state that a token reads in addition to the weights. H3's state has a fixed
// size. That of attention grows with the context in each layer, and a quarter as fast in a hybrid with one layer of
// attention in four (arXiv:2212.14052, §6).
func TestBytesOfAToken(t *testing.T) {
	const n, layers = 512, 4
	grows := func(entry string) int {
		c := DefaultConfig()
		c.DModel, c.VocabSize, c.DState, c.NumHeads, c.Layers = 16, 8, 4, 2, entry
		m, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		m.Init(1)
		var sizes []int
		for s, tape := m.NewState(), m.NewTape(); len(sizes) < 3; tape.Reset() {
			m.Forward(tape, make([]int32, n), OneRow(n, s))
			sizes = append(sizes, s.Size())
		}
		if sizes[2]-sizes[1] != sizes[1]-sizes[0] {
			t.Errorf("%s: states of %d bytes after each %d tokens, want them to grow evenly", entry, sizes, n)
		}
		return sizes[1] - sizes[0]
	}
	h3, hybrid, attention := grows("h3*4"), grows("h3*2,attention,h3"), grows("attention*4")
	if h3 != 0 || attention < layers*n*2*16*2 || layers*hybrid != attention {
		t.Errorf("%d tokens add %d bytes to H3's state, %d to a hybrid's and %d to attention's, want 0, and a quarter "+
			"of at least %d", n, h3, hybrid, attention, layers*n*2*16*2)
	}
}

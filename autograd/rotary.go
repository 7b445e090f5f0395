package autograd

import (
	"math"
	"sync"
)

// Rotary is the rotary position embedding (arXiv:2104.09864) in the halves convention of GPT-NeoX and FlashAttention: of
// each head the first Dim components, as two halves (x1, x2), become
//
//	(x1 cos θ - x2 sin θ, x1 sin θ + x2 cos θ),   θ = position · base^(-2i/Dim), i < Dim/2
//
// The frequencies are rounded to float32 as the official code does. The zero value rotates nothing.
type Rotary struct {
	Dim  int
	Base float64 // 10000 where 0
}

// InvFreq returns base^(-2i/Dim) in float32.
func (r Rotary) InvFreq() []float32 {
	f := make([]float32, r.Dim/2)
	for i := range f {
		f[i] = float32(math.Pow(r.base(), -2*float64(i)/float64(r.Dim)))
	}
	return f
}

func (r Rotary) base() float64 {
	if r.Base == 0 {
		return 10000
	}
	return r.Base
}

// rotaryTable holds cosines and sines (positions, Dim/2) and grows by doubling.
type rotaryTable struct {
	cos, sin []float32
}

var (
	rotaryMu     sync.RWMutex
	rotaryTables = map[Rotary]*rotaryTable{}
)

// angles returns the cosines and sines of a position (Dim/2 each).
func (r Rotary) angles(position int) (cos, sin []float32) {
	if r.Dim == 0 {
		return nil, nil
	}
	half := r.Dim / 2
	rotaryMu.RLock()
	tab := rotaryTables[r]
	rotaryMu.RUnlock()
	if tab == nil || len(tab.cos) < (position+1)*half {
		tab = r.grow(position + 1)
	}
	return tab.cos[position*half:][:half], tab.sin[position*half:][:half]
}

func (r Rotary) grow(positions int) *rotaryTable {
	rotaryMu.Lock()
	defer rotaryMu.Unlock()
	half := r.Dim / 2
	if tab := rotaryTables[r]; tab != nil && len(tab.cos) >= positions*half {
		return tab
	}
	n := 256
	for n < positions {
		n *= 2
	}
	tab := &rotaryTable{cos: make([]float32, n*half), sin: make([]float32, n*half)}
	freq := r.InvFreq()
	for p := range n {
		for i, f := range freq {
			s, c := math.Sincos(float64(p) * float64(f))
			tab.cos[p*half+i], tab.sin[p*half+i] = float32(c), float32(s)
		}
	}
	rotaryTables[r] = tab
	return tab
}

func rotate(x, cos, sin []float32) {
	half := len(cos)
	for i, c := range cos {
		a, b := x[i], x[half+i]
		x[i], x[half+i] = a*c-b*sin[i], a*sin[i]+b*c
	}
}

// rotateBack is the transpose of rotate, which is its inverse.
func rotateBack(x, cos, sin []float32) {
	half := len(cos)
	for i, c := range cos {
		a, b := x[i], x[half+i]
		x[i], x[half+i] = a*c+b*sin[i], b*c-a*sin[i]
	}
}

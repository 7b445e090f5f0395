package cpu

import (
	"math"
	"sync"

	"github.com/hippo-ssm/hippo/engine"
)

// turn is a rotation: cosines and sines (Dim/2 each), multiplied by their magnitude and the factors of xPos.
type turn struct{ cos, sin []float32 }

// rotaryTable holds the turns (positions, Dim/2) of queries and of keys, in the same slices without xPos. It grows by
// doubling.
type rotaryTable struct{ q, k turn }

var (
	rotaryMu     sync.RWMutex
	rotaryTables = map[engine.Rotary]*rotaryTable{}
)

// turns returns the turns of a query and of a key at a position.
func turns(r engine.Rotary, position int) (q, k turn) {
	if r.Dim == 0 {
		return turn{}, turn{}
	}
	half := r.Dim / 2
	rotaryMu.RLock()
	tab := rotaryTables[r]
	rotaryMu.RUnlock()
	if tab == nil || len(tab.q.cos) < (position+1)*half {
		tab = growTurns(r, position+1)
	}
	at := func(t turn) turn { return turn{t.cos[position*half:][:half], t.sin[position*half:][:half]} }
	return at(tab.q), at(tab.k)
}

// growTurns makes a table of at least the given number of positions.
func growTurns(r engine.Rotary, positions int) *rotaryTable {
	rotaryMu.Lock()
	defer rotaryMu.Unlock()
	half := r.Dim / 2
	if tab := rotaryTables[r]; tab != nil && len(tab.q.cos) >= positions*half {
		return tab
	}
	n := 256
	for n < positions {
		n *= 2
	}
	tab := &rotaryTable{q: rotaryTurns(r, n, 1)}
	tab.k = tab.q
	if r.XPos != 0 {
		tab.k = rotaryTurns(r, n, -1)
	}
	rotaryTables[r] = tab
	return tab
}

// rotaryTurns computes the turns of n positions, with the factors of xPos to the power of sign.
func rotaryTurns(r engine.Rotary, n int, sign float64) turn {
	half := r.Dim / 2
	t := turn{make([]float32, n*half), make([]float32, n*half)}
	freq := r.InvFreq()
	for p := range n {
		for i, f := range freq {
			s, c := math.Sincos(float64(p) * float64(f))
			factor := r.Magnitude()
			if r.XPos != 0 {
				zeta := (2*float64(i)/float64(r.Dim) + 0.4) / 1.4
				factor *= math.Pow(zeta, sign*float64(p)/r.XPos)
			}
			t.cos[p*half+i], t.sin[p*half+i] = float32(c*factor), float32(s*factor)
		}
	}
	return t
}

func (t turn) rotate(x []float32) {
	half := len(t.cos)
	for i, c := range t.cos {
		a, b := x[i], x[half+i]
		x[i], x[half+i] = a*c-b*t.sin[i], a*t.sin[i]+b*c
	}
}

// transposed applies the transpose of rotate, for gradients. Without xPos it is the inverse.
func (t turn) transposed(x []float32) {
	half := len(t.cos)
	for i, c := range t.cos {
		a, b := x[i], x[half+i]
		x[i], x[half+i] = a*c+b*t.sin[i], b*c-a*t.sin[i]
	}
}

package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/tensor"
)

// shelf is memory for what is kept as long as a model and read for every token: that of all layers lies side by side,
// in pieces large enough for huge pages, from which a recurrence runs a quarter faster. A piece is given back with the
// last that lies in it.
var shelf struct {
	sync.Mutex
	rest []float32
}

const (
	shelfPiece = 2 << 20 // floats
	shelfLeast = 1 << 14 // what is smaller comes from the cache at any rate
)

// shelved returns n zeros.
func shelved(n int) []float32 {
	if n < shelfLeast {
		return make([]float32, n)
	}
	shelf.Lock()
	defer shelf.Unlock()
	if len(shelf.rest) < n {
		shelf.rest = tensor.Together(max(n, shelfPiece))[0]
	}
	x := shelf.rest[:n:n]
	shelf.rest = shelf.rest[n:]
	return x
}

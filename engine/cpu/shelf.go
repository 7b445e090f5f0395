package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/tensor"
)

// shelf is memory for what lives as long as a model and is read for every token. The layers share buffers, large
// enough for huge pages, from which a recurrence runs a quarter faster. A buffer is freed with the last slice of it.
var shelf struct {
	sync.Mutex
	rest []float32
}

const (
	shelfBuffer = 2 << 20 // floats
	shelfLeast  = 1 << 14 // smaller slices stay in the processor's cache anyway
)

// shelved returns n zeros from the shelf.
func shelved(n int) []float32 {
	if n < shelfLeast {
		return make([]float32, n)
	}
	shelf.Lock()
	defer shelf.Unlock()
	if len(shelf.rest) < n {
		shelf.rest = tensor.Together(max(n, shelfBuffer))[0]
	}
	x := shelf.rest[:n:n]
	shelf.rest = shelf.rest[n:]
	return x
}

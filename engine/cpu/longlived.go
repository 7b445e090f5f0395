package cpu

import (
	"sync"

	"github.com/hippo-ssm/hippo/tensor"
)

// longLivedBuffer is memory for data that lives as long as a model and is read for every token. The layers share
// buffers that are large enough for huge pages, with which a recurrence runs a quarter faster. A buffer is freed with
// its last slice.
var longLivedBuffer struct {
	sync.Mutex
	rest []float32
}

const (
	longLivedLen   = 2 << 20 // floats in a buffer
	longLivedLeast = 1 << 14 // smaller slices stay in the processor's cache anyway
)

// longLived returns n zeros from a shared buffer.
func longLived(n int) []float32 {
	if n < longLivedLeast {
		return make([]float32, n)
	}
	b := &longLivedBuffer
	b.Lock()
	defer b.Unlock()
	if len(b.rest) < n {
		b.rest = tensor.Together(max(n, longLivedLen))[0]
	}
	x := b.rest[:n:n]
	b.rest = b.rest[n:]
	return x
}

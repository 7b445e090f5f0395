//go:build gpu

package gpu

import (
	"math"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestPostponed checks that a product fuses the norm before it, with the same bits. It must not fuse the norm if the
// memory of the norm's input was freed, because the product may get that memory for its own result.
func TestPostponed(t *testing.T) {
	const d = 512
	values := func(n int) *tensor.Tensor {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(math.Sin(float64(i * i)))
		}
		return tensor.Stored(put(x), n/d, d)
	}
	weights, ones := values(d*d), values(d)
	of := func(between func(x *tensor.Tensor)) ([]float32, int) {
		e, x := device.Open(&engine.Step{}).(*Engine), values(d)
		defer e.Reset()
		before := device.Counts()
		_, y := e.AddRMSNorm(x, nil, ones, 1, 1e-5)
		between(x)
		z := e.Linear(y, weights, nil, engine.None).Floats()
		return z, device.Counts().since(before).Launches
	}
	alone, launches := of(func(*tensor.Tensor) { device.core.submit() })
	taken, fewer := of(func(*tensor.Tensor) {})
	freed, more := of(func(x *tensor.Tensor) { device.core.Free(x.Storage()) })
	if launches != 2 || fewer != 1 || more != 2 {
		t.Errorf("%d launches, %d taken in, %d of memory that is gone, want 2, 1 and 2", launches, fewer, more)
	}
	if !slices.Equal(alone, taken) || !slices.Equal(alone, freed) {
		t.Error("the product has other bits if the norm is taken in, or if its input is given back")
	}
}

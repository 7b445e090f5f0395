package cpu

import (
	"math"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestFeatureMapEnds checks that infinities give the limits of the function, and NaN gives NaN.
func TestFeatureMapEnds(t *testing.T) {
	inf := float32(math.Inf(1))
	for f, want := range map[engine.FeatureMap][2]float32{
		engine.ELU1: {0, inf}, engine.ReLU: {0, inf}, engine.ReLU2: {0, inf}, engine.PhiSoftplus: {0, inf},
	} {
		y := make([]float32, 3)
		featureMap(f, y, []float32{-inf, inf, float32(math.NaN())})
		if y[0] != want[0] || y[1] != want[1] || y[2] == y[2] {
			t.Errorf("%v of -Inf, +Inf, NaN is %v", f, y)
		}
	}
}

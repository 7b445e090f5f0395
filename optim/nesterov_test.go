package optim

import (
	"math"
	"testing"
)

// TestNesterov checks two steps with rate 0.7 and momentum 0.9: v = 0.5, w = 1 - 0.7·(0.5+0.45); then v = 0.45+0.2, w =
// 0.335 - 0.7·(0.2+0.585).
func TestNesterov(t *testing.T) {
	o := Nesterov{LR: 0.7, Momentum: 0.9, Velocity: make([]float32, 1)}
	w := []float32{1}
	for _, step := range []struct{ d, want float64 }{{0.5, 0.335}, {0.2, -0.2145}} {
		if o.Step(w, []float32{float32(step.d)}); math.Abs(float64(w[0])-step.want) > 1e-6 {
			t.Errorf("a gradient of %v leads to %v, want %v", step.d, w[0], step.want)
		}
	}
}

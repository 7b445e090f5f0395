package generate

import (
	"math"

	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// LogProb is the natural logarithm of the probability that logits, as of Session.Logits, give to an id.
func LogProb(m *model.Model, logits []float32, id int32) float32 {
	if int(id) >= len(logits) { // of the vocabulary's padding
		return float32(math.Inf(-1))
	}
	tape := m.Tapes.Lend()
	defer m.Tapes.Return(tape)
	var loss [1]float32
	tape.CrossEntropy(tensor.FromSlice(logits, 1, len(logits)), []int32{id}).CopyTo(loss[:])
	return -loss[0]
}

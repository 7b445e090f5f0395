package cpu

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestAttentionRoundsOperands checks attention and its gradients at BF16.
func TestAttentionRoundsOperands(t *testing.T) {
	roundsOperands(t, [][]int{{300, 3 * 64}}, func(t *Tape, in []*tensor.Tensor) *tensor.Tensor {
		return t.Attention(in[0], engine.EqualRows(2, 150), nil, engine.AttentionOptions{Heads: 4}, 0)
	})
}

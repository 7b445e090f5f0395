package autograd_test

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// TestAttentionOverBlocksOfKeys checks that outputs and gradients over long sequences, which the CPU's engine processes
// in blocks of 3072 keys, equal those over all keys, also if some rows have one block and others several.
func TestAttentionOverBlocksOfKeys(t *testing.T) {
	const block = 3072
	type o = engine.AttentionOptions
	for _, v := range []attentionVariant{
		{name: "plain", lens: []int{80}, keeps: []bool{true}, past: 2*block - 30, heads: 2, hd: 3},
		{name: "alibi_dropout", lens: []int{100, 70, 2}, keeps: []bool{true, false, true}, past: block - 50, heads: 2,
			hd: 2, o: o{ALiBi: true, Dropout: 0.3}},
		{name: "later", lens: []int{100}, keeps: []bool{true}, past: 300, first: block - 200, heads: 2, hd: 3},
		{name: "ahead", lens: []int{block + 65}, heads: 1, hd: 2, o: o{Rotary: engine.Rotary{Dim: 2}, Ahead: true}},
	} {
		t.Run(v.name, func(t *testing.T) {
			s := attentionSequences(v)
			s.alone(t, "cpu", false)
			r := s.row()
			r.agree(t, r.in, r.random(r.in, 1), false)
		})
	}
}

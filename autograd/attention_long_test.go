//go:build todo

package autograd_test

import "testing"

// TestAttentionOverBlocksOfKeys: the CPU's engine goes through long sequences in blocks of 3072 keys; outputs and gradients
// are those over all keys.
func TestAttentionOverBlocksOfKeys(t *testing.T) {
	const block = 3072
	for _, v := range []attentionVariant{
		{name: "plain", b: 1, l: 80, past: 2*block - 30, heads: 2, hd: 3},
		{name: "alibi_dropout", b: 2, l: 100, past: block - 50, heads: 2, hd: 2, alibi: true, dropout: 0.3},
		{name: "ahead", b: 1, l: block + 65, heads: 1, hd: 2, rotary: 2, ahead: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			r := v.row()
			r.agree(t, r.in, r.random(r.in, 1))
		})
	}
}

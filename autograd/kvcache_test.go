//go:build todo

package autograd

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRoundedCacheCannotTrain: no gradient could flow into the past.
func TestRoundedCacheCannotTrain(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("attention was recorded over keys in int8")
		}
	}()
	tape := NewTape()
	tape.Record(true)
	qkv := tensor.New(1, 2, 6)
	qkv.SetNeedsGrad(true)
	w := tensor.New(3, 6)
	cpu.Pack(engine.Int8, w)
	cache := engine.NewKVCache(w)
	tape.Attention(qkv, &cache, engine.AttentionOptions{Heads: 1})
}

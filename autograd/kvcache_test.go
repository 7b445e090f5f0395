package autograd

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/cpu"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestRoundedCacheCannotTrain checks that attention over a rounded cache cannot be recorded, as no gradient could flow
// into the past.
func TestRoundedCacheCannotTrain(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("attention was recorded over keys in int8")
		}
	}()
	tape := NewTape(cpu.Backend{})
	tape.Record(true)
	qkv := tensor.New(2, 6)
	qkv.SetNeedsGrad(true)
	w := tensor.New(3, 6)
	engine.PackTensors(tape.Backend(), engine.Int8, engine.PackRounded, w)
	cache := engine.NewKVCache(w)
	tape.Attention(qkv, engine.NewRows(2), []*engine.KVCache{&cache}, engine.AttentionOptions{Heads: 1})
}

// TestCacheBeforeItsRow checks that a row is refused that has fewer positions before it than its cache holds.
func TestCacheBeforeItsRow(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a row at position 0 was put behind the positions in a cache")
		}
	}()
	cache, qkv := &engine.KVCache{}, tensor.New(2, 6)
	for range 2 {
		tape := NewTape(cpu.Backend{})
		tape.Attention(qkv, engine.NewRows(2), []*engine.KVCache{cache}, engine.AttentionOptions{Heads: 1})
	}
}

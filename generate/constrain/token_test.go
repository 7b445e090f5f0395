package constrain_test

import (
	"context"
	"testing"
	"time"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate"
	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/model"
)

// init sets the model time with which BenchmarkMask compares: a token of a Mamba-130M in int8, with random weights and
// GPT-NeoX's vocabulary of 50,280.
func init() {
	constrain.TokenTime = func(b *testing.B) (least time.Duration) {
		b.Helper()
		c, err := model.Preset("mamba-130m")
		if err != nil {
			b.Fatal(err)
		}
		m, err := model.New(c)
		if err != nil {
			b.Fatal(err)
		}
		m.Init(1)
		if err := m.Pack(engine.Int8); err != nil {
			b.Fatal(err)
		}
		batch := generate.NewBatch(m, 1)
		const tokens = 20
		for i := range tokens {
			begun := time.Now()
			if err := batch.Feed(context.Background(), []int32{int32(i)}); err != nil {
				b.Fatal(err)
			}
			if took := time.Since(begun); i == 0 || took < least {
				least = took
			}
		}
		return least
	}
}

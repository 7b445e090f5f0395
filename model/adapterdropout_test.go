package model

import (
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine/cpu"
)

// TestAdapterDropout checks, in layers of every mixer, that an adapter's dropout mask depends only on the seed of an
// example: an example has the same bits in a batch as alone. Rows that do not train have the bits of an adapter without
// dropout.
func TestAdapterDropout(t *testing.T) {
	const l = 40
	m := adapted(t, hybrid(t, every()), 1)
	ids := text(3, 2*l)
	forward := func(ids []int32, seeds ...uint64) []float32 {
		rows := EqualRows(len(ids)/l, l)
		if len(seeds) > 0 {
			rows.Train(seeds...)
		}
		return read(m.Forward(autograd.NewTape(cpu.Backend{}), ids, rows))
	}
	plain := forward(ids)
	m.Adapter().SetDropout(0.3)
	if !slices.Equal(forward(ids), plain) {
		t.Error("something was dropped in rows that do not train")
	}
	both := forward(ids, 5, 6)
	half := len(both) / 2
	if slices.Equal(both, plain) || slices.Equal(both, forward(ids, 5, 7)) {
		t.Error("nothing was dropped, or the same with another seed")
	}
	if !slices.Equal(forward(ids[:l], 5), both[:half]) || !slices.Equal(forward(ids[l:], 6), both[half:]) {
		t.Error("an example is another beside others than alone")
	}
}

package cpu

import (
	"testing"

	"github.com/hippo-ssm/hippo/engine"
)

// scoresOf counts the scores that attention of l positions computes for one head.
func scoresOf(o engine.AttentionOptions, l int) (n int) {
	o.Heads = 1
	a, row := attention{opt: o}, &attentionRow{l: l}
	var spans spanBuffer
	for i := range a.tiles(row) {
		w := a.tile(spans[:], row, 0, i)
		n += w.rows * w.columns
	}
	return n
}

// TestSparseWork checks that the number of scores of sparse attention grows with the length, not with its square, and
// is a small part of dense attention's at 8k positions. The time is proportional to these numbers.
func TestSparseWork(t *testing.T) {
	const l = 8192
	dense := scoresOf(engine.AttentionOptions{}, l)
	if want := l * (l + attentionRows) / 2; dense != want {
		t.Fatalf("dense attention computes %d scores, want %d", dense, want)
	}
	blocks := &engine.Blocks{Size: 64, Window: 1, Global: 1, Random: 3}
	ahead := *blocks
	ahead.Ahead = true
	for name, count := range map[string]func(l int) int{
		"window":       func(l int) int { return scoresOf(engine.AttentionOptions{Window: 256}, l) },
		"blocks":       func(l int) int { return scoresOf(engine.AttentionOptions{Blocks: blocks}, l) },
		"blocks ahead": func(l int) int { return scoresOf(engine.AttentionOptions{Blocks: &ahead}, l) },
	} {
		once, twice := count(l), count(2*l)
		if once > dense/5 {
			t.Errorf("%s computes %d scores, dense attention %d", name, once, dense)
		}
		if twice > once*11/5 {
			t.Errorf("%s computes %d scores, and %d of twice the length", name, once, twice)
		}
	}
}

package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
)

// addDistances adds ALiBi's -m·(i-j)/scale to a tile of scores, which are multiplied by scale later.
func (a *attention) addDistances(p []float32, row *attentionRow, head int, w *attentionTile) {
	if !a.opt.ALiBi {
		return
	}
	last := row.past + w.i0 + w.rows - 1 // the last query of the tile
	buf := getFloats(last + 1)
	defer putFloats(buf)
	ramp := *buf
	for j := range ramp {
		ramp[j] = float32(j - last)
	}
	m := float32(engine.ALiBiSlope(head, a.opt.Heads)) / a.scale
	for r := range w.rows {
		x, i := p[r*w.columns:], last-(w.rows-1-r)
		for _, s := range w.spans {
			if n := min(s.Hi, i+1) - s.Lo; n > 0 {
				kernel.Axpy(m, ramp[last-i+s.Lo:][:n], x[:n])
			}
			x = x[s.Len():]
		}
	}
}

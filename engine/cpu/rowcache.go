package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// AppendRows puts x (b, l, d) behind the rows in c.
func (eng *Engine) oldAppendRows(c *engine.RowCache, x *tensor.Tensor) {
	b, l, d := x.Dim(0), x.Dim(1), x.Dim(2)
	switch {
	case !eng.Recording:
		c.Reserve(b, l, d)
		copyPositions(c.X, c.Len, x, 0, l)
	case c.Len == 0:
		c.X, c.Own = x, false
	default:
		if c.X.Dim(1) > c.Len {
			*c = c.Clone()
		}
		c.X, c.Own = eng.oldAppend(c.X, x), false
	}
	c.Len += l
}

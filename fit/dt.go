package fit

import (
	"cmp"
	"fmt"

	"github.com/hippo-ssm/hippo/model"
)

// The ways to give the time between rows to a network if rows are not evenly spaced.
const (
	DtInput = "input" // the logarithm of the time since the previous row is an input
	DtSteps = "steps" // it discretizes the systems: Abar = exp(r·Δ·A), where r is the time in median steps
	DtBoth  = "both"
	DtNone  = "none"
)

// timeGoesIn reports whether the time since the previous row is an input.
func (p *Plan) timeGoesIn() bool {
	return p.Irregular && (p.Dt == "" || p.Dt == DtInput || p.Dt == DtBoth)
}

// timeSteps reports whether the recurrences of the network use the time since the previous row.
func (p *Plan) timeSteps() bool { return p.Dt == DtSteps || p.Dt == DtBoth }

// settleDt decides how the time between rows is given to the network.
func (f *frame) settleDt(c *Config) error {
	p := f.plan
	shape := c.Model
	shape.Layers, shape.DModel = c.layers(p.Task), cmp.Or(shape.DModel, usualWidth)
	steps := c.Dt == DtSteps || c.Dt == DtBoth
	switch {
	case c.Dt == "auto" && p.Irregular:
		p.Dt = DtInput // the fastest, and often the best: see docs/fit.md
	case c.Dt == "auto":
		return nil
	case steps && p.Time == nil:
		return fmt.Errorf("dt: found %s, but no column of times (--time_column)", c.Dt)
	case steps && !model.GoesBySteps(shape):
		return fmt.Errorf("dt: found %s, but layers %s, none of which uses the times of rows; "+
			"want such as s4d, dss, gss, h3 or mamba among them, as in --model.layers 's4d*2'", c.Dt, shape.Layers)
	default:
		p.Dt = c.Dt
	}
	if p.Irregular {
		f.notes = append(f.notes, "rows are not evenly spaced: "+map[string]string{
			DtInput: "the logarithm of the time since the row before is an input",
			DtSteps: "the network's steps dt are scaled by the time since the row before",
			DtBoth:  "the network's steps dt are scaled by the time since the row before, which is also an input",
			DtNone:  "this is ignored",
		}[p.Dt]+" (--dt)")
	}
	return nil
}

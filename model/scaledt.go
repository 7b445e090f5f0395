package model

import (
	"math"
	"strings"

	"github.com/hippo-ssm/hippo/nn"
)

// ScaleDt multiplies every trained time step dt of the continuous systems (S4, S4D, DSS, GSS, H3's diagonal one) by
// factor. A model for signals of one sampling rate becomes one for signals whose rate is divided by factor
// (arXiv:2111.00396, §4.3). Diagonal modes that would then turn by more than half a circle per sample would alias, as
// the signal no longer has their frequencies. They are silenced, like bandlimit in the official code. undo restores the
// old values.
func (m *Network) ScaleDt(factor float64) (undo func()) {
	all := map[string]*nn.Param{}
	var undone []func()
	m.Params("", func(name string, p *nn.Param) { all[name] = p })
	change := func(p *nn.Param, f func(x []float32)) {
		x := p.Floats()
		f(x)
		undone = append(undone, replace(p, x))
	}
	for name, dt := range all {
		base, ok := strings.CutSuffix(name, "log_dt")
		if !ok || dt.Role != nn.SSMSystem {
			continue
		}
		if imag := all[base+"A_imag"]; imag != nil {
			above := aboveNyquist(dt, imag, factor)
			for c, p := range all {
				if c != base+"C" && !strings.HasPrefix(c, base+"C_") {
					continue
				}
				change(p, func(x []float32) {
					for i := range x { // (channels, d, n, 2)
						if above[i/2%len(above)] {
							x[i] = 0
						}
					}
				})
			}
		}
		change(dt, func(x []float32) {
			for i := range x {
				x[i] += float32(math.Log(factor))
			}
		})
	}
	return func() {
		for _, f := range undone {
			f()
		}
	}
}

// AtRate returns a copy of the network with ScaleDt applied. It does not change m.
func (m *Network) AtRate(factor float64) (*Network, error) {
	c, err := NewNetwork(m.Config)
	if err != nil {
		return nil, err
	}
	var from []*nn.Param
	m.Params("", func(_ string, p *nn.Param) { from = append(from, p) })
	values := nn.Values(c)
	c.Params("", func(_ string, p *nn.Param) {
		x := values()
		from[0].CopyTo(x)
		p.SetData(x)
		from = from[1:]
	})
	c.ScaleDt(factor)
	return c, nil
}

// replace sets the values of p to x and returns a function that restores the old ones.
func replace(p *nn.Param, x []float32) (undo func()) {
	before := p.Floats()
	p.CopyFrom(x)
	p.Changed()
	return func() {
		p.CopyFrom(before)
		p.Changed()
	}
}

// aboveNyquist reports for each of (d, n) modes whether factor times the absolute value of its angle per sample, from
// -π to π, is above π.
func aboveNyquist(logDt, imag *nn.Param, factor float64) []bool {
	dt, im := logDt.Floats(), imag.Floats()
	n := len(im) / len(dt)
	above := make([]bool, len(im))
	for i, a := range im {
		angle := math.Remainder(float64(a)*math.Exp(float64(dt[i/n])), 2*math.Pi)
		above[i] = factor*math.Abs(angle) > math.Pi
	}
	return above
}

package optim

import "github.com/hippo-ssm/hippo/internal/parallel"

// Values returns a copy of the values of all parameters.
func (o *AdamW) Values() [][]float32 {
	all := make([][]float32, len(o.params))
	for i, p := range o.params {
		all[i] = make([]float32, p.Len())
		p.CopyTo(all[i])
	}
	return all
}

// Average moves averages of all parameters, such as Values gave, towards the parameters: a ← a + (1-keep)·(w - a).
func (o *AdamW) Average(averages [][]float32, keep float64) {
	share := float32(1 - keep)
	parallel.For(len(o.segments), 1, func(lo, hi int) {
		for _, s := range o.segments[lo:hi] {
			a := averages[s.param][s.lo:s.hi]
			for i, w := range o.params[s.param].Data()[s.lo:s.hi] {
				a[i] += share * (w - a[i])
			}
		}
	})
}

// Swap exchanges the values of all parameters and those given.
func (o *AdamW) Swap(values [][]float32) {
	parallel.For(len(o.segments), 1, func(lo, hi int) {
		for _, s := range o.segments[lo:hi] {
			a := values[s.param][s.lo:s.hi]
			w := o.params[s.param].Data()[s.lo:s.hi]
			for i, x := range w {
				w[i], a[i] = a[i], x
			}
		}
	})
	for _, p := range o.params {
		p.Changed()
	}
}

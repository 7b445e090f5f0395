package optim

// Nesterov is gradient descent with Nesterov momentum, the outer step of DiLoCo (arXiv:2311.08105, algorithm 1, and
// §3.1 for the rates), on slices:
//
//	v ← μ·v + Δ,  w ← w - lr·(Δ + μ·v)
type Nesterov struct {
	LR, Momentum float32
	Velocity     []float32 // v
}

// Step updates w by the gradient d (Δ in the formula), which must have the same length.
func (o *Nesterov) Step(w, d []float32) {
	for i, delta := range d {
		v := float32(o.Momentum*o.Velocity[i]) + delta // the conversions keep products from being fused with sums
		o.Velocity[i] = v
		w[i] -= float32(o.LR * (delta + float32(o.Momentum*v)))
	}
}

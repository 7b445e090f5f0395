package kernel

import (
	"math"
	"math/cmplx"
)

// The discretization of the modes of a channel, and its gradient, in float64 because Ābar is raised to powers. All
// modes of a call share the step dt. A gradient is the derivative by the real part + i·the derivative by the imaginary
// part: for a holomorphic w = f(z), dz = dw·conj(f'(z)).

// NegExp replaces each x by -e^x. The length of x is a multiple of ModeLanes. Magnitudes below e^-708 and above e^709
// may be clamped to these bounds.
func NegExp(x []float64) {
	if cpu.has(negExpCode) {
		vecNegExp(len(x), &x[0])
		return
	}
	for i, v := range x {
		x[i] = -math.Exp(v)
	}
}

// Discretization holds the modes of a channel, before and after discretization, and their step.
type Discretization struct {
	A, B       Modes
	Dt         float64
	Abar, Bbar Modes // Ābar and B̄: the results of Bilinear and ZOH
}

// Bilinear computes Ābar = (1 + dt·A/2)/(1 - dt·A/2), B̄ = dt·B/(1 - dt·A/2).
func (d *Discretization) Bilinear() {
	a, b, abar, bbar, dt := d.A, d.B, d.Abar, d.Bbar, d.Dt
	if cpu.has(bilinearCode) {
		vecBilinear(a.N(), &abar[0], &bbar[0], &a[0], &b[0], dt)
		return
	}
	for i := range a.N() {
		z := scaled(dt/2, a.at(i))
		inv := 1 / (1 - z)
		abar.set(i, times(1+z, inv))
		bbar.set(i, scaled(dt, times(b.at(i), inv)))
	}
}

// ZOH computes Ābar = exp(dt·A), B̄ = B·(Ābar - 1)/A, for A ≠ 0 and |dt·Im A| < 2^50.
func (d *Discretization) ZOH() {
	a, b, abar, bbar, dt := d.A, d.B, d.Abar, d.Bbar, d.Dt
	if cpu.has(zohCode) {
		vecZoh(a.N(), &abar[0], &bbar[0], &a[0], &b[0], dt)
		return
	}
	for i := range a.N() {
		e := cmplx.Exp(scaled(dt, a.at(i)))
		abar.set(i, e)
		bbar.set(i, times(times(e-1, 1/a.at(i)), b.at(i)))
	}
}

// DiscretizationGrad holds the gradients of a Discretization: those of A, B and Dt, with one of Dt for each mode, are
// computed from those of Ābar and B̄.
type DiscretizationGrad struct {
	A, B       Modes
	Dt         []float64
	Abar, Bbar Modes
}

// BilinearGrad is the backward pass of Bilinear, whose results it does not need.
func (d *Discretization) BilinearGrad(g *DiscretizationGrad) {
	a, b, dt := d.A, d.B, d.Dt
	da, db, ddt, dabar, dbbar := g.A, g.B, g.Dt, g.Abar, g.Bbar
	if cpu.has(bilinearGradCode) {
		vecBilinearGrad(a.N(), &da[0], &db[0], &ddt[0], &dabar[0], &dbbar[0], &a[0], &b[0], dt)
		return
	}
	for i := range a.N() {
		inv, d := 1/(1-scaled(dt/2, a.at(i))), dbbar.at(i)
		dz := dabar.at(i) + scaled(dt/2, times(d, cmplx.Conj(b.at(i)))) // z = dt·A
		dz = times(dz, cmplx.Conj(times(inv, inv)))
		ddt[i] = realConj(d, times(inv, b.at(i))) + realConj(dz, a.at(i))
		da.set(i, scaled(dt, dz))
		db.set(i, scaled(dt, times(d, cmplx.Conj(inv))))
	}
}

// ZOHGrad is the backward pass of ZOH, whose results it needs.
func (d *Discretization) ZOHGrad(g *DiscretizationGrad) {
	a, b, abar, bbar, dt := d.A, d.B, d.Abar, d.Bbar, d.Dt
	da, db, ddt, dabar, dbbar := g.A, g.B, g.Dt, g.Abar, g.Bbar
	if cpu.has(zohGradCode) {
		vecZohGrad(a.N(), &da[0], &db[0], &ddt[0], &dabar[0], &dbbar[0], &a[0], &b[0], &abar[0], &bbar[0], dt)
		return
	}
	for i := range a.N() {
		inv, d, e := 1/a.at(i), dbbar.at(i), abar.at(i)
		dz := dabar.at(i) + times(d, cmplx.Conj(times(inv, b.at(i)))) // z = dt·A
		dz = times(dz, cmplx.Conj(e))
		ddt[i] = realConj(dz, a.at(i))
		da.set(i, scaled(dt, dz)-times(d, cmplx.Conj(times(inv, bbar.at(i)))))
		db.set(i, times(d, cmplx.Conj(times(e-1, inv))))
	}
}

package reference

import (
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// Phase sums up angles, for each head h and rate i:
//
//	φ[t] = φ[t-1] + dt[t]·ω[t] mod 2π
//
// Backward: g is the sum of dφ over a position and all after it, dω[t] = Σ_h dt[t]·g, ddt[t] = Σ_i ω[t]·g.
func (eng *Engine) Phase(rates, dt *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	n, H := rates.Dim(-1), dt.Dim(-1)
	y := eng.withLast(dt, H*n)
	ω, steps, ys := eng.values(rates), eng.values(dt), eng.values(y)
	states := eng.carry(slots, r, H*n)
	for row := range r.Count() {
		φ := states.after(row)
		for t := r.From(row); t < r.From(row)+r.Len(row); t++ {
			for i := range φ {
				φ[i] += steps[t*H+i/n] * ω[t*n+i%n]
				φ[i] -= 2 * math.Pi * math.Floor(φ[i]/(2*math.Pi))
			}
			copy(ys[t*H*n:], φ)
		}
	}
	eng.recordRows("Phase", list{y}, list{rates, dt}, states, func() {
		dy, dω, ddt := eng.gradOf(y), eng.gradOf(rates), eng.gradOf(dt)
		for row := range r.Count() {
			ds, dnext := states.grads(row)
			g := slices.Clone(dnext)
			for t := r.From(row) + r.Len(row) - 1; t >= r.From(row); t-- {
				for i := range g {
					g[i] += dy[t*H*n+i]
					dω[t*n+i%n] += steps[t*H+i/n] * g[i]
					ddt[t*H+i/n] += ω[t*n+i%n] * g[i]
				}
			}
			for i, v := range g {
				ds[i] += v
			}
		}
	})
	return y
}

// Turn computes, for the vector of rank r and head h, whose group is g, and for its pair i,
//
//	(a, b) = x_rg + bias_rh,   (a', b') = (a·cos φ - b·sin φ, a·sin φ + b·cos φ)
//
// Backward: da = da'·cos φ + db'·sin φ, db = db'·cos φ - da'·sin φ, dφ = db'·a' - da'·b'. A component without an angle
// has φ = 0.
func (eng *Engine) Turn(x, bias, phase *tensor.Tensor, by engine.Turning) *tensor.Tensor {
	n, vectors := by.Dim(x), by.Ranks*by.Heads
	y := eng.withLast(x, vectors*n)
	xs, bs, φ, ys := eng.values(x), eng.values(bias), eng.values(phase), eng.values(y)
	angles := phase.Dim(-1) / by.Heads
	// each calls f for every pair (a, b) of y, with the indices of the pairs in x and bias, and that of the angle, or
	// -1.
	each := func(f func(a, b, xa, xb, ba, bb, angle int)) {
		for t := range x.Rows() {
			for v := range vectors {
				h := v % by.Heads
				from := ((t*by.Ranks+v/by.Heads)*by.Groups + h/(by.Heads/by.Groups)) * n
				for i := range n / 2 {
					a, b := by.Pair(i, n)
					angle := -1
					if i < angles {
						angle = (t*by.Heads+h)*angles + i
					}
					f((t*vectors+v)*n+a, (t*vectors+v)*n+b, from+a, from+b, v*n+a, v*n+b, angle)
				}
			}
		}
	}
	turn := func(angle int) (sin, cos float64) {
		if angle < 0 {
			return 0, 1
		}
		return math.Sincos(φ[angle])
	}
	each(func(a, b, xa, xb, ba, bb, angle int) {
		s, c := turn(angle)
		u, v := xs[xa]+bs[ba], xs[xb]+bs[bb]
		ys[a], ys[b] = u*c-v*s, u*s+v*c
	})
	eng.record("Turn", list{y}, list{x, bias, phase}, func() {
		dy, dx, db, dφ := eng.gradOf(y), eng.gradOf(x), eng.gradOf(bias), eng.gradOf(phase)
		each(func(a, b, xa, xb, ba, bb, angle int) {
			s, c := turn(angle)
			du, dv := dy[a]*c+dy[b]*s, dy[b]*c-dy[a]*s
			dx[xa] += du
			dx[xb] += dv
			db[ba] += du
			db[bb] += dv
			if angle >= 0 {
				dφ[angle] += dy[b]*ys[a] - dy[a]*ys[b]
			}
		})
	})
	return y
}

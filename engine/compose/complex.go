package compose

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
)

// pair holds complex numbers, or real ones if im is nil.
type pair struct{ re, im *val }

// pairOf returns the complex numbers in v (…, 2).
func pairOf(v *val) pair { return pair{v.pick(-1, 0), v.pick(-1, 1)} }

// join returns the numbers as (…, 2), or the real part if im is nil.
func (a pair) join() *val {
	if a.im == nil {
		return a.re
	}
	return stack(a.re, a.im)
}

// both applies f to both parts.
func (a pair) both(f func(*val) *val) pair {
	b := pair{re: f(a.re)}
	if a.im != nil {
		b.im = f(a.im)
	}
	return b
}

func (a pair) mul(b pair) pair {
	if a.im == nil {
		return b.times(a.re)
	}
	if b.im == nil {
		return a.times(b.re)
	}
	return pair{a.re.mul(b.re).sub(a.im.mul(b.im)), a.re.mul(b.im).add(a.im.mul(b.re))}
}

// times returns the product with real numbers.
func (a pair) times(x *val) pair { return a.both(func(v *val) *val { return v.mul(x) }) }

func (a pair) scale(c float64) pair { return a.both(func(v *val) *val { return v.scale(c) }) }
func (a pair) conj() pair           { return pair{a.re, a.im.neg()} }
func (a pair) constant() pair       { return a.both((*val).constant) }

func (a pair) add(b pair) pair {
	sum := pair{re: a.re.add(b.re)}
	if a.im != nil {
		sum.im = a.im.add(b.im)
	}
	return sum
}

// plus returns a + c.
func (a pair) plus(c float64) pair { return pair{a.re.plus(c), a.im} }

// square returns |a|².
func (a pair) square() *val { return a.re.mul(a.re).add(a.im.mul(a.im)) }

func (a pair) recip() pair { return a.conj().times(a.square().recip()) }

func (a pair) exp() pair { return pair{a.im.cos(), a.im.sin()}.times(a.re.exp()) }

// expm1 returns e^a - 1, accurately for small a: e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2).
func (a pair) expm1() pair {
	half := a.im.scale(0.5).sin()
	return pair{a.re.expm1().mul(a.im.cos()).sub(half.mul(half).scale(2)), a.re.exp().mul(a.im.sin())}
}

// real returns the real part of a product in Einstein's notation.
func (a pair) real(spec string, b pair) *val {
	y := a.re.einsum(spec, b.re)
	if a.im == nil {
		return y
	}
	return y.sub(a.im.einsum(spec, b.im))
}

// where returns a where the condition is not 0, else b.
func (a pair) where(condition *val, b pair) pair {
	return pair{a.re.where(condition, b.re), a.im.where(condition, b.im)}
}

// cut returns the positions [at, at+n) along the first axis.
func (a pair) cut(at, n int) pair { return a.both(func(v *val) *val { return v.slice(0, at, n) }) }

// after returns b after a, along the first axis.
func (a pair) after(b pair) pair {
	all := pair{re: concat(0, a.re, b.re)}
	if a.im != nil {
		all.im = concat(0, a.im, b.im)
	}
	return all
}

// powers returns a^0 to a^(l-1) along a new first axis.
func (a pair) powers(l int) pair {
	e := a.re.e
	all := pair{e.full(1, a.re.shape...).unsqueeze(0), e.full(0, a.re.shape...).unsqueeze(0)}
	for n := 1; n < l; n *= 2 {
		all = all.after(all.cut(0, min(n, l-n)).mul(a))
		if 2*n < l {
			a = a.mul(a)
		}
	}
	return all
}

// Turner is implemented by a core that computes angles of many turns as accurately as small ones. In float32 an angle
// of a thousand radians has an error of 1e-4.
type Turner interface {
	// Turn sets to = scale·x·e^(u+v) modulo 2π. A view without memory stands for an x of 1, and a u or v of 0.
	Turn(to, x, u, v engine.View, scale float64)
}

// angle returns scale·x·e^(u+v), modulo 2π if the core is a Turner. nil stands for an x of 1, and a u or v of 0. The
// result may only be used in ways that whole turns do not change.
func (e *Engine) angle(scale float64, x, u, v *val) *val {
	rate := func(exponents ...*val) *val {
		y := e.full(scale)
		for _, w := range exponents {
			if w != nil {
				y = y.mul(w.exp())
			}
		}
		return y
	}
	times := func(y, x *val) *val {
		if x == nil {
			return y
		}
		return y.mul(x)
	}
	c, ok := e.core.(Turner)
	if !ok {
		return times(rate(u, v), x)
	}
	var shape []int
	var inputs []*val
	for _, w := range []*val{x, u, v} {
		if w != nil {
			shape, inputs = both(&val{shape: shape}, w), append(inputs, w)
		}
	}
	views := [3]engine.View{}
	for i, w := range []*val{x, u, v} {
		if views[i] = (engine.View{Shape: shape, Stride: make([]int, len(shape))}); w != nil {
			views[i] = w.over(shape).view()
		}
	}
	y := e.fresh(shape...)
	c.Turn(y.view(), views[0], views[1], views[2], scale)
	return y.record(func() {
		fixed := func(w *val) *val {
			if w == nil {
				return nil
			}
			return w.constant()
		}
		byX := rate(fixed(u), fixed(v))
		byExponent := times(byX, fixed(x))
		if x != nil {
			x.over(shape).addGrad(y.dy(), byX)
		}
		for _, w := range []*val{u, v} {
			if w != nil {
				w.over(shape).addGrad(y.dy(), byExponent)
			}
		}
	}, inputs...)
}

// PowerSummer is implemented by a core that sums powers of complex numbers (h, n). The views of their real and
// imaginary parts have the same strides.
type PowerSummer interface {
	// PowerSums sets to (l, h) to y[j] = Re Σ_n w·a^j.
	PowerSums(to engine.View, a, w [2]engine.View)
	// AddPowerSums adds to the gradients of a and w, given the gradient dy of y. da or dw has no memory if its gradient
	// is not wanted.
	AddPowerSums(dy engine.View, a, w, da, dw [2]engine.View)
}

// powerSums returns Re Σ_n w·a^j for j < l, (l, h); a, w (h, n).
func (a pair) powerSums(w pair, l int) *val {
	e := a.re.e
	c, ok := e.core.(PowerSummer)
	if !ok {
		return a.powers(l).real("jhn,hn->jh", w)
	}
	views := func(x pair) [2]engine.View { return [2]engine.View{x.re.view(), x.im.view()} }
	grads := func(x pair) [2]engine.View { return [2]engine.View{x.re.wantedGrad(), x.im.wantedGrad()} }
	a, w = a.alike(), w.alike()
	y := e.fresh(l, a.re.dim(0))
	c.PowerSums(y.view(), views(a), views(w))
	return y.record(func() { c.AddPowerSums(y.gradView(), views(a), views(w), grads(a), grads(w)) }, a.re, a.im, w.re,
		w.im)
}

// alike returns a with parts of the same strides.
func (a pair) alike() pair {
	if slices.Equal(a.re.stride, a.im.stride) {
		return a
	}
	return a.both((*val).copy)
}

// scan computes h[t] = a[t]·h[t-1] + b[t] along the first axis, with h[-1] = first, in log l steps. After the step with
// n, element t of b has the terms of the last 2n positions, and a[t] is the product of their factors.
func scan(a, b, first pair) pair {
	l := b.re.dim(0)
	b = a.cut(0, 1).mul(first).add(b.cut(0, 1)).after(b.cut(1, l-1))
	for n := 1; n < l; n *= 2 {
		late := a.cut(n, l-n)
		b = b.cut(0, n).after(late.mul(b.cut(0, l-n)).add(b.cut(n, l-n)))
		if 2*n < l {
			a = a.cut(0, n).after(late.mul(a.cut(0, l-n)))
		}
	}
	return b
}

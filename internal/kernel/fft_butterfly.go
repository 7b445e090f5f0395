package kernel

// lanes holds the values of one point for all channels.
type lanes = *[Lanes]float32

// points holds the inputs of one transform of a pass.
type points struct{ re, im [8]lanes }

// at returns the points q of block b.
func (p *pass) at(re, im []float32, b, q int) (x points) {
	for j := range p.radix {
		at := (b*p.radix+j)*p.step + q*Lanes
		x.re[j], x.im[j] = lanes(re[at:]), lanes(im[at:])
	}
	return x
}

// difPortable computes dif for count points of each block. re and im begin at point q of the first block.
func (p *pass) difPortable(re, im []float32, q, count, blocks int) {
	for b := range blocks {
		for i := range count {
			x := p.at(re, im, b, i)
			x.forward(p.w[(q+i)*p.radix:][:p.radix])
		}
	}
}

// ditPortable computes dit for the same points.
func (p *pass) ditPortable(re, im []float32, q, count, blocks int) {
	for b := range blocks {
		for i := range count {
			x := p.at(re, im, b, i)
			x.backward(p.w[(q+i)*p.radix:][:p.radix])
		}
	}
}

// middlePortable computes middle for some blocks.
func (p *pass) middlePortable(re, im, kre, kim []float32, blocks int) {
	for b := range blocks {
		x, k := p.at(re, im, b, 0), p.at(kre, kim, b, 0)
		x.forward(p.w)
		for j := range p.radix {
			mulPortable(x.re[j][:], x.im[j][:], x.re[j][:], x.im[j][:], k.re[j][:], k.im[j][:])
		}
		x.re, x.im = x.im, x.re
		x.backward(p.w)
	}
}

// middleGradPortable computes middleGrad for some blocks.
func (p *pass) middleGradPortable(dy, uu, kk, sum parts, first bool, blocks int) {
	times := mulConjAddPortable
	if first {
		times = mulConjPortable
	}
	for b := range blocks {
		x, u := p.at(dy.re, dy.im, b, 0), p.at(uu.re, uu.im, b, 0)
		k, s := p.at(kk.re, kk.im, b, 0), p.at(sum.re, sum.im, b, 0)
		x.forward(p.w)
		for j := range p.radix {
			times(s.re[j][:], s.im[j][:], x.re[j][:], x.im[j][:], u.re[j][:], u.im[j][:])
			mulConjPortable(x.re[j][:], x.im[j][:], x.re[j][:], x.im[j][:], k.re[j][:], k.im[j][:])
		}
		x.re, x.im = x.im, x.re
		x.backward(p.w)
	}
}

// realRows are the rows that the first pass reads, and the last pass of the inverse writes, for consecutive points q:
// row j of point i is x[j·step + i·next], for j < rows. The rows ahead floats later will be needed soon. The last pass
// adds to the rows if add is set.
type realRows struct {
	x                []float32
	step, next, rows int
	ahead            int
	add              bool
}

func (r *realRows) at(j, i int) lanes { return lanes(r.x[j*r.step+i*r.next:]) }

// firstPortable computes dif of one block, made of the rows r times in[j], for count points from q on. re and im begin
// at point q.
func (p *pass) firstPortable(re, im []float32, r *realRows, q, count int, in []rotation) {
	for i := range count {
		z := p.at(re, im, 0, i)
		for j, w := range in {
			if j >= r.rows {
				*z.re[j], *z.im[j] = [Lanes]float32{}, [Lanes]float32{}
				continue
			}
			for v, x := range r.at(j, i) {
				z.re[j][v], z.im[j][v] = x*w.re, x*w.im
			}
		}
		w := p.w[(q+i)*p.radix:][:p.radix]
		z.forward(w)
		z.rotate(0, w[0])
	}
}

// lastPortable computes dit of one block for the same points. From the results z it sets r to, or adds to r,
// Im(z)·re(out[j]) + Re(z)·im(out[j]), which is the real part of conj(out[j]) times z with its parts exchanged.
func (p *pass) lastPortable(re, im []float32, r *realRows, q, count int, out []rotation) {
	for i := range count {
		z := p.at(re, im, 0, i)
		w := p.w[(q+i)*p.radix:][:p.radix]
		z.rotate(0, w[0])
		z.backward(w)
		for j, w := range out[:r.rows] {
			y := r.at(j, i)
			for v := range y {
				z := float32(z.im[j][v]*w.re) + float32(z.re[j][v]*w.im)
				if r.add {
					z += y[v]
				}
				y[v] = z
			}
		}
	}
}

// rotate multiplies point k by w.
func (x *points) rotate(k int, w rotation) {
	re, im := x.re[k], x.im[k]
	for v := range re {
		re[v], im[v] = w.times(re[v], im[v])
	}
}

// times returns the parts of w·(x + i·y).
func (w rotation) times(x, y float32) (re, im float32) {
	return float32(x*w.re) - float32(y*w.im), float32(x*w.im) + float32(y*w.re)
}

// eighths are the rotations by exp(-iπj/4).
var eighths = [4]rotation{turn(0, 8), turn(-1, 8), turn(-2, 8), turn(-3, 8)}

// forward transforms len(w) points and multiplies all but point 0 by w; 8 of them come out in the order 0, 2, 4, 6, 1,
// 3, 5, 7.
func (x *points) forward(w []rotation) {
	switch len(w) {
	case 8:
		for j, turn := range eighths {
			r0, i0, r1, i1 := x.re[j], x.im[j], x.re[4+j], x.im[4+j]
			for v := range r0 {
				dr, di := r0[v]-r1[v], i0[v]-i1[v]
				r0[v], i0[v] = r0[v]+r1[v], i0[v]+i1[v]
				r1[v], i1[v] = turn.times(dr, di)
			}
		}
		x.forward4(0, w[:4])
		x.forward4(4, w[4:])
		x.rotate(4, w[4])
	case 4:
		x.forward4(0, w)
	default:
		x.odd(w)
		for k := 1; k < len(w); k++ {
			x.rotate(k, w[k])
		}
	}
}

// backward multiplies all points but point 0 by w and transforms them, with 8 points in the order in which forward
// leaves them.
func (x *points) backward(w []rotation) {
	switch len(w) {
	case 8:
		x.rotate(4, w[4])
		x.backward4(0, w[:4])
		x.backward4(4, w[4:])
		for j, turn := range eighths {
			r0, i0, r1, i1 := x.re[j], x.im[j], x.re[4+j], x.im[4+j]
			for v := range r0 {
				dr, di := turn.times(r1[v], i1[v])
				r1[v], i1[v] = r0[v]-dr, i0[v]-di
				r0[v], i0[v] = r0[v]+dr, i0[v]+di
			}
		}
	case 4:
		x.backward4(0, w)
	default:
		for k := 1; k < len(w); k++ {
			x.rotate(k, w[k])
		}
		x.odd(w)
	}
}

// odd transforms 3 or 5 points.
func (x *points) odd(w []rotation) {
	if len(w) == 3 {
		butterfly3(x.re[0], x.im[0], x.re[1], x.im[1], x.re[2], x.im[2])
	} else {
		butterfly5(x.re[0], x.im[0], x.re[1], x.im[1], x.re[2], x.im[2], x.re[3], x.im[3], x.re[4], x.im[4])
	}
}

// forward4 transforms the four points from k on, y0, y2 = (x0+x2) ± (x1+x3), y1, y3 = (x0-x2) ∓ i·(x1-x3), and
// multiplies all but the first by w.
func (x *points) forward4(k int, w []rotation) {
	r0, r1, r2, r3 := x.re[k], x.re[k+1], x.re[k+2], x.re[k+3]
	i0, i1, i2, i3 := x.im[k], x.im[k+1], x.im[k+2], x.im[k+3]
	w1, w2, w3 := w[1], w[2], w[3]
	for v := range r0 {
		ar, ai := r0[v]+r2[v], i0[v]+i2[v]
		br, bi := r0[v]-r2[v], i0[v]-i2[v]
		cr, ci := r1[v]+r3[v], i1[v]+i3[v]
		dr, di := r1[v]-r3[v], i1[v]-i3[v]
		r0[v], i0[v] = ar+cr, ai+ci
		r2[v], i2[v] = w2.times(ar-cr, ai-ci)
		r1[v], i1[v] = w1.times(br+di, bi-dr)
		r3[v], i3[v] = w3.times(br-di, bi+dr)
	}
}

// backward4 multiplies all but the first of the four points from k on by w, and transforms them as forward4 does.
func (x *points) backward4(k int, w []rotation) {
	r0, r1, r2, r3 := x.re[k], x.re[k+1], x.re[k+2], x.re[k+3]
	i0, i1, i2, i3 := x.im[k], x.im[k+1], x.im[k+2], x.im[k+3]
	w1, w2, w3 := w[1], w[2], w[3]
	for v := range r0 {
		zr, zi := w2.times(r2[v], i2[v])
		ar, ai := r0[v]+zr, i0[v]+zi
		br, bi := r0[v]-zr, i0[v]-zi
		ur, ui := w1.times(r1[v], i1[v])
		zr, zi = w3.times(r3[v], i3[v])
		cr, ci := ur+zr, ui+zi
		dr, di := ur-zr, ui-zi
		r0[v], i0[v] = ar+cr, ai+ci
		r2[v], i2[v] = ar-cr, ai-ci
		r1[v], i1[v] = br+di, bi-dr
		r3[v], i3[v] = br-di, bi+dr
	}
}

func butterfly2(r0, i0, r1, i1 lanes) {
	for v := range r0 {
		r0[v], r1[v] = r0[v]+r1[v], r0[v]-r1[v]
		i0[v], i1[v] = i0[v]+i1[v], i0[v]-i1[v]
	}
}

// butterfly3 transforms three points. With s = x1+x2, d = x1-x2: y0 = x0+s, y1, y2 = x0 - s/2 ∓ i·sin(2π/3)·d.
func butterfly3(r0, i0, r1, i1, r2, i2 lanes) {
	const sin = 0.866025403784438646763723170752936183
	for v := range r0 {
		sr, si := r1[v]+r2[v], i1[v]+i2[v]
		dr, di := float32(sin*(r1[v]-r2[v])), float32(sin*(i1[v]-i2[v]))
		mr, mi := r0[v]-float32(0.5*sr), i0[v]-float32(0.5*si)
		r0[v], i0[v] = r0[v]+sr, i0[v]+si
		r1[v], i1[v] = mr+di, mi-dr
		r2[v], i2[v] = mr-di, mi+dr
	}
}

// butterfly5 transforms five points. With s, d = x1±x4 and t, e = x2±x3: y0 = x0+s+t, y1, y4 = x0 + cos1·s + cos2·t ∓
// i·(sin1·d + sin2·e), y2, y3 = x0 + cos2·s + cos1·t ∓ i·(sin2·d - sin1·e). It works in steps, because ten streams a
// power of two apart would evict one another from the nearest cache.
func butterfly5(r0, i0, r1, i1, r2, i2, r3, i3, r4, i4 lanes) {
	butterfly2(r1, i1, r4, i4) // s, d
	butterfly2(r2, i2, r3, i3) // t, e
	mix5(r0, r1, r2, r4, r3)
	mix5(i0, i1, i2, i4, i3)
	spread(r1, i1, r4, i4)
	spread(r2, i2, r3, i3)
}

// mix5 replaces the real, or the imaginary, parts of x0, s, t, d, e: x0 by y0, s and t by the cosine terms of y1 and
// y2, d and e by their sine terms. The angles are 2π/5 and 4π/5.
func mix5(x, s, t, d, e lanes) {
	const (
		cos1, sin1 = 0.309016994374947424102293417182819059, 0.951056516295153572116439333379382143
		cos2, sin2 = -0.809016994374947424102293417182819059, 0.587785252292473129168705954639072769
	)
	for v := range x {
		x0, s0, t0 := x[v], s[v], t[v]
		x[v] = x0 + s0 + t0
		s[v] = x0 + float32(cos1*s0) + float32(cos2*t0)
		t[v] = x0 + float32(cos2*s0) + float32(cos1*t0)
		d0, e0 := d[v], e[v]
		d[v] = float32(sin1*d0) + float32(sin2*e0)
		e[v] = float32(sin2*d0) - float32(sin1*e0)
	}
}

// spread replaces a, b by a - i·b, a + i·b.
func spread(ar, ai, br, bi lanes) {
	for v := range ar {
		p, q, x, y := ar[v], ai[v], br[v], bi[v]
		ar[v], ai[v] = p+y, q-x
		br[v], bi[v] = p-y, q+x
	}
}

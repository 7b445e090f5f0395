package kernel

// lanes are the values of one point for all channels.
type lanes = *[Lanes]float32

// butterfly transforms, in place, the radix points at, at+step, ... of re and im.
func butterfly(re, im []float32, at, step, radix int) {
	re, im = re[at:], im[at:]
	switch radix {
	case 2:
		butterfly2(lanes(re), lanes(im), lanes(re[step:]), lanes(im[step:]))
	case 3:
		butterfly3(lanes(re), lanes(im), lanes(re[step:]), lanes(im[step:]), lanes(re[2*step:]), lanes(im[2*step:]))
	case 4:
		butterfly4(lanes(re), lanes(im), lanes(re[step:]), lanes(im[step:]), lanes(re[2*step:]), lanes(im[2*step:]),
			lanes(re[3*step:]), lanes(im[3*step:]))
	case 5:
		butterfly5(lanes(re), lanes(im), lanes(re[step:]), lanes(im[step:]), lanes(re[2*step:]), lanes(im[2*step:]),
			lanes(re[3*step:]), lanes(im[3*step:]), lanes(re[4*step:]), lanes(im[4*step:]))
	}
}

// rotate multiplies point at+k·step by w[k-1], for k = 1 to len(w).
func rotate(re, im []float32, at, step int, w []rotation) {
	for k, w := range w {
		r, i := lanes(re[at+(k+1)*step:]), lanes(im[at+(k+1)*step:])
		for v := range r {
			x, y := r[v], i[v]
			r[v] = float32(x*w.re) - float32(y*w.im)
			i[v] = float32(x*w.im) + float32(y*w.re)
		}
	}
}

func butterfly2(r0, i0, r1, i1 lanes) {
	for v := range r0 {
		r0[v], r1[v] = r0[v]+r1[v], r0[v]-r1[v]
		i0[v], i1[v] = i0[v]+i1[v], i0[v]-i1[v]
	}
}

// butterfly3: with s = x1+x2, d = x1-x2: y0 = x0+s, y1, y2 = x0 - s/2 ∓ i·sin(2π/3)·d.
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

// butterfly4: y0, y2 = (x0+x2) ± (x1+x3), y1, y3 = (x0-x2) ∓ i·(x1-x3).
func butterfly4(r0, i0, r1, i1, r2, i2, r3, i3 lanes) {
	for v := range r0 {
		ar, ai := r0[v]+r2[v], i0[v]+i2[v]
		br, bi := r0[v]-r2[v], i0[v]-i2[v]
		cr, ci := r1[v]+r3[v], i1[v]+i3[v]
		dr, di := r1[v]-r3[v], i1[v]-i3[v]
		r0[v], i0[v] = ar+cr, ai+ci
		r2[v], i2[v] = ar-cr, ai-ci
		r1[v], i1[v] = br+di, bi-dr
		r3[v], i3[v] = br-di, bi+dr
	}
}

// difRadix4 is butterfly4 of the points 0, step, 2·step, 3·step, followed by rotate.
func difRadix4(re, im []float32, step int, w *[3]rotation) {
	r0, r1, r2, r3 := lanes(re), lanes(re[step:]), lanes(re[2*step:]), lanes(re[3*step:])
	i0, i1, i2, i3 := lanes(im), lanes(im[step:]), lanes(im[2*step:]), lanes(im[3*step:])
	w1r, w1i, w2r, w2i, w3r, w3i := w[0].re, w[0].im, w[1].re, w[1].im, w[2].re, w[2].im
	for v := range r0 {
		ar, ai := r0[v]+r2[v], i0[v]+i2[v]
		br, bi := r0[v]-r2[v], i0[v]-i2[v]
		cr, ci := r1[v]+r3[v], i1[v]+i3[v]
		dr, di := r1[v]-r3[v], i1[v]-i3[v]
		r0[v], i0[v] = ar+cr, ai+ci
		x, y := ar-cr, ai-ci
		r2[v], i2[v] = float32(x*w2r)-float32(y*w2i), float32(x*w2i)+float32(y*w2r)
		x, y = br+di, bi-dr
		r1[v], i1[v] = float32(x*w1r)-float32(y*w1i), float32(x*w1i)+float32(y*w1r)
		x, y = br-di, bi+dr
		r3[v], i3[v] = float32(x*w3r)-float32(y*w3i), float32(x*w3i)+float32(y*w3r)
	}
}

// ditRadix4 is rotate of the points step, 2·step, 3·step, followed by butterfly4.
func ditRadix4(re, im []float32, step int, w *[3]rotation) {
	r0, r1, r2, r3 := lanes(re), lanes(re[step:]), lanes(re[2*step:]), lanes(re[3*step:])
	i0, i1, i2, i3 := lanes(im), lanes(im[step:]), lanes(im[2*step:]), lanes(im[3*step:])
	w1r, w1i, w2r, w2i, w3r, w3i := w[0].re, w[0].im, w[1].re, w[1].im, w[2].re, w[2].im
	for v := range r0 {
		x, y := r2[v], i2[v]
		zr, zi := float32(x*w2r)-float32(y*w2i), float32(x*w2i)+float32(y*w2r)
		ar, ai := r0[v]+zr, i0[v]+zi
		br, bi := r0[v]-zr, i0[v]-zi
		x, y = r1[v], i1[v]
		ur, ui := float32(x*w1r)-float32(y*w1i), float32(x*w1i)+float32(y*w1r)
		x, y = r3[v], i3[v]
		zr, zi = float32(x*w3r)-float32(y*w3i), float32(x*w3i)+float32(y*w3r)
		cr, ci := ur+zr, ui+zi
		dr, di := ur-zr, ui-zi
		r0[v], i0[v] = ar+cr, ai+ci
		r2[v], i2[v] = ar-cr, ai-ci
		r1[v], i1[v] = br+di, bi-dr
		r3[v], i3[v] = br-di, bi+dr
	}
}

// butterfly5: with s, d = x1±x4 and t, e = x2±x3: y0 = x0+s+t,
// y1, y4 = x0 + cos1·s + cos2·t ∓ i·(sin1·d + sin2·e), y2, y3 = x0 + cos2·s + cos1·t ∓ i·(sin2·d - sin1·e).
// It goes in steps, because ten streams a power of two apart would throw one another out of the nearest cache.
func butterfly5(r0, i0, r1, i1, r2, i2, r3, i3, r4, i4 lanes) {
	butterfly2(r1, i1, r4, i4) // s, d
	butterfly2(r2, i2, r3, i3) // t, e
	mix5(r0, r1, r2, r4, r3)
	mix5(i0, i1, i2, i4, i3)
	spread(r1, i1, r4, i4)
	spread(r2, i2, r3, i3)
}

// mix5 makes, of the real or of the imaginary parts of x0, s, t, d, e: y0, the terms with cosines of y1 and y2 in s and t,
// and those with sines in d and e. The angles are 2π/5 and 4π/5.
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

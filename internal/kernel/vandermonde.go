package kernel

import "math"

// Vandermonde is the matrix z[n]^l of one channel of a diagonal SSM (S4D, arXiv:2206.11893, §3.3) with modes z.
//
// A slow mode rotates little per step, so its values at neighboring positions are nearly redundant. Its contribution is
// computed only at every second, 4th, 8th or 16th position; filters as exact as float32 fill in the rest (see
// halfband.go). Modes are grouped by ModeLanes, and the fastest mode of a group decides the distance of its positions.
// So a kernel costs least if modes are sorted by speed, as S4D's are at the start. The kernel at each distance is the
// sum of the upsampled kernel at twice the distance and of real matrix products (see powermatrix.go). In the backward,
// derivatives flow the other way.
//
// The error is about 1e-6 of Σ_n |c z^l|. If |z|^l is below 2^-26 for all modes of a group, their contribution may be
// treated as zero, so that modes that decay early cost less.
//
// A Vandermonde is reusable scratch for one goroutine.
type Vandermonde struct {
	l      int
	parts  []vandermondePart // each mode is in one of them
	levels [halvingsMost + 1][]float32
	odd    []float32
}

// vandermondePart is the contribution of a run of modes at every 2^halvings-th position.
type vandermondePart struct {
	powerMatrix
	lo, hi   int // the range of modes
	halvings int
	lasts    int   // number of positions after which all is negligible
	stepped  Modes // z^(2^halvings)
	inverse  Modes // 1/z, 0 for 0
	start    Modes // stepped^-before, the first power
	c, s, ds Modes
}

const (
	// negligible is the smallest |z|^l that counts.
	negligible    = 0x1p-26
	logNegligible = -26 * math.Ln2
	// halvingsMost is the largest number of times that positions are halved.
	halvingsMost = 4
	// leastHalved is the smallest number of positions that halving may leave.
	leastHalved = 128
)

// Set sets v to the matrix with l ≥ 1 rows of the modes z.
func (v *Vandermonde) Set(z Modes, l int) {
	v.l = l
	n := z.N()
	v.parts = v.parts[:0]
	for lo := 0; lo < n; lo += ModeLanes {
		s := speedOf(z[lo:][:ModeLanes], z[n+lo:][:ModeLanes])
		halvings := s.halvings()
		for halvings > 0 && l>>halvings < leastHalved {
			halvings--
		}
		v.addPart(lo, halvings, min(positions(l, halvings), before(halvings)+ceil(s.lasting(), 1<<halvings)+1))
	}
	for i := range v.parts {
		v.parts[i].set(z)
	}
}

// addPart adds the group of modes from lo on, which decay after rows positions, to the last part if that is similar, or
// to a new one.
func (v *Vandermonde) addPart(lo, halvings, rows int) {
	if k := len(v.parts) - 1; k >= 0 {
		if p := &v.parts[k]; p.halvings == halvings && 4*min(p.lasts, rows) >= 3*max(p.lasts, rows) {
			p.hi, p.lasts = lo+ModeLanes, max(p.lasts, rows)
			return
		}
	}
	k := len(v.parts)
	if k == cap(v.parts) {
		v.parts = append(v.parts, vandermondePart{})
	}
	v.parts = v.parts[:k+1]
	p := &v.parts[k]
	p.lo, p.hi, p.halvings, p.lasts = lo, lo+ModeLanes, halvings, rows
}

// top returns the number of halvings of the slowest part.
func (v *Vandermonde) top() int {
	top := 0
	for i := range v.parts {
		top = max(top, v.parts[i].halvings)
	}
	return top
}

// reaches returns for each level the number of its positions that count, there or at a coarser level.
func (v *Vandermonde) reaches() (n [halvingsMost + 1]int) {
	for h := v.top(); h >= 0; h-- {
		if h < halvingsMost {
			n[h] = 2 * n[h+1]
		}
		for i := range v.parts {
			if p := &v.parts[i]; p.halvings == h {
				n[h] = max(n[h], p.reach())
			}
		}
	}
	return n
}

// level returns room for the kernel at every 2^h-th position.
func (v *Vandermonde) level(h int) []float32 {
	v.levels[h] = room(v.levels[h], positions(v.l, h)+VandermondePad)
	return v.levels[h]
}

// Apply sets k[l] = Re Σ_n c[n]·z[n]^l; 0^0 is 1. It is faster if k has VandermondePad more elements than rows were
// set; the values of those are undefined.
func (v *Vandermonde) Apply(k []float32, c Modes) {
	top := v.top()
	coarse, reach := k, 0 // the coarser level, and the position where the last of its modes has decayed
	for h := top; h >= 0; h-- {
		x := k
		if h > 0 {
			x = v.level(h)
		}
		if h < top {
			reach = min(positions(v.l, h), max(0, 2*(reach-1)))
			upsample(x[:reach], coarse)
			clear(x[reach:])
		}
		some := h < top
		for i := range v.parts {
			if p := &v.parts[i]; p.halvings == h {
				p.apply(x, c, some)
				some, reach = true, max(reach, p.reach())
			}
		}
		coarse = x
	}
	for i := range v.parts {
		p := &v.parts[i]
		p.zeros(func(m int) { k[0] += float32(c[m]) })
	}
}

// Sums sets s[n] = Σ_l dk[l]·z[n]^l, and, unless ds is nil, ds[n] = Σ_l l·dk[l]·z[n]^(l-1), the derivative by z. For a
// loss with derivative dk by the k of Apply the gradients are
//
//	dc = conj(s), dz = conj(c·ds),
//
// where real parts are derivatives by the real part, imaginary parts by the imaginary part. It is faster if dk has
// VandermondePad more elements, all zero.
func (v *Vandermonde) Sums(s, ds Modes, dk []float32) {
	x, reach := dk, v.reaches()
	for h, top := 0, v.top(); ; h++ {
		for i := range v.parts {
			if p := &v.parts[i]; p.halvings == h {
				p.sums(s, ds, x)
			}
		}
		if h == top {
			break
		}
		n := min(positions(v.l, h), 2*reach[h+1])
		next := v.level(h + 1)
		m := positions(n, 1)
		v.odd = room(v.odd, n/2+2*halfbandTaps)
		downsample(next[:m], x[:n], v.odd)
		clear(next[m:])
		x = next
	}
	n := s.N()
	for i := range v.parts {
		v.parts[i].zeros(func(m int) {
			s[m], s[n+m] = float64(dk[0]), 0
			if ds != nil {
				ds[m], ds[n+m] = 0, 0
				if v.l > 1 {
					ds[m] = float64(dk[1])
				}
			}
		})
	}
}

// What the kernels of spectra share. Real numbers x of 2M places are the M complex numbers z[n] = x[2n] + i·x[2n+1], and
// their spectrum is Z, the discrete Fourier transform of z. Where M = M1·M2 is more than a workgroup holds, Z lies with
// frequency k1 + M1·k2 at place k1·M2 + k2. Powers of W = e^(-2πi/M) come from a table, made in float64.

vec2 complexAt(uint64_t base, int64_t i) {
	return vec2(Float(base + 8l * i).v, Float(base + 8l * i + 4l).v);
}

void storeComplex(uint64_t base, int64_t i, vec2 z) {
	Float(base + 8l * i).v = z.x;
	Float(base + 8l * i + 4l).v = z.y;
}

vec2 times(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 a) { return vec2(a.x, -a.y); }

// The product at a frequency with power w of W of two spectra, of which x and h are the numbers there, xm and hm those at
// the negative frequency: of x convolved with h or, reversed, of Σ_j h[j]·x[t+j]. The spectra of the even and of the odd
// places are E and O, and those of both x = E + W^(1/2)·O.
vec2 productOf(vec2 x, vec2 xm, vec2 h, vec2 hm, vec2 w, bool reversed) {
	vec2 ex = 0.5 * (x + conjugate(xm)), ox = 0.5 * (x - conjugate(xm));
	vec2 eh = 0.5 * (h + conjugate(hm)), oh = 0.5 * (h - conjugate(hm));
	ox = vec2(ox.y, -ox.x); // divided by i
	oh = vec2(oh.y, -oh.x);
	vec2 e, o;
	if (reversed) {
		eh = conjugate(eh);
		oh = conjugate(oh);
		e = times(ex, eh) + times(ox, oh);
		o = times(times(ex, oh), conjugate(w)) + times(ox, eh);
	} else {
		e = times(ex, eh) + times(times(ox, oh), w);
		o = times(ex, oh) + times(ox, eh);
	}
	return vec2(e.x - o.y, e.y + o.x);
}

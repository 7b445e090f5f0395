// Complex numbers as (re, im).

vec2 product(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

// z^n, by squares.
vec2 power(vec2 z, uint n) {
	vec2 p = vec2(1.0, 0.0);
	for (; n > 0u; n >>= 1) {
		if ((n & 1u) != 0u) p = product(p, z);
		z = product(z, z);
	}
	return p;
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "complex.glsl"
#include "turn.glsl"

// Diagonal systems from their parameters, and the gradients of these: A = real(re) + i·im, dt = e^logDt, z = A·dt, B of
// ones where it is 0. ZOH: Abar = e^z, Bbar = B (e^z - 1)/A; else Abar = (1 + z/2)/(1 - z/2), Bbar = B dt/(1 - z/2).
// C is copied. A workgroup computes a head. With BACK abar, bbar and c are gradients, or 0, and what begins with d, and
// cs, is added to.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint BACK = 0u;
layout(constant_id = 1) const uint ZOH = 0u;
layout(constant_id = 2) const uint REAL = 0u; // engine.RealPart

layout(push_constant, std430) uniform Args {
	uint64_t abar, bbar, c, logDt, re, im, bs, cs, dLogDt, dRe, dIm, dB;
	int heads, n;
};

shared float parts[64];

vec2 pair(uint64_t from, int i) { return from == 0ul ? vec2(0.0) : vec2(load(from, 2 * i), load(from, 2 * i + 1)); }

void put(uint64_t to, int i, vec2 x) {
	store(to, 2 * i, x.x);
	store(to, 2 * i + 1, x.y);
}

void add(uint64_t to, int i, float x) {
	if (to != 0ul) store(to, i, load(to, i) + x);
}

vec2 conj(vec2 a) { return vec2(a.x, -a.y); }
vec2 reciprocal(vec2 a) { return conj(a) / dot(a, a); }

// The real part of A, and its derivative.
vec2 realPart(float x) {
	switch (REAL) {
	case 1u: return vec2(-softplus(x), -logistic(x));
	case 2u: return vec2(-max(x, 0.0) - 1e-4, x > 0.0 ? -1.0 : 0.0);
	case 3u: return vec2(-x, -1.0);
	}
	return vec2(-exponential(x));
}

void main() {
	int h = int(group());
	float dt = exponential(load(logDt, h)), ddt = 0.0;
	for (int k = int(gl_LocalInvocationID.x); k < n; k += 64) {
		int i = h * n + k;
		vec2 real = realPart(load(re, i)), a = vec2(real.x, load(im, i)), z = a * dt;
		vec2 b = bs == 0ul ? vec2(1.0, 0.0) : pair(bs, i), dAbar, dBbar, by, da = vec2(0.0);
		if (ZOH != 0u) { // Bbar = B·by
			float angle = turn(1.0, a.y, load(logDt, h), 0.0);
			float grown = exponential(z.x), cosine = sine(angle, 1), half1 = sine(0.5 * angle, 0);
			dAbar = grown * vec2(cosine, sine(angle, 0)); // by z, and so is dBbar
			vec2 r = reciprocal(a), less = vec2(exponentialLess1(z.x) * cosine - 2.0 * half1 * half1, dAbar.y);
			by = product(less, r);
			dBbar = product(product(b, dAbar), r);
			if (BACK == 0u) put(abar, i, dAbar);
			else da = product(pair(bbar, i), conj(-product(product(b, by), r)));
		} else {
			vec2 q = reciprocal(vec2(1.0, 0.0) - 0.5 * z);
			by = dt * q;
			dAbar = product(q, q);
			dBbar = 0.5 * dt * product(b, dAbar);
			if (BACK == 0u) put(abar, i, product(vec2(1.0, 0.0) + 0.5 * z, q));
			else ddt += dot(pair(bbar, i), product(b, q));
		}
		if (BACK == 0u) {
			put(bbar, i, product(b, by));
			put(c, i, pair(cs, i));
			continue;
		}
		vec2 gb = pair(bbar, i), dz = product(pair(abar, i), conj(dAbar)) + product(gb, conj(dBbar)), gc = pair(c, i);
		vec2 own = product(gb, conj(by));
		da += dz * dt;
		ddt += dot(dz, a);
		add(dRe, i, da.x * real.y);
		add(dIm, i, da.y);
		add(dB, 2 * i, own.x);
		add(dB, 2 * i + 1, own.y);
		add(cs, 2 * i, gc.x);
		add(cs, 2 * i + 1, gc.y);
	}
	if (BACK == 0u) return;
	parts[gl_LocalInvocationID.x] = ddt;
	barrier();
	if (gl_LocalInvocationID.x > 0u) return;
	float sum = 0.0;
	for (int k = 0; k < min(n, 64); k++) sum += parts[k];
	add(dLogDt, h, sum * dt);
}

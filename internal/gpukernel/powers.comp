#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "complex.glsl"

// y[j, h] = Re Σ_n w[h, n]·a[h, n]^j for j < l. A workgroup computes 1,024 positions of a head, a thread every 256th: it
// goes from one to the next by a^256. A position has the same bits whatever l is.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, aRe, aIm, wRe, wIm;
	int l, heads, n, yj, yh, ah, an, wh, wn;
};

void main() {
	int h = int(group()) % heads, block = int(group()) / heads, at = block * 1024 + int(gl_LocalInvocationID.x);
	if (at >= l) return;
	float sums[4] = float[4](0.0, 0.0, 0.0, 0.0);
	for (int i = 0; i < n; i++) {
		int x = h * ah + i * an, k = h * wh + i * wn;
		vec2 a = vec2(load(aRe, x), load(aIm, x)), far = power(a, 256u);
		vec2 p = product(vec2(load(wRe, k), load(wIm, k)), product(power(a, uint(at) % 256u), power(far, 4u * block)));
		for (int s = 0; s < 4; s++) {
			sums[s] += p.x;
			p = product(p, far);
		}
	}
	for (int s = 0; s < 4 && at + 256 * s < l; s++) store(y, (at + 256 * s) * yj + h * yh, sums[s]);
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "complex.glsl"

// The gradients of powers.comp: dw += conj Σ_j dy_j a^j, da += conj(w Σ_j j dy_j a^(j-1)). A workgroup takes eight modes
// of a head, 32 threads each of them: a thread takes every 32nd position, and sums of threads are added in order. An
// address of 0 stands for a gradient that nobody wants.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t dy, aRe, aIm, wRe, wIm, daRe, daIm, dwRe, dwIm;
	int l, heads, n, yj, yh, ah, an, wh, wn;
};

shared vec4 parts[256];

void add(uint64_t to, int i, float x) {
	if (to != 0ul) store(to, i, load(to, i) + x);
}

void main() {
	int h = int(group()) % heads, i = int(group()) / heads * 8 + int(gl_LocalInvocationID.x) / 32;
	int lane = int(gl_LocalInvocationID.x) % 32, x = h * ah + i * an, k = h * wh + i * wn;
	vec2 zero = vec2(0.0), first = zero, second = zero;
	if (i < n) {
		vec2 a = vec2(load(aRe, x), load(aIm, x)), far = power(a, 32u), before = power(a, uint(lane));
		if (lane == 0) first.x = load(dy, h * yh);
		for (int j = lane + 1; j < l; j += 32) { // before is a^(j-1)
			float d = load(dy, j * yj + h * yh);
			first += d * product(before, a);
			second += float(j) * d * before;
			before = product(before, far);
		}
	}
	parts[gl_LocalInvocationID.x] = vec4(first, second);
	barrier();
	if (lane > 0 || i >= n) return;
	vec4 sum = vec4(0.0);
	for (int s = 0; s < 32; s++) sum += parts[int(gl_LocalInvocationID.x) + s];
	vec2 da = product(vec2(load(wRe, k), load(wIm, k)), sum.zw);
	add(dwRe, k, sum.x);
	add(dwIm, k, -sum.y);
	add(daRe, x, da.x);
	add(daIm, x, -da.y);
}

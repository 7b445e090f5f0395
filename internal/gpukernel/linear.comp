#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"

// y = a(x Wᵀ + bias), x (rows, k), y (rows, n): a workgroup computes eight elements of a row. A product is a sum of
// pieces of 32 terms, each in order, as in linear_tile.comp: a row has the same bits in both.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, bias, q, factors, least, scales;
	int n, k, rows, activation;
};

shared float parts[256];

void main() {
	Matrix w = Matrix(q, factors, least, scales, k);
	int blocks = (n + 7) / 8, g = int(group());
	int row = g / blocks, lane = int(gl_LocalInvocationID.x) & 31, j = g % blocks * 8 + int(gl_LocalInvocationID.x) / 32;
	if (row >= rows) return;
	precise float total = 0.0;
	for (int from = 0; from < k; from += 1024) {
		int lo = from + 32 * lane, hi = min(lo + 32, k);
		precise float part = 0.0;
		if (j < n) {
			for (int i = lo; i < hi; i++) part = fma(weight(w, j, i), load(x, row * k + i), part);
		}
		parts[gl_LocalInvocationID.x] = part;
		barrier();
		if (lane == 0) {
			for (int s = 0; s < 32 && from + 32 * s < k; s++) total += parts[gl_LocalInvocationID.x + s];
		}
		barrier();
	}
	if (lane == 0 && j < n) {
		if (bias != 0ul) total += load(bias, j);
		store(y, row * n + j, activate(uint(activation), total));
	}
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"

// y = a(x Wᵀ + bias) as linear.comp, for many rows: a workgroup computes 32 rows of 32 elements.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, bias, q, factors, least, scales;
	int n, k, rows, activation;
};

shared float xs[32][33], ws[32][33];

void main() {
	Matrix w = Matrix(q, factors, least, scales, k);
	int blocks = (n + 31) / 32, g = int(group()), t = int(gl_LocalInvocationID.x);
	int row = g / blocks * 32, j = g % blocks * 32, tx = t & 31, ty = t >> 5;
	if (row >= rows) return;
	precise float total[4] = float[4](0.0, 0.0, 0.0, 0.0);
	for (int from = 0; from < k; from += 32) {
		for (int p = ty; p < 32; p += 8) {
			int i = from + tx;
			xs[p][tx] = row + p < rows && i < k ? load(x, (row + p) * k + i) : 0.0;
			ws[p][tx] = j + p < n && i < k ? weight(w, j + p, i) : 0.0;
		}
		barrier();
		precise float part[4] = float[4](0.0, 0.0, 0.0, 0.0);
		int terms = min(32, k - from);
		for (int i = 0; i < terms; i++) {
			float b = ws[tx][i];
			for (int p = 0; p < 4; p++) part[p] = fma(b, xs[ty + 8 * p][i], part[p]);
		}
		for (int p = 0; p < 4; p++) total[p] += part[p];
		barrier();
	}
	for (int p = 0; p < 4; p++) {
		int r = row + ty + 8 * p;
		if (r < rows && j + tx < n) {
			float v = total[p];
			if (bias != 0ul) v += load(bias, j + tx);
			store(y, r * n + j + tx, activate(uint(activation), v));
		}
	}
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"

// y = a(x Wᵀ + bias) as linear.comp, for many rows: a workgroup computes SIDE rows of SIDE elements.
layout(local_size_x = 256) in;
layout(constant_id = 1) const uint SIDE = 32u; // or 16, for small matrices

layout(push_constant, std430) uniform Args {
	uint64_t y, x, bias, q, factors, least, scales;
	int n, k, rows, activation;
};

shared float xs[SIDE][33], ws[SIDE][33];

const int STEP = 256 / int(SIDE), EACH = int(SIDE) / STEP; // rows at a time, and rows of a thread

void main() {
	Matrix w = Matrix(q, factors, least, scales, k);
	int side = int(SIDE), blocks = (n + side - 1) / side, g = int(group()), t = int(gl_LocalInvocationID.x);
	int row = g / blocks * side, j = g % blocks * side, tx = t % side, ty = t / side;
	if (row >= rows) return;
	precise float total[4] = float[4](0.0, 0.0, 0.0, 0.0);
	for (int from = 0; from < k; from += 32) {
		int lx = t & 31, i = from + lx;
		for (int p = t >> 5; p < side; p += 8) {
			xs[p][lx] = row + p < rows && i < k ? load(x, (row + p) * k + i) : 0.0;
			ws[p][lx] = j + p < n && i < k ? weight(w, j + p, i) : 0.0;
		}
		barrier();
		precise float half1[4], part[4];
		for (int c = 0; c < 4; c++) {
			precise float chain[4] = float[4](0.0, 0.0, 0.0, 0.0);
			int end = min(8 * c + 8, k - from);
			for (int i = 8 * c; i < end; i++) {
				float b = ws[tx][i];
				for (int p = 0; p < EACH; p++) chain[p] = fma(b, xs[ty + STEP * p][i], chain[p]);
			}
			for (int p = 0; p < EACH; p++) {
				half1[p] = (c & 1) == 0 ? chain[p] : half1[p] + chain[p];
				if (c == 1) part[p] = half1[p];
				if (c == 3) total[p] += part[p] + half1[p];
			}
		}
		barrier();
	}
	for (int p = 0; p < EACH; p++) {
		int r = row + ty + STEP * p;
		if (r < rows && j + tx < n) {
			float v = total[p];
			if (bias != 0ul) v += load(bias, j + tx);
			store(y, r * n + j + tx, activate(uint(activation), v));
		}
	}
}

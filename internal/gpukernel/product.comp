#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// y[b,i,j] += Σ_k x[b,i,k]·w[b,j,k], of views with any strides: a workgroup computes 32 of i by 32 of j. Sums are in
// pieces of 32 terms, in order, as in reduce.comp.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, w;
	int batches, rows, n, k;
	int ys[3], xs[3], ws[3]; // strides: of y along b, i, j; of x along b, i, k; of w along b, j, k
};

shared float xt[32][33], wt[32][33];

void main() {
	int across = (n + 31) / 32, down = (rows + 31) / 32, g = int(group()), t = int(gl_LocalInvocationID.x);
	int b = g / (across * down), row = g / across % down * 32, j = g % across * 32, tx = t & 31, ty = t >> 5;
	if (b >= batches) return;
	precise float total[4];
	for (int p = 0; p < 4; p++) {
		int r = row + ty + 8 * p;
		total[p] = r < rows && j + tx < n ? load(y, b * ys[0] + r * ys[1] + (j + tx) * ys[2]) : 0.0;
	}
	// Threads side by side read what lies side by side.
	bool xAcross = abs(xs[2]) <= abs(xs[1]), wAcross = abs(ws[2]) <= abs(ws[1]);
	for (int from = 0; from < k; from += 32) {
		for (int p = ty; p < 32; p += 8) {
			int i = xAcross ? p : tx, l = xAcross ? tx : p;
			xt[i][l] = row + i < rows && from + l < k ? load(x, b * xs[0] + (row + i) * xs[1] + (from + l) * xs[2]) : 0.0;
			i = wAcross ? p : tx;
			l = wAcross ? tx : p;
			wt[i][l] = j + i < n && from + l < k ? load(w, b * ws[0] + (j + i) * ws[1] + (from + l) * ws[2]) : 0.0;
		}
		barrier();
		precise float part[4] = float[4](0.0, 0.0, 0.0, 0.0);
		int terms = min(32, k - from);
		for (int i = 0; i < terms; i++) {
			float v = wt[tx][i];
			for (int p = 0; p < 4; p++) part[p] = fma(xt[ty + 8 * p][i], v, part[p]);
		}
		for (int p = 0; p < 4; p++) total[p] += part[p];
		barrier();
	}
	for (int p = 0; p < 4; p++) {
		int r = row + ty + 8 * p;
		if (r < rows && j + tx < n) store(y, b * ys[0] + r * ys[1] + (j + tx) * ys[2], total[p]);
	}
}

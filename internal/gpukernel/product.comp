#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"
#include "round.glsl"
#include "product.glsl"

// Products by float32 sums: a workgroup computes SIDE rows of SIDE elements, a thread those 16 apart. A segment is a sum
// of pieces of 32 terms, each four chains of eight, as in linear.comp and reduce.comp.
layout(local_size_x = 256) in;
layout(constant_id = 1) const uint SIDE = 64u; // or 32 or 16
layout(constant_id = 2) const uint ROUND = 0u; // 1: operands are rounded to bfloat16

shared float xt[32][SIDE + 1], wt[32][SIDE + 1];

const int EACH = int(SIDE) / 16, ALL = EACH * EACH;

float operand(float x) { return ROUND == 0u ? x : toBFloat16(x); }

void main() {
	Matrix w = Matrix(q, factors, least, scales, k);
	int side = int(SIDE), t = int(gl_LocalInvocationID.x), tx = t & 15, ty = t >> 4;
	Tile tile = tileOf(int(group()), side, side);
	if (tile.b >= batches) return;
	precise float total[ALL], sum[ALL], part[ALL], half1[ALL], chain[ALL];
	for (int e = 0; e < ALL; e++) total[e] = 0.0;
	// Threads side by side read what lies side by side.
	bool xAcross = abs(xs[2]) <= abs(xs[1]), wAcross = FORM > 0u || abs(ws[2]) <= abs(ws[1]);
	for (int start = tile.from; start < tile.to; start += segment) {
		int end = min(start + segment, tile.to);
		for (int e = 0; e < ALL; e++) sum[e] = 0.0;
		for (int from = start; from < end; from += 32) {
			for (int p = t; p < 32 * side; p += 256) {
				int l = xAcross ? p % 32 : p / side, i = xAcross ? p / 32 : p % side, r = tile.i + i;
				bool there = r < rows && from + l < end;
				xt[l][i] = there ? operand(load(x, tile.b * xs[0] + r * xs[1] + (from + l) * xs[2])) : 0.0;
			}
			for (int p = t; p < 32 * side; p += 256) {
				int l = wAcross ? p % 32 : p / side, i = wAcross ? p / 32 : p % side, j = tile.j + i;
				float v = 0.0;
				if (j < n && from + l < end) {
					v = FORM > 0u ? weight(w, j, from + l) :
						operand(load(q, tile.b * ws[0] + j * ws[1] + (from + l) * ws[2]));
				}
				wt[l][i] = v;
			}
			barrier();
			for (int c = 0; c < 4; c++) {
				for (int e = 0; e < ALL; e++) chain[e] = 0.0;
				for (int l = 8 * c; l < 8 * c + 8; l++) {
					for (int p = 0; p < EACH; p++) {
						for (int r = 0; r < EACH; r++) {
							int e = EACH * p + r;
							chain[e] = fma(wt[l][tx + 16 * r], xt[l][ty + 16 * p], chain[e]);
						}
					}
				}
				for (int e = 0; e < ALL; e++) {
					half1[e] = (c & 1) == 0 ? chain[e] : half1[e] + chain[e];
					if (c == 1) part[e] = half1[e];
					if (c == 3) sum[e] += part[e] + half1[e];
				}
			}
			barrier();
		}
		for (int e = 0; e < ALL; e++) total[e] += sum[e];
	}
	for (int e = 0; e < ALL; e++) put(tile, tile.i + ty + 16 * (e / EACH), tile.j + tx + 16 * (e % EACH), total[e]);
}

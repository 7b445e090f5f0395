#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"
#include "round.glsl"

// y = a(x Wᵀ + bias), x (rows, k), y (rows, n): LANES threads compute an element of a row. A product is a sum of segments
// of pieces of 32 terms, each four chains of eight, as in product.comp: a row has the same bits in both.
layout(local_size_x = 256) in;
layout(constant_id = 1) const uint LANES = 128u; // a power of two from 4 to 128
layout(constant_id = 2) const uint ROUND = 0u; // 1: x is rounded to bfloat16, and weights in float32 are

layout(push_constant, std430) uniform Args {
	uint64_t y, x, bias, q, factors, least, scales;
	int n, k, rows, activation, segment;
};

shared float parts[256];

float operand(float v) { return ROUND == 0u ? v : toBFloat16(v); }

void main() {
	Matrix w = Matrix(q, factors, least, scales, k);
	int lanes = int(LANES), many = 256 / lanes, blocks = (n + many - 1) / many, g = int(group()), row = g / blocks;
	int t = int(gl_LocalInvocationID.x), lane = t % lanes, j = g % blocks * many + t / lanes;
	if (row >= rows) return;
	precise float total = 0.0, sum = 0.0;
	for (int from = 0; from < k; from += 8 * lanes) {
		int lo = from + 8 * lane, hi = min(lo + 8, k);
		precise float chain = 0.0;
		if (j < n) {
			for (int i = lo; i < hi; i++) chain = fma(operand(weight(w, j, i)), operand(load(x, row * k + i)), chain);
		}
		parts[t] = chain;
		barrier();
		precise float piece = 0.0;
		if ((lane & 3) == 0) piece = (parts[t] + parts[t + 1]) + (parts[t + 2] + parts[t + 3]);
		barrier();
		parts[t] = piece;
		barrier();
		if (lane == 0) {
			for (int s = 0; s < lanes && from + 8 * s < k; s += 4) {
				sum += parts[t + s];
				int next = from + 8 * s + 32;
				if (next % segment == 0 || next >= k) {
					total += sum;
					sum = 0.0;
				}
			}
		}
		barrier();
	}
	if (lane == 0 && j < n) {
		if (bias != 0ul) total += load(bias, j);
		store(y, row * n + j, activate(uint(activation), total));
	}
}

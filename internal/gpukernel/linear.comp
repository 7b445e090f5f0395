#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"
#include "norm.glsl"
#include "round.glsl"

// y = a(x Wᵀ + bias), x (rows, k), y (rows, n): LANES threads compute an element of a row. A product is a sum of segments
// of pieces of 32 terms, each four chains of eight, as in product.comp: a row has the same bits in both.
//
// With NORM the input is the norm of s = x + r first, as in norm.comp; both are written, too. There may be more matrices
// of the same form and shape, which multiply the same input.
layout(local_size_x = 256) in;
layout(constant_id = 1) const uint LANES = 128u; // a power of two from 4 to 128
layout(constant_id = 2) const uint ROUND = 0u; // 1: x is rounded to bfloat16, and weights in float32 are
layout(constant_id = 3) const uint NORM = 0u; // k, for an input that is normalized

layout(push_constant, std430) uniform Args {
	uint64_t y0, bias0, q0, factors0, least0, scales0, more; // of the first matrix, and the others
	uint64_t x, r, normW, normB, s, normed;
	int n, k, code, stride; // numbers from a row of x to the next
	float eps;
	int segment;
};

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Other { uint64_t y, bias, q, factors, least, scales; };

shared float inputs[NORM + 1u];

float operand(float v) { return ROUND == 0u ? v : toBFloat16(v); }

void main() {
	int activation = code & 255, count = code >> 8 & 15, centered = code >> 12 & 1, rows = code >> 16;
	int lanes = int(LANES), many = 256 / lanes, blocks = (n + many - 1) / many, g = int(group());
	int row = g / (blocks * count), which = g / blocks % count;
	int t = int(gl_LocalInvocationID.x), lane = t % lanes, j = g % blocks * many + t / lanes;
	if (row >= rows) return;
	uint64_t y = y0, bias = bias0;
	Matrix w = Matrix(q0, factors0, least0, scales0, k);
	if (which > 0) {
		Other o = Other(more + int64_t(which - 1) * 48);
		y = o.y;
		bias = o.bias;
		w = Matrix(o.q, o.factors, o.least, o.scales, k);
	}
	if (NORM != 0u) {
		Norm m = Norm(x, r, normW, normB, k, centered, eps);
		vec2 moments = normMoments(m, row * k);
		bool writes = g % (blocks * count) == 0;
		for (int i = t; i < k; i += 256) {
			float v = normSum(m, row * k + i), z = normOf(m, moments, v, i);
			inputs[i] = z;
			if (writes && r != 0ul) store(s, row * k + i, v);
			if (writes) store(normed, row * k + i, z);
		}
		barrier();
	}
	precise float total = 0.0, sum = 0.0;
	for (int from = 0; from < k; from += 8 * lanes) {
		int lo = from + 8 * lane, hi = min(lo + 8, k);
		precise float chain = 0.0;
		if (j < n) {
			for (int i = lo; i < hi; i++) {
				chain = fma(operand(weight(w, j, i)), operand(NORM != 0u ? inputs[i] : load(x, row * stride + i)), chain);
			}
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

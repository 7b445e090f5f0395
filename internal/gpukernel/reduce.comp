#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// y += Σ a, y += Σ a·b or y = max(y, a) over the reduced axes, for each element of the kept ones: up to three of each.
// Sums are in pieces of 32 terms, in order. A thread computes an element or, where LANES is 64, a workgroup: a thread
// takes every 64th piece. The bits are the same.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint LANES = 1u;

layout(push_constant, std430) uniform Args {
	uint64_t y, a, b;
	uint n, op;
	int kept[3], ys[3], as[3], bs[3];
	int over[3], ao[3], bo[3];
};

shared float parts[64];

float better(float x, float best) { return x > best || isNaN(x) ? x : best; }

void main() {
	uint i = LANES > 1u ? group() : group() * 64u + gl_LocalInvocationID.x;
	if (i >= n) return;
	int k2 = int(i % uint(kept[2])), k1 = int(i / uint(kept[2]) % uint(kept[1])), k0 = int(i / uint(kept[2] * kept[1]));
	int yi = k0 * ys[0] + k1 * ys[1] + k2 * ys[2];
	int ai = k0 * as[0] + k1 * as[1] + k2 * as[2], bi = k0 * bs[0] + k1 * bs[1] + k2 * bs[2];
	int lane = LANES > 1u ? int(gl_LocalInvocationID.x) : 0, terms = over[0] * over[1] * over[2];
	precise float total = load(y, yi);
	for (int from = 0; from < terms; from += 32 * int(LANES)) {
		int lo = from + 32 * lane, hi = min(lo + 32, terms), r = lo % over[2], q = lo / over[2] % over[1];
		int p = lo / over[2] / over[1];
		precise float part = op == 2u ? total : 0.0;
		for (int t = lo; t < hi; t++) {
			float x = load(a, ai + p * ao[0] + q * ao[1] + r * ao[2]);
			if (op == 2u) {
				part = better(x, part);
			} else {
				part = op == 1u ? fma(x, load(b, bi + p * bo[0] + q * bo[1] + r * bo[2]), part) : part + x;
			}
			if (++r == over[2]) {
				r = 0;
				if (++q == over[1]) {
					q = 0;
					p++;
				}
			}
		}
		if (LANES == 1u) {
			total = op == 2u ? part : total + part;
			continue;
		}
		parts[lane] = part;
		barrier();
		if (lane == 0) {
			for (int s = 0; s < 64 && from + 32 * s < terms; s++) total = op == 2u ? better(parts[s], total) : total + parts[s];
		}
		barrier();
	}
	if (lane == 0) store(y, yi, total);
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// y += Σ a, y += Σ a·b or y = max(y, a) over the reduced axes, for each element of the kept ones: up to three of each.
// Sums are in pieces of 32 terms, in order.
layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, a, b;
	uint n, op;
	int kept[3], ys[3], as[3], bs[3];
	int over[3], ao[3], bo[3];
};

void main() {
	uint i = group() * 64u + gl_LocalInvocationID.x;
	if (i >= n) return;
	int k2 = int(i % uint(kept[2])), k1 = int(i / uint(kept[2]) % uint(kept[1])), k0 = int(i / uint(kept[2] * kept[1]));
	int yi = k0 * ys[0] + k1 * ys[1] + k2 * ys[2];
	int ai = k0 * as[0] + k1 * as[1] + k2 * as[2], bi = k0 * bs[0] + k1 * bs[1] + k2 * bs[2];
	precise float total = load(y, yi), part = 0.0;
	int terms = 0;
	for (int p = 0; p < over[0]; p++) {
		for (int q = 0; q < over[1]; q++) {
			int an = ai + p * ao[0] + q * ao[1], bn = bi + p * bo[0] + q * bo[1];
			for (int r = 0; r < over[2]; r++) {
				float x = load(a, an + r * ao[2]);
				if (op == 2u) {
					if (x > total || isNaN(x)) total = x;
					continue;
				}
				part = op == 1u ? fma(x, load(b, bn + r * bo[2]), part) : part + x;
				if (++terms == 32) {
					total += part;
					part = 0.0;
					terms = 0;
				}
			}
		}
	}
	store(y, yi, total + part);
}

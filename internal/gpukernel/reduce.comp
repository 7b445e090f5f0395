#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "round.glsl"

// y += Σ a, y += Σ a·b or y = max(y, a) over the reduced axes, for each element of the kept ones: up to three of each.
// Sums are in segments of pieces of 32 terms, each four chains of eight, as in product.comp. A thread computes an element
// or, where LANES is 64, a workgroup: a thread takes every 64th piece. The bits are the same.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint LANES = 1u;

layout(push_constant, std430) uniform Args {
	uint64_t y, a, b;
	uint n, op;
	int kept[3], ys[3], as[3], bs[3];
	int over[3], ao[3], bo[3];
	int segment;
};

shared float parts[64];

const uint SUM = 0u, DOT = 1u, MAX = 2u; // else a dot of operands rounded to bfloat16

float better(float x, float best) { return x > best || isNaN(x) ? x : best; }

// Adds a piece, after which the next term is next, to the segment, and that where it is whole to the total.
void add(float piece, int next, int terms, inout precise float total, inout precise float sum) {
	if (op == MAX) {
		total = better(piece, total);
		return;
	}
	sum += piece;
	if (next % segment == 0 || next >= terms) {
		total += sum;
		sum = 0.0;
	}
}

void main() {
	uint i = LANES > 1u ? group() : group() * 64u + gl_LocalInvocationID.x;
	if (i >= n) return;
	int k2 = int(i % uint(kept[2])), k1 = int(i / uint(kept[2]) % uint(kept[1])), k0 = int(i / uint(kept[2] * kept[1]));
	int yi = k0 * ys[0] + k1 * ys[1] + k2 * ys[2];
	int ai = k0 * as[0] + k1 * as[1] + k2 * as[2], bi = k0 * bs[0] + k1 * bs[1] + k2 * bs[2];
	int lane = LANES > 1u ? int(gl_LocalInvocationID.x) : 0, terms = over[0] * over[1] * over[2];
	precise float total = op == MAX ? load(y, yi) : 0.0, sum = 0.0;
	for (int from = 0; from < terms; from += 32 * int(LANES)) {
		int lo = from + 32 * lane, hi = min(lo + 32, terms), r = lo % over[2], q = lo / over[2] % over[1];
		int p = lo / over[2] / over[1];
		precise float part = total, chain, half1, pair;
		for (int c = 0; c < 4; c++) {
			chain = 0.0;
			for (int t = lo + 8 * c; t < min(lo + 8 * c + 8, hi); t++) {
				float u = load(a, ai + p * ao[0] + q * ao[1] + r * ao[2]);
				if (op == MAX) {
					part = better(u, part);
				} else if (op == SUM) {
					chain += u;
				} else {
					float v = load(b, bi + p * bo[0] + q * bo[1] + r * bo[2]);
					chain = op == DOT ? fma(u, v, chain) : fma(toBFloat16(u), toBFloat16(v), chain);
				}
				if (++r == over[2]) {
					r = 0;
					if (++q == over[1]) {
						q = 0;
						p++;
					}
				}
			}
			half1 = (c & 1) == 0 ? chain : half1 + chain;
			if (c == 1) pair = half1;
		}
		if (op != MAX) part = pair + half1;
		if (LANES == 1u) {
			add(part, lo + 32, terms, total, sum);
			continue;
		}
		parts[lane] = part;
		barrier();
		if (lane == 0) {
			for (int s = 0; s < 64 && from + 32 * s < terms; s++) add(parts[s], from + 32 * s + 32, terms, total, sum);
		}
		barrier();
	}
	if (lane == 0) store(y, yi, op == MAX ? total : load(y, yi) + total);
}

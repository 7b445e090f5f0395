#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Softmax attention of the queries q (n, heads, hd) of rows to the keys and values in pages of 64 places: a workgroup for
// each query and head. A page of the table is the addresses of its keys and values (shared, room, hd), and its room.
// Query t sees the positions from its window on up to its own, or all. Maxima and sums go page by page, in order.
layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Page {
	uint64_t keys, values;
	int64_t room;
};

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Sequence {
	int64_t from, l;
	int64_t skip;  // places of the first page before the first position
	int64_t n;     // positions
	int64_t ahead; // positions before those of this row; -1 where a query sees all
	int64_t page;  // the number of its first page in the table
};

layout(push_constant, std430) uniform Args {
	uint64_t y, q, sequences, pages, slopes;
	int heads, shared1, hd, most, count, window; // most positions of a row, and rows
	float scale;
};

shared float weights[64], parts[64];

float best(float v, bool largest) {
	uint t = gl_LocalInvocationID.x;
	barrier();
	parts[t] = v;
	barrier();
	for (uint half1 = 32u; half1 > 0u; half1 /= 2u) {
		if (t < half1) parts[t] = largest ? max(parts[t], parts[t + half1]) : parts[t] + parts[t + half1];
		barrier();
	}
	return parts[0];
}

void main() {
	int g = int(group()), head = g % heads, row = g / heads % most, t = int(gl_LocalInvocationID.x);
	if (g / heads / most >= count) return;
	Sequence s = Sequence(sequences + int64_t(g / heads / most) * 48);
	if (row >= int(s.l)) return;
	int of = head / (heads / shared1), qAt = ((int(s.from) + row) * heads + head) * hd;
	int skip = int(s.skip), n = int(s.n), ahead = int(s.ahead);
	int last = ahead < 0 ? n - 1 : ahead + row, first = window > 0 ? max(0, last - window + 1) : 0;
	float top = -1e30, total = 0.0, sums[4] = float[4](0.0, 0.0, 0.0, 0.0);
	for (int p = (skip + first) / 64; p <= (skip + last) / 64; p++) {
		Page page = Page(pages + (s.page + int64_t(p)) * 24);
		int position = p * 64 + t - skip, room = int(page.room);
		bool sees = position >= first && position <= last;
		precise float score = -1e30;
		if (sees) {
			precise float dot1 = 0.0;
			for (int e = 0; e < hd; e++) dot1 = fma(load(q, qAt + e), load(page.keys, (of * room + t) * hd + e), dot1);
			score = dot1 * scale;
			if (slopes != 0ul) score -= load(slopes, head) * float(last - position);
		}
		float next = max(top, best(score, true)), keep = exponential(top - next);
		float weight1 = sees ? exponential(score - next) : 0.0;
		top = next;
		total = total * keep + best(weight1, false);
		weights[t] = weight1;
		barrier();
		int lo = max(0, first + skip - p * 64), hi = min(63, last + skip - p * 64);
		for (int c = 0; c < 4 && t + 64 * c < hd; c++) {
			precise float sum = 0.0;
			for (int j = lo; j <= hi; j++) sum = fma(weights[j], load(page.values, (of * room + j) * hd + t + 64 * c), sum);
			sums[c] = sums[c] * keep + sum;
		}
		barrier();
	}
	for (int c = 0; c < 4 && t + 64 * c < hd; c++) store(y, qAt + t + 64 * c, sums[c] / total);
}

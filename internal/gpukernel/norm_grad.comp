#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "workgroup.glsl"

// The gradients of norm.comp. With PART 0 a workgroup takes a group of d elements of s: with x^ = (s - mean)·scale and
// g = dy·w, ds is scale (g - mean(g) - x^ mean(g x^)), without mean(g) if the norm is not centered, and the gradient that
// s has, if it has one. It is added to dx and dr, or written; addresses of 0 are not wanted. stats keeps means and scales.
// With PART 1 a thread sums dy·x^ and dy over EACH rows of a column, with PART 2 these sums, which are added to dw and db.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint PART = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t dy, s, w, grad, dx, dr, stats, sums, dw, db;
	int n, d, perRow, centered, add; // add has a bit for dx, and one for dr
	float eps;
};

const int EACH = 64;

void put(uint64_t to, int i, bool adds, float x) {
	if (to != 0ul) store(to, i, adds ? load(to, i) + x : x);
}

void main() {
	int g = int(group()), t = int(gl_LocalInvocationID.x), at = g * d, wat = g % perRow * d;
	if (PART == 0u) {
		if (g >= n) return;
		float mean = 0.0, squares = 0.0, first = 0.0, second = 0.0;
		if (centered != 0) {
			for (int i = t; i < d; i += 256) mean += load(s, at + i);
			mean = sum(mean) / float(d);
		}
		for (int i = t; i < d; i += 256) {
			float v = load(s, at + i) - mean;
			squares += v * v;
		}
		float scale = 1.0 / sqrt(sum(squares) / float(d) + eps);
		for (int i = t; i < d; i += 256) {
			float by = load(dy, at + i) * load(w, wat + i);
			first += by;
			second += by * ((load(s, at + i) - mean) * scale);
		}
		first = centered != 0 ? sum(first) / float(d) : 0.0;
		second = sum(second) / float(d);
		for (int i = t; i < d; i += 256) {
			float v = (load(s, at + i) - mean) * scale;
			float ds = scale * (load(dy, at + i) * load(w, wat + i) - first - v * second);
			if (grad != 0ul) ds += load(grad, at + i);
			put(dx, at + i, (add & 1) != 0, ds);
			put(dr, at + i, (add & 2) != 0, ds);
		}
		if (t == 0) {
			store(stats, 2 * g, mean);
			store(stats, 2 * g + 1, scale);
		}
		return;
	}
	int wide = d * perRow, rows = n / perRow, pieces = (rows + EACH - 1) / EACH, i = g * 256 + t;
	precise float byScale = 0.0, byShift = 0.0;
	if (PART == 1u) {
		if (i >= pieces * wide) return;
		int c = i % wide, from = i / wide * EACH;
		for (int row = from; row < min(from + EACH, rows); row++) {
			int k = 2 * (row * perRow + c / d);
			float by = load(dy, row * wide + c);
			byScale += by * ((load(s, row * wide + c) - load(stats, k)) * load(stats, k + 1));
			byShift += by;
		}
		store(sums, 2 * i, byScale);
		store(sums, 2 * i + 1, byShift);
		return;
	}
	if (i >= wide) return;
	for (int p = 0; p < pieces; p++) {
		byScale += load(sums, 2 * (p * wide + i));
		byShift += load(sums, 2 * (p * wide + i) + 1);
	}
	put(dw, i, true, byScale);
	put(db, i, true, byShift);
}

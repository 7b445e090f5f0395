#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// y[row] += Σ a[i] over the places i of that row, in order. Row number j of m distinct ones has the places
// order[first[j]] to order[first[j+1] - 1].
layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, a, rows, first, order;
	uint n;         // distinct rows times elements of a row
	int width;      // elements of a row, in up to two axes
	int inner;      // length of the second
	int ys[3], as[3]; // strides of rows, and of the axes of a row
};

void main() {
	uint i = group() * 64u + gl_LocalInvocationID.x;
	if (i >= n) return;
	int j = int(i) / width, e = int(i) % width;
	int e0 = e / inner, e1 = e % inner;
	int yi = loadInt(rows, j) * ys[0] + e0 * ys[1] + e1 * ys[2];
	precise float sum = load(y, yi);
	for (int k = loadInt(first, j); k < loadInt(first, j + 1); k++) {
		sum += load(a, loadInt(order, k) * as[0] + e0 * as[1] + e1 * as[2]);
	}
	store(y, yi, sum);
}

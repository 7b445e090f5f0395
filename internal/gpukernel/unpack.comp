#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "weights.glsl"

// Row i of y (n, k) is row ids[i] of W, or row i where there are no ids.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, ids, q, factors, least, scales;
	int n, k;
};

void main() {
	int i = int(group() * 256u + gl_LocalInvocationID.x);
	if (i >= n * k) return;
	int j = i / k;
	if (ids != 0ul) j = loadInt(ids, j);
	store(y, i, weight(Matrix(q, factors, least, scales, k), j, i % k));
}

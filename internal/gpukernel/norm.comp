#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "norm.glsl"

// s = x + r, which is not written without r, and its norm y: a workgroup for each group of d elements.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, s, x, r, w, b;
	int n, d, perRow, centered;
	float eps;
};

void main() {
	int g = int(group()), at = g * d, wat = g % perRow * d;
	if (g >= n) return;
	Norm m = Norm(x, r, w, b, d, centered, eps);
	vec2 moments = normMoments(m, at);
	for (int i = int(gl_LocalInvocationID.x); i < d; i += 256) {
		float v = normSum(m, at + i);
		if (r != 0ul) store(s, at + i, v);
		store(y, at + i, normOf(m, moments, v, wat + i));
	}
}

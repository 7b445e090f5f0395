#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "updates.glsl"
#include "workgroup.glsl"

// The sum of squares of all g, by workgroup; with TOTAL that of n such sums, to the first of y.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint TOTAL = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t y, updates, x;
	int count, n;
};

void main() {
	int at = int(group()), t = int(gl_LocalInvocationID.x);
	float total = 0.0;
	if (TOTAL != 0u) {
		for (int i = t; i < n; i += 256) total += load(x, i);
	} else {
		Update u = updateOf(updates, count, at);
		int from = (at - int(u.first)) * MANY, end = min(int(u.n), from + MANY);
		for (int i = from + t; i < end; i += 256) {
			float v = load(u.g, i);
			total = fma(v, v, total);
		}
	}
	total = sum(total);
	if (t == 0) store(y, at, total);
}

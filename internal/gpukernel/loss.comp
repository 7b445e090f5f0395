#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "workgroup.glsl"

// The cross-entropy of rows x (rows, v) with their targets: all = log Σ e^x, y = all - x[target]. With BACK 1 the gradient
// dx = dy (e^(x-all) - [target]) is written, with 2 it is added. A workgroup computes a row.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint BACK = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t y, all, x, dx, targets;
	int rows, v, dy; // the stride of y, the gradient, with BACK
};

float largest(float v) {
	uint t = gl_LocalInvocationID.x;
	parts[t] = v;
	barrier();
	for (uint half1 = 128u; half1 > 0u; half1 /= 2u) {
		if (t < half1 && (parts[t + half1] > parts[t] || isNaN(parts[t + half1]))) parts[t] = parts[t + half1];
		barrier();
	}
	return parts[0];
}

void main() {
	int row = int(group()), t = int(gl_LocalInvocationID.x), from = row * v;
	if (row >= rows) return;
	int target = loadInt(targets, row);
	if (BACK != 0u) {
		float by = load(y, row * dy), total = load(all, row);
		for (int i = t; i < v; i += 256) {
			float d = by * (exponential(load(x, from + i) - total) - (i == target ? 1.0 : 0.0));
			store(dx, from + i, BACK == 2u ? load(dx, from + i) + d : d);
		}
		return;
	}
	float top = -infinity, part = 0.0;
	for (int i = t; i < v; i += 256) {
		float one = load(x, from + i);
		if (one > top || isNaN(one)) top = one;
	}
	top = largest(top);
	for (int i = t; i < v; i += 256) part += exponential(load(x, from + i) - top);
	float total = top + logarithm(sum(part));
	if (t > 0) return;
	store(all, row, total);
	store(y, row, total - load(x, from + target));
}

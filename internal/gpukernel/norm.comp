#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "workgroup.glsl"

// s = x + r, and y = (s - mean)/√(mean of squares + eps)·w + b over each group of d elements: a workgroup for each. With
// centered 0 the mean is not taken away. r may be none, then s is not written; so may b.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, s, x, r, w, b;
	int n, d, perRow, centered;
	float eps;
};

float value(int i) {
	float v = load(x, i);
	if (r != 0ul) v += load(r, i);
	return v;
}

void main() {
	int g = int(group()), t = int(gl_LocalInvocationID.x), at = g * d, wat = g % perRow * d;
	if (g >= n) return;
	float mean = 0.0, squares = 0.0;
	if (centered != 0) {
		for (int i = t; i < d; i += 256) mean += value(at + i);
		mean = sum(mean) / float(d);
	}
	for (int i = t; i < d; i += 256) {
		float v = value(at + i) - mean;
		squares += v * v;
	}
	float scale = 1.0 / sqrt(sum(squares) / float(d) + eps);
	for (int i = t; i < d; i += 256) {
		float v = value(at + i);
		if (r != 0ul) store(s, at + i, v);
		v = (v - mean) * scale * load(w, wat + i);
		store(y, at + i, b != 0ul ? v + load(b, wat + i) : v);
	}
}

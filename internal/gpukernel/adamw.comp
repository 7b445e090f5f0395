#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// An update of n parameters p by the gradient g, which becomes zero, with the moments m and v (arXiv:1711.05101):
//	m = b1 m + (1 - b1) s g, v = b2 v + (1 - b2) (s g)², p = keep p - rate m / (sqrt(v / c2) + eps)
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t p, m, v, g;
	uint n;
	float s, b1, rest1, b2, rest2, keep, rate, c2, eps; // rest is 1 - b, c2 what v is multiplied by
};

void main() {
	uint at = group() * 256u + gl_LocalInvocationID.x;
	if (at >= n) return;
	int i = int(at);
	precise float x = load(g, i) * s;
	precise float mean = load(m, i) * b1 + x * rest1;
	precise float square = load(v, i) * b2 + x * x * rest2;
	store(m, i, mean);
	store(v, i, square);
	store(p, i, load(p, i) * keep - mean * rate / (sqrt(square * c2) + eps));
	store(g, i, 0.0);
}

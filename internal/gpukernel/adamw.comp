#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "updates.glsl"

// An update of parameters p by their gradients g, which become zero, with the moments m and v (arXiv:1711.05101):
//	m = b1 m + (1 - b1) s g, v = b2 v + (1 - b2) (s g)², p = (1 - r decay) p - r c1 m / (sqrt(c2 v) + eps), r = rate factor
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t updates;
	int count;
	float s, b1, rest1, b2, rest2, factor, c1, c2, eps; // rest is 1 - b, c what moments are multiplied by
};

void main() {
	int at = int(group());
	Update u = updateOf(updates, count, at);
	int from = (at - int(u.first)) * MANY, end = min(int(u.n), from + MANY);
	precise float rate = u.rate * factor, keep = 1.0 - rate * u.decay;
	for (int i = from + int(gl_LocalInvocationID.x); i < end; i += 256) {
		precise float x = load(u.g, i) * s;
		precise float mean = load(u.m, i) * b1 + x * rest1;
		precise float square = load(u.v, i) * b2 + x * x * rest2;
		store(u.m, i, mean);
		store(u.v, i, square);
		store(u.p, i, load(u.p, i) * keep - mean * (rate * c1) / (sqrt(square * c2) + eps));
		store(u.g, i, 0.0);
	}
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The shift SSM of H3 along a row of l positions: s = shift(s) + B·x, y = C·s + D·x; s (d, m) is the state.
layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, b, c, skip, state;
	int l, d, m;
};

void main() {
	int i = int(group() * 64u + gl_LocalInvocationID.x);
	if (i >= d) return;
	for (int t = 0; t < l; t++) {
		float v = load(x, t * d + i);
		precise float sum = 0.0;
		for (int j = m - 1; j >= 0; j--) {
			precise float s = load(b, i * m + j) * v;
			if (j > 0) s = load(state, i * m + j - 1) + s;
			store(state, i * m + j, s);
			sum += load(c, i * m + j) * s;
		}
		store(y, t * d + i, sum + load(skip, i) * v);
	}
}

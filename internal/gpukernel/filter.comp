#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The short causal filter y[t] = a(bias + Σ_{i<k} w[k-1-i]·x[t-i]) of a row x (l, d), after the inputs (k-1, d) before
// it, which may be none (zeros). PART says what is computed: 1 the outputs, 2 the inputs to keep, 3 both, for l = 1.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PART = 1u;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, w, bias, before;
	int l, d, k, activation;
};

// Input t of channel c, from -(k-1) on.
float take(int t, int c) {
	if (t >= 0) return load(x, t * d + c);
	return before != 0ul ? load(before, (k - 1 + t) * d + c) : 0.0;
}

void main() {
	int i = int(group() * 64u + gl_LocalInvocationID.x);
	if (i >= (PART == 2u ? d : l * d)) return;
	int c = i % d, t = i / d;
	if ((PART & 1u) != 0u) {
		precise float sum = 0.0;
		for (int j = k - 1; j >= 0; j--) sum = fma(load(w, c * k + k - 1 - j), take(t - j, c), sum);
		if (bias != 0ul) sum += load(bias, c);
		store(y, t * d + c, activate(uint(activation), sum));
	}
	if ((PART & 2u) != 0u && before != 0ul) {
		for (int j = 0; j < k - 1; j++) store(before, j * d + c, take(l - (k - 1) + j, c)); // reads ahead of what it writes
	}
}

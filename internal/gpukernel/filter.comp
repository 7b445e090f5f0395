#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"

// The short causal filter y[t] = a(bias + Σ_{i<k} w[k-1-i]·x[t-i]) of rows x (l, d), after the inputs (k-1, d) before
// each, which may be none (zeros). PART says what is computed: 1 the outputs, 2 the inputs to keep, 3 both, for l = 1.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PART = 1u;

layout(push_constant, std430) uniform Args {
	uint64_t y, x, w, bias, rows;
	int most, d, k, activation, count, stride; // most positions of a row; numbers from a position to the next in x
};

// Input t of channel c of a row, from -(k-1) on.
float take(Row r, int t, int c) {
	if (t >= 0) return load(x, (int(r.from) + t) * stride + c);
	return r.before != 0ul ? load(r.before, (k - 1 + t) * d + c) : 0.0;
}

void main() {
	int across = ((PART == 2u ? 1 : most) * d + 63) / 64, g = int(group()), row = g / across;
	if (row >= count) return;
	Row r = rowAt(rows, row);
	int i = g % across * 64 + int(gl_LocalInvocationID.x), l = int(r.l);
	if (i >= (PART == 2u ? d : l * d)) return;
	int c = i % d, t = i / d;
	if ((PART & 1u) != 0u) {
		precise float sum = 0.0;
		for (int j = k - 1; j >= 0; j--) sum = fma(load(w, c * k + k - 1 - j), take(r, t - j, c), sum);
		if (bias != 0ul) sum += load(bias, c);
		store(y, (int(r.from) + t) * d + c, activate(uint(activation), sum));
	}
	if ((PART & 2u) != 0u && r.after != 0ul) {
		for (int j = 0; j < k - 1; j++) store(r.after, j * d + c, take(r, l - (k - 1) + j, c)); // reads ahead of what it writes
	}
}

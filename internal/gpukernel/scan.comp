#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The scans of Mamba and Mamba-2 along a row of l positions: for channel c, which belongs to the dt number c/p and to a
// group of channels, and for each of n states j,
//
//   h[j] = exp(dt·A)·h[j] + dt·u·B[j],  y = Σ_j C[j]·h[j] + D·u
//
// with A of the state (PER_STATE 1: A (d, n), D (d)) or of the dt (0: A, D (d/p)). h (d, n) is zero at first where there
// is none. Positions are read one after another, so any way to cut a row gives the same bits.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint PER_STATE = 1u;

layout(push_constant, std430) uniform Args {
	uint64_t y, u, dt, a, bc, skip, state;
	int l, d, n, p, groups;
	int us, bs; // numbers from a position to the next in u and in bc
};

const int BLOCK = 16;

void main() {
	int c = int(group() * 64u + gl_LocalInvocationID.x);
	if (c >= d) return;
	int dts = d / p, head = c / p, g = c / (d / groups);
	for (int from = 0; from < n; from += BLOCK) {
		int m = min(BLOCK, n - from);
		float h[BLOCK], A[BLOCK];
		for (int j = 0; j < m; j++) {
			h[j] = state != 0ul ? load(state, c * n + from + j) : 0.0;
			A[j] = PER_STATE != 0u ? load(a, c * n + from + j) : load(a, head);
		}
		for (int t = 0; t < l; t++) {
			float step = load(dt, t * dts + head), x = load(u, t * us + c);
			int bAt = t * bs + g * n + from, cAt = bAt + groups * n;
			precise float sum = 0.0, in1 = step * x;
			float one = PER_STATE != 0u ? 0.0 : exponential(step * A[0]);
			for (int j = 0; j < m; j++) {
				float decay = PER_STATE != 0u ? exponential(step * A[j]) : one;
				precise float next = decay * h[j] + in1 * load(bc, bAt + j);
				h[j] = next;
				sum += load(bc, cAt + j) * next;
			}
			precise float before = from == 0 ? load(skip, PER_STATE != 0u ? c : head) * x : load(y, t * d + c);
			store(y, t * d + c, before + sum);
		}
		if (state != 0ul) {
			for (int j = 0; j < m; j++) store(state, c * n + from + j, h[j]);
		}
	}
}

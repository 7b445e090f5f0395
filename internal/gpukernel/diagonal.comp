#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Diagonal systems with the gates of H3 along a row of l positions: for head h and its channels i and j, u = k_i·v_j,
// x = Abar·x + Bbar·u for each of n complex modes, z_ij = 2 Re Σ C·x + D·u, y_j = Σ_i q_i·z_ij. States are
// (h·p², n, 2), Abar, Bbar and C (h, n, 2). q and k may be none, with p = 1.
layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, q, k, v, abar, bbar, c, skip, state;
	int l, h, p, n, headMajor;
};

const int BLOCK = 16;

void main() {
	int at = int(group() * 64u + gl_LocalInvocationID.x);
	if (at >= h * p) return;
	int head = at / p, j = at % p, d = h * p, to = headMajor != 0 ? at : j * h + head;
	for (int i = 0; i < p; i++) {
		for (int from = 0; from < n; from += BLOCK) {
			int m = min(BLOCK, n - from), mode = 2 * (head * n + from), own = 2 * (((head * p + i) * p + j) * n + from);
			float re[BLOCK], im[BLOCK];
			for (int s = 0; s < m; s++) {
				re[s] = state != 0ul ? load(state, own + 2 * s) : 0.0;
				im[s] = state != 0ul ? load(state, own + 2 * s + 1) : 0.0;
			}
			for (int t = 0; t < l; t++) {
				precise float u = load(v, t * d + at);
				if (k != 0ul) u *= load(k, t * d + head * p + i);
				precise float sum = 0.0;
				for (int s = 0; s < m; s++) {
					int e = mode + 2 * s;
					float ar = load(abar, e), ai = load(abar, e + 1);
					precise float r = ar * re[s] - ai * im[s] + load(bbar, e) * u;
					precise float w = ar * im[s] + ai * re[s] + load(bbar, e + 1) * u;
					re[s] = r;
					im[s] = w;
					sum += load(c, e) * r - load(c, e + 1) * w;
				}
				precise float z = 2.0 * sum;
				if (from == 0) z += load(skip, head) * u;
				if (q != 0ul) z *= load(q, t * d + head * p + i);
				if (i > 0 || from > 0) z += load(y, t * d + to);
				store(y, t * d + to, z);
			}
			if (state != 0ul) {
				for (int s = 0; s < m; s++) {
					store(state, own + 2 * s, re[s]);
					store(state, own + 2 * s + 1, im[s]);
				}
			}
		}
	}
}

#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "scan.glsl"

// The gradients of scans, the last tile first, whose states are computed again from the border before it. With g the
// gradient of a state, g[t] = C[t]·dy[t] + e[t+1]·g[t+1] and e = exp(dt·A),
//
//   du = D·dy + dt·Σ_j g·B,  d(dt) = u·Σ_j g·B + Σ_j g·A·e·h[t-1],  dA = Σ_t g·dt·e·h[t-1],  dD = Σ_t dy·u,
//   dB = Σ_c g·dt·u,  dC = Σ_c dy·h.
//
// A row has the gradient of the state after it, which may be none, and gets that before it. du and ddt are (positions,
// d); sums has dA (count, d, n) and then dD (count, d) of each row, dbc (parts, positions, 2·groups·n) of each part of
// the channels of a group.
layout(push_constant, std430) uniform Args {
	uint64_t dy, u, dt, a, bc, skip, rows, borders, du, ddt, sums, dbc;
	int d, n, p, groups, count, positions;
	int uStride, bStride;
};

shared float dys[TILE][16];

void main() {
	Place w = place(d, groups);
	if (w.row >= count) return;
	Row r = rowAt(rows, w.row);
	int x = int(gl_LocalInvocationID.x) & 15, q = int(gl_LocalInvocationID.x) >> 4;
	int dtStride = d / p, c = w.c0 + q, own = w.c0 + x, from = int(r.from), l = int(r.l), wide = 2 * groups * n;
	float D = x < w.channels ? load(skip, PER_STATE != 0u ? own : own / p) : 0.0;
	for (int s0 = 0; s0 < n; s0 += 16) {
		int m = min(16, n - s0), state = c * n + s0 + x;
		bool mine = q < w.channels && x < m;
		float A = !mine ? 0.0 : PER_STATE != 0u ? load(a, state) : load(a, c / p);
		float g = mine && r.after != 0ul ? load(r.after, state) : 0.0, dA = 0.0, dD = 0.0;
		for (int t0 = (l - 1) / TILE * TILE; t0 >= 0; t0 -= TILE) {
			int last = min(TILE, l - t0), at = from + t0 + q;
			bool loads = q < last && x < w.channels, part = q < last && x < m;
			us[q][x] = loads ? load(u, at * uStride + own) : 0.0;
			dts[q][x] = loads ? load(dt, at * dtStride + own / p) : 0.0;
			dys[q][x] = loads ? load(dy, at * d + own) : 0.0;
			bs[q][x] = part ? load(bc, at * bStride + w.group * n + s0 + x) : 0.0;
			cs[q][x] = part ? load(bc, at * bStride + (groups + w.group) * n + s0 + x) : 0.0;
			dD += dys[q][x] * us[q][x];
			barrier();
			float h = mine ? load(borders, (int(r.tile) + t0 / TILE) * d * n + state) : 0.0, decay[TILE], kept[TILE];
			[[unroll]] for (int t = 0; t < TILE; t++) { // beyond the row dt is 0: the state stays
				decay[t] = exponential(dts[t][q] * A);
				kept[t] = decay[t] * h;
				h = kept[t] + dts[t][q] * us[t][q] * bs[t][x];
				states[t][17 * q + x] = h;
			}
			barrier();
			int to = ((w.part * positions + at) * 2 * groups + w.group) * n + s0 + x;
			float sum = 0.0;
			for (int i = 0; i < w.channels; i++) sum += dys[q][i] * states[q][17 * i + x];
			if (part) store(dbc, to + groups * n, sum);
			barrier();
			[[unroll]] for (int t = TILE - 1; t >= 0; t--) {
				g += cs[t][x] * dys[t][q];
				states[t][17 * q + x] = g;
				kept[t] *= g;
				dA += dts[t][q] * kept[t];
				g *= decay[t];
			}
			barrier();
			float inputs = 0.0, through = 0.0;
			sum = 0.0;
			for (int i = 0; i < w.channels; i++) sum += dts[q][i] * us[q][i] * states[q][17 * i + x];
			for (int j = 0; j < m; j++) inputs += bs[q][j] * states[q][17 * x + j];
			if (part) store(dbc, to, sum);
			barrier();
			[[unroll]] for (int t = 0; t < TILE; t++) states[t][17 * q + x] = kept[t] * A;
			barrier();
			for (int j = 0; j < m; j++) through += states[q][17 * x + j];
			if (loads) {
				int i = at * d + own;
				store(du, i, (s0 > 0 ? load(du, i) : D * dys[q][x]) + dts[q][x] * inputs);
				store(ddt, i, (s0 > 0 ? load(ddt, i) : 0.0) + us[q][x] * inputs + through);
			}
			barrier();
		}
		if (mine && r.before != 0ul) store(r.before, state, g);
		if (mine) store(sums, w.row * d * n + state, dA);
		states[q][x] = dD;
		barrier();
		if (q == 0 && x < w.channels) {
			float sum = 0.0;
			for (int t = 0; t < TILE; t++) sum += states[t][x];
			store(sums, count * d * n + w.row * d + own, sum);
		}
		barrier();
	}
}

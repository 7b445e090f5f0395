#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "scan.glsl"

// The scans along rows. Positions are read one after another, so any way to cut a row gives the same bits. While a tape
// records, the states before each tile are kept in borders (tiles, d, n). With a gate, gated = y·activation(gate).
layout(push_constant, std430) uniform Args {
	uint64_t y, u, dt, a, bc, skip, rows, borders;
	int d, n, p, groups, count;
	int uStride, bStride; // numbers from a position to the next in u and in bc
	int activation;
	uint64_t gate, gated;
	int gateStride;
};

void main() {
	Place w = place(d, groups);
	if (w.row >= count) return;
	Row r = rowAt(rows, w.row);
	int x = int(gl_LocalInvocationID.x) & 15, q = int(gl_LocalInvocationID.x) >> 4;
	int dtStride = d / p, c = w.c0 + q, own = w.c0 + x, from = int(r.from), l = int(r.l);
	for (int s0 = 0; s0 < n; s0 += 16) {
		int m = min(16, n - s0), state = c * n + s0 + x;
		bool mine = q < w.channels && x < m;
		float A = !mine ? 0.0 : PER_STATE != 0u ? load(a, state) : load(a, c / p);
		float h = mine && r.before != 0ul ? load(r.before, state) : 0.0;
		for (int t0 = 0; t0 < l; t0 += TILE) {
			int last = min(TILE, l - t0), at = from + t0 + q;
			bool loads = q < last && x < w.channels, part = q < last && x < m;
			us[q][x] = loads ? load(u, at * uStride + own) : 0.0;
			dts[q][x] = loads ? load(dt, at * dtStride + own / p) : 0.0;
			bs[q][x] = part ? load(bc, at * bStride + w.group * n + s0 + x) : 0.0;
			cs[q][x] = part ? load(bc, at * bStride + (groups + w.group) * n + s0 + x) : 0.0;
			if (mine && borders != 0ul) store(borders, (int(r.tile) + t0 / TILE) * d * n + state, h);
			barrier();
			for (int t = 0; t < last; t++) {
				float step = dts[t][q];
				precise float in1 = step * us[t][q];
				h = exponential(step * A) * h + in1 * bs[t][x];
				states[t][17 * q + x] = h;
			}
			barrier();
			if (loads) {
				precise float sum = 0.0;
				for (int j = 0; j < m; j++) sum += cs[q][j] * states[q][17 * x + j];
				precise float first = s0 > 0 ? load(y, at * d + own) : load(skip, PER_STATE != 0u ? own : own / p) * us[q][x];
				precise float total = first + sum;
				store(y, at * d + own, total);
				if (gate != 0ul && s0 + 16 >= n) {
					store(gated, at * d + own, total * activate(uint(activation), load(gate, at * gateStride + own)));
				}
			}
			barrier();
		}
		if (mine && r.after != 0ul) store(r.after, state, h);
	}
}

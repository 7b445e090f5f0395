#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"
#include "tile.glsl"

// Diagonal systems with the gates of H3 along rows: for head h and its channels i and j, u = k_i·v_j, x = Abar·x + Bbar·u
// for each of n complex modes, z_ij = 2 Re Σ C·x + D·u, y_j = Σ_i q_i·z_ij. States are (h·p², n, 2), Abar, Bbar and C (h,
// n, 2). q and k may be none, with p = 1. With SHIFT, for p = 1, k is what the shift SSM with its B, C and D makes of x, and is
// written; its states are in a second table of the same rows.
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint M = 1u; // states of the shift SSM
layout(constant_id = 1) const uint SHIFT = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t y, q, k, v, abar, bbar, c, skip, rows;
	int h, p, n, headMajor, count, none;
	uint64_t shiftX, shiftB, shiftC, shiftD;
};

const int CHANNELS = 16;
#include "shift.glsl"

shared float ks[TILE][16];
shared float us[TILE][16], parts[TILE][WIDE];

void main() {
	int d = h * p, across = (d + 15) / 16, g = int(group()), row = g / across, c0 = g % across * 16;
	if (row >= count) return;
	Row r = rowAt(rows, row);
	int mode = int(gl_LocalInvocationID.x) & 15, channel = int(gl_LocalInvocationID.x) >> 4; // also a channel, a position
	int from = int(r.from), l = int(r.l), at = c0 + channel, own = c0 + mode;
	uint64_t shiftAfter = 0ul;
	if (SHIFT != 0u) {
		Row s = rowAt(rows, count + row);
		shiftAfter = s.after;
		shiftLoad(s.before, channel, mode, at, at < d);
	}
	int to = headMajor != 0 ? own : own % p * h + own / p;
	for (int i = 0; i < p; i++) {
		for (int s0 = 0; s0 < n; s0 += 16) {
			int m = min(16, n - s0), e = 2 * (at / p * n + s0 + mode);
			int state = 2 * (((at / p * p + i) * p + at % p) * n + s0 + mode);
			bool mine = at < d && mode < m, carried = mine && r.before != 0ul;
			float re = carried ? load(r.before, state) : 0.0, im = carried ? load(r.before, state + 1) : 0.0;
			float ar = 0.0, ai = 0.0, br = 0.0, bi = 0.0, cr = 0.0, ci = 0.0;
			if (mine) {
				ar = load(abar, e);
				ai = load(abar, e + 1);
				br = load(bbar, e);
				bi = load(bbar, e + 1);
				cr = load(c, e);
				ci = load(c, e + 1);
			}
			for (int t0 = 0; t0 < l; t0 += TILE) {
				int last = min(TILE, l - t0), place = (from + t0 + channel) * d;
				bool loads = channel < last && own < d;
				precise float u = loads ? load(v, place + own) : 0.0;
				if (SHIFT != 0u && s0 == 0) {
					for (int t = 0; t < last; t++) {
						float x = at < d ? load(shiftX, (from + t0 + t) * d + at) : 0.0;
						float y = shiftStep(channel, mode, at, at < d, x, shiftB, shiftC, shiftD);
						if (mode == 0) ks[t][channel] = y;
					}
					barrier();
					if (loads) {
						store(k, place + own, ks[channel][mode]); // and is read by the same thread
						u *= ks[channel][mode];
					}
				} else if (loads && k != 0ul) {
					u *= load(k, place + own / p * p + i);
				}
				us[channel][mode] = u;
				barrier();
				for (int t = 0; t < last; t++) {
					float x = us[t][channel];
					precise float next = ar * re - ai * im + br * x;
					im = ar * im + ai * re + bi * x;
					re = next;
					precise float part = cr * re - ci * im;
					parts[t][17 * channel + mode] = part;
				}
				barrier();
				if (loads) {
					precise float sum = 0.0;
					for (int s = 0; s < m; s++) sum += parts[channel][17 * mode + s];
					precise float z = 2.0 * sum;
					if (s0 == 0) z += load(skip, own / p) * u;
					if (q != 0ul) z *= load(q, place + own / p * p + i);
					if (i > 0 || s0 > 0) z += load(y, place + to);
					store(y, place + to, z);
				}
				barrier();
			}
			if (mine && r.after != 0ul) {
				store(r.after, state, re);
				store(r.after, state + 1, im);
			}
		}
	}
	if (SHIFT != 0u) shiftStore(shiftAfter, channel, mode, at, at < d);
}

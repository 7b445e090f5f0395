#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "scan.glsl"

// The scan of a piece of a row from zero: the state after it goes to `before` of the piece, and what the piece makes of a
// state before it, the product of all exp(dt·A), to `after`. With REVERSE it is the gradient of the state before the piece,
// for gradients x of its outputs.
layout(constant_id = 1) const uint REVERSE = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t x, dt, a, bc, rows;
	int d, n, p, groups, count;
	int xStride, bStride;
};

void main() {
	Place w = place(d, groups);
	if (w.row >= count) return;
	Row r = rowAt(rows, w.row);
	int lane = int(gl_LocalInvocationID.x) & 15, q = int(gl_LocalInvocationID.x) >> 4;
	int dtStride = d / p, c = w.c0 + q, own = w.c0 + lane, l = int(r.l), tiles = (l + TILE - 1) / TILE;
	for (int s0 = 0; s0 < n; s0 += 16) {
		int m = min(16, n - s0), state = c * n + s0 + lane;
		bool mine = q < w.channels && lane < m;
		float A = !mine ? 0.0 : PER_STATE != 0u ? load(a, state) : load(a, c / p), h = 0.0, all = 1.0;
		for (int i = 0; i < tiles; i++) {
			int t0 = TILE * (REVERSE != 0u ? tiles - 1 - i : i), last = min(TILE, l - t0), at = int(r.from) + t0 + q;
			bool loads = q < last && lane < w.channels, part = q < last && lane < m;
			us[q][lane] = loads ? load(x, at * xStride + own) : 0.0;
			dts[q][lane] = loads ? load(dt, at * dtStride + own / p) : 0.0;
			bs[q][lane] = part ? load(bc, at * bStride + (REVERSE != 0u ? groups + w.group : w.group) * n + s0 + lane) : 0.0;
			barrier();
			for (int k = 0; k < last; k++) {
				int t = REVERSE != 0u ? last - 1 - k : k;
				float step = dts[t][q], decay = exponential(step * A), in1 = us[t][q] * bs[t][lane];
				h = REVERSE != 0u ? decay * (h + in1) : decay * h + step * in1;
				all *= decay;
			}
			barrier();
		}
		if (mine) {
			store(r.before, state, h);
			store(r.after, state, all);
		}
	}
}

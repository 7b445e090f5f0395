#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"

// The shift SSM of H3 along rows: s = shift(s) + B·x, y = C·s + D·x; s (d, m) is the state. A
// workgroup has four channels of a row, and 16 threads for each.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint M = 64u; // m

layout(push_constant, std430) uniform Args {
	uint64_t y, x, b, c, skip, rows;
	int d, count;
};

shared float parts[4][17], states[4][M];

void main() {
	int across = (d + 3) / 4, g = int(group()), row = g / across;
	if (row >= count) return;
	Row r = rowAt(rows, row);
	int lane = int(gl_LocalInvocationID.x) & 15, q = int(gl_LocalInvocationID.x) >> 4, i = g % across * 4 + q;
	int m = int(M);
	for (int j = lane; j < m && i < d; j += 16) states[q][j] = r.before != 0ul ? load(r.before, i * m + j) : 0.0;
	for (int t = 0; t < int(r.l); t++) {
		int at = (int(r.from) + t) * d + i;
		float v = i < d ? load(x, at) : 0.0;
		precise float sum = 0.0;
		for (int top = (m - 1) / 16 * 16; top >= 0; top -= 16) { // the last states first: none is read after it is written
			int j = top + lane;
			bool mine = i < d && j < m;
			barrier();
			precise float s = mine ? load(b, i * m + j) * v : 0.0;
			if (mine && j > 0) s = states[q][j - 1] + s;
			barrier();
			if (mine) {
				states[q][j] = s;
				sum += load(c, i * m + j) * s;
			}
		}
		parts[q][lane] = sum;
		barrier();
		if (lane == 0 && i < d) {
			precise float all = 0.0;
			for (int j = 0; j < 16; j++) all += parts[q][j];
			store(y, at, all + load(skip, i) * v);
		}
	}
	if (r.after == 0ul || i >= d) return;
	for (int j = lane; j < m; j += 16) store(r.after, i * m + j, states[q][j]);
}

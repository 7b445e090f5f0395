#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"

// The shift SSM along rows.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint M = 64u; // m

layout(push_constant, std430) uniform Args {
	uint64_t y, x, b, c, skip, rows;
	int d, count;
};

const int CHANNELS = 4;
#include "shift.glsl"

void main() {
	int across = (d + 3) / 4, g = int(group()), row = g / across;
	if (row >= count) return;
	Row r = rowAt(rows, row);
	int lane = int(gl_LocalInvocationID.x) & 15, q = int(gl_LocalInvocationID.x) >> 4, i = g % across * 4 + q;
	bool mine = i < d;
	shiftLoad(r.before, q, lane, i, mine);
	for (int t = 0; t < int(r.l); t++) {
		int at = (int(r.from) + t) * d + i;
		float all = shiftStep(q, lane, i, mine, mine ? load(x, at) : 0.0, b, c, skip);
		if (lane == 0 && mine) store(y, at, all);
	}
	shiftStore(r.after, q, lane, i, mine);
}

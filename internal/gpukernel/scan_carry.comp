#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "rows.glsl"

// Carries states through the pieces of rows: to[i] = h, h = decays[i]·h + ends[i] for the l pieces from number `from` on,
// or in the reverse order, from the state of the row. Each is n numbers.
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint REVERSE = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t to, ends, decays, rows;
	int n, count;
};

void main() {
	int across = (n + 63) / 64, g = int(group()), i = g % across * 64 + int(gl_LocalInvocationID.x);
	if (g / across >= count || i >= n) return;
	Row r = rowAt(rows, g / across);
	float h = r.before != 0ul ? load(r.before, i) : 0.0;
	for (int k = 0; k < int(r.l); k++) {
		int at = (int(r.from) + (REVERSE != 0u ? int(r.l) - 1 - k : k)) * n + i;
		store(to, at, h);
		h = load(decays, at) * h + load(ends, at);
	}
}

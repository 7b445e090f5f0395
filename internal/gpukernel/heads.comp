#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Takes the queries, keys and values of l positions of qkv (l, packed·hd), from position first on of a row that starts
// at position start, turns the first `turned` components of queries and keys by rotary positions with the frequencies
// freq, and puts queries into q (l, heads, hd), keys and values into places of a page (shared, room, hd).
layout(local_size_x = 64) in;

layout(push_constant, std430) uniform Args {
	uint64_t qkv, q, keys, values, freq;
	int l, heads, shared1, packed, hd, turned;
	int position, place, room; // of the first of these positions: in the sequence, and in the page
	float magnitude, xpos;
};

void main() {
	int i = int(group() * 64u + gl_LocalInvocationID.x);
	int all = heads + 2 * shared1;
	if (i >= l * all * hd) return;
	int e = i % hd, head = i / hd % all, t = i / hd / all;
	bool isValue = head >= heads + shared1, isKey = !isValue && head >= heads;
	int from = head;
	if (isValue && packed < all) from -= shared1; // the values are the keys
	int at = (t * packed + from) * hd;
	precise float x = load(qkv, at + e);
	if (!isValue && e < turned) {
		int half1 = turned / 2, f = e % half1;
		precise float angle = float(position + t) * load(freq, f);
		precise float c = sine(angle, 1) * magnitude, s = sine(angle, 0) * magnitude;
		if (xpos != 0.0) {
			float zeta = logarithm((float(f) * (2.0 / float(turned)) + 0.4) / 1.4) * float(position + t) / xpos;
			float factor = exponential(isKey ? -zeta : zeta);
			c *= factor;
			s *= factor;
		}
		float other = load(qkv, at + (e < half1 ? e + half1 : e - half1));
		x = e < half1 ? x * c - other * s : other * s + x * c;
	}
	if (isValue) {
		store(values, ((head - heads - shared1) * room + place + t) * hd + e, x);
	} else if (isKey) {
		store(keys, ((head - heads) * room + place + t) * hd + e, x);
	} else {
		store(q, (t * heads + head) * hd + e, x);
	}
}

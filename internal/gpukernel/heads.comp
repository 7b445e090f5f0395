#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// Takes the queries, keys and values of pieces of rows of qkv (n, packed·hd), each of l positions from position `from` of
// qkv and from `position` of its sequence on. It turns the first `turned` components of queries and keys by rotary
// positions with the frequencies freq, and puts queries into q (n, heads, hd), keys and values into places of a page
// (shared, room, hd).
layout(local_size_x = 64) in;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Piece {
	int64_t from, l, position, place, room;
	uint64_t keys, values;
};

layout(push_constant, std430) uniform Args {
	uint64_t qkv, q, freq, pieces;
	int heads, shared1, packed, hd, turned;
	int most, count; // most positions of a piece, and pieces
	float magnitude, xpos;
};

void main() {
	int all = heads + 2 * shared1, across = (most * all * hd + 63) / 64, g = int(group());
	if (g / across >= count) return;
	Piece p = Piece(pieces + int64_t(g / across) * 56);
	int i = g % across * 64 + int(gl_LocalInvocationID.x), room = int(p.room), place = int(p.place);
	if (i >= int(p.l) * all * hd) return;
	int e = i % hd, head = i / hd % all, t = i / hd / all;
	bool isValue = head >= heads + shared1, isKey = !isValue && head >= heads;
	int from = head;
	if (isValue && packed < all) from -= shared1; // the values are the keys
	int at = ((int(p.from) + t) * packed + from) * hd, position = int(p.position) + t;
	precise float x = load(qkv, at + e);
	if (!isValue && e < turned) {
		int half1 = turned / 2, f = e % half1;
		precise float angle = float(position) * load(freq, f);
		precise float c = sine(angle, 1) * magnitude, s = sine(angle, 0) * magnitude;
		if (xpos != 0.0) {
			float zeta = logarithm((float(f) * (2.0 / float(turned)) + 0.4) / 1.4) * float(position) / xpos;
			float factor = exponential(isKey ? -zeta : zeta);
			c *= factor;
			s *= factor;
		}
		float other = load(qkv, at + (e < half1 ? e + half1 : e - half1));
		x = e < half1 ? x * c - other * s : other * s + x * c;
	}
	if (isValue) {
		store(p.values, ((head - heads - shared1) * room + place + t) * hd + e, x);
	} else if (isKey) {
		store(p.keys, ((head - heads) * room + place + t) * hd + e, x);
	} else {
		store(q, ((int(p.from) + t) * heads + head) * hd + e, x);
	}
}

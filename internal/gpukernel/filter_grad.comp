#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The gradients of filter.comp, for rows without states. A thread takes a piece of a row of a channel, in order of
// positions: with dz = dy·a'(z), dx[t] = Σ_{i<k} w[k-1-i]·dz[t+i] is written, or added where add is set; sums are of the
// piece, for the gradient of each weight and of the bias, (pieces, k+1, d).
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint K = 4u; // k

layout(push_constant, std430) uniform Args {
	uint64_t dy, x, w, bias, dx, sums, pieces;
	int d, count, activation, add;
};

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Piece {
	int64_t from, l, at, most; // a row, and the positions of it that are the piece
};

void main() {
	int k = int(K), across = (d + 63) / 64, g = int(group()), c = g % across * 64 + int(gl_LocalInvocationID.x);
	if (g / across >= count || c >= d) return;
	Piece p = Piece(pieces + int64_t(g / across) * 32);
	int from = int(p.from), l = int(p.l), at = int(p.at), end = at + int(p.most);
	float ws[K], xs[K], dzs[K];
	precise float dw[K], db = 0.0;
	for (int i = 0; i < k; i++) {
		ws[i] = load(w, c * k + i);
		xs[i] = i > 0 && at - k + i >= 0 ? load(x, (from + at - k + i) * d + c) : 0.0; // the k before position at
		dw[i] = 0.0;
		dzs[i] = 0.0;
	}
	float b = bias != 0ul ? load(bias, c) : 0.0;
	for (int t = at; t < end + k - 1; t++) {
		for (int i = 0; i + 1 < k; i++) {
			xs[i] = xs[i + 1];
			dzs[i] = dzs[i + 1];
		}
		bool there = t < l;
		xs[k - 1] = there ? load(x, (from + t) * d + c) : 0.0;
		precise float z = 0.0;
		for (int i = 0; i < k; i++) z = fma(ws[i], xs[i], z);
		float dz = there ? load(dy, (from + t) * d + c) : 0.0;
		if (activation != 0 && there) dz *= slope(uint(activation), z + b);
		dzs[k - 1] = dz;
		if (t < end) {
			for (int i = 0; i < k; i++) dw[i] = fma(dz, xs[i], dw[i]);
			db += dz;
		}
		if (t - (k - 1) < at || dx == 0ul) continue;
		precise float sum = 0.0;
		for (int i = 0; i < k; i++) sum = fma(ws[k - 1 - i], dzs[i], sum);
		int to = (from + t - (k - 1)) * d + c;
		store(dx, to, add != 0 ? load(dx, to) + sum : sum);
	}
	int own = g / across * (k + 1) * d + c;
	for (int i = 0; i < k; i++) store(sums, own + i * d, dw[i]);
	store(sums, own + k * d, db);
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// The impulse response of the shift SSM, y[i, c] = Σ_{j≥i} c[c, j]·b[c, j-i]; with BACK its gradients are added to those of
// b and c, of which an address of 0 is not wanted. y is (n, d), b and c are (d, n).
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint BACK = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t y, b, c, db, dc;
	int d, n;
};

void add(uint64_t to, int i, float x) {
	if (to != 0ul) store(to, i, load(to, i) + x);
}

void main() {
	int at = int(group()) * 256 + int(gl_LocalInvocationID.x), k, own;
	if (at >= n * d) return;
	precise float first = 0.0, second = 0.0;
	if (BACK == 0u) {
		k = at / d;
		own = at % d * n;
		for (int j = k; j < n; j++) first = fma(load(c, own + j), load(b, own + j - k), first);
		store(y, at, first);
		return;
	}
	k = at % n;
	own = at - k;
	for (int i = 0; i < n - k; i++) first = fma(load(y, i * d + own / n), load(c, own + k + i), first);
	for (int i = 0; i <= k; i++) second = fma(load(y, i * d + own / n), load(b, own + k - i), second);
	add(db, at, first);
	add(dc, at, second);
}

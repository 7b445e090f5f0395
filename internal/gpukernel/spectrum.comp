#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "fft.glsl"

// Products of spectra (see fft.glsl): of row i of x and the filter of its head, reversed or not; or, with SUM, the sum of
// all rows of a head of x and, reversed, of the rows of y. Rows are (batches, heads, channels).
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint SUM = 0u;

layout(push_constant, std430) uniform Args {
	uint64_t to, x, y, table;
	int count; // spectra that are written
	int m1, m2;
	int batches, heads, channels, reversed;
};

void main() {
	int size = m1 * m2;
	int64_t i = int64_t(group()) * 256 + gl_LocalInvocationID.x;
	if (i >= int64_t(count) * size) return;
	int row = int(i / size), place = int(i % size), k1 = place / m2, k2 = place % m2;
	int other = (k1 > 0 ? m1 - k1 : 0) * m2 + (2 * m2 - k2 - (k1 > 0 ? 1 : 0)) % m2;
	vec2 w = complexAt(table, k1 + m1 * k2);
	if (SUM == 0u) {
		int64_t a = int64_t(row) * size, b = int64_t(row / channels % heads) * size;
		storeComplex(to, i, productOf(complexAt(x, a + place), complexAt(x, a + other), complexAt(y, b + place),
			complexAt(y, b + other), w, reversed != 0));
		return;
	}
	vec2 sum = vec2(0.0);
	for (int b = 0; b < batches; b++) {
		for (int c = 0; c < channels; c++) {
			int64_t a = (int64_t(b * heads + row) * channels + c) * size;
			sum += productOf(complexAt(x, a + place), complexAt(x, a + other), complexAt(y, a + place),
				complexAt(y, a + other), w, true);
		}
	}
	storeComplex(to, i, sum);
}

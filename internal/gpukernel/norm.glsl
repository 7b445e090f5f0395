#include "workgroup.glsl"

// s = x + r, and (s - mean)/√(mean of squares + eps)·w + b over d elements. With centered 0 the mean is not taken away. r
// and b may be none. A workgroup of 256 threads computes it.
struct Norm {
	uint64_t x, r, w, b;
	int d, centered;
	float eps;
};

// Element i of s.
float normSum(Norm m, int i) {
	precise float v = load(m.x, i);
	if (m.r != 0ul) v += load(m.r, i);
	return v;
}

// The mean of the elements from `at` on, and what is multiplied by.
vec2 normMoments(Norm m, int at) {
	int t = int(gl_LocalInvocationID.x);
	precise float mean = 0.0, squares = 0.0;
	if (m.centered != 0) {
		for (int i = t; i < m.d; i += 256) mean += normSum(m, at + i);
		mean = sum(mean) / float(m.d);
	}
	for (int i = t; i < m.d; i += 256) {
		precise float v = normSum(m, at + i) - mean;
		squares += v * v;
	}
	precise float scale = 1.0 / sqrt(sum(squares) / float(m.d) + m.eps);
	return vec2(mean, scale);
}

// What is made of an element v of s, by weight i.
float normOf(Norm m, vec2 moments, float v, int i) {
	precise float y = (v - moments.x) * moments.y * load(m.w, i);
	if (m.b != 0ul) y += load(m.b, i);
	return y;
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"
#include "product.glsl"

// The sums of segments that workgroups of a product have computed, added in order.
layout(local_size_x = 256) in;

void main() {
	int e = int(group() * 256u + gl_LocalInvocationID.x), all = batches * rows * n;
	if (e >= all) return;
	precise float total = 0.0;
	for (int at = 0; at < k; at += segment) total += load(parts, at / segment * all + e);
	finish(e / (rows * n), e / n % rows, e % n, total);
}

#version 460
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

// y = f(a, b, c), element by element of views with up to four axes.
layout(local_size_x = 256) in;

layout(push_constant, std430) uniform Args {
	uint64_t y, a, b, c;
	uint n, code; // the operation, and above eight bits an activation
	float s, t;
	int shape[4], ys[4], as[4], bs[4], cs[4];
};

// counter.Mix64 of package counter.
uint64_t mix(uint64_t z) {
	z += 0x9e3779b97f4a7c15ul;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ul;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebul;
	return z ^ (z >> 31);
}

void main() {
	uint op = code & 255u, activation = code >> 8;
	uint i = group() * 256u + gl_LocalInvocationID.x;
	if (i >= n) return;
	ivec4 at;
	uint left = i;
	for (int k = 3; k > 0; k--) {
		at[k] = int(left % uint(shape[k]));
		left /= uint(shape[k]);
	}
	at[0] = int(left);
	int yi = 0, ai = 0, bi = 0, ci = 0;
	for (int k = 0; k < 4; k++) {
		yi += at[k] * ys[k];
		ai += at[k] * as[k];
		bi += at[k] * bs[k];
		ci += at[k] * cs[k];
	}
	float r = 0.0;
	switch (op) {
	case 0u: r = s; break;
	case 1u: r = float(i); break;
	case 2u: r = uint(mix(b + uint64_t(i) * 0xd1342543de82ef95ul) >> 32) >= uint(c) ? 1.0 : 0.0; break;
	case 3u: r = s * load(a, ai) + t; break;
	case 8u: r = exponential(load(a, ai)); break;
	case 9u: r = exponentialLess1(load(a, ai)); break;
	case 10u: r = logarithm(load(a, ai)); break;
	case 11u: r = logarithmOf1Plus(load(a, ai)); break;
	case 12u: r = sqrt(load(a, ai)); break;
	case 13u: r = 1.0 / load(a, ai); break;
	case 14u: r = logistic(load(a, ai)); break;
	case 15u: r = hyperbolicTangent(load(a, ai)); break;
	case 16u: r = errorFunction(load(a, ai)); break;
	case 17u: r = sine(load(a, ai), 0); break;
	case 18u: r = sine(load(a, ai), 1); break;
	case 19u: r = abs(load(a, ai)); break;
	case 32u: r = load(a, ai) + load(b, bi); break;
	case 33u: r = load(a, ai) - load(b, bi); break;
	case 34u: r = load(a, ai) * load(b, bi); break;
	case 35u: r = load(a, ai) < load(b, bi) ? 1.0 : 0.0; break;
	case 36u: r = load(c, ci) != 0.0 ? load(a, ai) : load(b, bi); break;
	case 37u: r = activate(activation, load(a, ai)); break;
	case 38u: r = activate(activation, load(a, ai) + load(b, bi)); break;
	case 39u: r = load(a, ai) * activate(activation, load(b, bi)); break;
	case 40u: r = load(a, ai) * load(b, bi) + load(c, ci); break;
	case 41u: r = -exponential(load(a, ai)); break;
	case 64u: r = load(a, loadInt(c, at[0]) * as[0] + ai - at[0] * as[0]); break;
	}
	store(y, yi, r);
}

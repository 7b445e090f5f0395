#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "fft.glsl"

// Discrete Fourier transforms of P complex numbers in the memory of a workgroup, by Stockham's passes of radix 8, the
// last of which may be 2 or 4. A thread has 8 numbers; a workgroup has several transforms, if they are short. The inverse
// is the transform of numbers whose parts are swapped. A convolution at once is a transform, the product with the
// spectrum of the filter, and the inverse.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint P = 8u; // a power of two, at least 8
layout(constant_id = 2) const uint MODE = 0u;

// Parts of MODE.
const uint REAL_IN = 1u, REAL_OUT = 2u, SWAP_IN = 4u, SWAP_OUT = 8u;
const uint TURN = 16u;    // multiply number k of transform i of a row by W^(i·k)
const uint FILTER = 32u;  // a convolution at once
const uint COLUMNS = 64u; // transforms of a row lie side by side

layout(push_constant, std430) uniform Args {
	uint64_t from, to, table, filters;
	int count;           // transforms
	int inner;           // of a row
	int apart, step;     // places from a transform to the next one of a row, and from a number to the next
	int size;            // M
	int l, at;           // real numbers in: those of a row, which begin at place `at`; others are 0
	int outL, outAt;     // real numbers out, likewise
	int channels, heads; // rows with the same filter one after the other, and filters
};

const uint PER = P / 8u, MANY = gl_WorkGroupSize.x / PER, WIDE = MANY > 1u ? P + 1u : P;

shared float re[MANY * WIDE], im[MANY * WIDE];

vec2 power(int i) { return complexAt(table, i); }

vec2 v[8];

void butterfly2(int a, int b) {
	vec2 x = v[a];
	v[a] = x + v[b];
	v[b] = x - v[b];
}

// Four numbers from i on, `by` apart, in order.
void butterfly4(int i, int by) {
	butterfly2(i, i + 2 * by);
	butterfly2(i + by, i + 3 * by);
	v[i + 3 * by] = vec2(v[i + 3 * by].y, -v[i + 3 * by].x); // times -i
	butterfly2(i, i + by);
	butterfly2(i + 2 * by, i + 3 * by);
	vec2 x = v[i + by];
	v[i + by] = v[i + 2 * by];
	v[i + 2 * by] = x;
}

void butterfly8() {
	const float half1 = 0.70710678118654752;
	[[unroll]] for (int i = 0; i < 4; i++) butterfly2(i, i + 4);
	v[5] = half1 * vec2(v[5].x + v[5].y, v[5].y - v[5].x);
	v[6] = vec2(v[6].y, -v[6].x);
	v[7] = half1 * vec2(v[7].y - v[7].x, -v[7].x - v[7].y);
	butterfly4(0, 1); // frequencies 0, 2, 4, 6
	butterfly4(4, 1); // 1, 3, 5, 7
	vec2 odd[4] = vec2[4](v[4], v[5], v[6], v[7]);
	v[6] = v[3];
	v[4] = v[2];
	v[2] = v[1];
	[[unroll]] for (int i = 0; i < 4; i++) v[2 * i + 1] = odd[i];
}

// Transforms the numbers v[e], which are numbers lane + e·P/8 before and after. base is where the transform lies in shared
// memory.
void transform(int lane, int base) {
	for (uint done = 1u; done < P;) {
		uint radix = min(8u, P / done), groups = 8u / radix;
		if (done > 1u) {
			for (uint s = 0u; s < groups; s++) {
				uint k = (uint(lane) + s * PER) & (done - 1u);
				uint by = k * (uint(size) / (done * radix));
				for (uint r = 1u; r < radix; r++) v[s + r * groups] = times(v[s + r * groups], power(int(r * by)));
			}
		}
		if (radix == 8u) {
			butterfly8();
		} else if (radix == 4u) {
			butterfly4(0, 2);
			butterfly4(1, 2);
		} else {
			[[unroll]] for (int i = 0; i < 4; i++) butterfly2(i, i + 4);
		}
		if (done * radix < P) {
			for (uint s = 0u; s < groups; s++) {
				uint j = uint(lane) + s * PER, k = j & (done - 1u);
				for (uint r = 0u; r < radix; r++) {
					uint i = base + (j - k) * radix + k + r * done;
					re[i] = v[s + r * groups].x;
					im[i] = v[s + r * groups].y;
				}
			}
			barrier();
			[[unroll]] for (int e = 0; e < 8; e++) {
				uint i = base + lane + e * PER;
				v[e] = vec2(re[i], im[i]);
			}
			barrier();
		}
		done *= radix;
	}
}

// Real number i of a row, counted from the first place.
float real(int row, int i) { return i >= at && i < at + l ? Float(from + 4l * (int64_t(row) * l + i - at)).v : 0.0; }

void main() {
	uint t = gl_LocalInvocationID.x;
	int lane = int((MODE & COLUMNS) != 0u ? t / MANY : t % PER), own = int((MODE & COLUMNS) != 0u ? t % MANY : t / PER);
	int f = int(group() * MANY) + own, row = f / inner, i = f % inner, base = own * int(WIDE);
	bool mine = f < count;
	int64_t start = int64_t(row) * size;
	[[unroll]] for (int e = 0; e < 8; e++) {
		int n = i * apart + (lane + e * int(PER)) * step;
		v[e] = vec2(0.0);
		if (mine) v[e] = (MODE & REAL_IN) != 0u ? vec2(real(row, 2 * n), real(row, 2 * n + 1)) : complexAt(from, start + n);
		if ((MODE & SWAP_IN) != 0u) v[e] = v[e].yx;
	}
	transform(lane, base);
	if ((MODE & FILTER) != 0u) {
		[[unroll]] for (int e = 0; e < 8; e++) {
			uint k = base + lane + e * PER;
			re[k] = v[e].x;
			im[k] = v[e].y;
		}
		barrier();
		int64_t filter1 = int64_t(row / channels % heads) * size;
		[[unroll]] for (int e = 0; e < 8; e++) {
			int k = lane + e * int(PER), other = (int(P) - k) & (int(P) - 1);
			if (mine) {
				v[e] = productOf(v[e], vec2(re[base + other], im[base + other]), complexAt(filters, filter1 + k),
					complexAt(filters, filter1 + other), power(k), false);
			}
			v[e] = v[e].yx;
		}
		barrier();
		transform(lane, base);
	}
	if (!mine) return;
	[[unroll]] for (int e = 0; e < 8; e++) {
		int k = lane + e * int(PER), n = i * apart + k * step;
		if ((MODE & TURN) != 0u) v[e] = times(v[e], power(i * k));
		if ((MODE & SWAP_OUT) != 0u) v[e] = v[e].yx;
		if ((MODE & REAL_OUT) == 0u) {
			storeComplex(to, start + n, v[e]);
			continue;
		}
		[[unroll]] for (int part = 0; part < 2; part++) {
			int place = 2 * n + part - outAt;
			if (place >= 0 && place < outL) Float(to + 4l * (int64_t(row) * outL + place)).v = v[e][part] / float(size);
		}
	}
}

#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require
#pragma use_vulkan_memory_model
#include "common.glsl"
#include "weights.glsl"
#include "round.glsl"
#include "product.glsl"

// Products of operands rounded to bfloat16, with float32 sums, by cooperative matrices: a workgroup computes HEIGHT rows of
// WIDTH elements, DEEP terms of each of ALONG segments at a time. Of a segment its subgroups have DOWN by ACROSS parts of
// that, each of matrices of M by N.
layout(local_size_x_id = 1) in;
layout(constant_id = 2) const uint HEIGHT = 64u;
layout(constant_id = 3) const uint WIDTH = 64u;
layout(constant_id = 4) const uint DEEP = 64u;
layout(constant_id = 5) const uint DOWN = 2u;
layout(constant_id = 6) const uint ACROSS = 2u;
layout(constant_id = 7) const uint ALONG = 1u;
layout(constant_id = 8) const uint M = 16u;
layout(constant_id = 9) const uint N = 16u;
layout(constant_id = 10) const uint K = 16u;
layout(constant_id = 11) const uint FOURS = 0u; // 1: x lies in aligned fours along k; 2: w does
layout(constant_id = 12) const uint DIRECT = 0u; // 1: matrices are read from w as it lies, all of DEEP terms at a time

#ifdef HALF // for tests on devices that have these alone
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define NUMBER float16_t
uint pair(float a, float b) { return packHalf2x16(vec2(a, b)); }
float number(int i) { return half16(q, i); } // what is packed is float16, too
#else
#extension GL_EXT_bfloat16 : require
#define NUMBER bfloat16_t
uint pair(float a, float b) { return bfloat16Bits(a) | bfloat16Bits(b) << 16; }
float number(int i) { return uintBitsToFloat(uint(Half(q + int64_t(i) * 2).v) << 16); }
#endif

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Float4 { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Bits4 { uvec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Numbers { uint16_t v[]; };

const uint LINE = DEEP / 2u + 4u; // pairs of terms: rows begin in other banks
const uint MS = HEIGHT / DOWN / M, NS = WIDTH / ACROSS / N;

shared uint xt[ALONG * HEIGHT * LINE], wt[(1u - DIRECT) * ALONG * WIDTH * LINE + DIRECT];
shared float sums[ALONG * DOWN * ACROSS * M * N];

#define SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

uvec2 pairs(vec4 v) { return uvec2(pair(v.x, v.y), pair(v.z, v.w)); }

// Four numbers at elements at, at + by, … of which as many are there.
vec4 four(uint64_t base, int at, int by, int there, bool aligned) {
	if (aligned) return Float4(base + int64_t(at) * 4).v;
	vec4 v = vec4(0.0);
	for (int e = 0; e < min(there, 4); e++) v[e] = load(base, at + e * by);
	return v;
}

// Four terms of row i of x, and of row j of w, from term l on. There are none from term end on.
uvec2 xFour(int b, int i, int l, int end) {
	if (i >= rows || l >= end) return uvec2(0u);
	return pairs(four(x, b * xs[0] + i * xs[1] + l * xs[2], xs[2], end - l, (FOURS & 1u) != 0u));
}

uvec2 wFour(int b, int j, int l, int end) {
	if (j >= n || l >= end) return uvec2(0u);
	if (FORM == 0u) return pairs(four(q, b * ws[0] + j * ws[1] + l * ws[2], ws[2], end - l, (FOURS & 2u) != 0u));
	if ((FOURS & 2u) != 0u) return Bits4(q + (int64_t(j) * k + l) * 2).v;
	vec4 v = vec4(0.0);
	for (int e = 0; e < min(end - l, 4); e++) v[e] = number(j * k + l + e);
	return pairs(v);
}

void main() {
	int t = int(gl_LocalInvocationID.x), threads = int(gl_WorkGroupSize.x), fours = int(DEEP) / 4;
	Tile tile = tileOf(int(group()), int(HEIGHT), int(WIDTH));
	if (tile.b >= batches) return;
	if (DIRECT != 0u) tile.j = min(tile.j, n - int(WIDTH)); // the last tile has elements of the one before it
	uint slab = gl_SubgroupID / (DOWN * ACROSS), local = gl_SubgroupID % (DOWN * ACROSS);
	uint down = local / ACROSS * MS * M, across = local % ACROSS * NS * N; // of this subgroup
	SUMS total[MS * NS], sum[MS * NS], one;
	coopmat<NUMBER, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[MS];
	coopmat<NUMBER, gl_ScopeSubgroup, K, N, gl_MatrixUseB> c, read[DIRECT * (DEEP / K * NS - 1u) + 1u];
	[[unroll]] for (uint e = 0u; e < MS * NS; e++) total[e] = SUMS(0.0);
	// Threads side by side read what lies side by side.
	bool xAcross = abs(xs[2]) <= abs(xs[1]), wAcross = FORM > 0u || abs(ws[2]) <= abs(ws[1]);
	for (int start = tile.from; start < tile.to; start += segment * int(ALONG)) {
		[[unroll]] for (uint e = 0u; e < MS * NS; e++) sum[e] = SUMS(0.0);
		for (int from = start; from < min(start + segment, tile.to); from += int(DEEP)) {
			int own = from + int(slab) * segment;
			[[unroll]] for (uint p = 0u; p < DIRECT * DEEP / K * NS && own < tile.to; p++) {
				int j = tile.j + int(across + p % NS * N), l = own + int(p / NS * K);
				coopMatLoad(read[p], Numbers(q + (int64_t(j) * k + l) * 2).v, 0u, uint(k),
					gl_CooperativeMatrixLayoutColumnMajor);
			}
			for (int p = t; p < int(ALONG * HEIGHT) * fours; p += threads) {
				int l = xAcross ? p % fours : p / int(HEIGHT) % fours, i = (xAcross ? p / fours : p) % int(HEIGHT);
				int s = p / (int(HEIGHT) * fours), end = min(start + (s + 1) * segment, tile.to);
				uvec2 v = xFour(tile.b, tile.i + i, from + s * segment + 4 * l, end);
				int at = (s * int(HEIGHT) + i) * int(LINE) + 2 * l;
				xt[at] = v.x;
				xt[at + 1] = v.y;
			}
			for (int p = t; DIRECT == 0u && p < int(ALONG * WIDTH) * fours; p += threads) {
				int l = wAcross ? p % fours : p / int(WIDTH) % fours, j = (wAcross ? p / fours : p) % int(WIDTH);
				int s = p / (int(WIDTH) * fours), end = min(start + (s + 1) * segment, tile.to);
				uvec2 v = wFour(tile.b, tile.j + j, from + s * segment + 4 * l, end);
				int at = (s * int(WIDTH) + j) * int(LINE) + 2 * l;
				wt[at] = v.x;
				wt[at + 1] = v.y;
			}
			barrier();
			for (uint l = 0u; l < DEEP; l += K) {
				[[unroll]] for (uint p = 0u; p < MS; p++) {
					coopMatLoad(a[p], xt, (slab * HEIGHT + down + p * M) * LINE + l / 2u, LINE,
						gl_CooperativeMatrixLayoutRowMajor);
				}
				[[unroll]] for (uint r = 0u; r < NS; r++) {
					if (DIRECT != 0u) {
						c = read[l / K * NS + r];
					} else {
						coopMatLoad(c, wt, (slab * WIDTH + across + r * N) * LINE + l / 2u, LINE,
							gl_CooperativeMatrixLayoutColumnMajor);
					}
					[[unroll]] for (uint p = 0u; p < MS; p++) sum[p * NS + r] = coopMatMulAdd(a[p], c, sum[p * NS + r]);
				}
			}
			barrier();
		}
		[[unroll]] for (uint e = 0u; e < MS * NS; e++) {
			if (ALONG == 1u) {
				total[e] += sum[e];
				continue;
			}
			coopMatStore(sum[e], sums, gl_SubgroupID * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
			barrier();
			for (uint s = 0u; s < ALONG && start + int(s) * segment < tile.to; s++) {
				coopMatLoad(one, sums, (s * DOWN * ACROSS + local) * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
				total[e] += one;
			}
			barrier();
		}
	}
	[[unroll]] for (uint e = 0u; e < MS * NS; e++) {
		if (slab == 0u) coopMatStore(total[e], sums, local * M * N, N, gl_CooperativeMatrixLayoutRowMajor);
		barrier();
		int i = tile.i + int(down + e / NS * M), j = tile.j + int(across + e % NS * N);
		for (uint p = gl_SubgroupInvocationID; slab == 0u && p < M * N; p += gl_SubgroupSize) {
			put(tile, i + int(p / N), j + int(p % N), sums[local * M * N + p]);
		}
		barrier();
	}
}

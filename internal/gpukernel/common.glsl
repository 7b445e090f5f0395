// What all kernels share: memory by address, and functions of float32 that are as good on every device. Vulkan lets sin
// be off by 2^-11 and exp by many roundings, so these are computed here.

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require

layout(buffer_reference, std430, buffer_reference_align = 4) buffer Float { float v; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Int { int v; };

// Element i of float32 or int32 numbers at an address.
float load(uint64_t base, int i) { return Float(base + int64_t(i) * 4).v; }
void store(uint64_t base, int i, float x) { Float(base + int64_t(i) * 4).v = x; }
int loadInt(uint64_t base, int i) { return Int(base + int64_t(i) * 4).v; }

// The number of this workgroup, of those along the first two axes.
uint group() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

#define infinity uintBitsToFloat(0x7f800000u)

bool isNaN(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

// 2^n for n from -126 to 127.
float pow2(int n) { return intBitsToFloat((n + 127) << 23); }

// e^x, by x = n·ln 2 + r and a polynomial of r.
float exponential(float x) {
	if (isNaN(x) || x > 88.8) return isNaN(x) ? x : infinity;
	if (x < -104.0) return 0.0;
	precise float n = floor(x * 1.44269504 + 0.5);
	precise float r = x - n * 0.693359375;
	r = r + n * 2.12194440e-4;
	precise float p = 1.9875691500e-4;
	p = p * r + 1.3981999507e-3;
	p = p * r + 8.3334519073e-3;
	p = p * r + 4.1665795894e-2;
	p = p * r + 1.6666665459e-1;
	p = p * r + 5.0000001201e-1;
	p = p * (r * r) + r + 1.0;
	int k = int(n), half1 = k / 2;
	return p * pow2(half1) * pow2(k - half1);
}

// e^x - 1.
float exponentialLess1(float x) {
	if (abs(x) >= 0.5) return exponential(x) - 1.0;
	float p = 1.0 / 362880.0;
	p = p * x + 1.0 / 40320.0;
	p = p * x + 1.0 / 5040.0;
	p = p * x + 1.0 / 720.0;
	p = p * x + 1.0 / 120.0;
	p = p * x + 1.0 / 24.0;
	p = p * x + 1.0 / 6.0;
	p = p * x + 0.5;
	return p * (x * x) + x;
}

// The natural logarithm.
float logarithm(float x) {
	if (isNaN(x) || x < 0.0) return uintBitsToFloat(0x7fc00000u);
	if (x == 0.0) return -infinity;
	if (x == infinity) return x;
	int e = 0;
	if (x < 1.1754944e-38) {
		x *= 8388608.0;
		e = -23;
	}
	int bits = floatBitsToInt(x);
	e += (bits >> 23) - 126;
	float m = intBitsToFloat((bits & 0x7fffff) | 0x3f000000); // from 1/2 to 1
	if (m < 0.707106781) {
		e--;
		m += m;
	}
	precise float a = m - 1.0, z = a * a;
	precise float y = 7.0376836292e-2;
	y = y * a - 1.1514610310e-1;
	y = y * a + 1.1676998740e-1;
	y = y * a - 1.2420140846e-1;
	y = y * a + 1.4249322787e-1;
	y = y * a - 1.6668057665e-1;
	y = y * a + 2.0000714765e-1;
	y = y * a - 2.4999993993e-1;
	y = y * a + 3.3333331174e-1;
	y = y * a * z;
	y = y - 2.12194440e-4 * float(e);
	y = y - 0.5 * z;
	return a + y + 0.693359375 * float(e);
}

// log(1 + x): what rounding adds to 1 + x, it takes away again.
float logarithmOf1Plus(float x) {
	precise float u = 1.0 + x;
	if (u == 1.0 || u == infinity) return x;
	precise float v = u - 1.0;
	return logarithm(u) * (x / v);
}

float logistic(float x) {
	float e = exponential(-abs(x));
	return x >= 0.0 ? 1.0 / (1.0 + e) : (isNaN(x) ? x : e / (1.0 + e));
}

float hyperbolicTangent(float x) {
	float a = abs(x);
	if (a >= 0.625) {
		float y = 1.0 - 2.0 / (exponential(2.0 * a) + 1.0);
		return x < 0.0 ? -y : y;
	}
	float z = x * x, p = -5.70498872745e-3;
	p = p * z + 2.06390887954e-2;
	p = p * z - 5.37397155531e-2;
	p = p * z + 1.33314422036e-1;
	p = p * z - 3.33332819422e-1;
	return p * z * x + x;
}

// The error function, with the coefficients of N. Juffa's erff.
float errorFunction(float x) {
	float t = abs(x), s = x * x, r;
	if (t > 0.927734375) {
		r = -1.72853470e-5 * t + 3.83197126e-4;
		float u = -3.88396438e-3 * t + 2.42546219e-2;
		r = r * s + u;
		r = r * t - 1.06777877e-1;
		r = r * t - 6.34846687e-1;
		r = r * t - 1.28717512e-1;
		r = r * t - t;
		r = t > 10.0 ? 1.0 : 1.0 - exponential(r);
		return x < 0.0 ? -r : r;
	}
	r = -5.96761703e-4;
	r = r * s + 4.99119423e-3;
	r = r * s - 2.67681349e-2;
	r = r * s + 1.12819925e-1;
	r = r * s - 3.76125336e-1;
	r = r * s + 1.28379166e-1;
	return r * x + x;
}

// sin(x + quarters·π/2), for |x| below a million: x = n·π/2 + r, after whole turns in steps of 128. The parts of π/2
// have so few bits that products with them are exact.
float sine(float x, int quarters) {
	if (isNaN(x) || abs(x) == infinity) return uintBitsToFloat(0x7fc00000u);
	precise float n = floor(x * (0.636619772 / 512.0) + 0.5);
	precise float r = x - n * 804.0;
	r = r - n * (512.0 * 4.837512969970703125e-4);
	precise float turned = 512.0 * n;
	n = floor(r * 0.636619772 + 0.5);
	r = r - n * 1.5703125;
	r = r - n * 4.837512969970703125e-4;
	r = r - (turned + n) * 7.549789948768648e-8;
	int q = (int(n) + quarters) & 3;
	float s = r * r, y;
	if ((q & 1) == 0) {
		y = 2.86567956e-6;
		y = y * s - 1.98559923e-4;
		y = y * s + 8.33338592e-3;
		y = y * s - 1.66666672e-1;
		y = y * s * r + r;
	} else {
		y = 2.44677067e-5;
		y = y * s - 1.38877297e-3;
		y = y * s + 4.16666567e-2;
		y = y * s - 0.5;
		y = y * s + 1.0;
	}
	return (q & 2) == 0 ? y : -y;
}

float softplus(float x) { return max(x, 0.0) + logarithmOf1Plus(exponential(-abs(x))); }

// The activations, in the order of engine.Activation.
float activate(uint a, float x) {
	switch (a) {
	case 1u: return 0.5 * x * (1.0 + hyperbolicTangent(0.797884561 * (x + 0.044715 * x * x * x)));
	case 2u: return 0.5 * x * (1.0 + errorFunction(x * 0.707106781));
	case 3u: return x * logistic(x);
	case 4u: return logistic(x);
	case 5u: return hyperbolicTangent(x);
	case 6u: return softplus(x);
	case 7u: return max(x, 0.0) * max(x, 0.0);
	case 8u: return x >= 0.0 ? 1.0 + x : 1.0 / (1.0 - x);
	}
	return x;
}

// Their derivatives.
float slope(uint a, float x) {
	float y;
	switch (a) {
	case 1u:
		y = hyperbolicTangent(0.797884561 * (x + 0.044715 * x * x * x));
		return 0.5 * (1.0 + y) + 0.5 * x * (1.0 - y * y) * 0.797884561 * (1.0 + 0.134145 * x * x);
	case 2u: return 0.5 * (1.0 + errorFunction(x * 0.707106781)) + x * 0.39894228 * exponential(-0.5 * x * x);
	case 3u:
		y = logistic(x);
		return y * (1.0 + x * (1.0 - y));
	case 4u:
		y = logistic(x);
		return y * (1.0 - y);
	case 5u:
		y = hyperbolicTangent(x);
		return 1.0 - y * y;
	case 6u: return logistic(x);
	case 7u: return 2.0 * max(x, 0.0);
	case 8u: return x >= 0.0 ? 1.0 : 1.0 / ((1.0 - x) * (1.0 - x));
	}
	return 1.0;
}

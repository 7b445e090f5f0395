// A matrix of weights W (n, k) in the form in which it is stored: FORM is engine.Precision. Integers are in groups of 32
// of a row, scale·(factor·q + least); rows begin at whole groups.

layout(constant_id = 0) const uint FORM = 0u;

layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer Half { uint16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 1) readonly buffer Byte { int8_t v; };

float half16(uint64_t base, int i) { return unpackHalf2x16(uint(Half(base + int64_t(i) * 2).v)).x; }

struct Matrix {
	uint64_t q, factors, least, scales;
	int k;
};

// Element (j, i) of W. The product with an input is the same bits in every kernel.
float weight(Matrix w, int j, int i) {
	if (FORM == 0u) return load(w.q, j * w.k + i);
	if (FORM == 1u) return uintBitsToFloat(uint(Half(w.q + (int64_t(j) * w.k + i) * 2).v) << 16);
	int groups = (w.k + 31) / 32, g = j * groups + i / 32;
	precise float q;
	if (FORM == 2u) {
		q = float(Byte(w.q + int64_t(g) * 32 + i % 32).v);
	} else {
		int both = int(Byte(w.q + int64_t(g) * 16 + i % 32 / 2).v) & 255;
		q = float(i % 2 == 0 ? both & 15 : both >> 4);
		if (FORM == 3u) q -= 8.0;
	}
	precise float x = half16(w.factors, g) * q;
	if (FORM == 4u) x = x + half16(w.least, g);
	return load(w.scales, j) * x;
}

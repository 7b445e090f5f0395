// The bits of the bfloat16 number nearest to x, ties to even. NaN stays NaN.
uint bfloat16Bits(float x) {
	uint bits = floatBitsToUint(x);
	return isNaN(x) ? bits >> 16 | 64u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

float toBFloat16(float x) { return uintBitsToFloat(bfloat16Bits(x) << 16); }

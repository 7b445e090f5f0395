shared float parts[256];

// The sum over a workgroup of 256 threads.
float sum(float v) {
	uint t = gl_LocalInvocationID.x;
	barrier();
	parts[t] = v;
	barrier();
	for (uint half1 = 128u; half1 > 0u; half1 /= 2u) {
		if (t < half1) parts[t] += parts[t + half1];
		barrier();
	}
	return parts[0];
}

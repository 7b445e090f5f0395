// The parameters of an update, in the order of their workgroups: each has its own from number `first` on, in pieces of
// MANY numbers.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Update {
	uint64_t p, m, v, g;
	int64_t n, first;
	float rate, decay;
};

const int MANY = 4096;

// The parameter to which workgroup g belongs, of count.
Update updateOf(uint64_t updates, int count, int g) {
	int lo = 0, hi = count;
	while (hi - lo > 1) {
		int half1 = (lo + hi) / 2;
		if (int(Update(updates + int64_t(half1) * 56).first) <= g) lo = half1;
		else hi = half1;
	}
	return Update(updates + int64_t(lo) * 56);
}

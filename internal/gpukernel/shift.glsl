// The shift SSM of H3: s = shift(s) + B·x, y = C·s + D·x. A workgroup has CHANNELS channels, and 16 threads for each. s (d,
// m) is the state.
shared float shiftParts[CHANNELS][17], states[CHANNELS][M];

// Reads the states before a row, of channel i at place q, or writes those after it.
void shiftLoad(uint64_t before, int q, int lane, int i, bool mine) {
	for (int j = lane; j < int(M) && mine; j += 16) states[q][j] = before != 0ul ? load(before, i * int(M) + j) : 0.0;
}

void shiftStore(uint64_t after, int q, int lane, int i, bool mine) {
	if (after == 0ul || !mine) return;
	for (int j = lane; j < int(M); j += 16) store(after, i * int(M) + j, states[q][j]);
}

// The output for input v of a channel, in its first thread.
float shiftStep(int q, int lane, int i, bool mine, float v, uint64_t b, uint64_t c, uint64_t skip) {
	int m = int(M);
	precise float sum = 0.0;
	for (int top = (m - 1) / 16 * 16; top >= 0; top -= 16) { // the last states first: none is read after it is written
		int j = top + lane;
		bool there = mine && j < m;
		barrier();
		precise float s = there ? load(b, i * m + j) * v : 0.0;
		if (there && j > 0) s = states[q][j - 1] + s;
		barrier();
		if (there) {
			states[q][j] = s;
			sum += load(c, i * m + j) * s;
		}
	}
	shiftParts[q][lane] = sum;
	barrier();
	precise float all = 0.0;
	if (lane == 0 && mine) {
		for (int j = 0; j < 16; j++) all += shiftParts[q][j];
		all += load(skip, i) * v;
	}
	return all;
}

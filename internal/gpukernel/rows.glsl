// The rows of a launch: each is l positions from position `from` on, with the state before it, which may be none (zeros),
// and where that after it goes, which may be nowhere. tile counts the tiles of positions of the rows before it.
layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Row {
	int64_t from, l;
	uint64_t before, after;
	int64_t tile;
};

Row rowAt(uint64_t rows, int i) { return Row(rows + int64_t(i) * 40); }

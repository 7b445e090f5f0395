// y[b,i,j] = a(Σ_k x[b,i,k]·w[b,j,k] + bias[j]), or y += Σ, of views with any strides. The k terms are in segments, whose
// sums are added in order: by one workgroup, or by sum_parts.comp after each has computed one. The bits are the same.
layout(push_constant, std430) uniform Args {
	uint64_t y, x, q, factors, least, scales, bias; // w is at q; what is packed has the strides of rows of k
	uint64_t parts; // of segments (segments, batches, rows, n), 0 where workgroups go through all of them
	int batches, rows, n, k;
	int ys[3], xs[3], ws[3]; // strides: of y along b, i, j; of x along b, i, k; of w along b, j, k
	int segment; // terms
	int how; // the activation, or ADD
};

const int ADD = 256; // to y

// Where a workgroup computes tiles of height by width elements, its tile and its terms.
struct Tile {
	int b, i, j, part, from, to;
};

Tile tileOf(int g, int height, int width) {
	int across = (n + width - 1) / width, down = (rows + height - 1) / height;
	int many = parts == 0ul ? 1 : (k + segment - 1) / segment, part = g % many, at = g / many;
	int from = part * segment, to = parts == 0ul ? k : min(from + segment, k);
	return Tile(at / (across * down), at / across % down * height, at % across * width, part, from, to);
}

// A sum of all terms.
void finish(int b, int i, int j, float v) {
	int at = b * ys[0] + i * ys[1] + j * ys[2];
	if (bias != 0ul) v += load(bias, j);
	store(y, at, how == ADD ? load(y, at) + v : activate(uint(how), v));
}

// The sum of a workgroup's terms of an element.
void put(Tile t, int i, int j, float v) {
	if (i >= rows || j >= n) return;
	if (parts == 0ul) {
		finish(t.b, i, j, v);
	} else {
		store(parts, ((t.part * batches + t.b) * rows + i) * n + j, v);
	}
}

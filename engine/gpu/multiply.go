//go:build gpu

package gpu

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/vulkan"
)

// product is y[b,i,j] = a(Σ_k x[b,i,k]·w[b,j,k] + bias[j]), or y += Σ, on views with any strides: see product.glsl.
type product struct {
	y, x, bias          uint64
	w                   []uint64 // the arguments of a packed matrix, or the address of float32 numbers
	form                uint32
	how                 int  // the activation, or addTo
	rounds              bool // operands are rounded to bfloat16
	batches, rows, n, k int
	ys, xs, ws          [3]int // strides of y along b, i, j; of x along b, i, k; of w along b, j, k
	moved               int    // bytes, without the sums of segments
}

const addTo = 256

// A sum of k terms is split into segments, whose sums are added in order. If there are few other workgroups, each
// segment gets a workgroup. The bits of a result depend only on k: not on other rows, on the kernel, or on how many
// segments a workgroup computes.
const (
	leastSegment = 256
	mostSegments = 8
	wholeSegment = 128 // the length of a segment is a multiple of this
)

func segment(k int) int {
	return max(leastSegment, blocks(blocks(k, mostSegments), wholeSegment)*wholeSegment)
}

const (
	// fewRows is the largest number of rows that are multiplied one by one, without cooperative matrices.
	fewRows = 8
	// fewGroups is the number of workgroups below which smaller tiles or segments keep more of a card busy.
	fewGroups = 256
	// splitSegments is the number of segments from which adding their sums in a separate launch costs less than
	// computing the segments in turn.
	splitSegments = 4
)

// tileSize is the part of a result that a workgroup computes: height rows of width elements.
type tileSize struct {
	height, width int
	deep          int // terms at a time
	down, across  int // subgroups, for cooperative matrices
	along         int // segments at a time
}

func (t tileSize) subgroups() int { return t.down * t.across * t.along }

var (
	// tiles holds the tiles for float32 operands, the largest first.
	tiles = []tileSize{{64, 64, 32, 0, 0, 1}, {32, 32, 32, 0, 0, 1}, {16, 16, 32, 0, 0, 1}}
	// matrixTiles and fewMatrixTiles hold the tiles of cooperative matrices for many rows and for few. A tile, and the
	// sums of one matrix for each subgroup, take less than 32 KB.
	matrixTiles    = []tileSize{{128, 128, 32, 2, 4, 1}, {64, 64, 64, 2, 2, 1}, {64, 16, 64, 4, 1, 2}}
	directTile     = tileSize{16, 16, 128, 1, 1, 4} // for few rows and bfloat16 weights for which lies reports true
	fewMatrixTiles = []tileSize{{16, 64, 128, 1, 4, 1}, {16, 16, 32, 1, 1, 8}}
)

// matrixUnit describes the cooperative matrices by which a device multiplies.
type matrixUnit struct {
	vulkan.Matrix
	subgroup int
	kernel   string
}

// unitOf returns the largest matrix product of a device by which all tiles can be computed, or nil if there is none.
func unitOf(d vulkan.Info, numbers, kernel string) (best *matrixUnit) {
	const side, most = 16, 512 // side of a subgroup's smallest tile; most threads of a workgroup
	for _, m := range d.Matrices {
		fits := m.Of == numbers && side%m.M == 0 && side%m.N == 0 && tiles[0].deep%m.K == 0
		if !fits || d.Subgroup*matrixTiles[0].subgroups() > most {
			continue
		}
		if best == nil || m.M*m.N*m.K > best.M*best.N*best.K {
			best = &matrixUnit{m, d.Subgroup, kernel}
		}
	}
	return best
}

// multiplies reports whether the device computes a small test product exactly. The operands are exact in bfloat16 but
// out of the range of float16, and the sums are exact in float32. Cooperative matrices that fail this test are not
// used, because a driver is not trusted without it.
func (c *core) multiplies() bool {
	const rows, n, k, large = 20, 24, 300, 1 << 20
	x, w, want := make([]float32, rows*k), make([]float32, n*k), make([]float32, rows*n)
	for i := range x {
		x[i] = float32(i%5-2) * large
	}
	for i := range w {
		w[i] = float32(i%7-3) / (large << 8)
	}
	for i := range want {
		for l := range k {
			want[i] += x[i/n*k+l] * w[i%n*k+l]
		}
	}
	a, b, y := c.New(len(x)), c.New(len(w)), c.New(len(want))
	view := func(of engine.Buffer, stride ...int) engine.View {
		return engine.View{Of: of, Shape: []int{rows, n, k}, Stride: stride}
	}
	a.Write(x)
	b.Write(w)
	c.Fill(flat(y, len(want)), 0)
	c.DotBF16(view(y, n, 1, 0), view(a, k, 0, 1), view(b, 0, k, 1))
	got := make([]float32, len(want))
	y.Read(got)
	for _, each := range []engine.Buffer{a, b, y} {
		c.Free(each)
	}
	return slices.Equal(got, want)
}

// plan describes how a product is computed.
type plan struct {
	kernel    string
	constants []uint32
	groups    int
	parts     int // segments, if each has its own workgroup; else 0
}

// plan chooses how to compute a product: with cooperative matrices or, if unit is nil, without.
func (p *product) plan(unit *matrixUnit) plan {
	round := uint32(0)
	if p.rounds {
		round = 1
	}
	from := tiles
	switch {
	case p.matrices(unit) && p.rows <= directTile.height && p.lies():
		from = []tileSize{directTile}
	case p.matrices(unit) && p.rows <= fewMatrixTiles[0].height:
		from = fewMatrixTiles
	case p.matrices(unit):
		from = matrixTiles
	}
	t, groups, parts := p.divide(from)
	direct := uint32(0)
	if t == directTile {
		direct = 1
	}
	if !p.matrices(unit) {
		return plan{"product", []uint32{p.form, uint32(t.height), round}, groups, parts}
	}
	return plan{unit.kernel, []uint32{p.form, uint32(t.subgroups() * unit.subgroup), uint32(t.height),
		uint32(t.width), uint32(t.deep), uint32(t.down), uint32(t.across), uint32(t.along), uint32(unit.M),
		uint32(unit.N), uint32(unit.K), p.fours(), direct}, groups, parts}
}

// matrices reports whether a product is computed by cooperative matrices. All products with rounded operands are, so
// that a row has the same bits alone and in a batch.
func (p *product) matrices(unit *matrixUnit) bool {
	return unit != nil && p.rounds && p.form <= uint32(engine.BF16)
}

// lies reports whether matrices of weights can be read directly from memory, by their form, shape and alignment.
func (p *product) lies() bool {
	return p.form == uint32(engine.BF16) && p.k%directTile.deep == 0 && p.n >= directTile.width && p.w[0]%16 == 0
}

// divide chooses the first tile that gives at least fewGroups workgroups, or else the last tile. If each segment gets a
// workgroup, those count.
func (p *product) divide(from []tileSize) (t tileSize, groups, parts int) {
	segments := blocks(p.k, segment(p.k))
	for _, t = range from {
		groups = p.batches * blocks(p.rows, t.height) * blocks(p.n, t.width)
		if groups >= fewGroups {
			return t, groups, 0
		}
		if parts = segments; segments < splitSegments || t.along >= splitSegments {
			parts = 0
		} else if groups*parts >= fewGroups {
			break
		}
	}
	return t, groups * max(1, parts), parts
}

// fours returns 1 if x can be read in aligned groups of four along k, plus 2 if w can.
func (p *product) fours() (which uint32) {
	aligned := func(at uint64, bytes int, s [3]int) bool {
		return p.k%4 == 0 && at%uint64(4*bytes) == 0 && s[2] == 1 && s[1]%4 == 0 && s[0]%4 == 0
	}
	if aligned(p.x, 4, p.xs) {
		which = 1
	}
	bytes := 4
	if p.form == uint32(engine.BF16) {
		bytes = 2
	}
	if aligned(p.w[0], bytes, p.ws) {
		which |= 2
	}
	return which
}

// multiply launches a product. c.mu must be held.
func (c *core) multiply(p product) {
	how, flops := p.plan(c.unit), 2*p.batches*p.rows*p.n*p.k
	results, moved := p.batches*p.rows*p.n, p.moved
	var parts region
	if how.parts > 0 {
		moved += 4 * results * (how.parts - 1)
		var err error
		if parts, err = c.take(4 * results * how.parts); err != nil {
			c.fail(err)
			return
		}
		defer c.memory.put(parts)
	}
	a := new(args).address(p.y, p.x).address(p.w...).address(p.bias, parts.address()).int(p.batches, p.rows, p.n, p.k).
		int(p.ys[:]...).int(p.xs[:]...).int(p.ws[:]...).int(segment(p.k), p.how).work(moved, flops)
	a.matrices = p.matrices(c.unit)
	if c.launch(how.kernel, a, how.groups, how.constants...); how.parts > 0 {
		c.launch("sum_parts", a.work(4*results*(how.parts+1), results*how.parts), blocks(results, 256))
	}
}

//go:build gpu

package gpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/engine/native"
	"github.com/hippo-ssm/hippo/internal/vulkan"
	"github.com/hippo-ssm/hippo/tensor"
)

// normals returns n normally distributed numbers. If exact is set, they are rounded to eighths, which are exact in
// every format.
func normals(seed uint64, n int, exact bool) []float32 {
	rng, x := rand.New(rand.NewPCG(seed, 5)), make([]float32, n)
	for i := range x {
		if x[i] = float32(rng.NormFloat64()); exact {
			x[i] = float32(math.Round(float64(x[i]*8)) / 8)
		}
	}
	return x
}

// nearestBF16 returns the bfloat16 number nearest to x, ties to even.
func nearestBF16(x float32) float32 {
	bits := math.Float32bits(x)
	return math.Float32frombits((bits + 0x7fff + bits>>16&1) &^ 0xffff)
}

// withHalves makes the device use float16 matrices instead of bfloat16 ones. It skips the test if the device has none.
func withHalves(t *testing.T) {
	unit, before := unitOf(device.Device(), "float16", "product_matrix_half"), device.core.unit
	if unit == nil {
		t.Skip("the device has no cooperative matrices of float16")
	}
	device.core.unit = unit
	t.Cleanup(func() { device.core.unit = before })
}

// products holds shapes of matrix products: batches, rows, elements, terms. They cover every tile, and both one and
// several segments for each workgroup.
var products = [][4]int{{3, 37, 50, 71}, {1, 16, 33, 300}, {1, 70, 24, 2100}, {2, 9, 8, 1300}, {1, 530, 513, 40}}

// eachProduct calls f with the views of a product in several layouts: all returns the views of the whole product, alone
// those of one row.
func eachProduct(s [4]int, f func(layout string, all func(x, w, y engine.Buffer) (to, a, b engine.View),
	alone func(i int, x, w, y engine.Buffer) (to, a, b engine.View))) {
	batches, rows, n, k := s[0], s[1], s[2], s[3]
	for layout, s := range map[string]struct{ x, w, y [4]int }{ // strides along batch, row, column, term
		"rows":    {[4]int{rows * k, k, 0, 1}, [4]int{n * k, 0, k, 1}, [4]int{rows * n, n, 1, 0}},
		"columns": {[4]int{rows * k, 1, 0, rows}, [4]int{n * k, 0, 1, n}, [4]int{rows * n, 1, rows, 0}},
		"interwoven": {[4]int{k, batches * k, 0, 1}, [4]int{1, 0, batches * k, batches},
			[4]int{1, batches * n, batches, 0}},
	} {
		of := func(batches, rows int, at func(s [4]int) int, x, w, y engine.Buffer) (to, a, b engine.View) {
			view := func(b engine.Buffer, s [4]int) engine.View {
				return engine.View{Of: b, At: at(s), Shape: []int{batches, rows, n, k}, Stride: s[:]}
			}
			return view(y, s.y), view(x, s.x), view(w, s.w)
		}
		f(layout, func(x, w, y engine.Buffer) (to, a, b engine.View) {
			return of(batches, rows, func([4]int) int { return 0 }, x, w, y)
		}, func(i int, x, w, y engine.Buffer) (to, a, b engine.View) {
			return of(1, 1, func(s [4]int) int { return i/rows*s[0] + i%rows*s[1] }, x, w, y)
		})
	}
}

// half returns the bits of v as a float16 number. v must be a normal number of that format, or 0.
func half(v float32) uint16 {
	bits := math.Float32bits(v)
	if v == 0 {
		return 0
	}
	return uint16(bits>>16&0x8000 | (bits>>23&0xff-112)<<10 | bits>>13&0x3ff)
}

// bitsOfRows checks that matrix products of views with any strides have the bits of the products of single rows, and
// that they add to the result.
func bitsOfRows(t *testing.T, dot func(to, x, y engine.View)) {
	for _, shape := range products {
		batches, rows, n, k := shape[0], shape[1], shape[2], shape[3]
		x, w := put(normals(1, batches*rows*k, false)), put(normals(2, batches*n*k, false))
		start := normals(3, batches*rows*n, false)
		eachProduct(shape, func(layout string, all func(x, w, y engine.Buffer) (to, a, b engine.View),
			alone func(i int, x, w, y engine.Buffer) (to, a, b engine.View)) {
			together, apart := put(start), put(start)
			dot(all(x, w, together))
			step := max(1, batches*rows/40)
			for i := 0; i < batches*rows; i += step {
				dot(alone(i, x, w, apart))
			}
			got, want, same := get(together), get(apart), 0
			for i := range got {
				if got[i] == want[i] && got[i] != start[i] {
					same++
				}
			}
			if least := (batches*rows + step - 1) / step * n * 9 / 10; same < least {
				t.Errorf("%v, %s: %d of %d products have the bits of a row alone, want %d", shape, layout, same,
					len(got), least)
			}
		})
	}
}

func TestProducts(t *testing.T)        { bitsOfRows(t, device.core.Dot) }
func TestProductsRounded(t *testing.T) { bitsOfRows(t, device.core.DotBF16) }

// TestProductsOfMatrices checks that products by cooperative matrices have the bits of the products of single rows. If
// the numbers are exact, they also have the bits of sums without matrices.
func TestProductsOfMatrices(t *testing.T) {
	all := func() (results [][]float32) {
		for _, shape := range products {
			batches, rows, n, k := shape[0], shape[1], shape[2], shape[3]
			x, w := put(normals(1, batches*rows*k, true)), put(normals(2, batches*n*k, true))
			y := put(make([]float32, batches*rows*n))
			view := func(b engine.Buffer, s ...int) engine.View {
				return engine.View{Of: b, Shape: shape[:], Stride: s}
			}
			device.core.DotBF16(view(y, rows*n, n, 1, 0), view(x, rows*k, k, 0, 1), view(w, n*k, 0, k, 1))
			results = append(results, get(y))
		}
		return results
	}
	want := all()
	x, w := put(normals(1, 20*384, true)), normals(2, 40*384, true)
	linear := func(rows int, halves bool) []float32 {
		packed, y := device.core.place(2*len(w)), put(make([]float32, 40*rows))
		bits := make([]uint16, len(w))
		for i, v := range w {
			if bits[i] = upper(v); halves {
				bits[i] = half(v)
			}
		}
		device.core.writeAt(packed, 0, bytesOf(bits))
		device.core.mu.Lock()
		device.core.multiply(product{y: at(flat(y, 0)), x: at(flat(x, 0)), w: []uint64{at(flat(packed, 0)), 0, 0, 0},
			form: uint32(engine.BF16), rounds: true, batches: 1, rows: rows, n: 40, k: 384, ys: [3]int{0, 40, 1},
			xs: [3]int{0, 384, 1}, ws: [3]int{0, 384, 1}})
		device.core.mu.Unlock()
		return get(y)
	}
	full := linear(20, false)
	withHalves(t)
	for _, rows := range []int{1, 16, 20} { // for some, weights are read directly from memory
		if !slices.Equal(linear(rows, true), full[:40*rows]) {
			t.Errorf("%d rows with packed weights are not those of numbers", rows)
		}
	}
	for i, got := range all() {
		if !slices.Equal(got, want[i]) {
			t.Errorf("%v: products of matrices are not those of numbers", products[i])
		}
	}
	bitsOfRows(t, device.core.DotBF16)
}

// TestDriverIsTried checks that the test product of a driver passes without matrices, and fails with float16 matrices.
func TestDriverIsTried(t *testing.T) {
	if !device.core.multiplies() {
		t.Error("without matrices, or with those of bfloat16, sums are not exact")
	}
	withHalves(t)
	if device.core.multiplies() {
		t.Error("matrices of float16 passed as those of bfloat16")
	}
}

// TestRoundedOperands checks that products at bf16 are float32 sums of products of rounded numbers. Ties are rounded to
// even.
func TestRoundedOperands(t *testing.T) {
	const rows, n, k = 20, 30, 700
	x, w := normals(1, rows*k, false), normals(2, n*k, false)
	for i := range 8 { // ties, subnormal numbers, and neighbors of ties
		x[i] = math.Float32frombits([]uint32{0x3f808000, 0x3f818000, 0x00008000, 0x00018000, 0x3f808001, 0x80008000,
			0xbf818000, 0x3f807fff}[i])
	}
	of := func(dot func(to, x, y engine.View), x, w []float32) []float32 {
		y := put(make([]float32, rows*n))
		view := func(b engine.Buffer, stride ...int) engine.View {
			return engine.View{Of: b, Shape: []int{rows, n, k}, Stride: stride}
		}
		dot(view(y, n, 1, 0), view(put(x), k, 0, 1), view(put(w), 0, k, 1))
		return get(y)
	}
	rounded := func(x []float32) (y []float32) {
		for _, v := range x {
			y = append(y, nearestBF16(v))
		}
		return y
	}
	got, want := of(device.core.DotBF16, x, w), of(device.core.Dot, rounded(x), rounded(w))
	if device.core.unit == nil && !slices.Equal(got, want) {
		t.Error("products of rounded operands have other bits than products of numbers that were rounded before")
	}
	near(t, "rounded products", got, want, 1e-5)
}

// TestTrainsAtBF16 checks that results and gradients at bf16 are those of the processor at bf16, except for a few sums
// that round to other numbers: they must be much nearer than the results at float32.
func TestTrainsAtBF16(t *testing.T) {
	const l = 40
	rows, targets := engine.NewRows(25, 15), make([]int32, l)
	for i := range targets {
		targets[i] = int32(7 * i % 20)
	}
	for name, op := range map[string]struct {
		shapes [][]int
		of     func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor
	}{
		"Linear": {[][]int{{l, 70}, {33, 70}, {33}}, func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor {
			return t.Linear(in[0], in[1], in[2], engine.SiLU)
		}},
		"LinearCrossEntropy": {[][]int{{l, 70}, {33, 70}}, func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor {
			return t.LinearCrossEntropy(in[0], in[1], targets)
		}},
		"BlockLinear": {[][]int{{l, 48}, {3, 16, 20}, {60}},
			func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor {
				return t.BlockLinear(in[0], in[1], in[2], engine.None)
			}},
		"Attention": {[][]int{{l, 4 * 3 * 8}}, func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor {
			return t.Attention(in[0], rows, nil, engine.AttentionOptions{Heads: 4})
		}},
		"Recurrence": {[][]int{{l, 24}, {24, 24}}, func(t *autograd.Tape, in []*tensor.Tensor) *tensor.Tensor {
			return t.Recurrence(in[0], in[1], 12, rows, nil)
		}},
	} {
		run := func(b engine.Backend, p engine.Precision) (out [][]float32) {
			tape := autograd.NewTape(b)
			var in []*tensor.Tensor
			for i, shape := range op.shapes {
				x := tensor.FromSlice(normals(uint64(i), tensor.Shaped(shape...).Len(), false), shape...)
				x.SetNeedsGrad(true)
				in = append(in, x)
			}
			grads := autograd.NewGradients(b, in...)
			tape.Collect(grads)
			tape.Record(true)
			tape.SetPrecision(p)
			y := op.of(tape, in)
			out = append(out, y.Floats())
			if y.Len() > 1 {
				y = tape.CrossEntropy(y, targets)
			}
			tape.Backward(y)
			for _, g := range grads.Each() {
				out = append(out, g.Floats())
			}
			return out
		}
		got, want := run(device, engine.BF16), run(native.Backend, engine.BF16)
		full := run(native.Backend, engine.Float32)
		for i := range got {
			e, rounding := apart(got[i], want[i]), apart(want[i], full[i])
			most := rounding / 5
			if name == "Attention" { // perhaps the processor rounds elsewhere around its softmax; not traced
				most = rounding / 1.5
			}
			if !(e < most) {
				t.Errorf("%s, result or gradient %d: %g from the processor's, which is %g from float32", name, i, e,
					rounding)
			}
		}
	}
}

// apart returns the relative difference of two lists of numbers.
func apart(x, y []float32) float64 {
	var diff, norm float64
	for i := range x {
		diff += math.Pow(float64(x[i]-y[i]), 2)
		norm += math.Pow(float64(y[i]), 2)
	}
	return math.Sqrt(diff / norm)
}

// cards describes devices as drivers describe them.
var cards = map[string]vulkan.Info{
	"nvidia": {Subgroup: 32, Matrices: []vulkan.Matrix{{Of: "float16", M: 16, N: 16, K: 16},
		{Of: "bfloat16", M: 16, N: 8, K: 16}, {Of: "bfloat16", M: 16, N: 16, K: 16}}},
	"amd":      {Subgroup: 64, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 16, N: 16, K: 16}}},
	"intel":    {Subgroup: 16, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 8, N: 16, K: 16}}},
	"halves":   {Subgroup: 8, Matrices: []vulkan.Matrix{{Of: "float16", M: 8, N: 8, K: 8}}},
	"too tall": {Subgroup: 32, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 32, N: 8, K: 16}}},
	"too wide": {Subgroup: 32, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 8, N: 32, K: 16}}},
	"too deep": {Subgroup: 32, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 16, N: 16, K: 64}}},
	"too many": {Subgroup: 128, Matrices: []vulkan.Matrix{{Of: "bfloat16", M: 16, N: 16, K: 16}}},
	"none":     {Subgroup: 32},
}

// TestPlans checks that rounded products use cooperative matrices if the device has bfloat16 matrices that fit, for any
// number of rows. The tiles must fit into the memory of a workgroup. If there are few tiles, segments get workgroups of
// their own.
func TestPlans(t *testing.T) {
	for name, want := range map[string]string{"nvidia": "16 16 16", "amd": "16 16 16", "intel": "8 16 16", "halves": "",
		"too tall": "", "too wide": "", "too deep": "", "too many": "", "none": ""} {
		unit, got := unitOf(cards[name], "bfloat16", "product_matrix"), ""
		if unit != nil {
			got = fmt.Sprint(unit.M, unit.N, unit.K)
		}
		if got != want {
			t.Errorf("%s: matrices of %q, want %q", name, got, want)
		}
		for _, s := range [][4]int{{1, 1, 768, 768}, {1, 64, 768, 3072}, {1, 64, 50257, 768}, {1, 8192, 768, 768},
			{1, 768, 768, 8192}, {12, 512, 512, 64}, {1, 3, 5, 1}} {
			p := product{w: make([]uint64, 4), batches: s[0], rows: s[1], n: s[2], k: s[3], rounds: true}
			plain, rounded := product(p), p.plan(unit)
			plain.rounds = false
			if how := plain.plan(unit); how.kernel == "product_matrix" {
				t.Errorf("%s, %v: float32 goes by matrices", name, s)
			}
			if (rounded.kernel == "product_matrix") != (unit != nil) {
				t.Errorf("%s, %v: rounded products go by %s", name, s, rounded.kernel)
			}
			if rounded.parts > 0 && rounded.parts != blocks(p.k, segment(p.k)) {
				t.Errorf("%s, %v: %d parts, want a segment for each", name, s, rounded.parts)
			}
			if s[1]*s[2]*s[3] > 1<<27 && rounded.groups < fewGroups {
				t.Errorf("%s, %v: %d workgroups, want at least %d", name, s, rounded.groups, fewGroups)
			}
		}
	}
	for _, x := range slices.Concat(matrixTiles, fewMatrixTiles, []tileSize{directTile}) {
		const most, side = 32 << 10, 16
		lines := x.height + x.width
		if x == directTile {
			lines = x.height
		}
		if bytes := 4*x.along*lines*(x.deep/2+4) + 4*x.subgroups()*side*side; bytes > most {
			t.Errorf("a tile of %d by %d takes %d bytes of the memory of a workgroup, want at most %d", x.height,
				x.width, bytes, most)
		}
		if x.height/x.down%side != 0 || x.width/x.across%side != 0 || wholeSegment%x.deep != 0 ||
			x.subgroups() > matrixTiles[0].subgroups() {
			t.Errorf("a tile of %d by %d is no whole number of matrices for each subgroup", x.height, x.width)
		}
	}
}

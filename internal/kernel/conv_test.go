package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// strided is a sequence stored in memory, filled one [l][Lanes] that is provided by calls of Fill.
type (
	strided struct{ x Rows }
	filled  []float32
)

func (s strided) Rows() (Rows, bool)         { return s.x, true }
func (s strided) Fill(z []float32, t, n int) { MulRows(Rows{z, Lanes}, s.x.From(t), Ones(), n, Lanes) }
func (f filled) Rows() (Rows, bool)          { return Rows{}, false }
func (f filled) Fill(z []float32, t, n int)  { copy(z, f[t*Lanes:][:n*Lanes]) }

// to stores results in memory.
type to struct {
	x   Rows
	how Placing
}

func (o to) Rows() (Rows, Placing) { return o.x, o.how }
func (o to) Put(a, b []float32, t, n int) {
	y := o.x.From(t)
	if o.how == Added {
		MulAddRows(y, y, Rows{a, Lanes}, Ones(), n, Lanes)
		return
	}
	MulRows(y, Rows{a, Lanes}, Ones(), n, Lanes)
}

// collect stores the results of one spectrum or two.
type collect struct{ a, b []float32 }

func (c collect) Rows() (Rows, Placing) { return Rows{}, ByPut }
func (c collect) Put(a, b []float32, t, n int) {
	copy(c.a[t*Lanes:], a)
	copy(c.b[min(len(c.b), t*Lanes):], b)
}

// spectrumOf returns the spectrum of x [l][Lanes] after Begin, written over garbage.
func spectrumOf(p *ConvPlan, x []float32) Spectrum {
	buf := make([]float32, p.SpectrumSize())
	for i := range buf {
		buf[i] = float32(math.NaN())
	}
	s := p.Spectrum(buf)
	p.Begin(s, filled(x), len(x)/Lanes)
	return s
}

// convolved returns the first l points of the causal convolution of x and k, both [.][Lanes].
func convolved(p *ConvPlan, x, k []float32, l int) []float32 {
	a, y := spectrumOf(p, x), make([]float32, l*Lanes)
	p.Convolve(a, spectrumOf(p, k), true)
	p.End(to{Rows{y, Lanes}, Written}, l, a, Spectrum{})
	return y
}

// lane returns channel v of x [l][Lanes] in float64.
func lane(x []float32, v int) []float64 {
	y := make([]float64, len(x)/Lanes)
	for t := range y {
		y[t] = float64(x[t*Lanes+v])
	}
	return y
}

// compareLane checks channel v of got, computed from x and k by transforms of n points, against want. The transforms
// spread their rounding errors evenly over the n outputs, whose size is about |x|·|k|/sqrt(n): the tolerance,
// 1e-6·sqrt(log2 n) of that, is some four times the largest error seen.
func compareLane(t *testing.T, what string, got []float32, v int, want, x, k []float64, n int) {
	t.Helper()
	norm := func(x []float64) (s float64) {
		for _, v := range x {
			s += v * v
		}
		return math.Sqrt(s)
	}
	limit := 1e-6 * math.Sqrt((1+math.Log2(float64(n)))/float64(n)) * norm(x) * norm(k)
	for i, y := range lane(got, v) {
		if !(math.Abs(y-want[i]) <= limit) {
			t.Fatalf("l=%d channel %d: %s[%d] = %v, want %v ± %.1g", len(want), v, what, i, y, want[i], limit)
		}
	}
}

// convLengths returns all small lengths, some of each kind of larger one, and the given long ones. With -short it
// leaves out the long ones and most of the small ones.
func convLengths(long ...int) []int {
	ls := []int{135, 144, 160, 240, 255, 256, 257, 270, 1000, 1024, 1025, 1281}
	step := 1
	if testing.Short() {
		step, long = 7, nil
	}
	for l := 1; l <= 130; l += step {
		ls = append(ls, l)
	}
	return append(ls, long...)
}

// directConv returns y[t] = Σ_{j≤t} k[j]·x[t-j].
func directConv(x, k []float64) []float64 {
	y := make([]float64, len(x))
	for j, c := range k {
		for t := j; t < len(y); t++ {
			y[t] += c * x[t-j]
		}
	}
	return y
}

// directCorr returns y[j] = Σ_{t≥j} x[t-j]·dy[t], the transpose of directConv.
func directCorr(x, dy []float64) []float64 {
	y := make([]float64, len(dy))
	for j := range y {
		for t := j; t < len(dy); t++ {
			y[j] += x[t-j] * dy[t]
		}
	}
	return y
}

func TestConvMatchesDirectSum(t *testing.T) { atLevels(t, testConvMatchesDirectSum) }

func testConvMatchesDirectSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, l := range convLengths(4097, 10000) {
		p := NewConvPlan(l)
		x, k := normals(rng, l*Lanes), normals(rng, l*Lanes)
		y := convolved(p, x, k, l)
		for v := 0; v < Lanes; v += 1 + l/256 {
			a, b := lane(x, v), lane(k, v)
			want := directConv(a, b)
			compareLane(t, "y", y, v, want, a, b, p.N())
		}
	}
}

// TestConvOfUnequalLengths checks a short kernel, and a sequence of which few outputs are needed, with a longer plan.
func TestConvOfUnequalLengths(t *testing.T) { atLevels(t, testConvOfUnequalLengths) }

func testConvOfUnequalLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	p := NewConvPlan(200)
	x, k := normals(rng, 150*Lanes), normals(rng, 7*Lanes)
	for _, l := range []int{1, 3, 7, 100, 150} {
		y := convolved(p, x[:l*Lanes], k, l)
		a, b := lane(x[:l*Lanes], 3), lane(k, 3)
		compareLane(t, "y", y, 3, directConv(a, b[:min(l, len(b))]), a, b, p.N())
	}
}

func TestConvTransposes(t *testing.T) { atLevels(t, testConvTransposes) }

func testConvTransposes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	const batch = 3
	for _, l := range convLengths(10000) {
		p := NewConvPlan(l)
		k, dx, dk, y := normals(rng, l*Lanes), make([]float32, l*Lanes), make([]float32, l*Lanes),
			make([]float32, l*Lanes)
		sum, khat := p.Spectrum(make([]float32, p.SpectrumSize())), spectrumOf(p, k)
		v := l % Lanes
		wantDk, allX, allDy := make([]float64, l), []float64{}, []float64{}
		for b := range batch {
			x, dy := normals(rng, l*Lanes), normals(rng, l*Lanes)
			u, g := spectrumOf(p, x), spectrumOf(p, dy)
			if b == 0 && l%2 > 0 {
				sum = u // the first may be stored there
			}
			p.Transpose(g, u, khat, sum, Transposed{First: b == 0, Last: b == batch-1, Again: b > 0})
			if b == 0 {
				p.End(collect{dx, nil}, l, g, Spectrum{})
			} else {
				p.End(collect{dx, y}, l, g, u)
				compareLane(t, "y", y, v, directConv(lane(x, v), lane(k, v)), lane(x, v), lane(k, v), p.N())
			}
			compareLane(t, "dx", dx, v, directCorr(lane(k, v), lane(dy, v)), lane(k, v), lane(dy, v), p.N())
			for j, d := range directCorr(lane(x, v), lane(dy, v)) {
				wantDk[j] += d
			}
			allX, allDy = append(allX, lane(x, v)...), append(allDy, lane(dy, v)...)
		}
		p.End(collect{dk, nil}, l, sum, Spectrum{})
		compareLane(t, "dk", dk, v, wantDk, allX, allDy, p.N())
	}
}

// TestConvChannelsAreIndependent checks that a channel gives the same bits whatever the others hold, even NaN.
func TestConvChannelsAreIndependent(t *testing.T) { atLevels(t, testConvChannelsAreIndependent) }

func testConvChannelsAreIndependent(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, l := range []int{1, 2, 3, 5, 30, 45, 96, 100} {
		p := NewConvPlan(l)
		x, k := normals(rng, l*Lanes), normals(rng, l*Lanes)
		y := convolved(p, x, k, l)
		for i := range x {
			if i%Lanes != 5 {
				x[i] = []float32{float32(math.NaN()), float32(math.Inf(1))}[i%2]
			}
		}
		if got := lane(convolved(p, x, k, l), 5); !slices.Equal(got, lane(y, 5)) {
			t.Errorf("l=%d: channel 5 depends on the others", l)
		}
	}
}

func TestGoodLengths(t *testing.T) {
	for l := 1; l < 3000; l++ {
		n := goodLength(l)
		odd := n
		for odd%2 == 0 {
			odd /= 2
		}
		if n < l || n%4 != 0 || n > 5*((l+3)/4) || !slices.Contains([]int{1, 3, 5, 9, 15}, odd) {
			t.Errorf("goodLength(%d) = %d", l, n)
		}
	}
}

func TestConvPlansAreShared(t *testing.T) {
	plans := make([]*ConvPlan, 8)
	var wg sync.WaitGroup
	for i := range plans {
		wg.Go(func() { plans[i] = NewConvPlan(321 + i) })
	}
	wg.Wait()
	for _, p := range plans {
		if p != plans[0] || p.N() != 384 {
			t.Fatalf("plans for 321 to 328 points have %d and %d points, want one of 384", plans[0].N(), p.N())
		}
	}
}

func TestConvDoesNotAllocate(t *testing.T) {
	p := NewConvPlan(180)
	x := make([]float32, 180*Lanes)
	u, g, k, sum := spectrumOf(p, x), spectrumOf(p, x), spectrumOf(p, x), spectrumOf(p, x)
	in, out := Input(filled(x)), Output(collect{x, x})
	if n := testing.AllocsPerRun(5, func() {
		p := NewConvPlan(180)
		p.Begin(u, in, 180)
		p.Convolve(u, k, false)
		p.Transpose(g, u, k, sum, Transposed{Again: true})
		p.End(out, 180, u, g)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkConv measures a convolution with and without the transform of the kernel, and the gradients of u, k and dy.
func BenchmarkConv(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, l := range []int{30, 64, 128, 256, 512, 768, 1024, 1280, 2048, 4096, 16384, 65536} {
		b.Run(fmt.Sprintf("l=%d", l), func(b *testing.B) {
			p := NewConvPlan(l)
			x := normals(rng, l*Lanes)
			u, g, k, sum := spectrumOf(p, x), spectrumOf(p, x), spectrumOf(p, x), spectrumOf(p, x)
			in, out := strided{Rows{x, Lanes}}, to{Rows{make([]float32, l*Lanes), Lanes}, Written}
			report := func(b *testing.B) {
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*Lanes), "ns/element")
			}
			b.Run("ready", func(b *testing.B) {
				for b.Loop() {
					p.Begin(u, in, l)
					p.Convolve(u, k, false)
					p.End(out, l, u, Spectrum{})
				}
				report(b)
			})
			b.Run("fresh", func(b *testing.B) {
				for b.Loop() {
					p.Begin(u, in, l)
					p.Begin(k, in, l)
					p.Convolve(u, k, true)
					p.End(out, l, u, Spectrum{})
				}
				report(b)
			})
			b.Run("back", func(b *testing.B) {
				for b.Loop() {
					p.Begin(u, in, l)
					p.Begin(k, in, l)
					p.Begin(g, in, l)
					p.Transpose(g, u, k, sum, Transposed{First: true, Last: true})
					p.End(out, l, g, Spectrum{})
					p.End(out, l, sum, Spectrum{})
				}
				report(b)
			})
		})
	}
}

// TestConvolutionWork counts the products of a convolution by transform, n·r for each pass of radix r over n points.
// Twice the length must take little more than twice as many, whereas sums over all pairs take four times as many.
func TestConvolutionWork(t *testing.T) {
	work := func(l int) (products int) {
		n := goodLength(l)
		for _, r := range radices(n) {
			products += n * r
		}
		return products
	}
	for l := 1 << 10; l <= 1<<20; l *= 2 {
		for _, l := range []int{l, l + 1, l + l/3} {
			pairs := l * (l + 1) / 2
			if once, twice := work(l), work(2*l); twice > once*5/2 || once > pairs/10 {
				t.Errorf("length %d: %d products by transform, %d of twice the length, %d pairs", l, once, twice, pairs)
			}
		}
	}
}

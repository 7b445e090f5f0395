//go:build gpu

package gpu

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/counter"
)

// device is the first device, with the validation layer, which must report nothing.
var device *Backend

func TestMain(m *testing.M) {
	var err error
	if device, err = Open(0, true, 0); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	status := m.Run()
	if err := device.Err(); err != nil {
		fmt.Println(err)
		status = 1
	}
	device.Close()
	os.Exit(status)
}

// put returns a buffer with the numbers of x.
func put(x []float32) engine.Buffer {
	b := device.core.New(len(x))
	b.Write(x)
	return b
}

func get(b engine.Buffer) []float32 {
	x := make([]float32, b.Len())
	b.Read(x)
	return x
}

// TestFunctions checks that functions of one number are accurate within five roundings, whatever the driver's own
// functions are. The error is relative to the result, or to 0.01 if the result is smaller.
func TestFunctions(t *testing.T) {
	inf := math.Inf(1)
	for _, test := range []struct {
		name   string
		f      engine.Function
		of     func(float64) float64
		lo, hi float64
		also   []float64
	}{
		{"exp", engine.FnExp, math.Exp, -80, 88, []float64{-inf, inf, math.NaN(), 0}},
		{"expm1", engine.FnExpm1, math.Expm1, -3, 3, []float64{-inf, 0, 1e-8}},
		{"log", engine.FnLog, math.Log, 1e-30, 20, []float64{0, inf, -1, 1, 1e30, 1e-40}},
		{"log1p", engine.FnLog1p, math.Log1p, -0.99, 20, []float64{0, 1e-8, 1e30}},
		{"sqrt", engine.FnSqrt, math.Sqrt, 0, 100, []float64{inf}},
		{"reciprocal", engine.FnReciprocal, func(x float64) float64 { return 1 / x }, 0.01, 100, []float64{inf}},
		{"sigmoid", engine.FnSigmoid, func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, -80, 80,
			[]float64{-inf, inf, math.NaN()}},
		{"tanh", engine.FnTanh, math.Tanh, -12, 12, []float64{-inf, inf, 1e-8}},
		{"erf", engine.FnErf, math.Erf, -5, 5, []float64{-inf, inf, 1e-8}},
		{"sin", engine.FnSin, math.Sin, -800000, 800000, []float64{0, inf, 1e-8}},
		{"cos", engine.FnCos, math.Cos, -800000, 800000, []float64{0, inf}},
		{"abs", engine.FnAbs, math.Abs, -5, 5, []float64{-inf}},
	} {
		t.Run(test.name, func(t *testing.T) {
			const n = 2000
			x := make([]float32, 0, n+len(test.also))
			for i := range n {
				x = append(x, float32(test.lo+(test.hi-test.lo)*float64(i)/(n-1)))
			}
			for _, v := range test.also {
				x = append(x, float32(v))
			}
			b := put(x)
			device.core.Map(test.f, flat(b, len(x)), flat(b, len(x)))
			for i, got := range get(b) {
				want := test.of(float64(x[i]))
				e := math.Abs(float64(got)-want) / max(math.Abs(want), 0.01)
				same := float64(got) == want || math.IsNaN(want) && got != got
				if !same && !(e <= 6e-7) {
					t.Fatalf("of %g: %g, want %g, within 5 roundings", x[i], got, want)
				}
			}
		})
	}
}

// TestKeep checks that dropout keeps the elements that counter.Keep keeps, for any seed.
func TestKeep(t *testing.T) {
	const n, seed = 1000, 0xfedcba9876543210
	for _, threshold := range []uint32{0, 1 << 30, 0x7fa00001, 0xffffffff} { // one is a NaN as a float
		b := device.core.New(n)
		device.core.Keep(flat(b, n), seed, threshold)
		for i, got := range get(b) {
			if want := counter.Keep(seed, i, threshold); got == 1 != want {
				t.Fatalf("threshold %#x, element %d: %g, want kept %v", threshold, i, got, want)
			}
		}
	}
}

// TestViewsOfManyAxes checks views with more axes than a kernel takes, and sums into overlapping windows. They are
// computed piece by piece.
func TestViewsOfManyAxes(t *testing.T) {
	shape := []int{2, 3, 2, 3, 2, 3}
	n := 216
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	reversed := engine.View{Of: put(x), Shape: shape, Stride: []int{1, 2, 6, 12, 36, 72}} // axes in another order
	y := device.core.New(n)
	straight := engine.View{Of: y, Shape: shape, Stride: []int{108, 36, 18, 6, 3, 1}}
	device.core.Affine(straight, reversed, 2, 1)
	sums := put(make([]float32, n))
	device.core.Sum(engine.View{Of: sums, Shape: shape, Stride: straight.Stride}, reversed)
	got, added := get(y), get(sums)
	for i := range got {
		at, want := i, 0
		for _, d := range []struct{ size, to int }{{108, 1}, {36, 2}, {18, 6}, {6, 12}, {3, 36}, {1, 72}} {
			want += at / d.size * d.to
			at %= d.size
		}
		if got[i] != float32(2*want+1) || added[i] != float32(want) {
			t.Fatalf("element %d: %g and %g, want %d and %d", i, got[i], added[i], 2*want+1, want)
		}
	}
	const windows, width = 5, 3
	sum := put(make([]float32, windows+width-1))
	device.core.Sum(engine.View{Of: sum, Shape: []int{windows, width}, Stride: []int{1, 1}},
		engine.View{Of: put(x), Shape: []int{windows, width}, Stride: []int{width, 1}})
	want := make([]float32, windows+width-1)
	for i := range windows * width {
		want[i/width+i%width] += x[i]
	}
	for i, v := range get(sum) {
		if v != want[i] {
			t.Fatalf("windows: %v, want %v", get(sum), want)
		}
	}
}

// TestMemoryIsLentOnce checks that lent parts do not overlap, and that freed parts are merged into the whole block
// again.
func TestMemoryIsLentOnce(t *testing.T) {
	p := pool{dev: device.core.dev}
	lent := map[int]region{}
	for i := range 500 {
		r, err := p.take(i*7919%5000 + 1)
		if err != nil {
			t.Fatal(err)
		}
		for j, other := range lent {
			if other.block == r.block && r.at < other.at+other.size && other.at < r.at+r.size {
				t.Fatalf("part %d overlaps part %d", i, j)
			}
		}
		if lent[i] = r; i%3 > 0 {
			k := i * 31 % (i + 1)
			p.put(lent[k])
			delete(lent, k)
		}
	}
	for _, r := range lent {
		p.put(r)
	}
	if len(p.blocks) != 1 || len(p.blocks[0].free) != 1 || p.blocks[0].free[0].size != leastBlock {
		t.Errorf("after all came back, %d blocks with the parts %v, want one whole", len(p.blocks), p.blocks[0].free)
	}
	p.blocks[0].memory.Free()
}

// TestTooLittleMemory checks that after an allocation that is too large for the device Err returns a short error,
// results are NaN, and nothing panics.
func TestTooLittleMemory(t *testing.T) {
	b, err := Open(0, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	x := b.core.New(1 << 45)
	b.core.Fill(flat(x, 16), 1)
	x.Write([]float32{1, 2})
	y := b.core.New(4)
	y.Copy(0, x, 0, 4)
	out := make([]float32, 4)
	y.Read(out)
	for _, v := range out {
		if v == v {
			t.Errorf("read %v after a failure, want NaN", out)
		}
	}
	if err := b.Err(); err == nil || len(err.Error()) > 300 {
		t.Errorf("the failure is %v, want a line", err)
	}
	b.core.Free(x)
	b.core.Free(y)
}

package mixer

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/testkit/golden"
	"github.com/hippo-ssm/hippo/ssm"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestScanIsTheRecurrence checks that the mixers' scan, whole and in chunks, is the recurrence of the textbook package,
// and so are its prefixes joined in pairs; likewise for Mamba-2's blocks and their dual form, attention.
func TestScanIsTheRecurrence(t *testing.T) {
	const l, n, tol = 150, 3, 2e-6
	rng := rand.New(rand.NewPCG(27, 27))
	draw := func(k int) (x []float32, wide []float64) {
		for range k {
			v := float32(rng.NormFloat64())
			x, wide = append(x, v), append(wide, float64(v))
		}
		return x, wide
	}
	u, wideU := draw(l)
	bc, wideBC := draw(l * 2 * n)
	dt, a := make([]float32, l), make([]float32, n)
	s := ssm.Selective{D: 0.5}
	for i := range a {
		a[i] = -float32(i+1) / 2
		s.A = append(s.A, complex(float64(a[i]), 0))
	}
	head := ssm.SSD{}
	x := make([][]float64, l) // dt·u
	for i := range dt {
		dt[i] = 0.3 * float32(rng.Float64())
		s.Dt = append(s.Dt, float64(dt[i]))
		head.LogDecay = append(head.LogDecay, float64(dt[i])*float64(a[0]))
		x[i] = []float64{float64(dt[i]) * wideU[i]}
		row := wideBC[i*2*n:][:2*n]
		var b, c []complex128
		for j := range n {
			b, c = append(b, complex(row[j], 0)), append(c, complex(row[n+j], 0))
		}
		s.B, s.C = append(s.B, b), append(s.C, c)
		head.B, head.C = append(head.B, row[:n]), append(head.C, row[n:])
	}

	want := s.Scan(nil, wideU)
	parallel, _ := s.ParallelScan(make([]complex128, n), wideU)
	attended, blocks := head.Attend(x), head.Chunked([][]float64{make([]float64, n)}, x, 64)
	wantHead := make([]float64, l)
	for i, y := range head.Scan([][]float64{make([]float64, n)}, x) {
		wantHead[i] = y[0] + 0.5*wideU[i]
		if e := max(math.Abs(parallel[i]-want[i]), math.Abs(attended[i][0]-y[0]),
			math.Abs(blocks[i][0]-y[0])); e > 1e-12 {
			t.Fatalf("position %d: the textbook's own ways differ by %g", i, e)
		}
	}

	for _, chunk := range []int{l, 64, 7, 1} {
		tape := newTape()
		h, hHead := slots(1, tensor.New(1, n)), slots(1, tensor.New(1, n))
		var y, yHead []float32
		for lo := 0; lo < l; lo += chunk {
			k := min(chunk, l-lo)
			in, step := tensor.FromSlice(u[lo:lo+k], k, 1), tensor.FromSlice(dt[lo:lo+k], k, 1)
			rows, skip := engine.NewRows(k), tensor.FromSlice([]float32{0.5}, 1)
			bcs := tensor.FromSlice(bc[lo*2*n:(lo+k)*2*n], k, 2*n)
			out := tape.SelectiveScan(in, step, tensor.FromSlice(a, 1, n), bcs, skip, 1, rows, h)
			y = append(y, read(out)...)
			var xbc []float32
			for i := lo; i < lo+k; i++ {
				xbc = append(append(xbc, u[i]), bc[i*2*n:][:2*n]...)
			}
			out = tape.SSD(tensor.FromSlice(xbc, k, 1+2*n), step, tensor.FromSlice(a[:1], 1), skip, 1, 1, rows, hHead)
			yHead = append(yHead, read(out)...)
		}
		golden.Close(t, fmt.Sprintf("selective scan in chunks of %d", chunk), y, want, tol)
		golden.Close(t, fmt.Sprintf("SSD in chunks of %d", chunk), yHead, wantHead, tol)
	}
}

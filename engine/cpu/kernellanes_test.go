package cpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// TestKernelsInLanes checks that a convolution with kernels in lanes and its gradients, written or added, equal those
// with the same kernels as rows: with 16 heads, fewer and more, with kernels shorter and longer than the sequence, and
// with head_dim above 1.
func TestKernelsInLanes(t *testing.T) {
	type conv func(t *Tape, v, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor
	long := func(t *Tape, v, k, _, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
		return t.LongConv(v, k, skip, r)
	}
	ways := func(t *Tape, v, k, ahead, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
		return t.BothWays(v, k, ahead, skip, r)
	}
	heads := func(dim int) conv {
		return func(t *Tape, v, k, _, skip *tensor.Tensor, r *engine.Rows) *tensor.Tensor {
			y := t.like(v)
			y.Zero()
			c := t.convolution(longConv, y, engine.Gates{Q: v, K: v, V: v, HeadDim: dim}, k, skip)
			c.over(r, []int{0, 1})
			c.taps = min(tapsOf(k), c.longest())
			t.convolve(c, true)
			return y
		}
	}
	for i, c := range []struct {
		name       string
		f          conv
		l, taps, h int
		dim        int
	}{
		{"direct", long, 40, 40, 20, 1}, {"direct, short", long, 40, 9, 16, 1},
		{"all lanes", long, 300, 300, 32, 1}, {"some lanes at the end", long, 300, 300, 21, 1},
		{"some lanes", long, 128, 128, 3, 1}, {"short kernel", long, 1500, 700, 40, 1},
		{"long kernel", long, 200, 300, 40, 1}, {"many rows", long, 3000, 3000, 17, 1},
		{"both ways", ways, 250, 250, 37, 1}, {"both ways, short", ways, 250, 100, 37, 1},
		{"head_dim 2", heads(2), 130, 130, 18, 2}, {"head_dim 3", heads(3), 130, 100, 18, 3},
		{"head_dim 5", heads(5), 40, 60, 3, 5},
	} {
		in := row{}.inputs([][]int{{2 * c.l, c.h * c.dim}, {c.taps, c.h}, {c.taps, c.h}, {c.h}}, uint64(i))
		dy := tensors(row{}.inputs([][]int{{2 * c.l, c.h * c.dim}}, 99))[0]
		run := func(inLanes bool) (out [][]float32) {
			tape, in := NewTape(), tensors(in)
			if inLanes {
				for i := 1; i < 3; i++ {
					k := tensor.New((c.h+lanes-1)/lanes, c.taps, lanes)
					toLanes(k.Data(), in[i].Data(), c.taps, c.h)
					k.SetNeedsGrad(true)
					in[i] = k
				}
			}
			tape.Record(true)
			for range 2 {
				y := c.f(tape, in[0], in[1], in[2], in[3], engine.EqualRows(2, c.l))
				tape.BackwardFrom(y, dy.Data())
				out = append(out, slices.Clone(y.Data()))
				out = append(out, slices.Clone(tape.gradient(in[0])), slices.Clone(tape.gradient(in[3])))
				for _, k := range in[1:3] {
					g := tape.gradient(k)
					if inLanes && g != nil {
						g = make([]float32, c.taps*c.h)
						fromLanes(g, tape.gradient(k), c.taps, c.h)
					}
					out = append(out, slices.Clone(g))
				}
				tape.Reset()
			}
			return out
		}
		want := run(false)
		for j, got := range run(true) {
			compare(t, fmt.Sprintf("%s, result %d", c.name, j), got, doubles(want[j]), 1e-6)
		}
	}
}

// TestKernelRows checks that generated kernels are lanes with zeros after the last head, and that they and their
// gradients are converted to rows.
func TestKernelRows(t *testing.T) {
	for _, h := range []int{1, 15, 16, 17, 40} {
		const l, n = 50, 3
		in := tensors(row{}.inputs([][]int{{h}, {h, n}, {h, n}, {h, n, 2}, {h, n, 2}, {l, h}}, 5))
		p := &engine.DiagParams{LogDt: in[0], InvAReal: in[1], AImag: in[2], B: in[3], C: in[4]}
		tape := NewTape()
		tape.Record(true)
		k := tape.DiagKernel(tape.DiagSystem(p), l).Clone()
		k.SetNeedsGrad(true)
		rows := tape.KernelRows(k, h)
		tape.BackwardFrom(rows, in[5].Data())
		for i, v := range k.Data() {
			c, t0 := i/(l*lanes)*lanes+i%lanes, i/lanes%l
			want, wantGrad := float32(0), float32(0)
			if c < h {
				want, wantGrad = rows.Data()[t0*h+c], in[5].Data()[t0*h+c]
			}
			if v != want || tape.gradient(k)[i] != wantGrad {
				t.Fatalf("%d heads: tap %d of kernel %d is %g with gradient %g, want %g with %g",
					h, t0, c, v, tape.gradient(k)[i], want, wantGrad)
			}
		}
	}
}

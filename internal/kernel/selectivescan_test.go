package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scanCase is a tile with its sequences: rows positions of width channels that are step floats apart, and n states.
type scanCase struct {
	rows, n, width, step, stride                         int
	u, delta, dy, y, du, ddelta, b, c, db, dc            []float32
	a, h, d, dnext, hAfter, dhBefore, da, dd, work, tile []float32
}

// newScanCase returns a scanCase in memory from alloc.
func newScanCase(rng *rand.Rand, rows, n, width, step, stride int, alloc func(x []float32) []float32) *scanCase {
	k := &scanCase{rows: rows, n: n, width: width, step: step, stride: stride}
	channels, states := (rows-1)*step+width, (rows-1)*stride+n
	for _, x := range []*[]float32{&k.u, &k.delta, &k.dy, &k.y, &k.du, &k.ddelta} {
		*x = alloc(normals(rng, channels))
	}
	for i, x := range k.delta {
		k.delta[i] = float32(math.Abs(float64(x)))
	}
	for _, x := range []*[]float32{&k.b, &k.c, &k.db, &k.dc} {
		*x = alloc(normals(rng, states))
	}
	for _, x := range []*[]float32{&k.a, &k.h, &k.dnext, &k.hAfter, &k.dhBefore, &k.da} {
		*x = alloc(normals(rng, width*n))
	}
	for i, x := range k.a {
		k.a[i] = -float32(math.Abs(float64(x)))
	}
	k.d, k.dd = alloc(normals(rng, width)), make([]float32, Lanes)
	k.work, k.tile = alloc(make([]float32, rows*n*ScanStride)), alloc(make([]float32, n*ScanStride))
	return k
}

// run computes the scan and its gradients.
func (k *scanCase) run() {
	r := ScanRows{U: k.u, Delta: k.delta, Step: k.step, B: k.b, C: k.c, Stride: k.stride}
	s := ScanLanes{X: k.tile}
	s.Load(k.a, k.h, k.d, k.n, k.width)
	border := make([]float32, k.n*Lanes)
	s.Save(border)
	s.Scan(k.y, r, k.rows)
	s.State(k.hAfter)
	s.Restore(border)
	s.SetStateGrad(k.dnext)
	s.Steps(k.work, r, k.rows)
	s.Back(k.du, k.ddelta, k.dy, k.work, r, k.rows)
	ScanSums(k.db, k.dc, k.work, k.stride, k.n, k.rows)
	s.AddStateGrad(k.dhBefore)
	s.AddAGrad(k.da)
	copy(k.dd, s.DGrad[:])
}

// results returns everything that run writes.
func (k *scanCase) results() map[string][]float32 {
	return map[string][]float32{"y": k.y, "state": k.hAfter, "du": k.du, "ddelta": k.ddelta, "db": k.db, "dc": k.dc,
		"dstate": k.dhBefore, "da": k.da, "dd": k.dd}
}

func same(x []float32) []float32 { return slices.Clone(x) }

// TestScanForward checks outputs and states against the recurrence in float64, by tiles and by single steps.
func TestScanForward(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(31, 31))
		for _, n := range []int{1, 3, 8, 16, 19} {
			k := newScanCase(rng, 7, n, 13, 17, 2*n+1, same)
			k.run()
			h, stepped, y1 := wide(k.h), slices.Clone(k.h), make([]float32, k.width)
			for p := range k.rows {
				want := make([]float64, k.width)
				for v := range want {
					dt, u := float64(k.delta[p*k.step+v]), float64(k.u[p*k.step+v])
					want[v] = float64(k.d[v]) * u
					for i := range n {
						x := &h[v*n+i]
						*x = math.Exp(dt*float64(k.a[v*n+i]))**x + dt*u*float64(k.b[p*k.stride+i])
						want[v] += float64(k.c[p*k.stride+i]) * *x
					}
				}
				within(t, fmt.Sprintf("n %d: y[%d]", n, p), k.y[p*k.step:][:k.width], want, 2e-6)
				ScanStep(y1, stepped, k.a, k.u[p*k.step:], k.delta[p*k.step:], k.b[p*k.stride:][:n],
					k.c[p*k.stride:], k.d)
				within(t, fmt.Sprintf("n %d: stepped y[%d]", n, p), y1, want, 2e-6)
			}
			within(t, "state", k.hAfter, h, 2e-6)
			within(t, "stepped state", stepped, h, 2e-6)
		}
	})
}

// TestScanLevels checks, for all widths, that every level gives the same as the Go code and writes nothing else.
func TestScanLevels(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for width := 1; width <= Lanes; width++ {
			for _, n := range []int{1, 2, 5, 16} {
				const gap = 3
				make := func() *scanCase {
					rng := rand.New(rand.NewPCG(uint64(width), uint64(n)))
					return newScanCase(rng, 5, n, width, width+gap, n+gap,
						func(x []float32) []float32 { return frame(x, 3).x() })
				}
				got, want := make(), make()
				untouched := make()
				got.run()
				func(old level) {
					defer func() { cpu = old }()
					cpu = generic
					want.run()
				}(cpu)
				for name, x := range want.results() {
					within(t, fmt.Sprintf("width %d, n %d: %s", width, n, name), got.results()[name], wide(x), 2e-6)
				}
				for p := range got.rows - 1 { // nothing changes between the rows
					at := p*got.step + width
					for name, x := range map[string][2][]float32{"y": {got.y, untouched.y},
						"du": {got.du, untouched.du}} {
						if !slices.Equal(x[0][at:][:gap], x[1][at:][:gap]) {
							t.Fatalf("width %d, n %d: %s is changed beside row %d", width, n, name, p)
						}
					}
				}
			}
		}
	})
}

// TestScanNotFinite checks that NaN and infinities affect only their channel, and that a step of +Inf clears the state.
func TestScanNotFinite(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(33, 33))
		clean, spoiled := newScanCase(rng, 4, 6, 16, 16, 6, same),
			newScanCase(rand.New(rand.NewPCG(33, 33)), 4, 6, 16, 16, 6, same)
		spoiled.u[5], spoiled.delta[16+9], spoiled.u[16+9] = nan, float32(math.Inf(1)), 0
		clean.run()
		spoiled.run()
		for i, y := range clean.y {
			if v := i % 16; v != 5 && v != 9 && spoiled.y[i] != y {
				t.Errorf("channel %d is %v beside one that is not finite, else %v", v, spoiled.y[i], y)
			}
		}
		if !isNaN(spoiled.y[5]) || !isNaN(spoiled.y[3*16+5]) {
			t.Error("a NaN is lost")
		}
	})
}

// TestScanAtOnce checks that the bits do not depend on how many rows a call takes, even if they need several assembly
// calls.
func TestScanAtOnce(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for _, size := range []struct{ rows, n int }{{9, 4}, {300, 64}} {
			fresh := func() *scanCase {
				return newScanCase(rand.New(rand.NewPCG(34, 34)), size.rows, size.n, 16, 20, size.n, same)
			}
			whole, k := fresh(), fresh()
			whole.run()
			r := ScanRows{U: k.u, Delta: k.delta, Step: k.step, B: k.b, C: k.c, Stride: k.stride}
			s := ScanLanes{X: k.tile}
			s.Load(k.a, k.h, k.d, k.n, k.width)
			border := make([]float32, k.n*Lanes)
			s.Save(border)
			cuts := []int{0, 4, 5, size.rows}
			for i, lo := range cuts[:3] {
				s.Scan(k.y[lo*k.step:], r.from(lo), cuts[i+1]-lo)
			}
			s.Restore(border)
			s.SetStateGrad(k.dnext)
			part := func(lo int) []float32 { return k.work[lo*k.n*ScanStride:] }
			for i, lo := range cuts[:3] {
				s.Steps(part(lo), r.from(lo), cuts[i+1]-lo)
			}
			for i := 2; i >= 0; i-- {
				lo := cuts[i]
				s.Back(k.du[lo*k.step:], k.ddelta[lo*k.step:], k.dy[lo*k.step:], part(lo), r.from(lo), cuts[i+1]-lo)
			}
			s.AddStateGrad(k.dhBefore)
			s.AddAGrad(k.da)
			for name, x := range map[string][2][]float32{"y": {k.y, whole.y}, "du": {k.du, whole.du},
				"ddelta": {k.ddelta, whole.ddelta},
				"da":     {k.da, whole.da}, "dstate": {k.dhBefore, whole.dhBefore}} {
				if !slices.Equal(x[0], x[1]) {
					t.Errorf("%v: %s differs", size, name)
				}
			}
		}
	})
}

// BenchmarkScan measures the scan of 512 channels of 16 states over 256 positions, and its gradients.
func BenchmarkScan(b *testing.B) {
	const d, n, l = 512, 16, 256
	rng := rand.New(rand.NewPCG(35, 35))
	k := newScanCase(rng, l, n, d, d, 2*n, same)
	tiles := make([]ScanLanes, d/Lanes)
	for i := range tiles {
		tiles[i].X = make([]float32, n*ScanStride)
		tiles[i].Load(k.a[i*Lanes*n:], nil, k.d[i*Lanes:], n, Lanes)
	}
	const chunk = 32
	work := make([]float32, chunk*n*ScanStride)
	each := func(f func(s *ScanLanes, r ScanRows, at int)) {
		for t := 0; t < l; t += chunk {
			for i := range tiles {
				at := t*d + i*Lanes
				f(&tiles[i], ScanRows{U: k.u[at:], Delta: k.delta[at:], Step: d, B: k.b[t*2*n:],
					C: k.c[t*2*n:], Stride: 2 * n}, at)
			}
		}
	}
	b.Run("forward", func(b *testing.B) {
		for b.Loop() {
			each(func(s *ScanLanes, r ScanRows, at int) { s.Scan(k.y[at:], r, chunk) })
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*d*n), "ns/state")
	})
	b.Run("backward", func(b *testing.B) {
		for b.Loop() {
			each(func(s *ScanLanes, r ScanRows, at int) {
				s.Steps(work, r, chunk)
				s.Back(k.du[at:], k.ddelta[at:], k.dy[at:], work, r, chunk)
			})
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*l*d*n), "ns/state")
	})
	b.Run("step", func(b *testing.B) {
		for b.Loop() {
			ScanStep(k.y[:d], k.hAfter, k.a, k.u, k.delta, k.b[:n], k.c[:n], k.d)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*d*n), "ns/state")
	})
}

package bench

import (
	"context"
	"fmt"

	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// memory is a block larger than the caches, on huge pages if the system has them.
type memory struct{ x []float32 }

func newMemory(shrink int) *memory {
	m := &memory{tensor.Together((64 << 20) / shrink)[0]}
	for i := range m.x { // pages that have not been written share one page of zeros
		m.x[i] = 1
	}
	return m
}

// gigabytes returns the amount of memory that one call of read reads.
func (m *memory) gigabytes() float64 { return 4 * float64(len(m.x)) / 1e9 }

// read reads the block from beginning to end, one part per core, with a kernel that does little else.
func (m *memory) read() error {
	const piece = 1 << 18 // floats
	sum := parallel.Sum(len(m.x), piece, func(lo, hi int) float64 {
		part := 0.0
		for at := lo; at < hi; at += 1 << 14 {
			part += kernel.SumSquares(m.x[at:min(hi, at+1<<14)])
		}
		return part
	})
	if sum != float64(len(m.x)) {
		return fmt.Errorf("read %v ones, want %d", sum, len(m.x))
	}
	return nil
}

// memoryCases measure the speed at which memory can be read, which bounds the speed of decoding.
func memoryCases(shrink int) []Case {
	return []Case{{
		ID: Row{{"bench", "memory"}, {"mode", "read"}},
		prepare: func(context.Context) (trial, error) {
			m := newMemory(shrink)
			return trial{runs: []func() error{m.read}, fields: func(t []Timing) Row {
				return Row{{"gb_per_s", rounded(m.gigabytes() / t[0].CPU)},
					{"gb_per_s_wall", rounded(m.gigabytes() / t[0].Wall)}}
			}}, nil
		},
	}}
}

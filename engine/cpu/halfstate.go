package cpu

import (
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/tensor"
)

// halves is the storage of a state of a recurrence in bfloat16.
type halves struct {
	n int
	x []uint16 // nil until In sets it
}

// RoundedState returns storage without memory for a state of n numbers in bfloat16, for engine.StateRounder.
func (Backend) RoundedState(n int) tensor.InMemory { return &halves{n: n} }

var _ engine.StateRounder = Backend{}

func (s *halves) Len() int            { return s.n }
func (s *halves) Bytes() int          { return 2 * s.n }
func (s *halves) Room() int           { return (s.n + 1) / 2 }
func (s *halves) Read(dst []float32)  { kernel.Widen(dst, s.x) }
func (s *halves) Write(src []float32) { kernel.Narrow(s.x, src) }

func (s *halves) In(memory []float32) tensor.Storage {
	return &halves{s.n, kernel.HalvesIn(memory)[:s.n]}
}
func (s *halves) Like(n int) tensor.Storage { return &halves{n, make([]uint16, n)} }

func (s *halves) Copy(to int, from tensor.Storage, at, n int) {
	copy(s.x[to:to+n], from.(*halves).x[at:])
}

// halvesOf returns the numbers of a state in bfloat16, or nil for a state in float32.
func halvesOf(x *tensor.Tensor) []uint16 {
	if s, ok := x.Storage().(*halves); ok {
		return s.x
	}
	return nil
}

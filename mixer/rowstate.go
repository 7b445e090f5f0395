package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// rowState is a state with a row of numbers for each position so far, or several rows of different widths. Each is
// stored in a cache (positions, d).
type rowState struct {
	names []string
	dims  []int // d of each
	rows  []engine.RowCache
}

func newRowState(names []string, dims ...int) *rowState {
	return &rowState{names: names, dims: dims, rows: make([]engine.RowCache, len(dims))}
}

func (s *rowState) positions() int { return s.rows[0].Len }

// Size counts the filled rows, not the space allocated for more.
func (s *rowState) Size() int { return s.positions() * rowBytes(s.dims...) }

// rowBytes returns the memory of one position's rows.
func rowBytes(dims ...int) int {
	n := 0
	for _, d := range dims {
		n += 4 * d
	}
	return n
}

func (s *rowState) Clone() State {
	c := newRowState(s.names, s.dims...)
	for i := range s.rows {
		c.rows[i] = s.rows[i].Clone()
	}
	return c
}

func (s *rowState) Detach() { s.rows = s.Clone().(*rowState).rows }

// Keep forgets all but the rows of the last n positions.
func (s *rowState) Keep(n int) {
	for i := range s.rows {
		s.rows[i].Keep(n)
	}
}

// Tensors visits the rows.
func (s *rowState) Tensors(visit func(string, *tensor.Tensor)) {
	if s.positions() == 0 {
		return
	}
	for i, name := range s.names {
		visit(name, s.rows[i].Rows())
	}
}

func (s *rowState) Restore(name string, shape []int, data []float32) error {
	if name == "start" { // of earlier versions: rows now know the positions at which they begin
		_, err := positions(name, shape, data)
		return err
	}
	for i, d := range s.dims {
		if s.names[i] != name {
			continue
		}
		one := ofOne(shape, 2)
		if len(one) != 2 || one[0] < 1 || one[1] != d || len(data) != one[0]*d {
			return fmt.Errorf("state %q has shape %v and %d values, want (positions, %d)", name, shape, len(data), d)
		}
		for k, c := range s.rows {
			if k != i && c.Len > 0 && c.Len != one[0] {
				return fmt.Errorf("state %q has %d positions, want the %d of %q", name, one[0], c.Len, s.names[k])
			}
		}
		s.rows[i].Fill(tensor.FromSlice(data, one...))
		return nil
	}
	return fmt.Errorf("state has no part %q, only %q", name, s.names)
}

// number returns n as a tensor of one element.
func number(n int) *tensor.Tensor { return tensor.FromSlice([]float32{float32(n)}, 1) }

// positions reads a number of positions from a tensor made by number.
func positions(name string, shape []int, data []float32) (int, error) {
	if len(shape) != 1 || shape[0] != 1 || len(data) != 1 || !(data[0] >= 0 && data[0] < 1<<24) {
		return 0, fmt.Errorf("state %q has shape %v and %d values, want one number of positions", name,
			shape, len(data))
	}
	return int(data[0]), nil
}

func (s *rowState) kind(string) PartKind { return PositionRows }

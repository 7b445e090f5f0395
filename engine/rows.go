package engine

import (
	"fmt"
	"slices"

	"github.com/hippo-ssm/hippo/internal/counter"
	"github.com/hippo-ssm/hippo/tensor"
)

// Rows describes the layout of sequences in a tensor (n, d): one after the other, without padding. Row i is the Len(i)
// positions from From(i) on. It is a sequence or a piece of one, and starts at position Start(i) of the sequence. Rows
// do not see each other.
//
// One layout serves training, prompts in parts, many sessions that decode one token each, examples of different
// lengths, and packed documents. Only operations along the sequence look at rows: all others work on n positions.
type Rows struct {
	from    []int // start of each row, and the end of the last
	start   []int
	seeds   []uint64
	stepped []int // rows that are read one position at a time
	equal   bool  // all rows have the same length
	trains  bool
}

// NewRows returns rows of the given lengths that start at position 0.
func NewRows(lengths ...int) *Rows {
	r := &Rows{}
	for _, l := range lengths {
		r.Add(l, 0)
	}
	return r
}

// EqualRows returns b rows of l positions each that start at position 0.
func EqualRows(b, l int) *Rows {
	r := &Rows{}
	for range b {
		r.Add(l, 0)
	}
	return r
}

// Clear removes all rows and reuses their memory.
func (r *Rows) Clear() {
	r.from, r.start, r.seeds, r.stepped = r.from[:0], r.start[:0], r.seeds[:0], r.stepped[:0]
	r.equal, r.trains = false, false
}

// Add appends a row of length positions, which starts at position start of its sequence.
func (r *Rows) Add(length, start int) {
	if length < 1 || start < 0 {
		panic(fmt.Sprintf("engine.Rows: a row of %d positions from position %d on, want at least one from 0 on",
			length, start))
	}
	if len(r.from) == 0 {
		r.from, r.equal = append(r.from, 0), true
	}
	r.equal = r.equal && (len(r.start) == 0 || length == r.Len(0))
	r.from = append(r.from, r.Total()+length)
	r.start = append(r.start, start)
}

// AddStepped appends a row whose positions are read one at a time. Results and state have the bits of that many rows of
// one position, one after another. An operation that would read the row in another way is called once for each
// position: see package mixer.
func (r *Rows) AddStepped(length, start int) {
	if r.Add(length, start); length > 1 {
		r.stepped = append(r.stepped, r.Count()-1)
	}
}

// Stepped reports whether the positions of row i are read one at a time.
func (r *Rows) Stepped(i int) bool {
	_, found := slices.BinarySearch(r.stepped, i)
	return found
}

// AnyStepped reports whether any row is stepped.
func (r *Rows) AnyStepped() bool { return len(r.stepped) > 0 }

// RowSeeds returns the seeds of n examples, starting with number first, in a step of a run with the given seed. They
// depend on nothing else, so that dropout is the same however the examples of a step are split.
func RowSeeds(seed uint64, step, first, n int) []uint64 {
	seeds := make([]uint64, n)
	of := counter.Mix64(counter.Mix64(seed) + uint64(step)*counter.Step)
	for i := range seeds {
		seeds[i] = counter.Mix64(of + uint64(first+i)*counter.Step)
	}
	return seeds
}

// PieceSeed returns the seed of a piece of an example, given the seed of the example from RowSeeds. Piece 0 has that
// seed itself.
func PieceSeed(seed uint64, piece int) uint64 {
	if piece == 0 {
		return seed
	}
	return counter.Mix64(seed + uint64(piece)*counter.Step)
}

// Train switches dropout on. The seed of row i, which belongs to an example in a step, determines alone what is dropped
// in row i.
func (r *Rows) Train(seeds []uint64) {
	if len(seeds) != r.Count() {
		panic(fmt.Sprintf("engine.Rows.Train: %d seeds for %d rows", len(seeds), r.Count()))
	}
	r.seeds, r.trains = append(r.seeds[:0], seeds...), true
}

// Trains reports whether dropout is on.
func (r *Rows) Trains() bool { return r.trains }

// Seed returns the seed of dropout number op for row i.
func (r *Rows) Seed(i int, op uint64) uint64 { return counter.Mix64(r.seeds[i] + op*counter.Step) }

// Uniform returns random number j of row i in dropout number op. It is in (0, 1).
func (r *Rows) Uniform(i int, op uint64, j int) float64 {
	return (float64(counter.Mix64(r.Seed(i, op)+uint64(j)*counter.Step)>>11) + 0.5) / (1 << 53)
}

// Count returns the number of rows.
func (r *Rows) Count() int { return len(r.start) }

// Total returns the number of positions of all rows.
func (r *Rows) Total() int {
	if len(r.from) == 0 {
		return 0
	}
	return r.from[len(r.from)-1]
}

// Len returns the number of positions of row i.
func (r *Rows) Len(i int) int { return r.from[i+1] - r.from[i] }

// From returns the index of the first position of row i in the tensor.
func (r *Rows) From(i int) int { return r.from[i] }

// Start returns the position in its sequence at which row i starts.
func (r *Rows) Start(i int) int { return r.start[i] }

// Equal returns the length that all rows have, or 0 if lengths differ.
func (r *Rows) Equal() int {
	if !r.equal {
		return 0
	}
	return r.Len(0)
}

// Longest returns the length of the longest row.
func (r *Rows) Longest() int {
	if r.equal {
		return r.Len(0)
	}
	most := 0
	for i := range r.start {
		most = max(most, r.Len(i))
	}
	return most
}

// Slot holds one tensor of the state of one sequence. An operation carries it through a row, from before it to after
// it: in place, or as a new tensor while the tape records.
type Slot struct{ X *tensor.Tensor }

// Slots holds a slot for each row. A row with a nil slot starts from zero and stores no state. nil Slots have no slots.
type Slots []*Slot

// Any reports whether any row has a state.
func (s Slots) Any() bool {
	return slices.ContainsFunc(s, func(x *Slot) bool { return x != nil && x.X != nil })
}

// At returns the state of row i, or nil if it has none.
func (s Slots) At(i int) *tensor.Tensor {
	if i >= len(s) || s[i] == nil {
		return nil
	}
	return s[i].X
}

package mixer

import (
	"fmt"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// sum returns q'_i Σ_{j ≤ i} k'_j v_jᵀ / chunk (n, e). It is Mamba-2's recurrence (SSD) with one head that forgets
// nothing.
func (m *GAU) sum(t *autograd.Tape, z, v *tensor.Tensor, r *engine.Rows, slots engine.Slots) *tensor.Tensor {
	q := t.ScaleShift(z, m.LinearGammaQ.Tensor, m.LinearBetaQ.Tensor)
	k := t.Scale(t.ScaleShift(z, m.LinearGammaK.Tensor, m.LinearBetaK.Tensor), 1/float64(m.chunk))
	dt := t.New(z.Rows(), 1)
	dt.Fill(1)
	return t.SSD(t.Join(v, k, q), dt, m.never(), m.never(), m.e, 1, r, slots)
}

// mixed returns the quadratic part of each chunk plus the linear part over earlier chunks. The latter is computed as
// the sum over all positions minus the sum over the chunk.
func (m *GAU) mixed(t *autograd.Tape, z, v *tensor.Tensor, r *Rows) *tensor.Tensor {
	q, k := m.queries(t, z)
	chunks := &engine.Rows{}
	var keys, values []*engine.RowCache
	var slots engine.Slots
	for i := range r.Count() {
		s, _ := r.state(i).(*chunkState)
		for at := 0; at < r.Len(i); {
			filled := 0
			if s != nil && at == 0 {
				filled = s.k.Len
			}
			n := min(m.chunk-filled, r.Len(i)-at)
			chunks.Add(n, filled)
			at += n
			if s == nil {
				keys, values, slots = append(keys, nil), append(values, nil), append(slots, nil)
				continue
			}
			s.chunk.own()
			keys, values, slots = append(keys, s.k), append(values, s.v), append(slots, &s.chunk.slots[0])
			if filled+n == m.chunk {
				s.begin()
			}
		}
	}
	all := collect(r, r.slotsOf(0), 0, func(s *chunkState, _ int) *engine.Slot {
		s.all.own()
		return &s.all.slots[0]
	})
	if !r.carry() {
		keys, values, slots = nil, nil, nil
	}
	near := t.SquaredReLUAttention(q, k, v, m.Bias.Tensor, chunks, keys, values)
	own := m.sum(t, z, v, chunks, slots)
	return t.Add(near, t.Add(m.sum(t, z, v, r.Rows, all), t.Scale(own, -1)))
}

// chunkState holds the sum over k' vᵀ of all positions and that of the incomplete chunk, with the chunk's keys and
// values.
type chunkState struct {
	all, chunk *fixedState // "kv", "kv_chunk" (1, e, s)
	k, v       *engine.RowCache
	m          *GAU
}

func (m *GAU) newChunkState() *chunkState {
	s := &chunkState{all: newFixedState([]string{"kv"}, []int{1, m.e, m.s}), m: m}
	Begin(s.all)
	s.begin()
	return s
}

// begin begins a chunk. It allocates new memory, since a tape may still read the old one.
func (s *chunkState) begin() {
	s.chunk = newFixedState([]string{"kv_chunk"}, []int{1, s.m.e, s.m.s})
	Begin(s.chunk)
	s.k, s.v = &engine.RowCache{}, &engine.RowCache{}
}

// Size counts the filled positions of the chunk.
func (s *chunkState) Size() int {
	return s.all.Size() + s.chunk.Size() + s.k.Len*rowBytes(s.m.s, s.m.e)
}

func (s *chunkState) Clone() State {
	k, v := s.k.Clone(), s.v.Clone()
	return &chunkState{all: s.all.Clone().(*fixedState), chunk: s.chunk.Clone().(*fixedState), k: &k, v: &v, m: s.m}
}

func (s *chunkState) Detach() { *s = *s.Clone().(*chunkState) }

func (s *chunkState) Keep(int) {}

// Tensors visits the sums, and the keys and values of the chunk if it has positions.
func (s *chunkState) Tensors(visit func(string, *tensor.Tensor)) {
	s.all.Tensors(visit)
	s.chunk.Tensors(visit)
	if s.k.Len > 0 {
		visit("k", s.k.Rows())
		visit("v", s.v.Rows())
	}
}

func (s *chunkState) Restore(name string, shape []int, data []float32) error {
	c, d := s.k, s.m.s
	switch name {
	case "kv":
		return s.all.Restore(name, shape, data)
	case "kv_chunk":
		return s.chunk.Restore(name, shape, data)
	case "k":
	case "v":
		c, d = s.v, s.m.e
	default:
		return fmt.Errorf("state has no part %q, only kv, kv_chunk, k and v", name)
	}
	one := ofOne(shape, 2)
	if len(one) != 2 || one[0] < 1 || one[0] >= s.m.chunk || one[1] != d || len(data) != one[0]*d {
		return fmt.Errorf("state %q has shape %v and %d values, want (1 to %d positions, %d)", name, shape, len(data),
			s.m.chunk-1, d)
	}
	c.Fill(tensor.FromSlice(data, one...))
	if s.k.Len > 0 && s.v.Len > 0 && s.k.Len != s.v.Len {
		return fmt.Errorf("state has %d keys and %d values, want as many", s.k.Len, s.v.Len)
	}
	return nil
}

func (s *chunkState) kind(name string) PartKind {
	return map[string]PartKind{"k": BlockRows, "v": BlockRows}[name]
}

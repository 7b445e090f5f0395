package action

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// scan is Mamba's selective state-space model. For each channel c with states n:
//
//	α_c[t,r] = Σ_n C_n[t] · exp(A_cn Σ_{r<k≤t} Δ_c[k]) · Δ_c[r] B_n[r]  (+ D_c where t = r)
//
// For pairs of positions in different blocks, let e be the end of the block of r. The contribution of r to the state at
// e is one vector over all (c, n), and the weights with which t reads the state at e are another. So a block of sums is
// a product of two matrices.
// Pairs within a block are computed step by step.
type scan struct {
	engine             engine.Engine
	delta, a, bc, skip []float32 // (l, d), (d, n), (l, 2·groups·n), (d)
	groups             int
}

// scanBlock is the number of positions in a block. scanChannels is the number of channels that are computed together.
const (
	scanBlock    = 32
	scanChannels = 64
)

func (s *scan) heads() int           { return len(s.skip) }
func (s *scan) channels(h int) []int { return []int{h} }

// states returns the number of states of a channel.
func (s *scan) states() int { return len(s.a) / len(s.skip) }

// at returns B or C (part 0 or 1) of the group of channel c at position t.
func (s *scan) at(t, part, c int) []float32 {
	n := s.states()
	group := c / (len(s.skip) / s.groups)
	return s.bc[((2*t+part)*s.groups+group)*n:][:n]
}

func (s *scan) add(w *work) error {
	for from := 0; from < s.heads(); from += scanChannels {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		if err := s.addChannels(w, from, min(scanChannels, s.heads()-from)); err != nil {
			return err
		}
	}
	return nil
}

// stretch holds the numbers (c, n) for the positions [start, stop) and the channels [from, from+d).
type stretch struct {
	start, stop, from, d int
	decay                []float32   // (positions, d·n): exp(A_cn Δ_c[r])
	writes               [][]float32 // for each part of the values, (positions, d·n): Δ_c[r] B_n[r] x_c[r]
}

// row returns the numbers of x for position r.
func (b *stretch) row(x []float32, r int) []float32 {
	wide := len(x) / (b.stop - b.start)
	return x[(r-b.start)*wide:][:wide]
}

// stretch computes the decays and the writes of some positions and channels.
func (s *scan) stretch(w *work, start, stop, from, d int) *stretch {
	n, all := s.states(), s.heads()
	b := &stretch{start: start, stop: stop, from: from, d: d, decay: make([]float32, (stop-start)*d*n),
		writes: make([][]float32, len(w.parts))}
	for i := range b.writes {
		b.writes[i] = make([]float32, len(b.decay))
	}
	parallel.For(stop-start, 1, func(lo, hi int) {
		for r := start + lo; r < start+hi; r++ {
			decay := b.row(b.decay, r)
			for c := range d {
				own := decay[c*n:][:n]
				copy(own, s.a[(from+c)*n:])
				kernel.Scale(own, s.delta[r*all+from+c])
			}
			kernel.ExpShift(decay, 0, 1)
			for i := range w.parts {
				x, ok := w.parts[i].row(r)
				if !ok {
					continue
				}
				to := b.row(b.writes[i], r)
				for c := range d {
					own := to[c*n:][:n]
					copy(own, s.at(r, 0, from+c))
					kernel.Scale(own, s.delta[r*all+from+c]*x[from+c])
				}
			}
		}
	})
	return b
}

// addChannels is like add, for the channels [from, from+d).
func (s *scan) addChannels(w *work, from, d int) error {
	l, wide := w.l, d*s.states()
	// reads holds, for each target, the weights of the state at the end of a block before it.
	reads := make([]float32, l*wide)
	for start := (l - 1) / scanBlock * scanBlock; start >= 0; start -= scanBlock {
		stop := min(l, start+scanBlock)
		b := s.stretch(w, start, stop, from, d)
		if stop < l {
			s.meet(w, b, reads[stop*wide:])
		}
		// The weights at the beginning of the block are those at its end times the decay within the block.
		through := slices.Repeat([]float32{1}, wide)
		for r := start; r < stop; r++ {
			kernel.Mul(through, b.row(b.decay, r))
		}
		for i, v := range through {
			if v < faded {
				through[i] = 0
			}
		}
		if err := w.rows(func(t int) {
			if t >= stop {
				kernel.Mul(reads[t*wide:][:wide], through)
			} else if t >= start {
				s.inside(w, b, t, reads[t*wide:][:wide])
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// faded is the limit below which a state's remainder after a block is ignored. Far below it, products would become
// numbers with which processors are slow.
const faded = 1e-20

// inside adds the sums of target t for sources in its own block. It stores in read the weights with which t reads the
// state before the block.
func (s *scan) inside(w *work, b *stretch, t int, read []float32) {
	n, all := s.states(), s.heads()
	own := w.p[t*all+b.from:][:b.d]
	for c, p := range own {
		to := read[c*n:][:n]
		copy(to, s.at(t, 1, b.from+c))
		kernel.Scale(to, p)
	}
	for i := range w.parts { // contribution of the skip
		if x, ok := w.parts[i].row(t); ok {
			sum := float32(0)
			for c, p := range own {
				sum += p * s.skip[b.from+c] * x[b.from+c]
			}
			w.m[t*w.l+t-w.parts[i].lag] += sum
		}
	}
	for r := t; r >= b.start; r-- {
		for i := range w.parts {
			if lag := w.parts[i].lag; r >= lag {
				w.m[t*w.l+r-lag] += kernel.Dot(read, b.row(b.writes[i], r))
			}
		}
		kernel.Mul(read, b.row(b.decay, r))
	}
}

// meet adds the contributions of a block's sources to all targets after it. reads (targets, d·n) holds the weights with
// which each target reads the state at the block's end.
func (s *scan) meet(w *work, b *stretch, reads []float32) {
	wide := b.d * s.states()
	most := 0
	for _, p := range w.parts {
		most = max(most, p.lag)
	}
	// owes holds the contribution of each source to the state at the end. Sources may be up to most positions before
	// the block.
	sources := b.stop - b.start + most
	owes := make([]float32, sources*wide)
	left := slices.Repeat([]float32{1}, wide)
	for r := b.stop - 1; r >= b.start; r-- {
		for i := range w.parts {
			if lag := w.parts[i].lag; r >= lag {
				kernel.MulAdd(owes[(r-lag-b.start+most)*wide:][:wide], b.row(b.writes[i], r), left)
			}
		}
		kernel.Mul(left, b.row(b.decay, r))
	}
	mark := s.engine.Mark()
	defer s.engine.ReleaseSince(mark)
	rows := len(reads) / wide
	x, y := tensor.FromSlice(reads, rows, wide), tensor.FromSlice(owes, sources, wide)
	sums := s.engine.Linear(x, y, nil, engine.None).Floats()
	for i := range rows {
		for j, v := range sums[i*sources:][:sources] {
			if at := b.start - most + j; at >= 0 {
				w.m[(b.stop+i)*w.l+at] += v
			}
		}
	}
}

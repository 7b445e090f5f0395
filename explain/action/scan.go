package action

import (
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// scan is Mamba's selective state-space model, for each channel c with states n:
//
//	α_c[t,r] = Σ_n C_n[t] · exp(A_cn Σ_{r<k≤t} Δ_c[k]) · Δ_c[r] B_n[r]  (+ D_c where t = r)
//
// Pairs of positions in different blocks meet at the end e of the block of r: what the state at e owes to r is one
// vector of all (c, n), what t reads of the state at e is another, and a block of sums is a product of two matrices.
// Pairs inside a block go through it step by step.
type scan struct {
	engine             engine.Engine
	delta, a, bc, skip []float32 // (l, d), (d, n), (l, 2·groups·n), (d)
	groups             int
}

// scanBlock is the positions of a block, and scanChannels the channels that are looked at together.
const (
	scanBlock    = 32
	scanChannels = 64
)

func (s *scan) heads() int           { return len(s.skip) }
func (s *scan) channels(h int) []int { return []int{h} }

// states is the number of states of a channel.
func (s *scan) states() int { return len(s.a) / len(s.skip) }

// at is B or C (part 0 or 1) of the group of channel c at position t.
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

// stretch is the positions [start, stop) of the channels [from, from+d), with numbers (c, n) of each.
type stretch struct {
	start, stop, from, d int
	decay                []float32   // (positions, d·n): exp(A_cn Δ_c[r])
	writes               [][]float32 // of each part of the values, (positions, d·n): Δ_c[r] B_n[r] x_c[r]
}

// row is what x has of position r.
func (b *stretch) row(x []float32, r int) []float32 {
	wide := len(x) / (b.stop - b.start)
	return x[(r-b.start)*wide:][:wide]
}

// stretch finds the decays and the writes of some positions and channels.
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

// addChannels is add of the channels [from, from+d).
func (s *scan) addChannels(w *work, from, d int) error {
	l, wide := w.l, d*s.states()
	// reads is what each target reads of the state at the end of a block before it.
	reads := make([]float32, l*wide)
	for start := (l - 1) / scanBlock * scanBlock; start >= 0; start -= scanBlock {
		stop := min(l, start+scanBlock)
		b := s.stretch(w, start, stop, from, d)
		if stop < l {
			s.meet(w, b, reads[stop*wide:])
		}
		// What is read at the end of the block is read at its beginning, too, less what fades on the way.
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

// faded is what is left of a state after a block where it counts no more: far below it, products would become numbers
// that processors are slow at.
const faded = 1e-20

// inside adds the sums of target t for sources of its own block, and leaves in read what t reads of the state before
// the block.
func (s *scan) inside(w *work, b *stretch, t int, read []float32) {
	n, all := s.states(), s.heads()
	own := w.p[t*all+b.from:][:b.d]
	for c, p := range own {
		to := read[c*n:][:n]
		copy(to, s.at(t, 1, b.from+c))
		kernel.Scale(to, p)
	}
	for i := range w.parts { // what the skip lets through
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

// meet adds what the sources of a block give to all targets after it. reads (targets, d·n) is what each target reads
// of the state at the block's end.
func (s *scan) meet(w *work, b *stretch, reads []float32) {
	wide := b.d * s.states()
	most := 0
	for _, p := range w.parts {
		most = max(most, p.lag)
	}
	// owes is what the state at the end owes to each source, which may lie up to most before the block.
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

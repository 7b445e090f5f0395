package action

import (
	"math"

	"github.com/hippo-ssm/hippo/engine"
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

// addChannels is add of the channels [from, from+d).
func (s *scan) addChannels(w *work, from, d int) error {
	l, n, all := w.l, s.states(), s.heads()
	wide := d * n
	// reads is what each target reads of the state at the end of a block before it.
	reads := make([]float32, l*wide)
	for end := (l - 1) / scanBlock * scanBlock; end >= 0; end -= scanBlock {
		stop := min(l, end+scanBlock) // the block is [end, stop)
		decay := make([]float32, (stop-end)*wide)
		for r := end; r < stop; r++ {
			for c := range d {
				step := float64(s.delta[r*all+from+c])
				for i := range n {
					decay[(r-end)*wide+c*n+i] = float32(math.Exp(step * float64(s.a[(from+c)*n+i])))
				}
			}
		}
		if stop < l {
			s.meet(w, from, d, end, stop, decay, reads[stop*wide:])
		}
		// What is read at the end of the block is read at its beginning, too, less what fades on the way.
		through := make([]float32, wide)
		for i := range through {
			through[i] = 1
		}
		for at := 0; at < len(decay); at += wide {
			for i := range through {
				through[i] *= decay[at+i]
			}
		}
		for i, v := range through {
			if v < faded {
				through[i] = 0
			}
		}
		if err := w.rows(func(t int) {
			if t >= stop {
				fade(reads[t*wide:][:wide], through)
			} else if t >= end {
				s.inside(w, from, d, end, t, decay, reads[t*wide:][:wide])
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// faded is what is left of a state behind a block where it counts no more: far below it, products would become numbers
// that processors are slow at.
const faded = 1e-20

// fade multiplies x by k.
func fade(x, k []float32) {
	k = k[:len(x)]
	for i := range x {
		x[i] *= k[i]
	}
}

// back is Σ read·b, and takes read back by a step.
func back(read, decay, b []float32) float32 {
	sum := float32(0)
	decay, b = decay[:len(read)], b[:len(read)]
	for i, v := range read {
		sum += v * b[i]
		read[i] = v * decay[i]
	}
	return sum
}

// inside adds the sums of target t for sources of its own block, and leaves in read what t reads of the state before
// the block.
func (s *scan) inside(w *work, from, d, start, t int, decay, read []float32) {
	n, all := s.states(), s.heads()
	wide := d * n
	own := w.p[t*all+from:][:d]
	for c, p := range own {
		for i, v := range s.at(t, 1, from+c) {
			read[c*n+i] = p * v
		}
	}
	into := make([]float32, d)
	for r := t; r >= start; r-- {
		for c := range d {
			at := (r-start)*wide + c*n
			into[c] = s.delta[r*all+from+c] * back(read[c*n:][:n], decay[at:][:n], s.at(r, 0, from+c))
			if r == t {
				into[c] += own[c] * s.skip[from+c]
			}
		}
		for i := range w.parts {
			if x, ok := w.parts[i].row(r); ok {
				w.m[t*w.l+r-w.parts[i].lag] += dot(into, x[from:])
			}
		}
	}
}

// meet adds the sums of all targets from stop on, of which reads (n, d·n) is what they read of the state at the end of
// the block [start, stop), for the sources of the block.
func (s *scan) meet(w *work, from, d, start, stop int, decay, reads []float32) {
	n, all := s.states(), s.heads()
	wide := d * n
	most := 0
	for _, p := range w.parts {
		most = max(most, p.lag)
	}
	// owes is what the state at the end owes to each source, which may lie up to most before the block.
	sources := stop - start + most
	owes := make([]float32, sources*wide)
	left := make([]float32, wide)
	for i := range left {
		left[i] = 1
	}
	for r := stop - 1; r >= start; r-- {
		for _, p := range w.parts {
			x, ok := p.row(r)
			if !ok {
				continue
			}
			to := owes[(r-p.lag-start+most)*wide:][:wide]
			for c := range d {
				v := x[from+c] * s.delta[r*all+from+c]
				for i, b := range s.at(r, 0, from+c) {
					to[c*n+i] += v * b * left[c*n+i]
				}
			}
		}
		fade(left, decay[(r-start)*wide:][:wide])
	}
	mark := s.engine.Mark()
	defer s.engine.ReleaseSince(mark)
	rows := len(reads) / wide
	a, b := tensor.FromSlice(reads, rows, wide), tensor.FromSlice(owes, sources, wide)
	sums := floats(s.engine.Linear(a, b, nil, engine.None))
	for i := range rows {
		for j, v := range sums[i*sources:][:sources] {
			if at := start - most + j; at >= 0 {
				w.m[(stop+i)*w.l+at] += v
			}
		}
	}
}

package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/tensor"
)

// ReadOut measures what a linear map can read of the past from a layer's state: for each age a, a ridge regression from
// the state S_t to the embedding of the token at t-a,
//
//	W = argmin Σ_t |W (S_t - S̄) - (e[t-a] - ē)|² + λ|W|²
//
// It is fitted on the first part of the text, with the λ that is best on the next part, and scored on the last part. It
// is solved in its dual form, from the products of the states of all tokens with each other. Each number is first
// divided by its deviation. States with more numbers than Features are reduced to that many by sums with random signs,
// which preserve products up to a random error. The result is then a lower bound.
type ReadOut struct {
	Layer    int
	Mixer    string
	Features int // number of inputs of the regression
	Numbers  int // numbers in the state
	Ages     []int
	// R2 is 1 - Σ|error|²/Σ|e - ē|² on the last part: 1 if everything can be read, 0 if no more than the mean.
	R2 []float64
	// Accuracy is the share of tokens for which the token's embedding is closest to what was read, among the embeddings
	// of the text's tokens. Chance is the accuracy of always guessing the most frequent token of the first part.
	Accuracy []float64
	Chance   []float64
}

// readings fits read-outs of the states while a text is read.
type readings struct {
	l      int // number of states used, one of every step tokens
	step   int
	ids    []int32
	ages   []int
	fitted int // states of the first part
	tuned  int // states of the first two parts
	notes  []string
	known  []int32   // distinct tokens of the text
	place  []int     // for each token of the text, its index in known
	of     []float32 // targets of known, centered, (known, width)
	width  int
}

const (
	readWork    = 1<<31 - 1 // multiplications for the products of the states of a layer
	readMost    = 2048      // maximum number of states used
	readTargets = 32
	readLeast   = 64 // minimum number of tokens for a read-out
	readSeed    = 29
)

// newReader chooses ages and targets. A short text has none.
func newReader(g *explain.Language, ids []int32) *readings {
	r := &readings{ids: ids, step: (len(ids) + readMost - 1) / readMost}
	r.l = (len(ids) + r.step - 1) / r.step
	r.fitted, r.tuned = r.l*6/10, r.l*7/10
	if len(ids) < readLeast {
		r.notes = append(r.notes, fmt.Sprintf(
			"The read-out of the states is not shown: the text has %d tokens, a fit needs %d.", len(ids), readLeast))
		return r
	}
	if r.step > 1 {
		r.notes = append(r.notes, fmt.Sprintf("The read-out uses one state in %d.", r.step))
	}
	for _, a := range []int{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512} {
		if a <= len(ids)/8 {
			r.ages = append(r.ages, a)
		}
	}
	r.known = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		at, _ := slices.BinarySearch(r.known, id)
		r.place = append(r.place, at)
	}
	t := g.Backbone.NewTape()
	r.of = t.Embedding(g.Unembedding, r.known).Floats()
	d := len(r.of) / len(r.known)
	if r.width = min(d, readTargets); r.width < d { // a random projection
		mix := make([]float32, r.width*d)
		rng := rand.New(rand.NewPCG(readSeed, 1))
		for i := range d {
			for j := range r.width {
				mix[j*d+i] = float32(rng.NormFloat64() / math.Sqrt(float64(r.width)))
			}
		}
		table := tensor.FromSlice(r.of, len(r.known), d)
		r.of = t.Linear(table, tensor.FromSlice(mix, r.width, d), nil, engine.None).Floats()
	}
	r.center()
	return r
}

// center subtracts the mean over the first part of the text from all targets.
func (r *readings) center() {
	mean, first := make([]float64, r.width), r.place[:r.fitted*r.step]
	for _, at := range first {
		for j, v := range r.target(at) {
			mean[j] += float64(v) / float64(len(first))
		}
	}
	for at := range r.known {
		y := r.target(at)
		for j := range y {
			y[j] -= float32(mean[j])
		}
	}
}

// target returns the target of known[at].
func (r *readings) target(at int) []float32 { return r.of[at*r.width:][:r.width] }

// sketch holds the state after each token, reduced to fewer numbers if there are very many.
type sketch struct {
	size, numbers int
	parts         []sketched
	x             []float32 // (l, size)
	step          int
}

// sketched determines where the numbers of a part go. If there is room, they are copied to the indices from at on.
// Otherwise they are added with random signs, passing over these indices several times, each time from a random start.
type sketched struct {
	at, room int // room is 0 for a part that is left out
	turns    []int
	sign     []float32 // nil if there is room for all
}

// add adds the numbers of a part to a row.
func (p *sketched) add(row, x []float32) {
	row = row[p.at:][:p.room]
	if p.sign == nil {
		kernel.Add(row, x)
		return
	}
	for i, turn := range p.turns {
		from := i * p.room
		n := min(p.room, len(x)-from)
		head := min(n, p.room-turn)
		kernel.MulAdd(row[turn:turn+head], x[from:], p.sign[from:])
		kernel.MulAdd(row[:n-head], x[from+head:], p.sign[from+head:])
	}
}

// sketch lays out the parts of a state of fixed size. Each part gets its own share of the features.
func (r *readings) sketch(parts []*statePart) *sketch {
	s := &sketch{parts: make([]sketched, len(parts)), step: r.step}
	if len(r.ages) == 0 {
		return s
	}
	n := 0
	for _, p := range parts {
		if p.steps() {
			n++
			s.numbers += p.size()
		}
	}
	rng := rand.New(rand.NewPCG(readSeed, 2))
	most := readWork / r.l / r.l
	for i, p := range parts {
		if !p.steps() {
			continue
		}
		size, room := p.size(), most
		if s.numbers > most {
			room = max(1, most/n)
		}
		one := sketched{at: s.size, room: min(size, room)}
		if size > room {
			one.sign = make([]float32, size)
			for k := range one.sign {
				one.sign[k] = float32(1 - 2*rng.IntN(2))
			}
			for range (size + room - 1) / room {
				one.turns = append(one.turns, rng.IntN(room))
			}
		}
		s.parts[i], s.size = one, s.size+one.room
	}
	s.x = make([]float32, r.l*s.size)
	return s
}

// add records the state after token t. value returns the parts.
func (s *sketch) add(t int, value func(i int) []float32) {
	if t%s.step != 0 || s.size == 0 {
		return
	}
	row := s.x[t/s.step*s.size:][:s.size]
	for i := range s.parts {
		if s.parts[i].room > 0 {
			s.parts[i].add(row, value(i))
		}
	}
}

// fit fits the read-outs of a layer.
func (r *readings) fit(ctx context.Context, s *sketch) (*ReadOut, error) {
	n := r.width
	out := &ReadOut{Features: s.size, Numbers: s.numbers, Ages: r.ages}
	s.standardize(r.l, r.fitted)
	// All ages are scored on the same tokens.
	from := (r.ages[len(r.ages)-1] + r.step - 1) / r.step
	fits := newRidges(s.x[from*s.size:], s.size, r.fitted-from, r.wanted(from, r.fitted))
	yTune, yLast := r.wanted(r.fitted, r.tuned), r.wanted(r.tuned, r.l)
	lambdas := []float64{1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100}
	guesses := make([][]float32, len(lambdas)) // for all later tokens
	parallel.Each(len(lambdas), func(i int) {
		if ctx.Err() == nil {
			guesses[i] = fits.guess(lambdas[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	width := n * len(r.ages)
	read, nothing := make([]float32, len(yLast)), make([]float32, len(yLast))
	for i, age := range r.ages {
		least := math.Inf(1)
		for _, guess := range guesses {
			if guess == nil {
				continue
			}
			if e := squaredError(guess, yTune, width, i*n, n); e < least {
				least = e
				for at := i * n; at < len(read); at += width {
					copy(read[at:][:n], guess[len(yTune)+at:])
				}
			}
		}
		out.R2 = append(out.R2, 1-squaredError(read, yLast, width, i*n, n)/squaredError(nothing, yLast, width, i*n, n))
		out.Accuracy = append(out.Accuracy, r.accuracy(read, i, age))
		out.Chance = append(out.Chance, r.chance(age))
	}
	return out, nil
}

// wanted returns the targets of all ages side by side, for the states [a, b).
func (r *readings) wanted(a, b int) []float32 {
	y := make([]float32, 0, (b-a)*r.width*len(r.ages))
	for t := a; t < b; t++ {
		for _, age := range r.ages {
			y = append(y, r.target(r.place[t*r.step-age])...)
		}
	}
	return y
}

// standardize subtracts from each number its mean over the first tokens, and divides by its deviation.
func (s *sketch) standardize(l, fitted int) {
	k := s.size
	mean, square := make([]float64, k), make([]float64, k)
	for t := range fitted {
		for j, v := range s.x[t*k:][:k] {
			mean[j] += float64(v) / float64(fitted)
		}
	}
	for t := range fitted {
		for j, v := range s.x[t*k:][:k] {
			d := float64(v) - mean[j]
			square[j] += d * d / float64(fitted)
		}
	}
	for j := range square {
		if square[j] > 1e-12*mean[j]*mean[j] {
			square[j] = 1 / math.Sqrt(square[j])
		} else {
			square[j] = 0 // almost constant
		}
	}
	for t := range l {
		row := s.x[t*k:][:k]
		for j, v := range row {
			row[j] = float32((float64(v) - mean[j]) * square[j])
		}
	}
}

// squaredError returns the sum over the columns [from, from+n) of rows with the given width.
func squaredError(a, b []float32, width, from, n int) float64 {
	sum := 0.0
	for at := from; at < len(b); at += width {
		x, y := a[at:][:n], b[at:][:n]
		for j := range x {
			d := float64(x[j]) - float64(y[j])
			sum += d * d
		}
	}
	return sum
}

// accuracy returns the share of states for which the nearest embedding to what was read is the right one. i is the
// index of the age.
func (r *readings) accuracy(read []float32, i, age int) float64 {
	n, known := r.width, len(r.known)
	products := make([]float32, (r.l-r.tuned)*known) // of what was read with all embeddings
	kernel.Gemm(kernel.Product{Op: kernel.NT, M: r.l - r.tuned, N: known, K: n, A: read[i*n:], LDA: n * len(r.ages),
		B: r.of, LDB: n, C: products, LDC: known})
	sizes := make([]float64, known)
	for k := range sizes {
		sizes[k] = kernel.SumSquares(r.target(k))
	}
	hits := 0
	for t := r.tuned; t < r.l; t++ {
		best, least := 0, math.Inf(1)
		for k, p := range products[(t-r.tuned)*known:][:known] {
			if d := sizes[k] - 2*float64(p); d < least { // squared distance, minus the constant |read|²
				best, least = k, d
			}
		}
		if best == r.place[t*r.step-age] {
			hits++
		}
	}
	return float64(hits) / float64(r.l-r.tuned)
}

// chance returns the share of tokens for which the most frequent token of the first part is right.
func (r *readings) chance(age int) float64 {
	count := map[int32]int{}
	most := r.ids[0]
	for _, id := range r.ids[:r.fitted*r.step] {
		count[id]++
		if count[id] > count[most] {
			most = id
		}
	}
	hits := 0
	for t := r.tuned; t < r.l; t++ {
		if r.ids[t*r.step-age] == most {
			hits++
		}
	}
	return float64(hits) / float64(r.l-r.tuned)
}

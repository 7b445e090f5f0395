package explain

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/tensor"
)

// ReadOut is what a linear map can read of the past out of a layer's state: for each age a, a ridge regression from
// the state S_t to the embedding of the token at t-a,
//
//	W = argmin Σ_t |W (S_t - S̄) - (e[t-a] - ē)|² + λ|W|²
//
// fitted on the first part of the text, with the λ that does best on the next, and scored on the last. It is solved in
// its dual form, by the products of the states of all tokens with each other. Each number is first divided by its
// deviation. States of more numbers than Features are mixed into that many by sums with random signs, which keep
// products but for a random error: what is found is then a lower bound.
type ReadOut struct {
	Layer    int
	Mixer    string
	Features int // numbers that the regression sees
	Numbers  int // of the state
	Ages     []int
	// R2 is 1 - Σ|error|²/Σ|e - ē|² on the last part: 1 for all that can be read, 0 for no more than the mean.
	R2 []float64
	// Accuracy is how often the token's embedding is the nearest one to what was read, among those of the text's
	// tokens; Chance is how often the most frequent token of the first part is right.
	Accuracy []float64
	Chance   []float64
}

// readings fit read-outs of the states that see a text.
type readings struct {
	l       int // states that are looked at, one in step tokens
	step    int
	ids     []int32
	ages    []int
	targets [][]float64 // of each token of the text, centered
	fitted  int         // tokens of the first part
	tuned   int         // tokens of the first two
	notes   []string
	known   []int32     // different tokens of the text
	of      [][]float64 // their targets
}

const (
	readWork    = 1<<31 - 1 // multiplications for the products of the states of a layer
	readMost    = 2048      // states that are looked at
	readTargets = 32
	readLeast   = 64 // tokens that a read-out needs
	readSeed    = 29
)

// newReader chooses ages and targets. A short text has none.
func newReader(g *Language, ids []int32) *readings {
	r := &readings{ids: ids, step: (len(ids) + readMost - 1) / readMost}
	r.l = (len(ids) + r.step - 1) / r.step
	r.fitted, r.tuned = r.l*6/10, r.l*7/10
	if len(ids) < readLeast {
		r.notes = append(r.notes, fmt.Sprintf("What can be read out of the states is not shown: the text has %d "+
			"tokens, a fit needs %d.", len(ids), readLeast))
		return r
	}
	if r.step > 1 {
		r.notes = append(r.notes, fmt.Sprintf("What can be read out is that of one state in %d.", r.step))
	}
	for _, a := range []int{0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512} {
		if a <= len(ids)/8 {
			r.ages = append(r.ages, a)
		}
	}
	r.known = slices.Compact(slices.Sorted(slices.Values(ids)))
	t := autograd.NewTape()
	table := floats(t.Embedding(g.unembedding, r.known))
	d := len(table) / len(r.known)
	n := min(d, readTargets)
	mix := make([]float64, d*n) // a random projection, or the embedding itself
	rng := rand.New(rand.NewPCG(readSeed, 1))
	for i := range d {
		for j := range n {
			if n == d {
				mix[i*n+j] = map[bool]float64{true: 1}[i == j]
			} else {
				mix[i*n+j] = rng.NormFloat64() / math.Sqrt(float64(n))
			}
		}
	}
	r.of = make([][]float64, len(r.known))
	for k := range r.known {
		y := make([]float64, n)
		for i, x := range table[k*d:][:d] {
			for j := range y {
				y[j] += float64(x) * mix[i*n+j]
			}
		}
		r.of[k] = y
	}
	r.center()
	return r
}

// center subtracts the mean over the first part of the text from all targets.
func (r *readings) center() {
	place := map[int32]int{}
	for k, id := range r.known {
		place[id] = k
	}
	mean := make([]float64, len(r.of[0]))
	first := r.ids[:r.fitted*r.step]
	for _, id := range first {
		for j, v := range r.of[place[id]] {
			mean[j] += v / float64(len(first))
		}
	}
	for _, y := range r.of {
		for j := range y {
			y[j] -= mean[j]
		}
	}
	for _, id := range r.ids {
		r.targets = append(r.targets, r.of[place[id]])
	}
}

// sketch is the state after each token, in fewer numbers where there are very many.
type sketch struct {
	size, numbers int
	parts         []sketched
	x             []float32 // (l, size)
	step          int
}

// sketched says where each number of a part goes, and with which sign; nil for a part that is left out.
type sketched struct {
	to   []int32
	sign []float32
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
		one := sketched{make([]int32, size), make([]float32, size)}
		for k := range one.to {
			one.to[k], one.sign[k] = int32(s.size+k), 1
			if size > room {
				one.to[k] = int32(s.size + rng.IntN(room))
				one.sign[k] = float32(1 - 2*rng.IntN(2))
			}
		}
		s.parts[i], s.size = one, s.size+min(size, room)
	}
	s.x = make([]float32, r.l*s.size)
	return s
}

// add notes the state after token t, of which value gives the parts.
func (s *sketch) add(t int, value func(i int) []float32) {
	if t%s.step != 0 || s.size == 0 {
		return
	}
	row := s.x[t/s.step*s.size:][:s.size]
	for i, p := range s.parts {
		if p.to == nil {
			continue
		}
		for k, v := range value(i) {
			row[p.to[k]] += v * p.sign[k]
		}
	}
}

// fit fits the read-outs of a layer.
func (r *readings) fit(ctx context.Context, s *sketch) (*ReadOut, error) {
	n := len(r.of[0])
	out := &ReadOut{Features: s.size, Numbers: s.numbers, Ages: r.ages}
	products := s.products(r.l, r.fitted)
	// All ages are scored on the same tokens.
	from := (r.ages[len(r.ages)-1] + r.step - 1) / r.step
	block := func(a, b int) *mat.Dense { // products of the states of some tokens with those of the first part
		k := mat.NewDense(b-a, r.fitted-from, nil)
		for t := a; t < b; t++ {
			row := k.RawRowView(t - a)
			for j := range row {
				row[j] = float64(products[t*r.l+from+j])
			}
		}
		return k
	}
	wanted := func(a, b int) *mat.Dense { // targets of all ages, side by side
		y := mat.NewDense(b-a, n*len(r.ages), nil)
		for t := a; t < b; t++ {
			for i, age := range r.ages {
				copy(y.RawRowView(t - a)[i*n:], r.targets[t*r.step-age])
			}
		}
		return y
	}
	first, later, y := block(from, r.fitted), block(r.fitted, r.l), wanted(from, r.fitted)
	yTune, yLast := wanted(r.fitted, r.tuned), wanted(r.tuned, r.l)
	lambdas := []float64{1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100}
	guesses := make([]*mat.Dense, len(lambdas)) // of all later tokens
	each(len(lambdas), func(i int) {
		if ctx.Err() == nil {
			guesses[i] = ridge(first, later, y, lambdas[i])
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	tuned := r.tuned - r.fitted
	read, nothing := mat.NewDense(r.l-r.tuned, n*len(r.ages), nil), mat.NewDense(r.l-r.tuned, n*len(r.ages), nil)
	for i, age := range r.ages {
		least := math.Inf(1)
		for _, guess := range guesses {
			if guess == nil {
				continue
			}
			if e := squaredError(guess, yTune, i*n, n); e < least {
				least = e
				for t := range r.l - r.tuned {
					copy(read.RawRowView(t)[i*n:][:n], guess.RawRowView(tuned + t)[i*n:][:n])
				}
			}
		}
		out.R2 = append(out.R2, 1-squaredError(read, yLast, i*n, n)/squaredError(nothing, yLast, i*n, n))
		out.Accuracy = append(out.Accuracy, r.accuracy(read, i, age))
		out.Chance = append(out.Chance, r.chance(age))
	}
	return out, nil
}

// ridge is the regression in its dual form: later (K + λ k̄ I)⁻¹ y, with K the products of the states that it is fitted
// on and k̄ the mean of their squares; nil where rounding leaves nothing of the matrix.
func ridge(first, later, y *mat.Dense, lambda float64) *mat.Dense {
	n, _ := first.Dims()
	k := mat.NewSymDense(n, nil)
	trace := 0.0
	for i := range n {
		for j := range i + 1 {
			k.SetSym(i, j, first.At(i, j))
		}
		trace += first.At(i, i)
	}
	if trace == 0 {
		return nil
	}
	for i := range n {
		k.SetSym(i, i, k.At(i, i)+lambda*trace/float64(n))
	}
	var factor mat.Cholesky
	var w, guess mat.Dense
	if !factor.Factorize(k) {
		return nil
	}
	if err := factor.SolveTo(&w, y); err != nil {
		return nil
	}
	guess.Mul(later, &w)
	return &guess
}

// products are those of the states of all tokens with each other, (l, l), each number with mean 0 and deviation 1 over
// the first tokens.
func (s *sketch) products(l, fitted int) []float32 {
	s.standardize(l, fitted)
	tape, x := autograd.NewTape(), tensor.FromSlice(s.x, l, s.size)
	out := make([]float32, l*l)
	tape.Linear(x, x, nil, engine.None).CopyTo(out)
	return out
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
			square[j] = 0 // it hardly changes
		}
	}
	for t := range l {
		row := s.x[t*k:][:k]
		for j, v := range row {
			row[j] = float32((float64(v) - mean[j]) * square[j])
		}
	}
}

// squaredError sums over columns from to from+n, and the rows of b.
func squaredError(a, b *mat.Dense, from, n int) float64 {
	rows, _ := b.Dims()
	sum := 0.0
	for t := range rows {
		x, y := a.RawRowView(t)[from:][:n], b.RawRowView(t)[from:][:n]
		for j := range x {
			d := x[j] - y[j]
			sum += d * d
		}
	}
	return sum
}

// accuracy is how often the nearest embedding to what was read, for the age of number i, is the right one.
func (r *readings) accuracy(read *mat.Dense, i, age int) float64 {
	n, hits := len(r.of[0]), 0
	for t := r.tuned; t < r.l; t++ {
		x := read.RawRowView(t - r.tuned)[i*n:][:n]
		best, least := 0, math.Inf(1)
		for k, y := range r.of {
			d := 0.0
			for j := range x {
				d += (x[j] - y[j]) * (x[j] - y[j])
			}
			if d < least {
				best, least = k, d
			}
		}
		if r.known[best] == r.ids[t*r.step-age] {
			hits++
		}
	}
	return float64(hits) / float64(r.l-r.tuned)
}

// chance is how often the most frequent token of the first part is right.
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

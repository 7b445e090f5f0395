// Package heads scores how much attention heads, and those of H3, behave like induction heads: "In-context Learning and
// Induction Heads" (arXiv:2209.11895).
package heads

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/hippo-ssm/hippo/explain"
	"github.com/hippo-ssm/hippo/mixer"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// Options specifies the input for scoring heads: strings of different random tokens, each repeated several times.
type Options struct {
	Tokens  int    `json:"tokens" min:"2" max:"4096" help:"different tokens of a string; fewer if there is no room"`
	Repeats int    `json:"repeats" min:"2" max:"64" help:"times a string occurs; fewer if there is no room"`
	Strings int    `json:"strings" min:"1" max:"10000" help:"strings to take the mean over"`
	Seed    uint64 `json:"seed" help:"of the strings"`
	At      []int  `json:"at" help:"score only at these tokens, such as the trigger of induction; empty: everywhere"`
}

// DefaultOptions returns 25 tokens repeated four times, as in the paper.
func DefaultOptions() Options {
	return Options{Tokens: 25, Repeats: 4, Strings: 8, Seed: 1}
}

// WholeLayer is the head of scores that are for a layer as a whole.
const WholeLayer = -1

// Score measures how much a head behaves like an induction head: "In-context Learning and Induction Heads"
// (arXiv:2209.11895).
//
// Let t be a position from the second repetition of a string on, S(t) the positions right after all earlier occurrences
// of the token at t, and
//
//	A[t,s] = |W[t,s]| / Σ_s' |W[t,s']|
//
// the share of s in what the head reads at t, with the matrix W of Operator. For attention A = W; the weights of H3
// have signs. The scores are means over t of
//
//	Prefix(t)  = Σ_{s ∈ S(t)} A[t,s]
//	Copying(t) = Σ_s A[t,s] · c(W[t,s] · U O v[s])    c(z) = max(z_x - z̄, 0) / Σ_y max(z_y - z̄, 0)
//
// where z are the contributions of reading s to the scores of the string's tokens, z̄ is their mean and x the token at
// s. So Copying is the share of the raised scores that goes to the token that is read. Both scores are between 0 and 1.
// An induction head has both near 1. A head that looks everywhere has a Prefix of Chance. A head that writes random
// tokens has a Copying of about 1/tokens.
//
// A layer as a whole writes z[t,s] = Σ_h W_h[t,s] U O_h v_h[s]. Its A is the share of |z[t,s] - z̄| instead of |W|. Use
// it for H3, where a head is often one of many channels that are meaningful only together.
type Score struct {
	Layer   int     `json:"layer"`
	Mixer   string  `json:"mixer"`
	Head    int     `json:"head"` // WholeLayer for all heads together
	Prefix  float64 `json:"prefix"`
	Copying float64 `json:"copying"`
}

// Report holds the scores of a model, in the order of its layers. Each layer as a whole precedes its heads.
type Report struct {
	Options Options `json:"options"` // the options after adaptation to the model
	Chance  float64 `json:"chance"`  // Prefix of a head that reads all positions so far equally
	Scores  []Score `json:"scores"`
	// Without lists the layers without heads.
	Without []int `json:"without,omitempty"`
}

// Layers groups the scores by layer: first that of the whole layer, then those of its heads, the highest prefix first.
func (r *Report) Layers() [][]Score {
	var layers [][]Score
	for scores := r.Scores; len(scores) > 0; {
		n := 1
		for n < len(scores) && scores[n].Layer == scores[0].Layer {
			n++
		}
		layer := slices.Clone(scores[:n])
		slices.SortStableFunc(layer[1:], func(a, b Score) int { return cmp.Compare(b.Prefix, a.Prefix) })
		layers, scores = append(layers, layer), scores[n:]
	}
	return layers
}

// Of scores the heads of a model. It returns an error if the options do not fit the model or if ctx is done.
func Of(ctx context.Context, g *explain.Language, o Options) (*Report, error) {
	o, err := fit(g, o)
	if err != nil {
		return nil, err
	}
	t := g.Backbone.NewTape()
	rng := rand.New(rand.NewPCG(o.Seed, 0))
	r := &Report{Options: o}
	for range o.Strings {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := newRepeated(draw(g, rng, o), o)
		rows, err := g.Directions(t, s.tokens)
		if err != nil {
			return nil, err
		}
		var found []Score
		r.Without = r.Without[:0]
		g.Each(t, s.ids(), len(g.Backbone.Blocks)-1, func(layer int, b *model.Block, u *tensor.Tensor) {
			op, ok := mixer.OperatorOf(t, b.Mixer, u)
			if !ok {
				r.Without = append(r.Without, layer)
				return
			}
			for i, x := range s.score(op, rows) {
				found = append(found, Score{Layer: layer, Mixer: b.Kind, Head: i - 1,
					Prefix: x.prefix, Copying: x.copying})
			}
		})
		r.add(found, s.chance())
	}
	for i := range r.Scores {
		r.Scores[i].Prefix /= float64(o.Strings)
		r.Scores[i].Copying /= float64(o.Strings)
	}
	r.Chance /= float64(o.Strings)
	return r, nil
}

// add adds the scores of a string.
func (r *Report) add(found []Score, chance float64) {
	r.Chance += chance
	if r.Scores == nil {
		r.Scores = found
		return
	}
	for i, x := range found {
		r.Scores[i].Prefix += x.Prefix
		r.Scores[i].Copying += x.Copying
	}
}

// fit adapts the strings to the vocabulary and the maximum length of the model.
func fit(g *explain.Language, o Options) (Options, error) {
	if o.Tokens < 2 || o.Repeats < 2 || o.Strings < 1 {
		return o, fmt.Errorf("found %d tokens repeated %d times in %d strings, want at least 2, 2 and 1",
			o.Tokens, o.Repeats, o.Strings)
	}
	o.Tokens = min(o.Tokens, g.Vocab())
	if g.MaxLength() > 0 {
		o.Tokens = min(o.Tokens, g.MaxLength()/2)
	}
	if o.Tokens < 2 {
		return o,
			fmt.Errorf(
				"found a model of %d tokens and sequences of %d positions, want 2 tokens and 4 positions at least",
				g.Vocab(), g.MaxLength())
	}
	if g.MaxLength() > 0 {
		o.Repeats = min(o.Repeats, g.MaxLength()/o.Tokens)
	}
	if len(o.At) > o.Tokens {
		return o, fmt.Errorf("at: found %d tokens, want at most the %d of a string", len(o.At), o.Tokens)
	}
	for i, x := range o.At {
		if x < 0 || x >= g.Vocab() || slices.Contains(o.At[:i], x) {
			return o, fmt.Errorf("at: found %d, want different tokens from 0 to %d", x, g.Vocab()-1)
		}
	}
	return o, nil
}

// draw returns the different tokens of a string, including the scored ones, in random order.
func draw(g *explain.Language, rng *rand.Rand, o Options) []int32 {
	var tokens []int32
	for _, x := range o.At {
		tokens = append(tokens, int32(x))
	}
	for len(tokens) < o.Tokens {
		if x := int32(rng.IntN(g.Vocab())); !slices.Contains(tokens, x) {
			tokens = append(tokens, x)
		}
	}
	rng.Shuffle(len(tokens), func(i, j int) { tokens[i], tokens[j] = tokens[j], tokens[i] })
	return tokens
}

// repeated is a string of different tokens, repeated several times.
type repeated struct {
	tokens []int32
	length int
	at     []int // positions that are scored
}

func newRepeated(tokens []int32, o Options) *repeated {
	s := &repeated{tokens: tokens, length: len(tokens) * o.Repeats}
	for t := len(tokens); t < s.length; t++ {
		if len(o.At) == 0 || slices.Contains(o.At, int(tokens[t%len(tokens)])) {
			s.at = append(s.at, t)
		}
	}
	return s
}

// ids returns the whole sequence.
func (s *repeated) ids() []int32 { return slices.Repeat(s.tokens, s.length/len(s.tokens)) }

// behind reports whether position at is right after an earlier occurrence of the token at t.
func (s *repeated) behind(at, t int) bool {
	return at <= t && at > 0 && (at-1)%len(s.tokens) == t%len(s.tokens)
}

// chance returns the Prefix of a head that reads all positions so far equally.
func (s *repeated) chance() float64 {
	sum := 0.0
	for _, t := range s.at {
		sum += float64(t/len(s.tokens)) / float64(t+1) / float64(len(s.at))
	}
	return sum
}

// headScore holds the two scores of a head.
type headScore struct{ prefix, copying float64 }

// score returns the scores of the layer as a whole, then those of each head. rows are the directions of the string's
// tokens.
func (s *repeated) score(op *mixer.Operator, rows []float64) []headScore {
	n, l := len(s.tokens), op.Length
	scores := make([]headScore, 1+op.Heads)
	w := make([]float64, l*l)
	g := make([]float64, n*op.HeadDim)
	z := make([]float64, l*n) // what the head writes when it reads each position
	// what the layer writes, by scored position and position read
	all := make([]float64, len(s.at)*l*n)
	shares := [2][]float64{make([]float64, l), make([]float64, l)} // c(z) and c(-z)
	for h := range op.Heads {
		op.Weights(h, w)
		op.Written(h, rows, g)
		for at := range l {
			s.write(z[at*n:][:n], g, op.Value(h, at))
			shares[0][at], shares[1][at] = raised(z[at*n:][:n], at%n)
		}
		for i, t := range s.at {
			row := w[t*l:][:l]
			scores[1+h].add(s.scoreRow(t, row, shares), len(s.at))
			for at, x := range row {
				if x == 0 {
					continue
				}
				to := all[(i*l+at)*n:][:n]
				for y, v := range z[at*n:][:n] {
					to[y] += x * v
				}
			}
		}
	}
	norms := make([]float64, l)
	for i, t := range s.at {
		for at := range l {
			x := all[(i*l+at)*n:][:n]
			norms[at] = norm(x)
			shares[0][at], _ = raised(x, at%n)
		}
		scores[0].add(s.scoreRow(t, norms, shares), len(s.at))
	}
	return scores
}

// write sets z to the scores that the value v of a position adds to the tokens, minus their mean. g is (n, head_dim).
func (s *repeated) write(z, g []float64, v []float32) {
	for y := range z {
		z[y] = 0
		for j, x := range v {
			z[y] += g[y*len(v)+j] * float64(x)
		}
	}
	explain.Center(z)
}

// scoreRow scores the reading at t with weights w. shares holds the copying shares of each position for a positive and
// for a negative weight.
func (s *repeated) scoreRow(t int, w []float64, shares [2][]float64) (x headScore) {
	sum := 0.0
	for at, v := range w {
		a := math.Abs(v)
		sum += a
		if s.behind(at, t) {
			x.prefix += a
		}
		if v > 0 {
			x.copying += a * shares[0][at]
		} else {
			x.copying += a * shares[1][at]
		}
	}
	if sum > 0 {
		x.prefix /= sum
		x.copying /= sum
	}
	return x
}

// add adds one of n scores to their mean.
func (x *headScore) add(y headScore, n int) {
	x.prefix += y.prefix / float64(n)
	x.copying += y.copying / float64(n)
}

// raised returns the share of z[one] in the sum of the positive z, and its share in the sum of the negative ones. The
// mean of z is 0.
func raised(z []float64, one int) (above, below float64) {
	up, down := 0.0, 0.0
	for _, v := range z {
		up += max(v, 0)
		down += max(-v, 0)
	}
	if up > 0 {
		above = max(z[one], 0) / up
	}
	if down > 0 {
		below = max(-z[one], 0) / down
	}
	return above, below
}

// norm returns the Euclidean norm of x.
func norm(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v * v
	}
	return math.Sqrt(sum)
}

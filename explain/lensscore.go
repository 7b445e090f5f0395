package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// scoreRows is how many positions are scored at a time. A position has a score for each token of the vocabulary, so
// more would take much memory; with this many the product with the unembedding runs at nearly full speed.
const scoreRows = 128

// scorer turns the stream into scores of tokens.
type scorer struct {
	g      *Language
	tape   *autograd.Tape
	scores []float32
}

func (g *Language) newScorer() *scorer { return &scorer{g: g, tape: autograd.NewTape()} }

// of returns the scores (n, vocabulary) of the stream x (n, d_model): by the final norm and the unembedding. The next
// call reuses them.
func (s *scorer) of(x []float32) (scores []float32, vocab int) {
	t, d := s.tape, s.g.unembedding.Dim(1)
	t.Reset()
	stream := t.New(len(x)/d, d)
	stream.CopyFrom(x)
	_, hidden := s.g.backbone.LnF.AddForward(t, stream, nil)
	y := s.g.head(t, hidden)
	if y.Len() > cap(s.scores) {
		s.scores = make([]float32, y.Len())
	}
	s.scores = s.scores[:y.Len()]
	y.CopyTo(s.scores)
	return s.scores, y.Dim(-1)
}

// head maps hidden states after the final norm to scores of tokens.
func (g *Language) head(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	switch {
	case g.language != nil:
		return g.language.Logits(t, hidden)
	case g.network.Head != nil:
		return g.network.Head.Forward(t, hidden)
	}
	return t.Linear(hidden, g.unembedding, nil, engine.None)
}

// softmax describes the distribution p = softmax(z) of scores z.
type softmax struct {
	norm    float64 // log Σ e^z, so that log p = z - norm
	entropy float64 // -Σ p log p, in nats
	top     float32 // the largest of z
	share   float32 // its probability: p = share·e^(z - top)
}

// scoresAtOnce is how many scores are looked at together: their sums are made in float32, and added up in float64.
const scoresAtOnce = 1024

// ones are as many.
var ones = slices.Repeat([]float32{1}, scoresAtOnce)

// softmaxOf measures scores. It is false where they are not finite.
func softmaxOf(z []float32) (softmax, bool) {
	top, sum := kernel.SumExp(z)
	var from, e [scoresAtOnce]float32
	dot := 0.0 // Σ e^(z - top) (z - top)
	for part := range slices.Chunk(z, scoresAtOnce) {
		x, y := from[:len(part)], e[:len(part)]
		copy(x, part)
		kernel.Axpy(-top, ones[:len(x)], x)
		copy(y, x)
		kernel.ExpShift(y, 0, 1)
		dot += float64(kernel.Dot(x, y))
	}
	s := softmax{float64(top) + math.Log(sum), math.Log(sum) - dot/sum, top, float32(1 / sum)}
	return s, !math.IsNaN(s.norm) && !math.IsInf(s.norm, 0) && !math.IsNaN(s.entropy)
}

// divergence is KL(p‖q) = Σ p (log p - log q), in nats, of the distributions of scores a and b.
func divergence(a, b []float32, of, from softmax) float64 {
	p := make([]float32, len(a))
	of.fill(p, a)
	return of.divergence(p, a, b, from)
}

// fill fills p with the probabilities of scores.
func (s softmax) fill(p, scores []float32) {
	copy(p, scores)
	kernel.ExpShift(p, s.top, s.share)
}

// divergence is KL(p‖q) for p the probabilities of scores a, and q those of b.
func (s softmax) divergence(p, a, b []float32, from softmax) float64 {
	apart := s.norm - from.norm // log p - log q = a - b - apart
	shift := float32(apart)
	var logs [scoresAtOnce]float32
	sum := 0.0
	for at := 0; at < len(p); at += scoresAtOnce {
		part := p[at:min(len(p), at+scoresAtOnce)]
		x := logs[:len(part)]
		copy(x, a[at:])
		kernel.Axpy(-1, b[at:][:len(x)], x)
		kernel.Axpy(-shift, ones[:len(x)], x)
		sum += float64(kernel.Dot(part, x))
	}
	return max(0, sum+float64(shift)-apart)
}

// Likely is a token and its probability.
type Likely struct {
	ID int32   `json:"id"`
	P  float64 `json:"p"`
}

// likeliest returns the n most probable tokens, the most probable first, among equals the lower token.
func likeliest(z []float32, s softmax, n int) []Likely {
	var at []int32
	least := float32(math.Inf(-1)) // of those in at, when there are n
	for i, x := range z {
		if len(at) == n && x <= least {
			continue
		}
		if len(at) == n {
			at = at[:n-1]
		}
		j, _ := slices.BinarySearchFunc(at, x, func(k int32, x float32) int {
			if z[k] >= x {
				return -1
			}
			return 1
		})
		if at = slices.Insert(at, j, int32(i)); len(at) == n {
			least = z[at[n-1]]
		}
	}
	out := make([]Likely, len(at))
	for i, k := range at {
		out[i] = Likely{k, math.Exp(float64(z[k]) - s.norm)}
	}
	return out
}

// prediction is what a model says of a sequence of n tokens.
type prediction struct {
	logP    []float64 // of the tokens that came, after each but the last: n-1
	entropy []float64 // of what comes next, after each: n
	last    []float32 // the scores after the last token
	of      softmax   // of last
}

// predict reads ids, watched and changed by w.
func (g *Language) predict(ctx context.Context, ids []int32, w watch) (*prediction, error) {
	p := &prediction{logP: make([]float64, len(ids)-1), entropy: make([]float64, len(ids))}
	var final []float32
	r, err := g.open(w.final(g, func(x []float32) { final = x }))
	if err != nil {
		return nil, err
	}
	s, d := g.newScorer(), g.unembedding.Dim(1)
	return p, r.read(ctx, ids, func(at int, piece []int32) error {
		for i := 0; i < len(piece); i += scoreRows {
			n := min(scoreRows, len(piece)-i)
			z, vocab := s.of(final[i*d:][:n*d])
			bad := make([]bool, n)
			onCores(n, func(j int) {
				row := z[j*vocab:][:vocab]
				of, ok := softmaxOf(row)
				k := at + i + j
				p.entropy[k], bad[j] = of.entropy, !ok
				if k+1 < len(ids) {
					p.logP[k] = float64(row[ids[k+1]]) - of.norm
				} else {
					p.last, p.of = slices.Clone(row), of
				}
			})
			if j := slices.Index(bad, true); j >= 0 {
				return g.ruined(len(g.backbone.Blocks), at+i+j)
			}
		}
		return nil
	})
}

// ruined is the error of scores that are not finite.
func (g *Language) ruined(layers, at int) error {
	return fmt.Errorf("found scores that are not finite after %s at token %d: the weights are ruined, or what is put "+
		"in is too large", g.depth(layers), at)
}

// depth names the stream after some layers.
func (g *Language) depth(layers int) string {
	if layers == 0 {
		return "embedding"
	}
	return g.layer(layers - 1)
}

// layer names a layer.
func (g *Language) layer(i int) string {
	return fmt.Sprintf("layer %d · %s", i, g.backbone.Blocks[i].Kind)
}

// stateAfter is the state of a causal model after ids.
func (g *Language) stateAfter(ctx context.Context, ids []int32) (*model.State, error) {
	r, err := g.open(watch{})
	if err != nil {
		return nil, err
	}
	return r.state, r.read(ctx, ids, nil)
}

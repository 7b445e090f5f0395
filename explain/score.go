package explain

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/autograd"
	"github.com/hippo-ssm/hippo/engine"
	"github.com/hippo-ssm/hippo/generate/sample"
	"github.com/hippo-ssm/hippo/internal/kernel"
	"github.com/hippo-ssm/hippo/internal/parallel"
	"github.com/hippo-ssm/hippo/model"
	"github.com/hippo-ssm/hippo/tensor"
)

// ScoreRows is the number of positions that are scored at a time. A position has a score for each token of the
// vocabulary, so more would need much memory. With this number, the product with the unembedding runs at nearly full
// speed.
const ScoreRows = 128

// Scorer computes scores of tokens from the residual stream.
type Scorer struct {
	g      *Language
	tape   *autograd.Tape
	scores []float32
}

func (g *Language) NewScorer() *Scorer { return &Scorer{g: g, tape: g.Backbone.NewTape()} }

// Scores returns the scores (n, vocabulary) of the stream x (n, d_model), by the final norm and the unembedding. The
// next call overwrites them.
func (s *Scorer) Scores(x []float32) (scores []float32, vocab int) {
	t, d := s.tape, s.g.Unembedding.Dim(1)
	t.Reset()
	stream := t.New(len(x)/d, d)
	stream.CopyFrom(x)
	_, hidden := s.g.Backbone.LnF.AddForward(t, stream, nil)
	y := s.g.Head(t, hidden)
	if y.Len() > cap(s.scores) {
		s.scores = make([]float32, y.Len())
	}
	s.scores = s.scores[:y.Len()]
	y.CopyTo(s.scores)
	return s.scores, y.Dim(-1)
}

// Head maps hidden states after the final norm to scores of tokens.
func (g *Language) Head(t *autograd.Tape, hidden *tensor.Tensor) *tensor.Tensor {
	switch {
	case g.Model != nil:
		return g.Model.Logits(t, hidden)
	case g.Network.Head != nil:
		return g.Network.Head.Forward(t, hidden)
	}
	return t.Linear(hidden, g.Unembedding, nil, engine.None)
}

// Softmax describes the distribution p = softmax(z) of scores z.
type Softmax struct {
	Norm    float64 // log Σ e^z, so that log p = z - norm
	Entropy float64 // -Σ p log p, in nats
	top     float32 // largest of z
	share   float32 // probability of top: p = share·e^(z - top)
}

// scoresAtOnce is the number of scores that are added in float32 before the sum is added in float64.
const scoresAtOnce = 1024

// Ones contains scoresAtOnce ones.
var Ones = slices.Repeat([]float32{1}, scoresAtOnce)

// SoftmaxOf returns the softmax of scores. It returns false if they are not finite.
func SoftmaxOf(z []float32) (Softmax, bool) {
	p, err := sample.LogProbsOf(z)
	if err != nil || !kernel.AllFinite(z) {
		return Softmax{}, false
	}
	return Softmax{p.Norm, p.Entropy(), p.Largest, float32(math.Exp(float64(p.Largest) - p.Norm))}, true
}

// Divergence returns KL(p‖q) = Σ p (log p - log q), in nats, of the distributions of scores a and b.
func Divergence(a, b []float32, of, from Softmax) float64 {
	p := make([]float32, len(a))
	of.Fill(p, a)
	return of.Divergence(p, a, b, from)
}

// Fill fills p with the probabilities of scores.
func (s Softmax) Fill(p, scores []float32) {
	copy(p, scores)
	kernel.ExpShift(p, s.top, s.share)
}

// Divergence returns KL(p‖q), where p are the probabilities of scores a, and q those of b.
func (s Softmax) Divergence(p, a, b []float32, from Softmax) float64 {
	apart := s.Norm - from.Norm // log p - log q = a - b - apart
	shift := float32(apart)
	var logs [scoresAtOnce]float32
	sum := 0.0
	for at := 0; at < len(p); at += scoresAtOnce {
		part := p[at:min(len(p), at+scoresAtOnce)]
		x := logs[:len(part)]
		copy(x, a[at:])
		kernel.Axpy(-1, b[at:][:len(x)], x)
		kernel.Axpy(-shift, Ones[:len(x)], x)
		sum += float64(kernel.Dot(part, x))
	}
	return max(0, sum+float64(shift)-apart)
}

// Likely is a token and its probability.
type Likely struct {
	ID int32   `json:"id"`
	P  float64 `json:"p"`
}

// Likeliest returns the n most probable tokens in descending order. Among equals, the lower token comes first.
func Likeliest(z []float32, s Softmax, n int) []Likely {
	var at []int32
	least := float32(math.Inf(-1)) // smallest score in at, if it has n entries
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
		out[i] = Likely{k, math.Exp(float64(z[k]) - s.Norm)}
	}
	return out
}

// Prediction holds a model's predictions for a sequence of n tokens.
type Prediction struct {
	LogP    []float64 // of the next tokens of the text, after each token except the last: n-1
	Entropy []float64 // of the next token's distribution, after each token: n
	Last    []float32 // the scores after the last token
	Softmax Softmax   // of Last
}

// Predict reads ids, observed and changed by w.
func (g *Language) Predict(ctx context.Context, ids []int32, w Probe) (*Prediction, error) {
	p := &Prediction{LogP: make([]float64, len(ids)-1), Entropy: make([]float64, len(ids))}
	var final []float32
	r, err := g.Start(w.Final(g, func(x []float32) { final = x }))
	if err != nil {
		return nil, err
	}
	s, d := g.NewScorer(), g.Unembedding.Dim(1)
	return p, r.Read(ctx, ids, func(at int, piece []int32) error {
		for i := 0; i < len(piece); i += ScoreRows {
			n := min(ScoreRows, len(piece)-i)
			z, vocab := s.Scores(final[i*d:][:n*d])
			bad := make([]bool, n)
			parallel.Each(n, func(j int) {
				row := z[j*vocab:][:vocab]
				of, ok := SoftmaxOf(row)
				k := at + i + j
				p.Entropy[k], bad[j] = of.Entropy, !ok
				if k+1 < len(ids) {
					p.LogP[k] = float64(row[ids[k+1]]) - of.Norm
				} else {
					p.Last, p.Softmax = slices.Clone(row), of
				}
			})
			if j := slices.Index(bad, true); j >= 0 {
				return g.Ruined(len(g.Backbone.Blocks), at+i+j)
			}
		}
		return nil
	})
}

// Ruined returns the error for scores that are not finite.
func (g *Language) Ruined(layers, at int) error {
	return fmt.Errorf("found scores that are not finite after %s at token %d: the weights are invalid, "+
		"or a change is too large", g.DepthName(layers), at)
}

// DepthName returns the name of the stream after the given number of layers.
func (g *Language) DepthName(layers int) string {
	if layers == 0 {
		return "embedding"
	}
	return g.LayerName(layers - 1)
}

// LayerName returns the name of a layer.
func (g *Language) LayerName(i int) string {
	return fmt.Sprintf("layer %d · %s", i, g.Backbone.Blocks[i].Kind)
}

// StateAfter returns the state of a causal model after ids.
func (g *Language) StateAfter(ctx context.Context, ids []int32) (*model.State, error) {
	r, err := g.Start(Probe{})
	if err != nil {
		return nil, err
	}
	return r.State, r.Read(ctx, ids, nil)
}

// MeanOf returns the mean of x, 0 if x is empty.
func MeanOf(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(max(1, len(x)))
}

// JensenShannon returns the Jensen-Shannon divergence ½KL(p‖m) + ½KL(q‖m), m = (p+q)/2, of the distributions of scores
// a and b. With u = (p-q)/(p+q) it is
//
//	½ Σ m ((1+u) log(1+u) + (1-u) log(1-u))
func JensenShannon(a, b []float32, of, from Softmax) float64 {
	var p, q [scoresAtOnce]float32
	sum := 0.0
	for at := 0; at < len(a); at += scoresAtOnce {
		n := min(scoresAtOnce, len(a)-at)
		of.Fill(p[:n], a[at:])
		from.Fill(q[:n], b[at:])
		for i, x := range p[:n] {
			x, y := float64(x), float64(q[i])
			if x+y > 0 {
				sum += (x + y) / 4 * disagreement((x-y)/(x+y))
			}
		}
	}
	return max(0, sum)
}

// disagreement returns (1+u) log(1+u) + (1-u) log(1-u), for u from -1 to 1.
func disagreement(u float64) float64 {
	switch x := u * u; {
	case x < 0.01: // the first terms of Σ_k u^(2k) / (k (2k-1)): a relative error below 1e-12
		return x * (1 + x*(1./6+x*(1./15+x*(1./28+x*(1./45+x*(1./66))))))
	case x < 1:
		return (1+u)*math.Log1p(u) + (1-u)*math.Log1p(-u)
	}
	return 2 * math.Ln2
}

// Finite reports whether x contains neither NaN nor infinities.
func Finite(x []float32) bool { return kernel.AllFinite(x) }

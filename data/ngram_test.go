package data

import (
	"math"
	"math/rand/v2"
	"testing"
)

// markov returns n tokens of a first-order Markov chain over v ids, and the entropies of a token and of a token given
// the one before.
func markov(t *testing.T, v, n int) (tok *Tokens, unigram, bigram float64) {
	rng := rand.New(rand.NewPCG(11, 0))
	p := make([][]float64, v)
	for i := range p {
		p[i] = make([]float64, v)
		sum := 0.0
		for j := range p[i] {
			p[i][j] = math.Pow(rng.Float64(), 6)
			sum += p[i][j]
		}
		for j := range p[i] {
			p[i][j] /= sum
		}
	}
	stationary := make([]float64, v)
	stationary[0] = 1
	for range 200 {
		after := make([]float64, v)
		for i, q := range stationary {
			for j := range after {
				after[j] += q * p[i][j]
			}
		}
		stationary = after
	}
	for i, q := range stationary {
		unigram -= q * math.Log(q)
		for _, r := range p[i] {
			bigram -= q * r * math.Log(r)
		}
	}
	ids := make([]int32, n)
	for i := 1; i < n; i++ {
		u := rng.Float64()
		for j, r := range p[ids[i-1]] {
			if u -= r; u < 0 {
				ids[i] = int32(j)
				break
			}
		}
	}
	return fromIDs(t, ids, v), unigram, bigram
}

// TestBaselineFindsEntropy checks that with much data the losses of the models approach the entropies of the source.
// The tolerance is for 40,000 targets, whose mean has a standard deviation of about 0.005.
func TestBaselineFindsEntropy(t *testing.T) {
	tok, unigram, bigram := markov(t, 12, 200_000)
	train, valid, err := tok.Split(0.2)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NGramBaseline(t.Context(), train, valid, 12)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(b.Unigram-unigram) > 0.02 || math.Abs(b.Bigram-bigram) > 0.02 || b.Targets != valid.Len()-1 {
		t.Errorf("found %+v, want %.4f and %.4f", b, unigram, bigram)
	}
	if again, _ := NGramBaseline(t.Context(), train, valid, 12); again != b {
		t.Errorf("a second time: %+v, want %+v", again, b)
	}
}

// TestBaselineByHand checks probabilities in a case small enough to count by hand. k and λ are set by the test.
func TestBaselineByHand(t *testing.T) {
	a := fromIDs(t, []int32{0, 1, 0, 1, 0, 2, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2}, 4)
	m, err := newNGram(t.Context(), a, 4)
	if err != nil {
		t.Fatal(err)
	}
	m.k = 0.5
	m.lambda[4] = 0.75 // contexts seen 8 to 15 times
	m.lambda[1] = 0.25 // contexts seen once
	var got []float64
	m.score(t.Context(), a, fromIDs(t, []int32{0, 1, 3, 0, 2, 0}, 4),
		func(c counts) { got = append(got, m.unigram(c), m.bigram(c)) })
	p := func(c float64) float64 { return (c + 0.5) / (20 + 0.5*4) }
	want := []float64{
		p(8), 0.75*8/10 + 0.25*p(8), // 1 after 0
		p(0), 0.25 * p(0), // 3 after 1, never seen
		p(10), p(10), // 0 after 3, which was never seen
		p(2), 0.75*2/10 + 0.25*p(2), // 2 after 0
		p(10), 0.25*1/1 + 0.75*p(10), // 0 after 2
	}
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-15 {
			t.Errorf("probability %d: found %v, want %v", i, got[i], want[i])
		}
	}
}

// TestBaselineIsProbability checks that after any context, even one never seen, the probabilities of all ids sum to 1.
func TestBaselineIsProbability(t *testing.T) {
	tok, _, _ := markov(t, 6, 300)
	m, err := newNGram(t.Context(), tok, 8) // two ids that never occur
	if err != nil {
		t.Fatal(err)
	}
	m.k = 0.1
	var s smoothLambda
	m.score(t.Context(), tok, tok.Slice(0, 100), func(c counts) { s.add(m, c) })
	m.lambda = s.best()
	for v := range int32(8) {
		sum := 0.0
		for w := range int32(8) {
			m.score(t.Context(), tok, fromIDs(t, []int32{v, w}, 8), func(c counts) { sum += m.bigram(c) })
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("after %d: probabilities add up to %v", v, sum)
		}
	}
}

// TestBaselineInParts checks that counting few pairs at a time gives the same result.
func TestBaselineInParts(t *testing.T) {
	tok, _, _ := markov(t, 12, 5_000)
	train, valid := tok.Slice(0, 4_000), tok.Slice(4_000, 5_000)
	want, err := NGramBaseline(t.Context(), train, valid, 12)
	if err != nil {
		t.Fatal(err)
	}
	defer func(old int) { pairLimit = old }(pairLimit)
	for _, pairLimit = range []int{1, 7, 100} {
		if got, err := NGramBaseline(t.Context(), train, valid, 12); err != nil || got != want {
			t.Errorf("%d pairs at a time: %+v, %v; want %+v", pairLimit, got, err, want)
		}
	}
}

func TestBaselineOfLargeVocabulary(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ids := make([]int32, 20_000)
	for i := range ids {
		ids[i] = int32(rng.IntN(50_257))
	}
	tok := fromIDs(t, ids, 50_257)
	b, err := NGramBaseline(t.Context(), tok.Slice(0, 18_000), tok.Slice(18_000, 20_000), 50_264)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing can be learned from noise: both losses must be near log(vocabulary), and the bigram's no worse than the
	// unigram's.
	if uniform := math.Log(50_264); math.Abs(b.Unigram-uniform) > 0.2 || b.Bigram > b.Unigram+0.01 {
		t.Errorf("%+v, want about %.3f", b, uniform)
	}
}

func TestBaselineErrors(t *testing.T) {
	_, err := NGramBaseline(t.Context(), count(t, 19), count(t, 5), 100)
	wantError(t, err, "19 tokens for training", "want at least 20")
	_, err = NGramBaseline(t.Context(), count(t, 30), count(t, 1), 100)
	wantError(t, err, "1 for validation")
	_, err = NGramBaseline(t.Context(), count(t, 30), count(t, 5), 29)
	wantError(t, err, "vocabulary of 29", "at least 30")
}

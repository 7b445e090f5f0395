package sample

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLogProbs: probabilities sum to 1, the greedy token has exactly the largest, and Top is a sorted list of all.
func TestLogProbs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Float32Range(-80, 80), 1, 60).Draw(t, "logits")
		for i := range logits {
			if i > 0 && rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				odd := []float32{float32(math.Inf(-1)), logits[0], -math.MaxFloat32}
				logits[i] = rapid.SampledFrom(odd).Draw(t, "odd")
			}
		}
		p, err := LogProbsOf(logits)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for id := range logits {
			sum += math.Exp(p.Of(int32(id)))
		}
		if math.Abs(sum-1) > 1e-12 { // some roundings of each term
			t.Fatalf("probabilities sum to %v", sum)
		}
		greedy, err := newSampler(t, Options{}).Next(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		top := p.Top(1 + len(logits))
		if top[0] != (TokenProb{greedy, p.Of(greedy)}) {
			t.Fatalf("the first is %v, want the greedy token %d at %v", top[0], greedy, p.Of(greedy))
		}
		for i, c := range top {
			if c.LogProb != p.Of(c.ID) || i > 0 && c.LogProb > top[i-1].LogProb {
				t.Fatalf("place %d has %v after %v", i, c, top[max(0, i-1)])
			}
		}
		if k := rapid.IntRange(0, 9).Draw(t, "k"); !slices.Equal(p.Top(k), top[:min(k, len(top))]) {
			t.Fatalf("the first %d are %v of %v", k, p.Top(k), top)
		}
	})
}

// TestLogProbsOfNothing: logits that exclude every token, or are none, have no probabilities.
func TestLogProbsOfNothing(t *testing.T) {
	for _, logits := range [][]float32{{}, {float32(math.Inf(-1))}, {0, float32(math.NaN())}, {float32(math.Inf(1))}} {
		if _, err := LogProbsOf(logits); err == nil {
			t.Errorf("%v: no error", logits)
		}
	}
	p, err := LogProbsOf([]float32{1, 2})
	if err != nil || !math.IsInf(p.Of(2), -1) || !math.IsInf(p.Of(-1), -1) {
		t.Errorf("tokens outside of the vocabulary have probabilities: %v", err)
	}
}

// TestBiasAndPenalties: a bias and the penalties of what was drawn move logits by what they say, also in a sampler that
// was told of what was drawn before; excluded tokens stay excluded.
func TestBiasAndPenalties(t *testing.T) {
	o := Options{LogitBias: map[int32]float32{1: 3, 3: 100}, FrequencyPenalty: 1, PresencePenalty: 0.5}
	logits := []float32{2, 0, 1, float32(math.Inf(-1))}
	s := newSampler(t, o)
	// Token 1 has 3, then 1.5, then 0.5 after a penalty of 1.5 and 1 more; token 0 has 2, then 0.5; token 2 has 1.
	for i, want := range []int32{1, 0, 1, 2, 0, 1} {
		next := newSampler(t, o)
		next.Count([]int32{1, 0, 1, 2, 0, 1}[:i]...)
		resumed, err := next.Next(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Next(logits, nil); err != nil || got != want || resumed != want {
			t.Errorf("call %d gives %d, one that was told %d (%v), want %d", i, got, resumed, err, want)
		}
	}
	for _, o := range []Options{
		{LogitBias: map[int32]float32{-1: 0}}, {LogitBias: map[int32]float32{0: float32(math.NaN())}},
		{PresencePenalty: math.Inf(1)}, {FrequencyPenalty: math.NaN()},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if _, err := newSampler(t, Options{LogitBias: map[int32]float32{4: 1}}).Next(logits, nil); err == nil {
		t.Error("a bias for a token outside of the vocabulary: no error")
	}
}

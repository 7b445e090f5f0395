package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestLogProbs checks that probabilities sum to 1, that the greedy token has exactly the largest, and that Top returns
// a sorted list of all.
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
		if math.Abs(sum-1) > 1e-6 {
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

// TestLogProbsOfNothing checks that logits have no probabilities if there are none or if they exclude every token.
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

// TestBiasAndPenalties checks that a bias and the penalties of drawn tokens change logits by the stated amounts, also
// in a sampler that was told the tokens drawn before, and that excluded tokens stay excluded.
func TestBiasAndPenalties(t *testing.T) {
	o := Options{LogitBias: map[int32]float32{1: 3, 3: 100}, FrequencyPenalty: 1, PresencePenalty: 0.5}
	logits := []float32{2, 0, 1, float32(math.Inf(-1))}
	s := newSampler(t, o)
	// Token 1 has a logit of 3, then 1.5, then 0.5 after a penalty of 1.5 and 1 more. Token 0 has 2, then 0.5. Token 2
	// has 1.
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

// TestLogProbsAreNearThoseInFloat64 compares log-probabilities with float64 for vocabularies of any size and logits of
// any spread, with and without masks, also where one token has nearly all of the probability.
func TestLogProbsAreNearThoseInFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for _, n := range []int{1, 2, 15, 17, 1000, 32768, 50280, 151936} {
		for _, c := range []struct{ spread, offset float64 }{{0, 0}, {0.1, 0}, {3, 0}, {3, -1e4}, {30, 1e3}, {1e4, 0}} {
			logits := make([]float32, n)
			for i := range logits {
				logits[i] = float32(c.spread*rng.NormFloat64() + c.offset)
				if i > 0 && rng.IntN(5) == 0 {
					logits[i] = float32(math.Inf(-1))
				}
			}
			top, sum := float64(slices.Max(logits)), 0.0
			for _, x := range logits {
				sum += math.Exp(float64(x) - top)
			}
			p, err := LogProbsOf(logits)
			if err != nil {
				t.Fatal(err)
			}
			for id, x := range logits {
				got, want := p.Of(int32(id)), float64(x)-top-math.Log(sum)
				// The bound is the rounding error of the norm, in float64, and that of the sum.
				if e := math.Abs(got - want); e > 1e-6*min(1, math.Log(sum))+1e-15*math.Abs(top) || got > 0 {
					t.Fatalf("%d tokens, %+v: token %d has %v, want %v", n, c, id, got, want)
				}
			}
		}
	}
}

// TestLogProb checks that LogProb of one token equals LogProbs.Of, and is NaN if there are no probabilities.
func TestLogProb(t *testing.T) {
	if got := LogProb([]float32{0, 0, 0, 0}, 2); math.Abs(got+math.Log(4)) > 1e-6 {
		t.Errorf("one of four has the log-probability %v", got)
	}
	if got := LogProb([]float32{0}, 2); !math.IsInf(got, -1) {
		t.Errorf("an id of the padding has the log-probability %v", got)
	}
	for _, logits := range [][]float32{nil, {float32(math.NaN()), 0}, {0, float32(math.Inf(1))}} {
		if got := LogProb(logits, 0); got == got {
			t.Errorf("%v: %v, want NaN", logits, got)
		}
	}
}

// TestBadLogitsAnywhere checks that a NaN or +Inf is found at any position, and that the error names it.
func TestBadLogitsAnywhere(t *testing.T) {
	logits := gaussianLogits(100)
	for at := range logits {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			old := logits[at]
			logits[at] = bad
			_, err := LogProbsOf(logits)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("found %v for token %d", bad, at)) {
				t.Errorf("%v at %d: %v", bad, at, err)
			}
			logits[at] = old
		}
	}
}

func BenchmarkLogProbs(b *testing.B) {
	logits := gaussianLogits(50280)
	for b.Loop() {
		if _, err := LogProbsOf(logits); err != nil {
			b.Fatal(err)
		}
	}
}

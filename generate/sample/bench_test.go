package sample

import (
	"math/rand/v2"
	"testing"
)

func gaussianLogits(vocab int) []float32 {
	rng := rand.New(rand.NewPCG(1, 1))
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(3 * rng.NormFloat64())
	}
	return logits
}

var allOptions = Options{Temperature: 0.8, TopK: 5000, TopP: 0.95, MinP: 0.02,
	RepetitionPenalty: 1.1, RepetitionWindow: 64}

func TestNextAllocatesNothing(t *testing.T) {
	logits, history := gaussianLogits(5000), []int32{1, 2, 3}
	for _, opt := range []Options{{}, {Temperature: 1}, allOptions} {
		s := newSampler(t, opt)
		if n := testing.AllocsPerRun(20, func() {
			if _, err := s.Next(logits, history); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%+v: %v allocations", opt, n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	logits, history := gaussianLogits(50264), []int32{1, 2, 3}
	for name, opt := range map[string]Options{
		"greedy": {}, "plain": {Temperature: 1}, "top-k": {Temperature: 1, TopK: 40},
		"top-p": {Temperature: 1, TopP: 0.95}, "min-p": {Temperature: 1, MinP: 0.05}, "warm": {Temperature: 0.8},
		"all": allOptions,
	} {
		b.Run(name, func(b *testing.B) {
			s := newSampler(b, opt)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Next(logits, history); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

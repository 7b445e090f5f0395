package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// someLogits returns the logits of a vocabulary. Their standard deviation determines how flat the distribution is.
// Whole blocks can be excluded.
func someLogits(rng *rand.Rand, vocab int, deviation float64, excluded bool) []float32 {
	logits := make([]float32, vocab)
	for i := range logits {
		logits[i] = float32(deviation*rng.NormFloat64() - 20)
		if excluded && (i/700)%3 == 1 {
			logits[i] = float32(math.Inf(-1))
		}
	}
	return logits
}

// TestDrawsAreThoseOfAllWeights checks that a draw gives the token that the exact weights of all tokens give, whatever
// the options, and that most draws from a peaked distribution do not compute these weights.
func TestDrawsAreThoseOfAllWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const draws = 6
	for _, deviation := range []float64{0.1, 1, 3, 10} {
		for _, opt := range []Options{
			{Temperature: 1}, {Temperature: 0.7}, {Temperature: 1.9}, {Temperature: 40}, {Temperature: 1.0 / 64},
			{Temperature: 1, TopP: 0.9}, {Temperature: 0.6, TopP: 0.99, MinP: 0.01}, {Temperature: 1, TopP: 0.1},
			{Temperature: 1, MinP: 0.05}, {Temperature: 1.3, MinP: 1},
		} {
			t.Run(fmt.Sprintf("%v/%+v", deviation, opt), func(t *testing.T) {
				s, sure := newSampler(t, opt), 0
				for i := range draws {
					logits := someLogits(rng, 6000+i, deviation, i%2 == 1)
					if !s.totals.add(logits, opt.Temperature) {
						t.Fatal("found no sums of the weights")
					}
					r := rng.Float64()
					want, err := newSampler(t, opt).exact(logits, r)
					if err != nil {
						t.Fatal(err)
					}
					if got, ok := s.certain(logits, r); ok {
						if sure++; got != want {
							t.Errorf("drew %d for %v, want %d", got, r, want)
						}
					}
				}
				if deviation >= 3 && opt.Temperature < 2 && sure < draws-1 {
					t.Errorf("%d of %d draws were certain", sure, draws)
				}
			})
		}
	}
}

// TestDrawsBetweenTokens checks that a random number at the border between two tokens, where approximate sums could
// give either token, draws the one that the exact weights give.
func TestDrawsBetweenTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, temperature := range []float64{1, 0.8} {
		logits := someLogits(rng, 5000, 3, false)
		opt := Options{Temperature: temperature}
		s, e := newSampler(t, opt), newSampler(t, opt)
		if !s.totals.add(logits, temperature) {
			t.Fatal("found no sums of the weights")
		}
		e.collectFrom(logits, -math.MaxFloat32)
		all, below := e.weigh(s.totals.top), 0.0
		doubted := 0
		for i, c := range append([]candidate(nil), e.left...) {
			below += c.weight
			if i%97 != 0 {
				continue
			}
			for _, off := range []float64{-1e-5, -1e-6, -1e-7, -1e-9, -1e-16, 0, 1e-16, 1e-9, 1e-7, 1e-6, 1e-5} {
				r := max(0, min(below/all+off, 1-0x1p-53))
				want, err := e.exact(logits, r)
				if err != nil {
					t.Fatal(err)
				}
				got, ok := s.certain(logits, r)
				if !ok {
					doubted++
				} else if got != want {
					t.Fatalf("temperature %v: drew %d for %v, want %d", temperature, got, r, want)
				}
			}
		}
		if doubted == 0 {
			t.Error("no draw at a border was doubted")
		}
	}
}

// TestSumsOfWeights checks that the sums are within their error bounds, and that there are none if choosing a token
// gives an error.
func TestSumsOfWeights(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, temperature := range []float64{1, 0.3, 2.5, 64} {
		for _, deviation := range []float64{0.01, 2, 30} {
			logits := someLogits(rng, 3001, deviation, true)
			var s totals
			if !s.add(logits, temperature) {
				t.Fatal("found no sums")
			}
			for i, got := range s.blocks {
				want := 0.0
				for _, x := range logits[i*blockLen : min(len(logits), (i+1)*blockLen)] {
					want += math.Exp((float64(x) - float64(s.top)) / temperature)
				}
				if math.Abs(got-want) > s.part*want {
					t.Errorf("temperature %v, deviation %v: block %d has %v, want %v", temperature, deviation, i, got,
						want)
				}
			}
		}
	}
	inf := float32(math.Inf(1))
	for _, bad := range [][]float32{{}, {1, inf}, {float32(math.NaN())}, {-inf, -inf}} {
		if new(totals).add(bad, 1) {
			t.Errorf("%v: found sums", bad)
		}
	}
}

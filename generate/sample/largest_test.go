package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestLargestOfManyBlocks compares the largest logit and the k largest with those of a sort, with equal and excluded
// logits anywhere in blocks that are skipped at once. It also checks that a NaN or an infinity is found anywhere.
func TestLargestOfManyBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		logits := make([]float32, 1+rng.IntN(4*blockLen))
		for i := range logits {
			if logits[i] = float32(rng.IntN(60)) - 30; rng.IntN(8) == 0 {
				logits[i] = float32(math.Inf(-1))
			}
		}
		var want []candidate
		for i, x := range logits {
			if !math.IsInf(float64(x), -1) {
				want = append(want, candidate{token: int32(i), logit: x})
			}
		}
		sortLargestFirst(want)
		best, err := largestLogit(logits)
		if err != nil || len(want) == 0 && best != -1 || len(want) > 0 && best != int(want[0].token) {
			t.Fatalf("found token %d, %v, want the first of %v", best, err, want)
		}
		k := 1 + rng.IntN(50)
		got := largestLogits(nil, logits, k)
		sortLargestFirst(got)
		if want := want[:min(k, len(want))]; !slices.Equal(got, want) {
			t.Fatalf("the %d largest are %v, want %v", k, got, want)
		}
		at := rng.IntN(len(logits))
		logits[at] = float32([]float64{math.NaN(), math.Inf(1)}[rng.IntN(2)])
		if _, err := largestLogit(logits); err == nil || !strings.Contains(err.Error(), fmt.Sprint("token ", at, ",")) {
			t.Fatalf("%v for token %d: error %v", logits[at], at, err)
		}
	}
}

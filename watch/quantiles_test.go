package watch

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// ofExponential returns quantiles of n scores of an exponential distribution of mean 10.
func ofExponential(halfLife, n int) *Quantiles {
	rng, q := rand.New(rand.NewPCG(1, 2)), NewQuantiles(halfLife)
	for range n {
		q.Add(10 * rng.ExpFloat64())
	}
	return q
}

// TestThreshold checks that the threshold is close to the quantile of the distribution, -10·ln r, both where it is
// counted and where the tail is extrapolated. 3 % and a seventh are four standard errors of the counts.
func TestThreshold(t *testing.T) {
	q := ofExponential(1e9, 20_000)
	for _, c := range []struct{ rate, within float64 }{{0.1, 0.03}, {0.01, 0.07}, {1e-3, 0.15}, {1e-5, 0.15}} {
		if got, want := q.Threshold(c.rate), -10*math.Log(c.rate); math.Abs(got/want-1) > c.within {
			t.Errorf("rate %g: threshold %.3f, want %.3f within %g", c.rate, got, want, c.within)
		}
	}
	if z := ofExponential(1e9, 99).Threshold(0.1); !math.IsInf(z, 1) {
		t.Errorf("threshold %g after 99 lines, want none", z)
	}
}

// TestThresholdFollows checks that after a few half-lives the threshold is that of the new scores, that a score of any
// size counts once, and that scores far outside the bins and below zero are counted.
func TestThresholdFollows(t *testing.T) {
	q := ofExponential(1000, 5000)
	before := q.Threshold(0.01)
	for range 5 {
		q.Add(1e30)
		q.Add(math.NaN())
		q.Add(math.Inf(1))
	}
	if after := q.Threshold(0.01); after > 1.3*before {
		t.Errorf("threshold %g after five huge scores, %g before", after, before)
	}
	if n := q.Lines(); math.Abs(n-1000/math.Ln2) > 60 {
		t.Errorf("%g lines, want 1,443", n)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 10_000 {
		q.Add(-200 + rng.Float64())
	}
	if z := q.Threshold(0.1); z > -195 || z < -205 {
		t.Errorf("threshold %g of scores from -200 to -199", z)
	}
	for range 400_000 { // the weights grow until they are rescaled
		q.Add(rng.Float64())
	}
	if z, n := q.Threshold(0.5), q.Lines(); math.Abs(z-0.5) > 0.1 || math.Abs(n-1443) > 2 {
		t.Errorf("threshold %g of %g lines, want 0.5 of 1,443", z, n)
	}
}

// TestQuantilesInJSON checks that quantiles continue from a file with the same bits, and that an invalid file is
// refused.
func TestQuantilesInJSON(t *testing.T) {
	a := ofExponential(500, 3000)
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var b Quantiles
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		a.Add(float64(i % 37))
		b.Add(float64(i % 37))
		if x, y := a.Threshold(1e-4), b.Threshold(1e-4); x != y {
			t.Fatalf("line %d: threshold %v, after saving %v", i, x, y)
		}
	}
	for change, want := range map[string]string{
		`"half_life":500>"half_life":0`:   "half_life: found 0",
		`"weights":[>"weights":[1,`:       "weights: found",
		`"weights":[>"weights":[-1,-1,-`:  "weights: found",
		`"weight":>"weight":-`:            "weight: found -",
		`"total":>"total":-`:              "total: found -",
		`"bins":[>"bins":[99999,`:         "weights: found",
		`"half_life":500>"half_life":1.5`: "half_life",
	} {
		from, to, _ := strings.Cut(change, ">")
		bad := strings.Replace(string(text), from, to, 1)
		if err := json.Unmarshal([]byte(bad), &b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}

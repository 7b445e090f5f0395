package sample

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/hippo-ssm/hippo/internal/testkit/fixedseed"
)

func newSampler(t interface {
	Helper()
	Fatal(...any)
}, opt Options) *Sampler {
	t.Helper()
	s, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// naive implements the package comment with maps and a full sort, and returns the probability of each token.
func naive(opt Options, logits []float32, history []int32) map[int32]float64 {
	x := slices.Clone(logits)
	if opt.RepetitionPenalty != 0 {
		if w := opt.RepetitionWindow; w > 0 && len(history) > w {
			history = history[len(history)-w:]
		}
		repeated := map[int32]bool{}
		for _, token := range history {
			repeated[token] = true
		}
		for token := range repeated {
			if p := float32(opt.RepetitionPenalty); x[token] > 0 {
				x[token] /= p
			} else {
				x[token] *= p
			}
		}
	}
	var order []int32
	for i := range x {
		if !math.IsInf(float64(x[i]), -1) {
			order = append(order, int32(i))
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return x[order[i]] > x[order[j]] })
	if opt.Temperature == 0 {
		return map[int32]float64{order[0]: 1}
	}
	if opt.TopK > 0 && opt.TopK < len(order) {
		order = order[:opt.TopK]
	}
	weight := map[int32]float64{}
	sum := 0.0
	for i := range x { // in the order of tokens, which affects rounding
		if slices.Contains(order, int32(i)) {
			weight[int32(i)] = math.Exp((float64(x[i]) - float64(x[order[0]])) / opt.Temperature)
			sum += weight[int32(i)]
		}
	}
	if opt.TopP > 0 && opt.TopP < 1 {
		reached := 0.0
		for n, token := range order {
			if reached += weight[token]; reached >= opt.TopP*sum {
				order = order[:n+1]
				break
			}
		}
	}
	p := map[int32]float64{}
	kept := 0.0
	for _, token := range order {
		if weight[token] >= opt.MinP && weight[token] > 0 {
			p[token] = weight[token]
			kept += weight[token]
		}
	}
	for token := range p {
		p[token] /= kept
	}
	return p
}

func anyOptions(t *rapid.T) Options {
	off := func(g *rapid.Generator[float64]) *rapid.Generator[float64] { return rapid.OneOf(rapid.Just(0.0), g) }
	return Options{
		Temperature:       off(rapid.Float64Range(0.05, 3)).Draw(t, "temperature"),
		TopK:              rapid.IntRange(0, 40).Draw(t, "top_k"),
		TopP:              off(rapid.Float64Range(0, 1)).Draw(t, "top_p"),
		MinP:              off(rapid.Float64Range(0, 1)).Draw(t, "min_p"),
		RepetitionPenalty: off(rapid.Float64Range(0.5, 2)).Draw(t, "penalty"),
		RepetitionWindow:  rapid.IntRange(0, 5).Draw(t, "window"),
		Seed:              rapid.Uint64().Draw(t, "seed"),
	}
}

// anyLogits draws logits, at least one of them finite, with many ties or none.
func anyLogits(t *rapid.T) []float32 {
	value := rapid.SampledFrom([]*rapid.Generator[float32]{
		rapid.Float32Range(-8, 8),
		rapid.Map(rapid.IntRange(-3, 3), func(i int) float32 { return float32(i) }),
		rapid.OneOf(rapid.Float32Range(-1, 1), rapid.Just(float32(math.Inf(-1)))),
	}).Draw(t, "kind")
	logits := rapid.SliceOfN(value, 1, 400).Draw(t, "logits")
	logits[rapid.IntRange(0, len(logits)-1).Draw(t, "finite")] = 0.5
	return logits
}

// TestNextLikeNaive compares the set of tokens that remain, their weights, and the token drawn.
func TestNextLikeNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opt, logits := anyOptions(t), anyLogits(t)
		history := rapid.SliceOfN(rapid.Int32Range(0, int32(len(logits)-1)), 0, 8).Draw(t, "history")
		before := slices.Clone(logits)

		s := newSampler(t, opt)
		u := newSampler(t, opt).rng.Float64() // the number that Next will take
		got, err := s.Next(logits, history)
		if err != nil {
			t.Fatal(err)
		}
		p := naive(opt, logits, history)
		if p[got] == 0 {
			t.Fatalf("drew token %d, which is not in the choice %v", got, p)
		}
		if !slices.Equal(logits, before) {
			t.Fatal("Next changed the logits")
		}
		if opt.Temperature == 0 {
			return
		}
		e, changed := newSampler(t, opt), logits
		if e.changes() {
			if changed, err = e.changed(logits, history); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := e.exact(changed, math.NaN()); want != got || err != nil {
			t.Fatalf("drew %d, by the weights of all tokens %d, %v", got, want, err)
		}
		n := 0
		for _, c := range e.left {
			if c.weight >= opt.MinP && c.weight > 0 {
				n++
			}
		}
		if n != len(p) {
			t.Fatalf("%d tokens in the choice, want %d", n, len(p))
		}
		// This inverts the distribution function: the sum of probabilities must pass u at got.
		below := 0.0
		for token := range got {
			below += p[token]
		}
		const rounding = 1e-12
		if u < below-rounding || u > below+p[got]+rounding {
			t.Fatalf("drew %d for u = %v, which spans %v to %v", got, u, below, below+p[got])
		}
	})
}

func TestSelectLargest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logits := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 50), func(i int) float32 { return float32(i) }),
			0, 300).Draw(t, "logits")
		if rapid.Bool().Draw(t, "in order") {
			slices.Sort(logits)
		}
		k := rapid.IntRange(0, len(logits)).Draw(t, "k")
		var c []candidate
		for i, x := range logits {
			c = append(c, candidate{token: int32(i), logit: x})
		}
		want := slices.Clone(c)
		sortLargestFirst(want)
		selectLargest(c, k)
		sortLargestFirst(c[:k])
		sortLargestFirst(c[k:])
		if !slices.Equal(c, want) {
			t.Fatalf("selected %v, want %v", c[:k], want[:k])
		}
	})
}

// frequencies returns the frequencies of tokens in n draws.
func frequencies(t *testing.T, s *Sampler, logits []float32, n int) []float64 {
	t.Helper()
	count := make([]float64, len(logits))
	for range n {
		token, err := s.Next(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		count[token]++
	}
	for i := range count {
		count[i] /= float64(n)
	}
	return count
}

// TestFrequencies compares the frequencies in 200,000 draws of each kind with the exact probabilities. The bound is 5
// standard deviations.
func TestFrequencies(t *testing.T) {
	logits := []float32{1, 0.5, -2, 3, 3, 0, 2.5, float32(math.Inf(-1)), 1.5, -9}
	const n = 200_000
	for name, opt := range map[string]Options{
		"plain": {Temperature: 1},
		"hot":   {Temperature: 2.5},
		"cold":  {Temperature: 0.3},
		"top-k": {Temperature: 1, TopK: 3},
		"top-p": {Temperature: 1, TopP: 0.7},
		"min-p": {Temperature: 1, MinP: 0.2},
		"all":   {Temperature: 1.5, TopK: 6, TopP: 0.9, MinP: 0.25},
	} {
		t.Run(name, func(t *testing.T) {
			opt.Seed = 42
			got := frequencies(t, newSampler(t, opt), logits, n)
			want := naive(opt, logits, nil)
			for i := range got {
				p := want[int32(i)]
				if math.Abs(got[i]-p) > 5*math.Sqrt(p*(1-p)/n) {
					t.Errorf("token %d: drawn with frequency %.4f, want %.4f", i, got[i], p)
				}
			}
		})
	}
}

// TestNeighboringSeedsAreUnrelated checks the first draws of samplers with seeds n, n+1, ..., which several samples of
// one prompt use. They must be as random as draws of one generator. The bound is 5 standard deviations.
func TestNeighboringSeedsAreUnrelated(t *testing.T) {
	const seeds, bins = 20_000, 10
	logits := make([]float32, bins)
	var count [bins][bins]float64 // of pairs of neighbors
	last := int32(0)
	for seed := range uint64(seeds) {
		token, err := newSampler(t, Options{Temperature: 1, Seed: seed}).Next(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		count[last][token]++
		last = token
	}
	const p = 1.0 / (bins * bins)
	for i := range count {
		for j, n := range count[i] {
			if math.Abs(n-seeds*p) > 5*math.Sqrt(seeds*p*(1-p)) {
				t.Errorf("%d after %d: %v times, want about %v", j, i, n, seeds*p)
			}
		}
	}
}

func TestGreedyTakesTheFirstOfEquals(t *testing.T) {
	s := newSampler(t, Options{})
	for _, c := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{-1, 2, 2, 1}, 1},
		{[]float32{float32(math.Inf(-1)), -5}, 1},
		{[]float32{0, float32(math.Copysign(0, -1))}, 0},
		{[]float32{float32(math.Copysign(0, -1)), 0}, 0},
		{[]float32{-math.MaxFloat32}, 0},
	} {
		if got, err := s.Next(c.logits, nil); got != c.want || err != nil {
			t.Errorf("%v: got %d, %v, want %d", c.logits, got, err, c.want)
		}
	}
}

func TestExtremeOptionsAndLogits(t *testing.T) {
	logits := []float32{math.MaxFloat32, -math.MaxFloat32, 0, math.MaxFloat32}
	for name, opt := range map[string]Options{
		"coldest":      {Temperature: math.SmallestNonzeroFloat64},
		"hottest":      {Temperature: math.MaxFloat64, TopP: math.Nextafter(1, 0)},
		"tiny nucleus": {Temperature: 1, TopP: math.SmallestNonzeroFloat64},
		"only the top": {Temperature: 1, MinP: 1},
		"k of one":     {Temperature: 1, TopK: 1},
		"penalty":      {RepetitionPenalty: 1e-30},
		"penalty up":   {RepetitionPenalty: 1e30, Temperature: 1},
	} {
		s := newSampler(t, opt)
		for range 100 {
			token, err := s.Next(logits, []int32{0, 1, 2, 3, 0})
			if err != nil || token < 0 || token > 3 || (token == 1 && name != "hottest") {
				t.Fatalf("%s: drew %d, %v", name, token, err)
			}
		}
	}
}

func TestRepetitionPenalty(t *testing.T) {
	logits := []float32{4, -1, 3, -1.5}
	for _, c := range []struct {
		opt     Options
		history []int32
		want    int32
	}{
		// 4/2 < 3; once, however often it occurs
		{Options{RepetitionPenalty: 2}, []int32{0, 0, 0}, 2},
		{Options{RepetitionPenalty: 1.2}, []int32{0, 0, 0}, 0},                    // 4/1.2 > 3
		{Options{RepetitionPenalty: 2, RepetitionWindow: 2}, []int32{0, 1, 1}, 0}, // 0 is outside the window
		{Options{RepetitionPenalty: 2, RepetitionWindow: 3}, []int32{0, 1, 1}, 2}, // 0 is in the window
		{Options{RepetitionPenalty: 0.5}, []int32{2}, 2},                          // 3/0.5 > 4
		{Options{RepetitionPenalty: 1}, []int32{0}, 0},                            // no effect
		{Options{RepetitionPenalty: 8, RepetitionWindow: 9}, []int32{0, 2, 1}, 0}, // 0.5 > 0.375 > -8
		// positive logits stay above negative ones
		{Options{RepetitionPenalty: 1e9, RepetitionWindow: 9}, []int32{0, 2, 1, 3}, 0},
	} {
		if got, err := newSampler(t, c.opt).Next(logits, c.history); got != c.want || err != nil {
			t.Errorf("%+v after %v: got %d, %v, want %d", c.opt, c.history, got, err, c.want)
		}
	}
}

func TestNextErrors(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for want, c := range map[string]struct {
		logits  []float32
		history []int32
	}{
		"logits: found NaN for token 1, want a finite number or -Inf":  {[]float32{0, nan}, nil},
		"logits: found +Inf for token 0, want a finite number or -Inf": {[]float32{inf, 0}, nil},
		"logits: found none above -Inf, want a token to choose":        {[]float32{-inf, -inf}, nil},
		"history: found token 2, want one from 0 to 1":                 {[]float32{0, 0}, []int32{0, 2}},
		"history: found token -1, want one from 0 to 1":                {[]float32{0, 0}, []int32{-1}},
	} {
		for _, opt := range []Options{{RepetitionPenalty: 1.1}, {RepetitionPenalty: 1.1, Temperature: 1, TopK: 1}} {
			if _, err := newSampler(t, opt).Next(c.logits, c.history); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
	if _, err := newSampler(t, Options{}).Next(nil, nil); err == nil {
		t.Error("no logits: found no error")
	}
}

func TestStateContinuesTheSequence(t *testing.T) {
	logits := make([]float32, 1000)
	opt := Options{Temperature: 1, Seed: 7}
	draw := func(s *Sampler) (tokens []int32) {
		for range 20 {
			token, err := s.Next(logits, nil)
			if err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, token)
		}
		return tokens
	}
	s := newSampler(t, opt)
	first := draw(s)
	state := s.State()
	want := draw(s)
	if slices.Equal(first, want) {
		t.Fatal("the sequence repeats")
	}
	if !bytes.Equal(newSampler(t, opt).State(), newSampler(t, opt).State()) ||
		!slices.Equal(draw(newSampler(t, opt)), first) {
		t.Error("the same seed does not give the same sequence")
	}
	other := newSampler(t, Options{Temperature: 1, Seed: 8})
	if slices.Equal(draw(other), first) {
		t.Error("another seed gives the same sequence")
	}
	if err := other.Restore(state); err != nil {
		t.Fatal(err)
	}
	if got := draw(other); !slices.Equal(got, want) {
		t.Errorf("restored: %v, want %v", got, want)
	}
	for _, bad := range [][]byte{nil, state[:len(state)-1], bytes.Repeat([]byte{1}, len(state))} {
		if err := other.Restore(bad); err == nil {
			t.Errorf("Restore(%d bytes): found no error", len(bad))
		}
	}
}

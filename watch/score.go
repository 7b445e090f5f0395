package watch

import (
	"cmp"
	"math"
	"slices"

	"github.com/hippo-ssm/hippo/generate/sample"
)

// token holds the surprise of a token of a line and the surprise that the model expected.
type token struct {
	bits     float64 // surprise: -log2 p
	expected float64 // entropy: the mean of -log2 p over all possible tokens
	bytes    int     // length of the token's text
	bad      bool    // the logits give no finite probability
}

// surprise returns the surprise of id, given the logits z:
//
//	bits = -log2 p(id),  expected = -Σ_i p_i log2 p_i,  p = softmax(z).
func surprise(z []float32, id int32) token {
	p, err := sample.LogProbsOf(z)
	if err != nil {
		return token{bad: true}
	}
	t := token{bits: -p.Of(id) / math.Ln2, expected: p.Entropy() / math.Ln2}
	t.bad = math.IsInf(t.bits, 0)
	return t
}

// The kinds of scores: see Options.Score.
const (
	ScorePeak   = "peak"
	ScoreExcess = "excess"
	ScoreBits   = "bits"
	ScoreRate   = "bits_per_byte"
)

// Scores lists the names of all kinds of scores.
var Scores = []string{ScorePeak, ScoreExcess, ScoreBits, ScoreRate}

// allowance is the number of bits by which the surprise of a token may exceed the expected one without adding to a
// peak.
const allowance = 1

// peak returns the maximum, over all runs of consecutive tokens of a line, of the summed surprise above the expected
// one:
//
//	S_t = max(0, S_(t-1) + bits_t - expected_t - 1),  peak = max_t S_t,
//
// the statistic of Page (Biometrika 41, 1954, doi 10.1093/biomet/41.1-2.100). Numbers and names that the model knows to
// be unpredictable do not add to it, and the rest of a long line does not dilute a single strange word.
func peak(tokens []token) (most float64) {
	s := 0.0
	for _, t := range tokens {
		s = max(0, s+t.bits-t.expected-allowance)
		most = max(most, s)
	}
	return most
}

// Of returns the line's score of the given kind.
func (r *Report) Of(kind string) float64 {
	switch kind {
	case ScoreBits:
		return r.Bits
	case ScoreRate:
		return r.BitsByte
	case ScoreExcess:
		return r.Excess
	}
	return r.Peak
}

// Range is a part of a line, in bytes from its start, with its surprise above the expected one.
type Range struct {
	Start  int     `json:"start"`
	End    int     `json:"end"`
	Excess float64 `json:"excess_bits"`
}

// maxRanges is the maximum number of ranges in a report.
const maxRanges = 8

// rangesOf returns the surprising ranges of a line. It takes the fewest tokens that together have half of the line's
// bits above the expected ones, and joins those that touch.
func rangesOf(tokens []token) []Range {
	var all []Range
	at, total := 0, 0.0
	for _, t := range tokens {
		r := Range{at, at + t.bytes, t.bits - t.expected}
		at = r.End
		if r.Excess > 0 && r.End > r.Start {
			all, total = append(all, r), total+r.Excess
		}
	}
	slices.SortStableFunc(all, func(a, b Range) int { return cmp.Compare(b.Excess, a.Excess) })
	left := total / 2
	n := 0
	for ; n < len(all) && left > 0; n++ {
		left -= all[n].Excess
	}
	all = all[:n]
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	var joined []Range
	for _, r := range all {
		if k := len(joined); k > 0 && joined[k-1].End == r.Start {
			joined[k-1].End, joined[k-1].Excess = r.End, joined[k-1].Excess+r.Excess
			continue
		}
		joined = append(joined, r)
	}
	if len(joined) > maxRanges {
		slices.SortStableFunc(joined, func(a, b Range) int { return cmp.Compare(b.Excess, a.Excess) })
		joined = joined[:maxRanges]
		slices.SortFunc(joined, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	}
	return joined
}

// ignore sets the expected surprise of tokens that touch ranges of bytes to their actual surprise.
func ignore(tokens []token, ranges [][]int) {
	at := 0
	for i := range tokens {
		t := &tokens[i]
		for len(ranges) > 0 && ranges[0][1] <= at {
			ranges = ranges[1:]
		}
		if at += t.bytes; len(ranges) > 0 && ranges[0][0] < at {
			t.expected = t.bits
		}
	}
}

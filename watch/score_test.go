package watch

import (
	"math"
	"reflect"
	"testing"
)

// TestSurprise checks the bits and the expected bits against their definition, and that logits that are not finite are
// detected.
func TestSurprise(t *testing.T) {
	z := []float32{0, float32(math.Log(2)), float32(math.Log(4)), float32(math.Log(1))} // p = 1/8, 1/4, 1/2, 1/8
	const entropy = 0.125*3 + 0.25*2 + 0.5*1 + 0.125*3
	for id, want := range []float64{3, 2, 1, 3} {
		got := surprise(z, int32(id))
		if math.Abs(got.bits-want) > 1e-6 || math.Abs(got.expected-entropy) > 1e-6 || got.bad {
			t.Errorf("id %d: %+v, want %g bits where %g were expected", id, got, want, entropy)
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
		if !surprise([]float32{0, bad, 1}, 0).bad {
			t.Errorf("logits with %v are taken as they are", bad)
		}
	}
	if got := surprise([]float32{0, 3e38, -3e38}, 2); got.bad || !(got.bits > 1e38) {
		t.Errorf("far logits: %+v", got)
	}
}

// TestPeak checks that the peak is the largest sum over all runs.
func TestPeak(t *testing.T) {
	tokens := []token{{bits: 9, expected: 8}, {bits: 2, expected: 1}, {bits: 6, expected: 1}, {bits: 1, expected: 2},
		{bits: 7, expected: 1}, {bits: 0, expected: 4}, {bits: 5, expected: 1}}
	want := 0.0
	for i := range tokens {
		sum := 0.0
		for _, x := range tokens[i:] {
			sum += x.bits - x.expected - allowance
			want = max(want, sum)
		}
	}
	if got := peak(tokens); got != want || want != 7 {
		t.Errorf("peak %g, want %g", got, want)
	}
}

// TestRanges checks that the ranges have half of the bits above the expected ones, are in order, and are joined where
// they touch.
func TestRanges(t *testing.T) {
	tokens := []token{{bits: 1, expected: 1, bytes: 1},
		{bits: 9, expected: 1, bytes: 2}, {bits: 7, expected: 1, bytes: 1},
		{bits: 2, expected: 1, bytes: 1}, {bits: 0, expected: 2, bytes: 1}, {bits: 6, expected: 1, bytes: 3}}
	want := []Range{{1, 4, 14}}
	if got := rangesOf(tokens); !reflect.DeepEqual(got, want) {
		t.Errorf("ranges %v, want %v", got, want)
	}
	if got := rangesOf(tokens[:1]); got != nil {
		t.Errorf("ranges %v of a line that surprises no more than expected", got)
	}
	var many []token
	for range 100 {
		many = append(many, token{bits: 5, bytes: 1}, token{bits: 1, expected: 1, bytes: 1})
	}
	if got := rangesOf(many); len(got) != maxRanges {
		t.Errorf("%d ranges, want at most %d", len(got), maxRanges)
	}
}

// TestIgnore checks that ignored ranges change exactly the tokens that touch them.
func TestIgnore(t *testing.T) {
	tokens := []token{{bits: 9, bytes: 2}, {bits: 9, bytes: 3}, {bits: 9, bytes: 1},
		{bits: 9, bytes: 1}, {bits: 9, bytes: 1}}
	ignore(tokens, [][]int{{1, 3}, {6, 7}})
	for i, want := range []float64{0, 0, 9, 0, 9} {
		if got := tokens[i].bits - tokens[i].expected; got != want {
			t.Errorf("token %d: %g bits more than expected, want %g", i, got, want)
		}
	}
}

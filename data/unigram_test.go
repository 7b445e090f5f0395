package data

import (
	"math"
	"testing"
)

// TestUnigramLoss checks the loss against one computed by hand, and that it is near that of NGramBaseline.
func TestUnigramLoss(t *testing.T) {
	train, err := FromIDs([]int32{0, 0, 0, 1}, 3)
	if err != nil {
		t.Fatal(err)
	}
	valid, err := FromIDs([]int32{2, 0, 1, 2}, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Counts of 3, 1 and 0, each plus one, divided by 4 + 3.
	want := -(math.Log(4./7) + math.Log(2./7) + math.Log(1./7)) / 3
	if got, err := UnigramLoss(train, valid, 3); err != nil || math.Abs(got-want) > 1e-12 {
		t.Errorf("found %v, want %v", got, want)
	}
	ids := make([]int32, 3000)
	for i := range ids {
		ids[i] = int32(i * i % 7)
	}
	text, err := FromIDs(ids, 10)
	if err != nil {
		t.Fatal(err)
	}
	a, b := text.Slice(0, 2500), text.Slice(2500, 3000)
	baseline, err := NGramBaseline(t.Context(), a, b, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := UnigramLoss(a, b, 10); err != nil || math.Abs(got-baseline.Unigram) > 0.01 {
		t.Errorf("found %v, NGramBaseline says %v", got, baseline.Unigram)
	}
}

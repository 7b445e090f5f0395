package sessions

import (
	"strings"
	"testing"

	"github.com/hippo-ssm/hippo/serve/records"
	"github.com/hippo-ssm/hippo/session"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// idsOf returns the tokens of a text.
func idsOf(text string) (ids []int32) {
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

// recordOf returns the record of a session with a text.
func recordOf(id, text string) *record {
	return &record{Session: Session{ID: id}, Plan: records.PlanParts([]session.Segment{{IDs: idsOf(text)}})}
}

// TestPairsAreOfTheirEnds checks that of two long sessions the last tokens are shown, starting at the same position,
// with some before they diverge, and that the rest is left out.
func TestPairsAreOfTheirEnds(t *testing.T) {
	const lead = "0123456789" // half of the requested tokens
	for _, of := range []struct {
		common, a, b  string
		before        int
		first, second string
	}{
		{"xx" + lead, "A", "B", 0, "xx" + lead + "A", "xx" + lead + "B"},
		{strings.Repeat("x", 40) + lead, "A", "Bb", 32, "xxxxxxxx" + lead + "A", "xxxxxxxx" + lead + "Bb"},
		{strings.Repeat("x", 40) + lead, "Aa", strings.Repeat("B", 30), 40, lead + "Aa", lead + "BBBBBBBBBB"},
		{"", strings.Repeat("A", 30), strings.Repeat("B", 10), 0, strings.Repeat("A", 20), strings.Repeat("B", 10)},
	} {
		x := &Viewed{IDs: idsOf(of.common + of.a), LogProbs: make([]float32, len(of.common)+len(of.a))}
		first := &record{Session: Session{ID: "a"}}
		second := recordOf("b", of.common+of.b)
		if err := x.beside(first, second, 20); err != nil {
			t.Fatal(err)
		}
		tok := tokenizer.Bytes()
		a, b := string(tok.Decode(nil, x.IDs)), string(tok.Decode(nil, x.Other.IDs))
		if a != of.first || b != of.second || x.Before != of.before || len(x.LogProbs) != len(x.IDs) ||
			x.Before+len(x.IDs)+x.Behind != len(of.common)+len(of.a) || x.Other.Position != len(of.common)+len(of.b) {
			t.Errorf("%+v: found %q and %q from %d on", of, a, b, x.Before)
		}
	}
}

// TestPairsAreOfOneModel checks that sessions of models with different weights cannot be shown together.
func TestPairsAreOfOneModel(t *testing.T) {
	err := (&Viewed{IDs: idsOf("ab")}).beside(&record{Identity: "1"}, recordOf("b", "ac"), 20)
	if err == nil || !strings.Contains(err.Error(), "want two of one model with the same weights") {
		t.Errorf("found the error %v for a session of another model", err)
	}
}

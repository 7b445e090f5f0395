package generate

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/hippo-ssm/hippo/generate/constrain"
	"github.com/hippo-ssm/hippo/tokenizer"
)

// digits returns a constraint over bytes that permits texts of three to nine digits.
func digits(t *testing.T) *constrain.Constraint {
	t.Helper()
	g, err := constrain.Regexp("[0-9]{3,9}")
	if err != nil {
		t.Fatal(err)
	}
	tok := tokenizer.Bytes()
	c, err := constrain.New(g, tok, constrain.NewVocabulary(tok, []int32{'$'}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestConstraint checks that a constrained text ends when it is complete, by its length, or with a token that ends
// texts only where the constraint permits it, and that a writer restored in the middle continues like the original.
func TestConstraint(t *testing.T) {
	tok, c := tokenizer.Bytes(), digits(t)
	logits := make([]float32, tok.VocabSize())
	for i := range logits {
		logits[i] = float32(i * 7 % 13)
	}
	logits['x'] = 100 // the model's choice without the constraint
	ends := map[string]int{}
	for seed := range uint64(60) {
		o := Options{MaxTokens: 8, EndIDs: []int32{'$'}, Constraint: c}
		o.Temperature, o.Seed = 2, seed
		if seed%2 == 0 {
			o.MaxTokens = 20
		}
		logits['$'] = float32(seed % 20)
		first, err := NewWriter(tok, nil, o)
		if err != nil {
			t.Fatal(err)
		}
		var text, other []byte
		var ids []int32
		second := first
		for first.End() == "" {
			more, id, err := first.Next(logits)
			if err != nil {
				t.Fatal(err)
			}
			text, ids = append(text, more...), append(ids, id)
			if second != first {
				if more, _, err = second.Next(logits); err != nil {
					t.Fatal(err)
				}
				other = append(other, more...)
			}
			if len(ids) == 2 {
				data, err := json.Marshal(first.State())
				if err != nil {
					t.Fatal(err)
				}
				var state WriterState
				if err := json.Unmarshal(data, &state); err != nil {
					t.Fatal(err)
				}
				if second, err = NewWriter(tok, ids, o); err != nil {
					t.Fatal(err)
				}
				if err := second.Restore(state); err != nil {
					t.Fatal(err)
				}
				other = slices.Clone(text)
			}
		}
		ends[first.End()]++
		if len(text) < 3 || (first.End() == EndWhole) != (len(text) == 9) || string(other) != string(text) ||
			second.End() != first.End() {
			t.Errorf("seed %d: got %q, which ends by %s, and %q", seed, text, first.End(), other)
		}
		for _, x := range text {
			if x < '0' || x > '9' {
				t.Errorf("seed %d: got %q", seed, text)
			}
		}
	}
	if len(ends) != 3 || ends[EndText] == 0 || ends[EndWhole] == 0 || ends[EndLength] == 0 {
		t.Errorf("texts end by %v", ends)
	}
}

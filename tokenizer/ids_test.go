package tokenizer

import (
	"errors"
	"slices"
	"testing"
)

// TestIDs checks that numbers are ids, separated by any spaces or commas, and that the error for anything else has its
// position.
func TestIDs(t *testing.T) {
	tok := IDs(100)
	got, err := tok.Encode([]int32{7}, []byte(" 17, 4\n99,0"))
	if err != nil || !slices.Equal(got, []int32{7, 17, 4, 99, 0}) {
		t.Errorf("got %v, %v", got, err)
	}
	again, err := tok.Encode(nil, tok.Decode(nil, got))
	if err != nil || !slices.Equal(again, got) {
		t.Errorf("decoded and encoded: got %v, %v", again, err)
	}
	for text, offset := range map[string]int64{"1 100": 2, "-1": 0, "1 2 x": 4, "99999999999999": 0} {
		var at *EncodeError
		if _, err := tok.Encode(nil, []byte(text)); !errors.As(err, &at) || at.Offset != offset {
			t.Errorf("%q: got %v, want an error at %d", text, err, offset)
		}
	}
	if tok.Save(t.TempDir()) == nil || tok.VocabSize() != 100 || tok.Fingerprint() == IDs(99).Fingerprint() {
		t.Error("it was saved, or is another's equal")
	}
}

package tokenizer

import (
	"bytes"
	"github.com/hippo-ssm/hippo/tokenizer/added"
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"slices"
	"strings"
	"testing"
)

// TestHostileAddedToken checks that a tokenizer with an added token of 5,000 letters encodes a text of the same letter.
func TestHostileAddedToken(t *testing.T) {
	tok,
		err := bpe.New(bpe.Spec{Type: "bpe", Tokens: []string{"a", strings.Repeat("a", 5000) + "b"},
		ByteID: byteIDs('a'),
		Added:  []added.Token{{ID: 1, Content: strings.Repeat("a", 5000) + "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	text := append(bytes.Repeat([]byte("a"), 400_000), 'b')
	ids, err := tok.Encode(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	want := append(make([]int32, 395_000), 1)
	if !slices.Equal(ids, want) {
		t.Errorf("found %d ids, want %d", len(ids), len(want))
	}
}

// byteIDs returns ids in which one byte has the token 0 and the others have none.
func byteIDs(b byte) (ids [256]int32) {
	for i := range ids {
		ids[i] = -1
	}
	ids[b] = 0
	return ids
}

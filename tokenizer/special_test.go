package tokenizer

import (
	"github.com/hippo-ssm/hippo/tokenizer/bpe"
	"strings"
	"testing"
)

// TestWithoutSpecial checks that special tokens decode to nothing and all others as before, also one id at a time.
func TestWithoutSpecial(t *testing.T) {
	tok, err := bpe.Train(strings.NewReader("aye aye aye"),
		bpe.TrainOptions{VocabSize: 258, Specials: []string{"<a>", "<b>"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tok        Tokenizer
		text, want string
	}{
		{tok, "<a>aye ä<b> <a>", "aye ä "},
		{GPT2(), "aye<|endoftext|>nay", "ayenay"},
		{parseTest(t, fallback()), "<s>aye</s>", " aye"},
		{Bytes(), "<a>", "<a>"},
	} {
		ids, err := c.tok.Encode(nil, []byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(WithoutSpecial(c.tok).Decode([]byte("> "), ids)); got != "> "+c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
		d, text := NewStreamDecoder(WithoutSpecial(c.tok)), ""
		for _, id := range ids {
			text += string(d.Write(id))
		}
		if text += string(d.Flush()); text != c.want {
			t.Errorf("%s, id by id: got %q, want %q", c.text, text, c.want)
		}
	}
}

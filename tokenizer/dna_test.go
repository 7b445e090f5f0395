package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/hippo-ssm/hippo/internal/testkit/golden"
)

// TestGoldenDNA checks the official ids of a sequence that ends with [SEP].
func TestGoldenDNA(t *testing.T) {
	golden.Run(t, "12_hyenadna", func(t *testing.T, c golden.Case) {
		var cfg struct{ DNA string }
		c.Config(&cfg)
		ids := encode(t, DNA(), cfg.DNA)
		sep, ok := DNA().EndOfText()
		if ids = append(ids, sep); !ok {
			t.Fatal("no end of text")
		}
		want := c.I64("in/ids")[:len(ids)]
		for i, id := range ids {
			if int64(id) != want[i] {
				t.Fatalf("got %v, want %v", ids, want)
			}
		}
		if got := string(DNA().Decode(nil, ids)); got != cfg.DNA+"[SEP]" {
			t.Errorf("decoded %q", got)
		}
	})
}

func TestDNA(t *testing.T) {
	tok := DNA()
	text := "ACGTN[MASK]A[SEP]a\né\xff[PAD"
	want := []int32{7, 8, 9, 10, 11, 3, 7, 1, 6, 6, 6, 6, 6, 6, 7, 6}
	if got := encode(t, tok, text); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, err := collect(tok, iotest.OneByteReader(strings.NewReader(text)), 3); err != nil ||
		!slices.Equal(got, want) {
		t.Errorf("in pieces %v, %v, want %v", got, err, want)
	}
	if got, err := EncodeOrdinary(tok, nil, []byte("A[SEP]")); err != nil ||
		!slices.Equal(got, []int32{7, 6, 6, 6, 6, 6}) {
		t.Errorf("special tokens as plain characters: %v, %v", got, err)
	}
	if got := string(tok.Decode(nil, []int32{7, 12, -1, 6, 0, 11})); got != "A[UNK][CLS]N" {
		t.Errorf("decoded %q", got)
	}
	dir := t.TempDir()
	if err := tok.Save(dir); err != nil {
		t.Fatal(err)
	}
	back, err := Load(dir)
	if err != nil || back.Fingerprint() != tok.Fingerprint() || back.Kind() != "dna" || back.VocabSize() != 12 {
		t.Errorf("loaded %v, %v", back, err)
	}
	if named, err := Parse("dna"); err != nil || named != tok {
		t.Errorf(`Parse("dna") is %v, %v`, named, err)
	}
}

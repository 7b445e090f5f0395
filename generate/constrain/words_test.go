package constrain

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestWords checks that a token is excluded exactly if it and some tokens before it spell a word, or a space and a
// word.
func TestWords(t *testing.T) {
	tok := tokenizers(t)["bpe"]
	v := NewVocabulary(tok, nil)
	words := []string{"name", `":`, "é", "[1,2", "x"}
	w, err := NewWords(v, words)
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, v.size)
	for id := range texts {
		texts[id] = string(tok.Decode(nil, []int32{int32(id)}))
	}
	r := rand.New(rand.NewPCG(5, 6))
	excluded, logits := 0, make([]float32, v.size)
	for range 60 {
		at, written := w.Start(), []string{}
		for range 12 {
			clear(logits)
			at.Exclude(logits)
			var may []int32
			for id, text := range texts {
				bad, spelled := false, text
				for i := len(written); i >= 0 && len(spelled) < 9; i-- {
					bad = bad || slices.Contains(words, strings.TrimPrefix(spelled, " "))
					if i > 0 {
						spelled = written[i-1] + spelled
					}
				}
				if got := math.IsInf(float64(logits[id]), -1); got != (bad && text != "") {
					t.Fatalf("after %q, %q: got %v, want %v", written, text, got, bad)
				}
				if bad {
					excluded++
				} else if text != "" && (r.IntN(40) == 0 || strings.Contains("name [1,2\":é x", text)) {
					may = append(may, int32(id))
				}
			}
			id := may[r.IntN(len(may))]
			at.Accept(id)
			written = append(written, texts[id])
		}
	}
	if excluded < 60*12 {
		t.Errorf("%d tokens were excluded", excluded)
	}
	for _, bad := range [][]string{{""}, {strings.Repeat("a", 2000)}, slices.Repeat([]string{"a"}, 300)} {
		if _, err := NewWords(v, bad); err == nil {
			t.Errorf("%.20q were taken", bad)
		}
	}
}

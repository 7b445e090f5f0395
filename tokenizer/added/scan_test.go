package added

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// plainFind is the definition of addedScan.Next: it tries all tokens at every position.
func plainFind(tokens []Token, text []byte, at int, last bool) (lo, hi int, id int32) {
	for ; at < len(text); at++ {
		id, end := int32(-1), at
		for _, t := range tokens {
			rest := text[at:]
			if !last && len(rest) < len(t.Content) && strings.HasPrefix(t.Content, string(rest)) {
				return at, at, -1
			}
			if bytes.HasPrefix(rest, []byte(t.Content)) && at+len(t.Content) > end {
				id, end = t.ID, at+len(t.Content)
			}
		}
		if id >= 0 {
			return at, end, id
		}
	}
	return at, at, -1
}

// TestAddedByDefinition compares the search with its definition on tokens that overlap, repeat and start with one
// another.
func TestAddedByDefinition(t *testing.T) {
	defer func(n int) { addedBlock = n }(addedBlock)
	rapid.Check(t, func(r *rapid.T) {
		addedBlock = rapid.IntRange(1, 40).Draw(r, "block")
		piece := rapid.StringOfN(rapid.SampledFrom([]rune("ab")), 1, 6, -1)
		var tokens []Token
		for i, content := range rapid.SliceOfN(piece, 0, 5).Draw(r, "tokens") {
			tokens = append(tokens, Token{Content: content, ID: int32(i)})
		}
		text := []byte(strings.Join(rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 9, -1),
			0, 12).Draw(r, "text"), ""))
		last := rapid.Bool().Draw(r, "last")
		c := NewSet(tokens).Scan(text, last)
		for at := 0; at <= len(text); {
			lo, hi, id := c.Next(at)
			if wantLo, wantHi, wantID := plainFind(tokens, text, at, last); lo != wantLo ||
				hi != wantHi || id != wantID {
				r.Fatalf("%v in %q from %d: found %d at %d to %d, want %d at %d to %d", tokens, text, at, id,
					lo, hi, wantID, wantLo, wantHi)
			}
			if at = hi; id < 0 {
				at = lo + rapid.IntRange(1, 3).Draw(r, "step")
			}
		}
	})
}

// TestAddedIsLinear checks that tokens and texts that share long parts cost at most a few steps for each byte, for
// whole texts and for streams.
func TestAddedIsLinear(t *testing.T) {
	long := strings.Repeat("a", 5000)
	text := bytes.Repeat([]byte("a"), 400_000)
	var prefixes []string
	for n := 1; n < 1000; n += 2 {
		prefixes = append(prefixes, long[:n]+"b")
	}
	for name, contents := range map[string][]string{
		"a long token": {long + "b"}, "and a short one": {long + "b", "a"}, "from the end": {"b" + long},
		"both": {"b" + long, long + "b", "aa"},
		"many": prefixes, "all of it": {long, "a"},
	} {
		var tokens []Token
		for i, content := range contents {
			tokens = append(tokens, Token{Content: content, ID: int32(i)})
		}
		for _, last := range []bool{true, false} {
			c := NewSet(tokens).Scan(text, last)
			for at, id := 0, int32(0); id >= 0; {
				_, at, id = c.Next(at)
			}
			if most := 4 * len(text); c.work > most {
				t.Errorf("%s: %d nodes looked at for %d bytes, want at most %d", name, c.work, len(text), most)
			}
		}
	}
}

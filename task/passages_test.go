package task

import (
	"slices"
	"strings"
	"testing"
)

// TestPassages checks that texts are letters and single spaces, that test passages are from the last tenth of each text
// and training passages from the first eight tenths, that classes alternate, and that pairs of the class of one text
// are from the same text.
func TestPassages(t *testing.T) {
	part := func(letter string, n int) string { return strings.Repeat(letter+"', \n", n) }
	plays := part("P", 800) + part("v", 100) + part("t", 100)
	dir := files{"tinyshakespeare/input.txt": plays,
		"wikitext2/train.txt": part("X", 800) + part("y", 100) + part("z", 100)}.write(t)
	set := mustOpen(t, Author, dir, func(o *passageOptions) { o.Length, o.Train, o.Test = 50, 40, 40 })
	var ex Example
	for split, letter := range map[Split]rune{set.Train: 'p', set.Valid: 'v', set.Test: 't'} {
		for i := range split.Len() {
			split.Example(i, &ex)
			if len(ex.Tokens) != 50 || ex.Targets[0] != int32(i%2) {
				t.Fatalf("example %d: found %d letters of class %d", i, len(ex.Tokens), ex.Targets[0])
			}
			for k, c := range ex.Tokens {
				if i%2 == 1 && c != 0 && c != letter-'a'+1 || k > 0 && c == 0 && ex.Tokens[k-1] == 0 {
					t.Fatalf("example %d: found %d in %v, want only %c and single spaces", i, c, ex.Tokens, letter)
				}
			}
		}
	}
	set = mustOpen(t, SameAuthor, dir, func(o *passageOptions) { o.Length, o.Train, o.Test = 50, 200, 40 })
	kind := func(tokens []int32) int32 { // the only letter of a generated text, 0 for Moby-Dick
		letter := max(tokens[0], tokens[1])
		if slices.ContainsFunc(tokens, func(c int32) bool { return c != 0 && c != letter }) {
			return 0
		}
		return letter
	}
	for i := range set.Test.Len() {
		set.Test.Example(i, &ex)
		if a, b := kind(ex.Tokens), kind(ex.Second); (a == b) != (ex.Targets[0] == 1) {
			t.Errorf("pair %d: found texts %d and %d of class %d", i, a, b, ex.Targets[0])
		}
	}
	for name, f := range map[string]files{
		"found 5 letters": {"input.txt": "a b c"}, "found no letters": {"input.txt": "1"}, "found none of": {},
	} {
		if _, err := openTask(t, Author, f.write(t), func(*passageOptions) {}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("found the error %v, want %s", err, name)
		}
	}
}

package bpe

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestMergeLongIsMerge compares the two ways to merge a word, and the first one with the simple definition.
func TestMergeLongIsMerge(t *testing.T) {
	table := &loadGPT2().table
	byteID := loadGPT2().ByteID
	letters := rapid.SliceOfN(rapid.SampledFrom([]byte("aabeinst  ==\n\xe6\x97")), 1, longWord-1)
	rapid.Check(t, func(t *rapid.T) {
		word := letters.Draw(t, "word")
		ids := make([]int32, len(word))
		for i, b := range word {
			ids[i] = byteID[b]
		}
		want := slices.Clone(ids)
		for {
			best, at := uint32(noRank), 0
			for i := 1; i < len(want); i++ {
				if rank := table.rank(want[i-1], want[i]); rank < best {
					best, at = rank, i
				}
			}
			if best == noRank {
				break
			}
			want = slices.Replace(want, at-1, at+1, table.result[best])
		}
		if got := new(Merger).Merge(table, slices.Clone(ids)); !slices.Equal(got, want) {
			t.Fatalf("merge of %q is %v, want %v", word, got, want)
		}
		if got := mergeLong(table, slices.Clone(ids)); !slices.Equal(got, want) {
			t.Fatalf("mergeLong of %q is %v, want %v", word, got, want)
		}
	})
}

// TestCacheIsExact encodes words that share a slot of the cache in alternation.
func TestCacheIsExact(t *testing.T) {
	var cache WordCache
	places := map[*CachedWord]string{}
	tok := GPT2()
	clashes := 0
	for i := 0; clashes < 50; i++ {
		word := fmt.Sprintf("%dq", i)
		place := cache.Place(KeyOf([]byte(word), 0, len(word)))
		other, ok := places[place]
		places[place] = word
		if !ok {
			continue
		}
		clashes++
		for _, w := range []string{word, other, word} {
			ids, err := tok.Encode(nil, []byte(w))
			if back := string(tok.Decode(nil, ids)); err != nil || back != w {
				t.Fatalf("%q comes back as %q, %v", w, back, err)
			}
		}
	}
}

func TestKeyOf(t *testing.T) {
	text := []byte("0123456789abcdefghij\x00\x00")
	seen := map[wordKey]string{}
	for lo := range text {
		for hi := lo + 1; hi <= min(lo+MaxCachedWord, len(text)); hi++ {
			key := KeyOf(text, lo, hi)
			word := string(text[lo:hi])
			if alone := KeyOf([]byte(word), 0, len(word)); alone != key {
				t.Errorf("%q has key %x in a text, alone %x", word, key, alone)
			}
			if old, ok := seen[key]; ok && old != word {
				t.Errorf("%q and %q have the same key", old, word)
			}
			seen[key] = word
		}
	}
}

// BenchmarkLoadGPT2 measures the cost of the first use of GPT2.
func BenchmarkLoadGPT2(b *testing.B) {
	for b.Loop() {
		if _, err := New(gpt2Spec()); err != nil {
			b.Fatal(err)
		}
	}
}

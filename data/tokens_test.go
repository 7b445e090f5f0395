package data

import (
	"context"
	"slices"
	"testing"
)

func TestTokensViews(t *testing.T) {
	for _, vocab := range []int{65536, 65537, 1 << 20} { // 2 and 4 bytes per token
		ids := []int32{0, 65535, 7, int32(vocab - 1), 300, 1}
		tok := fromIDs(t, ids, vocab)
		if tok.Len() != 6 || tok.VocabSize() != vocab || tok.At(3) != int32(vocab-1) {
			t.Errorf("vocab %d: %d tokens, id %d", vocab, tok.Len(), tok.At(3))
		}
		part := tok.Slice(1, 6).Slice(1, 4)
		if got := allIDs(part); !slices.Equal(got, ids[2:5]) || part.At(1) != ids[3] {
			t.Errorf("vocab %d: part %v, want %v", vocab, got, ids[2:5])
		}
		dst := []int32{-1, -1, -1}
		if n, err := part.Read(dst, 2); err != nil || n != 1 || !slices.Equal(dst, []int32{ids[4], -1, -1}) {
			t.Errorf("vocab %d: read %d, %v", vocab, n, dst)
		}
		if n, err := part.Read(dst, 3); err != nil || n != 0 {
			t.Errorf("read %d at the end", n)
		}
		if err := part.Close(); err != nil || tok.At(0) != 0 {
			t.Error("closing a view closed the tokens")
		}
		for name, bad := range map[string]func(){
			"At(-1)": func() { part.At(-1) }, "At(3)": func() { part.At(3) }, "Read at 4": func() { part.Read(dst, 4) },
			"Slice(2,1)": func() { part.Slice(2, 1) }, "Slice(0,4)": func() { part.Slice(0, 4) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of 3 tokens: no panic", name)
					}
				}()
				bad()
			}()
		}
	}
	_, err := FromIDs([]int32{0, 5}, 5)
	wantError(t, err, "token 1", "id 5", "want 0 to 4")
	_, err = FromIDs([]int32{-1}, 5)
	wantError(t, err, "id -1")
	_, err = FromIDs(nil, 5)
	wantError(t, err, "found 0 tokens")
}

func TestUseAfterClosePanics(t *testing.T) {
	dir := t.TempDir()
	c := open(t, noCache, write(t, dir+"/a.txt", []byte("text")))
	tok, _, err := Tokenize(context.Background(), c, byteEncoder{}, TokenOptions{CacheDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := tok.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tok.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("At after Close: no panic")
		}
	}()
	tok.At(0)
}

func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		n        int
		fraction float64
		cut      int
	}{{10, 0.1, 9}, {11, 0.1, 9}, {1115394, 0.1, 1003854}, {2, 0.5, 1}, {3, 0.5, 1},
		{7, 0.99, 0}, {7, 1e-9, 6}, {1, 0.5, 0}} {
		train, valid, err := count(t, tc.n).Split(tc.fraction)
		if tc.cut == 0 {
			wantError(t, err, "too few")
			continue
		}
		if err != nil || train.Len() != tc.cut || valid.Len() != tc.n-tc.cut || train.At(0) != 0 ||
			valid.At(0) != int32(tc.cut) {
			t.Errorf("%d tokens, %v: %v", tc.n, tc.fraction, err)
		}
	}
	for _, bad := range []float64{0, 1, -0.1, 1.5} {
		_, _, err := count(t, 10).Split(bad)
		wantError(t, err, "validation fraction")
	}
}

func TestBytesOfParts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a.txt", []byte("Ahab"))
	write(t, dir+"/b.txt", []byte("whale"))
	both := open(t, noCache, dir+"/a.txt", dir+"/b.txt")
	one := open(t, noCache, dir+"/a.txt")
	check := func(name string, tok *Tokens, want []int) {
		t.Helper()
		for lo := range tok.Len() + 1 {
			for hi := lo; hi <= tok.Len(); hi++ {
				sum := 0
				for _, n := range want[lo:hi] {
					sum += n
				}
				if got := bytesOf(tok.Slice(lo, hi)); got != int64(sum) {
					t.Errorf("%s: tokens %d to %d: %d bytes, want %d", name, lo, hi, got, sum)
				}
			}
		}
	}
	for _, cache := range []string{CacheNone, dir} {
		opt := TokenOptions{CacheDir: cache}
		tok, _ := tokenize(t, both, pairs{}, opt)
		check("pairs", tok, []int{2, 2, 0, 2, 2, 1}) // Ah ab · wh al e
		tok, _ = tokenize(t, one, pairs{}, opt)
		check("one document", tok, []int{2, 2})
		tok, _ = tokenize(t, one, pairs{mark: "Ah"}, opt)
		check("end of text within a text", tok, []int{2, 2})

		// A part has its share by number of tokens if lengths are unknown or unreliable.
		for name, enc := range map[string]Encoder{
			"no decoder": byteEncoder{name: "plain"}, "changes text": lossy{},
			"end of text in two roles": pairs{mark: "al"},
		} {
			tok, _ := tokenize(t, both, enc, opt)
			if bytesOf(tok) != 9 || len(tok.store.table) != 0 {
				t.Errorf("%s: %d bytes in all, a table of %d", name, bytesOf(tok), len(tok.store.table))
			}
			if got, want := bytesOf(tok.Slice(1, 3)), int64(9*2/tok.Len()); got != want {
				t.Errorf("%s: %d bytes, want %d", name, got, want)
			}
		}
	}
}

// pairs encodes two bytes at a time. mark, if set, is encoded as the end-of-text id.
type pairs struct{ mark string }

const pairsEOT = 1 << 16

func (p pairs) Encode(dst []int32, text []byte) ([]int32, error) {
	for len(text) > 1 {
		if string(text[:2]) == p.mark {
			dst = append(dst, pairsEOT)
		} else {
			dst = append(dst, int32(text[0])<<8|int32(text[1]))
		}
		text = text[2:]
	}
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst, nil
}

func (p pairs) Decode(dst []byte, ids []int32) []byte {
	for _, id := range ids {
		switch {
		case id == pairsEOT:
			dst = append(dst, "::"...)
		case id < 256:
			dst = append(dst, byte(id))
		default:
			dst = append(dst, byte(id>>8), byte(id))
		}
	}
	return dst
}

func (p pairs) Fingerprint() string    { return "pairs" + p.mark }
func (pairs) VocabSize() int           { return pairsEOT + 1 }
func (pairs) EndOfText() (int32, bool) { return pairsEOT, true }

// lossy decodes one byte to two.
type lossy struct{ byteEncoder }

func (lossy) Fingerprint() string                   { return "lossy" }
func (lossy) Decode(dst []byte, ids []int32) []byte { return append(dst, make([]byte, 2*len(ids))...) }

func TestHashOfParts(t *testing.T) {
	seen := map[string]string{}
	add := func(what string, tok *Tokens) {
		t.Helper()
		if other, ok := seen[tok.Hash()]; ok {
			t.Errorf("%s and %s have the same hash", what, other)
		}
		seen[tok.Hash()] = what
	}
	a := fromIDs(t, []int32{1, 2, 3}, 10)
	add("a", a)
	add("its start", a.Slice(0, 2))
	add("its end", a.Slice(1, 3))
	add("others", fromIDs(t, []int32{1, 2, 4}, 10))
	if a.Slice(0, 3).Hash() != a.Hash() || a.Slice(1, 3).Slice(0, 1).Hash() != a.Slice(1, 2).Hash() {
		t.Error("the hash depends on how the part was made")
	}
}
